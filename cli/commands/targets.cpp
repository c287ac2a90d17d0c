// SPDX-License-Identifier: Apache-2.0
// phasor targets: the instruction sets this machine can run and the one in use.
#include "phasor/targets.hpp"

#include <fmt/core.h>

#include <memory>

#include "command.hpp"

namespace phasor::cli {
namespace {

Status run_targets(bool json, std::string& out) {
  const auto active = active_target();
  if (!active.ok()) return active.status();
  if (json) {
    std::string names;
    for (const auto name : targets()) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name);
    out = fmt::format("{{\"targets\": [{}], \"active\": \"{}\"}}\n", names, *active);
    return {};
  }
  for (const auto name : targets()) out += fmt::format("{}{}\n", name, name == *active ? "  (active)" : "");
  return {};
}

}  // namespace

void add_targets(const Command& tool, Run& run) {
  const Command command = tool.subcommand("targets", "The instruction sets this machine can run, best first, and the one in use");
  const auto json = std::make_shared<bool>(false);
  command.flag("--json", *json, "Print JSON");
  command.footer(
      "The environment variable PHASOR_TARGET chooses one; all of them give the same bits.\n\n"
      "Example:\n  PHASOR_TARGET=scalar phasor targets");
  command.chosen([json, &run] { run = [json](std::string& out) { return run_targets(*json, out); }; });
}

}  // namespace phasor::cli
