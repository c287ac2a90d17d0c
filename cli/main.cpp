// SPDX-License-Identifier: Apache-2.0
// The tool: parses, runs one command, prints. Exit codes: 0 good, 1 failed, 2 used wrongly.
#include <fmt/format.h>

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

/// The name of the command that was being parsed, for the hint at its --help.
std::string hint(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return fmt::format("try: phasor {}--help", chosen.empty() ? "" : chosen.front()->get_name() + " ");
}

/// False when not everything arrived, as on a full disk.
bool print(const std::string& text) { return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0; }

int run_command(const Run& run) {
  std::string out;
  const Status status = run(out);
  if (!print(out)) return fail(kFailed, "standard output takes no more, wanted room for the result");
  return status.ok() ? 0 : fail(kFailed, status.message());
}

int run_tool(int argc, const char* const* argv) {
  CLI::App app("Position encodings for Transformers, exact at every position.", "phasor");
  Run run;
  app.set_version_flag("--version", fmt::format("phasor {}", version()));
  app.require_subcommand(1);
  app.footer("Example:\n  phasor demo\n\nExit codes: 0 good, 1 failed, 2 used wrongly.");
  add_demo(app, run);
  add_table(app, run);
  add_targets(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
    const bool unknown = app.get_subcommands().empty() && argc > 1 && argv[1][0] != '-';
    const std::string what = unknown ? fmt::format("{} is no command, wanted demo, table or targets", argv[1]) : error.what();
    return fail(kUsage, fmt::format("{}\n{}", what, hint(app)));
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
