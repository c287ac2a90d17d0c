// SPDX-License-Identifier: Apache-2.0
// phasor explain: what a model's files say about its positions, on one screen. The words are the library's.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "command.hpp"
#include "phasor/model.hpp"

namespace phasor::cli {
namespace {

struct ExplainOptions {
  std::string path;
  std::int64_t length = 0;
  std::optional<std::int64_t> layer;
  bool json = false;
};

/// The model as if it had this layer alone.
Status keep_layer(std::int64_t layer, ModelPositions& model) {
  const auto layers = static_cast<std::int64_t>(model.layers.size());
  if (layer < 0 || layer >= layers) return Status::invalid(fmt::format("--layer: is {}, wanted 0 to {}", layer, layers - 1));
  model.layers = {model.layers[static_cast<std::size_t>(layer)]};
  model.towers.clear();
  return {};
}

Status run_explain(const ExplainOptions& options, std::string& out) {
  auto model = read_model(options.path, {.length = options.length});
  if (!model.ok()) return model.status();
  if (options.layer) {
    if (Status status = keep_layer(*options.layer, *model); !status.ok()) return status;
  }
  auto text = options.json ? explain_json(*model) : explain(*model);
  if (!text.ok()) return text.status();
  out = *std::move(text);
  return {};
}

}  // namespace

void add_explain(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("explain", "What a model does with positions, from its config.json or GGUF file");
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("path", options->path, "A config.json, a folder that has one, or a GGUF file")->required();
  command->add_option("--length", options->length, "Positions in use, for dynamic NTK and LongRoPE (as many as were trained)")
      ->check(CLI::PositiveNumber.description(""));
  command->add_option("--layer", options->layer, "This layer only");
  command->add_flag("--json", options->json, "Print JSON, every number in full");
  command->footer("Example:\n  phasor explain config.json\n  phasor explain model.gguf --layer 5 --json");
  command->callback([options, &run] { run = [options](std::string& out) { return run_explain(*options, out); }; });
}

}  // namespace phasor::cli
