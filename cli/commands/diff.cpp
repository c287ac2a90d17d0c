// SPDX-License-Identifier: Apache-2.0
// phasor diff: what differs between two models' positions, and whether it matters. Exit code 1 when it does, as diff(1) has it.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "figures/json.hpp"
#include "models.hpp"

namespace phasor::cli {
namespace {

struct DiffOptions {
  std::string left;
  std::string right;
  std::int64_t length = 0;
  bool json = false;
};

std::string to_json(const std::vector<Difference>& found, bool matters) {
  Json differences = Json::array();
  for (const Difference& one : found) {
    differences.push_back(
        Json::object({{"where", one.where}, {"left", one.left}, {"right", one.right}, {"matters", one.matters}, {"why", one.why}}));
  }
  return Json::object({{"matters", matters}, {"differences", differences}}).lines() + "\n";
}

void append_part(const std::vector<Difference>& found, bool matters, std::string& out) {
  const auto count = std::count_if(found.begin(), found.end(), [&](const Difference& one) { return one.matters == matters; });
  if (count == 0) return;
  out += fmt::format("{}{}\n", out.empty() ? "" : "\n", matters ? "What matters:" : "What does not matter:");
  for (const Difference& one : found) {
    if (one.matters != matters) continue;
    out += fmt::format("  {}\n    left   {}\n    right  {}\n    {}\n", one.where, one.left, one.right, one.why);
  }
}

std::string to_text(const std::vector<Difference>& found, bool matters) {
  std::string out;
  append_part(found, true, out);
  append_part(found, false, out);
  if (found.empty()) return "The same positions.\n";
  return matters ? out : out + "\nNothing that matters differs.\n";
}

Status run_diff(const DiffOptions& options, std::string& out) {
  const auto left = find_model(options.left, {.length = options.length});
  if (!left.ok()) return left.status();
  const auto right = find_model(options.right, {.length = options.length});
  if (!right.ok()) return right.status();
  const auto found = diff(*left, *right);
  if (!found.ok()) return found.status();
  const bool matters = std::any_of(found->begin(), found->end(), [](const Difference& one) { return one.matters; });
  out = options.json ? to_json(*found, matters) : to_text(*found, matters);
  return matters ? Status::invalid("") : Status();
}

}  // namespace

void add_diff(const Command& tool, Run& run) {
  const Command command = tool.subcommand("diff", "What differs between two models' positions, and whether it matters");
  const auto options = std::make_shared<DiffOptions>();
  command.option("left", options->left, model_help("A model")).required();
  command.option("right", options->right, "The other model, likewise").required();
  command.option("--length", options->length, "Positions in use, for dynamic NTK and LongRoPE (as many as were trained)").positive();
  command.flag("--json", options->json, "Print JSON");
  command.footer(
      "Exit codes: 0 nothing that matters differs, 1 something does (or a file cannot be read: then stderr says so), 2 used wrongly.\n\n"
      "Example:\n  phasor diff config.json model.gguf\n  phasor diff llama3.1 my-model/");
  command.chosen([options, &run] { run = [options](std::string& out) { return run_diff(*options, out); }; });
}

}  // namespace phasor::cli
