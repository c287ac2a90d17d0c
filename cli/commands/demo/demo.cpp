// SPDX-License-Identifier: Apache-2.0
// phasor demo: Llama 3.1's q and k, rotated near position 0 and near a million; checked, compared with float32 angles, timed.
#include <fmt/core.h>

#include <memory>
#include <thread>

#include "command.hpp"
#include "commands/demo/report.hpp"
#include "models.hpp"
#include "phasor/targets.hpp"
#include "progress.hpp"

namespace phasor::cli {
namespace {

constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;
constexpr std::int64_t kFar = 1000000;

struct DemoOptions {
  std::int64_t tokens = 2048;
  bool json = false;
};

/// All checks of one dtype come before its first timing.
Status demonstrate(const Rotary& rotary, DType dtype, const Progress& progress, DemoReport& report) {
  const Extents q_shape{1, report.tokens, report.query_heads, report.spec.head_dim};
  const Extents k_shape{1, report.tokens, report.key_heads, report.spec.head_dim};
  progress.say(fmt::format("checking scores, {} ...", name_of(dtype)));
  Sample sample = make_sample(dtype, q_shape, k_shape);
  const auto check = distance_check(rotary, sample.q(), sample.k(), report.far);
  if (!check.ok()) return check.status();
  report.distances.push_back({dtype, *check});

  progress.say(fmt::format("comparing targets, {} ...", name_of(dtype)));
  const auto same = same_bits_everywhere(rotary, sample, report.far);
  if (!same.ok()) return same.status();
  report.same_bits = report.same_bits && *same;

  for (const Threads threads : {Threads::one, Threads::default_runner}) {
    progress.say(fmt::format("timing, {}, {} ...", name_of(dtype), threads == Threads::one ? "one thread" : "default runner"));
    const auto speed = measure_speed(rotary, sample, threads, report.far);
    if (!speed.ok()) return speed.status();
    report.speeds.push_back(*speed);
  }
  return {};
}

Result<DemoReport> make_report(std::int64_t tokens) {
  const auto target = active_target();
  if (!target.ok()) return target.status();
  const auto llama = built_in_model("llama3.1");
  if (!llama.ok()) return llama.status();
  const auto spec = rotary_of(*llama, std::nullopt);
  if (!spec.ok()) return spec.status();
  const auto rotary = Rotary::make(*spec);
  if (!rotary.ok()) return rotary.status();
  DemoReport report{.spec = rotary->spec(),
                    .target = std::string(*target),
                    .hardware_threads = std::thread::hardware_concurrency(),
                    .tokens = tokens,
                    .query_heads = kQueryHeads,
                    .key_heads = kKeyHeads,
                    .far = kFar,
                    .distances = {},
                    .accuracies = {},
                    .same_bits = true,
                    .speeds = {}};
  const Progress progress;
  for (const std::int64_t position : {1000, 100000, 1000000, 10000000}) {
    const auto error = angle_error(*rotary, position);
    if (!error.ok()) return error.status();
    report.accuracies.push_back({position, *error});
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Status status = demonstrate(*rotary, dtype, progress, report);
    if (!status.ok()) return status;
  }
  return report;
}

Status run_demo(const DemoOptions& options, std::string& out) {
  const auto report = make_report(options.tokens);
  if (!report.ok()) return report.status();
  out = options.json ? to_json(*report) : to_text(*report);
  return verdict(*report);
}

}  // namespace

void add_demo(const Command& tool, Run& run) {
  const Command command = tool.subcommand("demo", "Rotate q and k of Llama 3.1 near position 0 and 1,000,000: check, compare, time");
  const auto options = std::make_shared<DemoOptions>();
  command.option("--tokens", options->tokens, "Tokens of q and k (2048)").range(1, 1 << 20);
  command.flag("--json", options->json, "Print JSON");
  command.footer("Takes a few seconds. Exit code 1 when a check fails.\n\nExample:\n  phasor demo --json > demo.json");
  command.chosen([options, &run] { run = [options](std::string& out) { return run_demo(*options, out); }; });
}

}  // namespace phasor::cli
