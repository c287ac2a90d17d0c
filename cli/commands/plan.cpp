// SPDX-License-Identifier: Apache-2.0
// phasor plan: what each scaling does to every pair when the context grows, and where extrapolation begins.
#include <fmt/core.h>

#include <limits>
#include <memory>

#include "command.hpp"
#include "commands/plan_options.hpp"
#include "figures/json.hpp"

namespace phasor::cli {
namespace {

struct PlanArguments {
  PlanOptions plan;
  bool json = false;
  bool csv = false;
};

using Planned = std::vector<PlannedScaling>;

std::string or_dash(const std::optional<std::int64_t>& value) { return value ? fmt::format("{}", *value) : "-"; }

void append_summary(const Planned& planned, std::string& out) {
  out += fmt::format("{:<14} {:>10} {:>14} {:>13} {:>12}\n", "scaling", "amplitude", "softmax scale", "unseen pairs", "unseen from");
  for (const PlannedScaling& one : planned) {
    if (!one.error.empty()) {
      out += fmt::format("{:<14} {}\n", one.name, one.error);
      continue;
    }
    out += fmt::format("{:<14} {:>10.6g} {:>14.6g} {:>13} {:>12}\n", one.name, one.amplitude, one.softmax_scale, one.unseen_pairs,
                       or_dash(one.unseen_from));
  }
}

void append_pairs(const Planned& planned, std::string& out) {
  out += fmt::format("\nFrequency of each pair, as a part of the frequency as trained\n{:>5} {:>12} {:>10}", "pair", "frequency", "turns");
  for (const PlannedScaling& one : planned) {
    if (one.error.empty() && &one != &planned.front()) out += fmt::format(" {:>12}", one.name);
  }
  out += '\n';
  for (std::size_t pair = 0; pair < planned.front().pairs.size(); ++pair) {
    const PlannedPair& trained = planned.front().pairs[pair];
    out += fmt::format("{:>5} {:>12.6g} {:>10.4g}", pair, trained.frequency, trained.trained_turns);
    for (const PlannedScaling& one : planned) {
      if (one.error.empty() && &one != &planned.front()) out += fmt::format(" {:>12.4f}", one.pairs[pair].ratio);
    }
    out += '\n';
  }
}

void append_text(const PlannerInput& input, const Planned& planned, std::string& out) {
  out += fmt::format("{}\nfrom {} to {} positions\n\n", describe(input.spec), input.trained_length, input.wanted_length);
  append_summary(planned, out);
  append_pairs(planned, out);
}

void append_csv(const PlannerInput& /*input*/, const Planned& planned, std::string& out) {
  out += "scaling,pair,frequency,ratio,trained_turns,wanted_turns,unseen_from\n";
  for (const PlannedScaling& one : planned) {
    for (std::size_t pair = 0; pair < one.pairs.size(); ++pair) {
      const PlannedPair& p = one.pairs[pair];
      out += fmt::format("{},{},{},{},{},{},{}\n", one.name, pair, p.frequency, p.ratio, p.trained_turns, p.wanted_turns,
                         p.unseen_from ? fmt::format("{}", *p.unseen_from) : "");
    }
  }
}

Json json_of(const PlannedScaling& one) {
  if (!one.error.empty()) return Json::object({{"name", one.name}, {"error", one.error}});
  Json json = Json::object({{"name", one.name},
                            {"amplitude", one.amplitude},
                            {"softmax_scale", one.softmax_scale},
                            {"unseen_pairs", one.unseen_pairs},
                            {"unseen_from", one.unseen_from}});
  Json pairs = Json::array();
  for (const PlannedPair& p : one.pairs) {
    pairs.push_back(Json::object({{"frequency", p.frequency},
                                  {"ratio", p.ratio},
                                  {"trained_turns", p.trained_turns},
                                  {"wanted_turns", p.wanted_turns},
                                  {"unseen_from", p.unseen_from}}));
  }
  json.add("pairs", std::move(pairs));
  return json;
}

void append_json(const PlannerInput& input, const Planned& planned, std::string& out) {
  Json json = Json::object(
      {{"spec", Json::parse(to_json(input.spec))}, {"trained_length", input.trained_length}, {"wanted_length", input.wanted_length}});
  Json scalings = Json::array();
  for (const PlannedScaling& one : planned) scalings.push_back(json_of(one));
  json.add("scalings", std::move(scalings));
  out += json.lines() + "\n";
}

Status run_plan(const PlanArguments& a, std::string& out) {
  const PlannerInput input = planner_input(a.plan);
  const auto planned = plan_scalings(input);
  if (!planned.ok()) return planned.status();
  (a.json ? append_json : a.csv ? append_csv : append_text)(input, *planned, out);
  return {};
}

}  // namespace

void add_plan_options(const Command& command, PlanOptions& options) {
  add_spec_options(command, options.spec);
  command.option("--trained-length", options.trained_length, "Positions of the training (4096)").positive();
  command.option("--wanted-length", options.wanted_length, "Positions wanted (8 times as many)").positive();
}

PlannerInput planner_input(const PlanOptions& options) {
  const std::int64_t trained = options.trained_length;
  constexpr std::int64_t kTimes = 8;
  if (!options.wanted_length && trained > std::numeric_limits<std::int64_t>::max() / kTimes) {
    throw UsageError("--trained-length: too many positions, wanted --wanted-length too");
  }
  return {.spec = spec_of(options.spec), .trained_length = trained, .wanted_length = options.wanted_length.value_or(trained * kTimes)};
}

void add_plan(const Command& tool, Run& run) {
  const Command command = tool.subcommand("plan", "What each scaling does to every pair when the context grows");
  const auto a = std::make_shared<PlanArguments>();
  add_plan_options(command, a->plan);
  const Option json = command.flag("--json", a->json, "Print JSON, every number in full");
  command.flag("--csv", a->csv, "Print CSV, every number in full").excludes(json);
  command.footer(
      "The encoding is taken as it was trained. A pair is unseen where its phase passes what training showed.\n\n"
      "Example:\n  phasor plan --head-dim 128 --base 10000 --trained-length 4096 --wanted-length 32768");
  command.chosen([a, &run] {
    (void)planner_input(a->plan);
    run = [a](std::string& out) { return run_plan(*a, out); };
  });
}

}  // namespace phasor::cli
