// SPDX-License-Identifier: Apache-2.0
// phasor explain: what a model's files say about its positions, on one screen. The words are the library's.
#include <memory>
#include <optional>

#include "command.hpp"
#include "models.hpp"

namespace phasor::cli {
namespace {

struct ExplainArguments {
  std::string model;
  std::int64_t length = 0;
  std::optional<std::int64_t> layer;
  bool json = false;
};

Status run_explain(const ExplainArguments& a, std::string& out) {
  const auto model = find_model(a.model, {.length = a.length});
  if (!model.ok()) return model.status();
  auto text = (a.json ? explain_json : explain)(*model, {.layer = a.layer});
  if (!text.ok()) return text.status();
  out = *std::move(text);
  return {};
}

}  // namespace

void add_explain(const Command& tool, Run& run) {
  const Command command =
      tool.subcommand("explain", "What a model does with positions, from its config.json or GGUF file, or of a built-in one");
  const auto a = std::make_shared<ExplainArguments>();
  command.option("model", a->model, model_help("The model")).required();
  command.option("--length", a->length, "Positions in use, for dynamic NTK and LongRoPE (as many as were trained)").positive();
  command.option("--layer", a->layer, "This layer only");
  command.flag("--json", a->json, "Print JSON, every number in full");
  command.footer("Example:\n  phasor explain llama3.1\n  phasor explain config.json\n  phasor explain model.gguf --layer 5 --json");
  command.chosen([a, &run] { run = [a](std::string& out) { return run_explain(*a, out); }; });
}

}  // namespace phasor::cli
