// SPDX-License-Identifier: Apache-2.0
// The tool: parses, runs one command, prints. Exit codes: 0 good, 1 failed, 2 used wrongly.
#include <fmt/core.h>

#include <cstdio>
#include <exception>

#include "command.hpp"
#include "phasor/targets.hpp"

namespace phasor::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

int fail(int code, std::string_view message) {
  fmt::print(stderr, "phasor: {}\n", message);
  return code;
}

/// The command that was being parsed, for the hint at its --help.
std::string hint(const Parser& parser) {
  std::string names;
  for (const std::string& name : parser.chosen_names()) names += name + " ";
  return fmt::format("try: phasor {}--help", names);
}

/// 0, or 1 when not everything arrived, as on a full disk.
int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  return fail(kFailed, "standard output takes no more, wanted room for the result");
}

int run_command(const Run& run) {
  std::string out;
  const Status status = run(out);
  if (const int failed = print(out); failed != 0) return failed;
  if (status.ok()) return 0;
  return status.message().empty() ? kFailed : fail(kFailed, status.message());
}

int run_tool(int argc, const char* const* argv) {
  Parser parser("Position encodings for Transformers, exact at every position.", "phasor");
  const Command tool = parser.command();
  Run run;
  parser.version(fmt::format("phasor {}", version()));
  tool.require_subcommand();
  tool.footer(
      "Examples:\n  phasor demo\n  phasor explain llama3.1\n  phasor explain config.json\n  phasor diff config.json model.gguf\n"
      "  phasor plot decay --model llama3.1 --out decay.svg\n  phasor report config.json -o report.html\n\n"
      "Exit codes: 0 good, 1 failed (diff: something that matters differs), 2 used wrongly.");
  for (const auto add : {add_demo, add_explain, add_diff, add_report, add_table, add_decay, add_similarity, add_plot, add_accuracy,
                         add_plan, add_bench, add_export, add_permute, add_playground, add_targets}) {
    add(tool, run);
  }
  try {
    const std::string shown = parser.parse(argc, argv);
    if (!shown.empty()) return print(shown);
  } catch (const UsageError& error) {
    if (argc < 2) return fail(kUsage, fmt::format("no command, wanted one of those below\n\n{}", parser.help()));
    return fail(kUsage, fmt::format("{}\n{}", error.what(), hint(parser)));
  }
  return run_command(run);
}

}  // namespace
}  // namespace phasor::cli

int main(int argc, char** argv) {
  try {
    return phasor::cli::run_tool(argc, argv);
  } catch (const std::exception& error) {  // memory, mostly
    std::fprintf(stderr, "phasor: %s\n", error.what());
    return 1;
  }
}
