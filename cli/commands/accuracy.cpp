// SPDX-License-Identifier: Apache-2.0
// phasor accuracy: how far cos and sin of each numerics profile are off at given positions. All numbers come from the library.
#include <fmt/core.h>

#include <memory>
#include <optional>

#include "command.hpp"
#include "figures/joined.hpp"
#include "number_list.hpp"
#include "phasor/analysis.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

struct AccuracyOptions {
  SpecOptions spec;
  std::string positions = "1,10,100,1000,10000,100000,1000000,10000000";
  std::optional<std::int64_t> distance;
  bool json = false;
  bool csv = false;
};

std::string json_of(const ProfileError& error) {
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "null"; };
  return fmt::format(R"({{"position": {}, "exact": {}, "hf": {}, "vllm": {}, "ggml": {}}})", error.position, error.exact, number(error.hf),
                     number(error.vllm), number(error.ggml));
}

std::string line_of(const ProfileError& error) {
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{:.3g}", *value) : "-"; };
  return fmt::format("{:>12} {:>10.3g} {:>10} {:>10} {:>10}", error.position, error.exact, number(error.hf), number(error.vllm),
                     number(error.ggml));
}

std::string csv_of(const ProfileError& error) {
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
  return fmt::format("{},{},{},{},{}", error.position, error.exact, number(error.hf), number(error.vllm), number(error.ggml));
}

std::string json_of(const PrecisionError& e) {
  return fmt::format(R"({{"position": {}, "numerics": "{}", "dtype": "{}", "cos_sin": {}, "score": {}}})", e.position, name_of(e.numerics),
                     phasor::name_of(e.dtype), e.cos_sin, e.score);
}

std::string csv_of(const PrecisionError& e) {
  return fmt::format("{},{},{},{},{}", e.position, name_of(e.numerics), phasor::name_of(e.dtype), e.cos_sin, e.score);
}

std::string line_of(const PrecisionError& e) {
  return fmt::format("{:>12} {:>10} {:>6} {:>12.3g} {:>12.3g}", e.position, name_of(e.numerics), phasor::name_of(e.dtype), e.cos_sin,
                     e.score);
}

/// One error per line, in the words that were asked for.
template <class Error>
std::vector<std::string> lines_of(const AccuracyOptions& options, const std::vector<Error>& errors) {
  std::vector<std::string> lines;
  lines.reserve(errors.size());
  for (const Error& error : errors) lines.push_back(options.json ? json_of(error) : options.csv ? csv_of(error) : line_of(error));
  return lines;
}

Status run_precision(const AccuracyOptions& options, std::int64_t distance, std::string& out) {
  const RotarySpec spec = spec_of(options.spec);
  const auto errors = precision_report(spec, parse_numbers("--positions", options.positions), distance);
  if (!errors.ok()) return errors.status();
  const auto lines = lines_of(options, *errors);
  if (options.json) {
    out = fmt::format("{{\"spec\": {},\n \"distance\": {},\n \"errors\": [{}]}}\n", to_json(spec), distance, joined(lines, ",\n  "));
  } else if (options.csv) {
    out = fmt::format("position,numerics,dtype,cos_sin,score\n{}\n", joined(lines, "\n"));
  } else {
    out = fmt::format(
        "{}\n\nLargest error of a cosine or sine over all pairs, and of the score of q and k (length 1 in each pair) {} apart\n"
        "{:>12} {:>10} {:>6} {:>12} {:>12}\n{}\n",
        describe(spec), distance, "position", "numerics", "dtype", "cos and sin", "score", joined(lines, "\n"));
  }
  return {};
}

Status run_accuracy(const AccuracyOptions& options, std::string& out) {
  if (options.distance) return run_precision(options, *options.distance, out);
  const RotarySpec spec = spec_of(options.spec);
  const auto errors = profile_errors(spec, parse_numbers("--positions", options.positions));
  if (!errors.ok()) return errors.status();
  const auto lines = lines_of(options, *errors);
  if (options.csv) {
    out = fmt::format("position,exact,hf,vllm,ggml\n{}\n", joined(lines, "\n"));
    return {};
  }
  if (options.json) {
    out = fmt::format("{{\"spec\": {},\n \"errors\": [{}]}}\n", to_json(spec), joined(lines, ",\n  "));
    return {};
  }
  out =
      fmt::format("{}\n\nLargest error of a cosine or sine over all pairs, by numerics profile (-: not in that dialect)\n", describe(spec));
  out += fmt::format("{:>12} {:>10} {:>10} {:>10} {:>10}\n{}\n", "position", "exact", "hf", "vllm", "ggml", joined(lines, "\n"));
  return {};
}

}  // namespace

void add_accuracy(const Command& tool, Run& run) {
  const Command command = tool.subcommand("accuracy", "How far cos and sin are off at a position, by numerics profile");
  const auto options = std::make_shared<AccuracyOptions>();
  add_spec_options(command, options->spec);
  command.option("--positions", options->positions, "Where: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (1 to 10^7, powers of ten)");
  command.option("--distance", options->distance, "Adds each storage dtype, and the error of a score at this distance");
  const Option json = command.flag("--json", options->json, "Print JSON, every number in full");
  command.flag("--csv", options->csv, "Print CSV, every number in full").excludes(json);
  command.footer(
      "Examples:\n  phasor accuracy --model llama3.1 --positions 131072,1000000\n  phasor accuracy --positions 1000000 --distance 7");
  command.chosen([options, &run] {
    (void)spec_of(options->spec);
    if (options->spec.numerics != "exact") throw UsageError("accuracy takes no --numerics: it shows all of them");
    (void)parse_numbers("--positions", options->positions);
    run = [options](std::string& out) { return run_accuracy(*options, out); };
  });
}

}  // namespace phasor::cli
