// SPDX-License-Identifier: Apache-2.0
// phasor bench: how fast this machine rotates q and k, beside memcpy of the same bytes; checked before it is timed.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "commands/demo/measure.hpp"
#include "figures/json.hpp"
#include "phasor/targets.hpp"
#include "progress.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

struct BenchOptions {
  SpecOptions spec;
  std::int64_t tokens = 2048;
  std::int64_t heads = 32;
  std::int64_t key_heads = 8;
  std::int64_t far = 1000000;
  std::vector<std::string> dtypes{"f32", "bf16"};
  bool json = false;
  bool csv = false;
};

struct BenchReport {
  RotarySpec spec;
  std::string target;
  std::vector<Speed> speeds;
};

constexpr std::array<DType, 4> kDtypes{DType::f32, DType::f64, DType::f16, DType::bf16};

const char* name_of(Threads threads) { return threads == Threads::one ? "one" : "default"; }

Status measure(const Rotary& rotary, const BenchOptions& o, DType dtype, BenchReport& report) {
  const Progress progress;
  const std::int64_t width = rotary.spec().head_dim;
  progress.say(fmt::format("checking, {} ...", phasor::name_of(dtype)));
  const Sample sample = make_sample(dtype, {1, o.tokens, o.heads, width}, {1, o.tokens, o.key_heads, width});
  const auto same = same_bits_everywhere(rotary, sample, o.far);
  if (!same.ok()) return same.status();
  if (!*same)
    return Status::invalid(fmt::format("bench: threads or targets gave different bits in {}, wanted the same", phasor::name_of(dtype)));
  for (const Threads threads : {Threads::one, Threads::default_runner}) {
    progress.say(fmt::format("timing, {}, {} ...", phasor::name_of(dtype), threads == Threads::one ? "one thread" : "default runner"));
    const auto speed = measure_speed(rotary, sample, threads, o.far);
    if (!speed.ok()) return speed.status();
    report.speeds.push_back(*speed);
  }
  return {};
}

void append_text(const BenchOptions& o, const BenchReport& report, std::string& out) {
  out += fmt::format("phasor {}, target {}\n{}\n{} tokens, {} query heads, {} key heads\n\n", version(), report.target,
                     describe(report.spec), o.tokens, o.heads, o.key_heads);
  out += fmt::format("q and k rotated in place, beside memcpy of the same bytes; milliseconds, medians of {} rounds\n", kRounds);
  out += fmt::format("{:6} {:9} {:>8} {:>10} {:>15} {:>10} {:>22}\n", "dtype", "threads", "MB", "from 0", fmt::format("from {}", o.far),
                     "memcpy", "times memcpy's speed");
  for (const Speed& s : report.speeds) {
    out += fmt::format("{:6} {:9} {:>8.1f} {:>10.2f} {:>15.2f} {:>10.2f} {:>22.2f}\n", phasor::name_of(s.dtype), name_of(s.threads),
                       static_cast<double>(s.bytes) / 1e6, s.near, s.far, s.copy, s.copy / s.far);
  }
}

void append_csv(const BenchOptions& /*o*/, const BenchReport& report, std::string& out) {
  out += "dtype,threads,bytes,near_ms,far_ms,memcpy_ms\n";
  for (const Speed& s : report.speeds) {
    out += fmt::format("{},{},{},{},{},{}\n", phasor::name_of(s.dtype), name_of(s.threads), s.bytes, s.near, s.far, s.copy);
  }
}

void append_json(const BenchOptions& o, const BenchReport& report, std::string& out) {
  Json json = Json::object({{"version", version()},
                            {"target", report.target},
                            {"spec", Json::parse(to_json(report.spec))},
                            {"tokens", o.tokens},
                            {"query_heads", o.heads},
                            {"key_heads", o.key_heads},
                            {"far", o.far}});
  Json speeds = Json::array();
  for (const Speed& s : report.speeds) {
    speeds.push_back(Json::object({{"dtype", phasor::name_of(s.dtype)},
                                   {"threads", name_of(s.threads)},
                                   {"bytes", s.bytes},
                                   {"near_ms", s.near},
                                   {"far_ms", s.far},
                                   {"memcpy_ms", s.copy}}));
  }
  json.add("speed", std::move(speeds));
  out += json.lines() + "\n";
}

Status run_bench(const BenchOptions& o, std::string& out) {
  const auto target = active_target();
  if (!target.ok()) return target.status();
  const auto rotary = Rotary::make(spec_of(o.spec));
  if (!rotary.ok()) return rotary.status();
  BenchReport report{rotary->spec(), std::string(*target), {}};
  for (const std::string& name : o.dtypes) {
    const auto* dtype = std::find_if(kDtypes.begin(), kDtypes.end(), [&](DType d) { return name == phasor::name_of(d); });
    if (const Status status = measure(*rotary, o, *dtype, report); !status.ok()) return status;
  }
  (o.json ? append_json : o.csv ? append_csv : append_text)(o, report, out);
  return {};
}

}  // namespace

void add_bench(const Command& tool, Run& run) {
  const Command command = tool.subcommand("bench", "How fast this machine rotates q and k, beside memcpy");
  const auto o = std::make_shared<BenchOptions>();
  add_spec_options(command, o->spec);
  const auto count = [&](const char* name, std::int64_t& value, const char* text) { command.option(name, value, text).range(1, 1 << 20); };
  count("--tokens", o->tokens, "Tokens of q and k (2048)");
  count("--heads", o->heads, "Heads of q (32)");
  count("--key-heads", o->key_heads, "Heads of k (8)");
  command.option("--position", o->far, "Where the far positions begin (1000000)");
  command.option("--dtypes", o->dtypes, "A list of f32, f64, f16, bf16 (f32,bf16)").comma_separated().one_of({"f32", "f64", "f16", "bf16"});
  const Option json = command.flag("--json", o->json, "Print JSON");
  command.flag("--csv", o->csv, "Print CSV").excludes(json);
  command.footer(
      "Checks first that every target and any number of threads give the same bits. make bench measures far more.\n\n"
      "Example:\n  phasor bench --model llama3.1 --tokens 4096 --dtypes bf16");
  command.chosen([o, &run] {
    (void)spec_of(o->spec);
    run = [o](std::string& out) { return run_bench(*o, out); };
  });
}

}  // namespace phasor::cli
