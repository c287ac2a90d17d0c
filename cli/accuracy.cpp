// SPDX-License-Identifier: Apache-2.0
// phasor accuracy: how far cos and sin are off at given positions. All numbers come from the library.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "command.hpp"
#include "number_list.hpp"
#include "phasor/analysis.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

struct AccuracyOptions {
  SpecOptions spec;
  std::string positions = "1,10,100,1000,10000,100000,1000000,10000000";
  bool json = false;
};

Status run_accuracy(const AccuracyOptions& options, std::string& out) {
  const auto rotary = Rotary::make(spec_of(options.spec));
  if (!rotary.ok()) return rotary.status();
  std::vector<std::string> lines;
  for (const std::int64_t position : parse_numbers("--positions", options.positions)) {
    const auto error = angle_error(*rotary, position);
    if (!error.ok()) return error.status();
    lines.push_back(options.json ? fmt::format(R"({{"position": {}, "exact": {}, "float32": {}}})", position, error->exact, error->float32)
                                 : fmt::format("{:>12} {:>12.3g} {:>12.3g}", position, error->exact, error->float32));
  }
  if (options.json) {
    out = fmt::format("{{\"spec\": {},\n \"errors\": [{}]}}\n", to_json(rotary->spec()), fmt::join(lines, ",\n  "));
    return {};
  }
  out = fmt::format("{}\n\nLargest error of a cosine or sine over all pairs, by how the angle is made:\n{:>12} {:>12} {:>12}\n{}\n",
                    describe(rotary->spec()), "position", "phasor", "float32", fmt::join(lines, "\n"));
  return {};
}

}  // namespace

void add_accuracy(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand("accuracy", "How far cos and sin are off, exact angles against float32 ones");
  const auto options = std::make_shared<AccuracyOptions>();
  add_spec_options(*command, options->spec);
  command->add_option("--positions", options->positions, "Where: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (1 to 10^7, powers of ten)");
  command->add_flag("--json", options->json, "Print JSON, every number in full");
  command->footer("Example:\n  phasor accuracy --model llama3.1 --positions 131072,1000000");
  command->callback([options, &run] {
    (void)spec_of(options->spec);
    (void)parse_numbers("--positions", options->positions);
    run = [options](std::string& out) { return run_accuracy(*options, out); };
  });
}

}  // namespace phasor::cli
