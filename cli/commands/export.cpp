// SPDX-License-Identifier: Apache-2.0
// phasor export: a model's positions in another dialect, on standard output or in a file.
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "command.hpp"
#include "models.hpp"

namespace phasor::cli {
namespace {

struct ExportOptions {
  std::string model;
  std::string to;
  std::string arch;
  std::string file;
  std::int64_t length = 0;
  bool json = true;
};

Status write_file(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return Status::invalid(fmt::format("{}: {}, wanted a file that can be written", path, std::strerror(errno)));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (written && closed) return {};
  return Status::unsupported(fmt::format("{}: takes no more, wanted room for {} bytes", path, text.size()));
}

Status run_export(const ExportOptions& options, std::string& out) {
  const auto model = find_model(options.model, {.length = options.length});
  if (!model.ok()) return model.status();
  auto text = options.to == "hf" ? to_hf_config(*model) : to_gguf_keys(*model, options.arch.empty() ? model->model_type : options.arch);
  if (!text.ok()) return text.status();
  if (text->empty() || text->back() != '\n') *text += '\n';
  if (!options.file.empty()) return write_file(options.file, *text);
  out = *std::move(text);
  return {};
}

}  // namespace

void add_export(const Command& tool, Run& run) {
  const Command command = tool.subcommand("export", "A model's positions as Hugging Face v5 config.json or as GGUF keys, both JSON");
  const auto options = std::make_shared<ExportOptions>();
  command.option("model", options->model, model_help("The model")).required();
  command.option("--to", options->to, "The dialect: hf, gguf").required().one_of({"hf", "gguf"});
  command.option("--arch", options->arch, "GGUF architecture, with --to gguf (the model's own name)");
  command.option("--length", options->length, "Positions in use, for dynamic NTK and LongRoPE (as many as were trained)").positive();
  command.option("-o,--output", options->file, "Write there instead of printing");
  command.flag("--json", options->json, "Changes nothing: the output is always JSON");
  command.footer(
      "What a dialect cannot say is an error.\n\nExample:\n  phasor export model.gguf --to hf -o config.json\n  phasor export qwen2.5 --to "
      "gguf");
  command.chosen([options, &run] {
    if (options->to != "gguf" && !options->arch.empty()) throw UsageError("--to hf takes no --arch");
    run = [options](std::string& out) { return run_export(*options, out); };
  });
}

}  // namespace phasor::cli
