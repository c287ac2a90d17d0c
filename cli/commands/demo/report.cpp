// SPDX-License-Identifier: Apache-2.0
// Writes what phasor demo found. Every number was measured in this run.
#include "commands/demo/report.hpp"

#include <fmt/core.h>

#include "phasor/targets.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

const char* name_of(Threads threads) { return threads == Threads::one ? "one" : "default"; }

/// 1000000 as 1,000,000.
std::string grouped(std::int64_t number) {
  std::string text = fmt::format("{}", number);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3) text.insert(static_cast<std::size_t>(i), 1, ',');
  return text;
}

std::string target_list() {
  std::string list;
  for (const auto name : targets()) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  return list;
}

std::string introduction(const DemoReport& report) {
  const std::string threads = report.hardware_threads == 0 ? "" : fmt::format(", {} hardware threads", report.hardware_threads);
  return fmt::format("phasor {}, target {}{}\nLlama 3.1: {}\n{} tokens, {} query heads, {} key heads\n\n", version(), report.target,
                     threads, describe(report.spec), report.tokens, report.query_heads, report.key_heads);
}

std::string distance_section(const DemoReport& report) {
  std::string text =
      fmt::format("Scores: do they depend on the distance alone? Positions from 0 against positions from {}.\n", grouped(report.far));
  text += fmt::format("  {:6} {:>9} {:>14} {:>15} {:>20} {:>15}\n", "dtype", "scores", "largest score", "largest change", "rounding allows",
                      "float32 angles");
  for (const Distances& line : report.distances) {
    const DistanceCheck& c = line.check;
    text += fmt::format("  {:6} {:>9} {:>14.1f} {:>15.1e} {:>11.1e} {:>8} {:>15.1e}\n", phasor::name_of(line.dtype), c.scores,
                        c.largest_score, c.exact_difference, c.rounding, line.holds() ? "(holds)" : "(FAILS)", c.float32_difference);
  }
  return text + "\n";
}

std::string accuracy_section(const DemoReport& report) {
  std::string text = "Accuracy: largest error of cos and sin over all pairs.\n";
  text += fmt::format("  {:>12} {:>15} {:>16}\n", "position", "this library", "float32 angles");
  for (const Accuracy& line : report.accuracies) {
    text += fmt::format("  {:>12} {:>15.1e} {:>16.1e}\n", grouped(line.position), line.error.exact, line.error.float32);
  }
  return text + "\n";
}

std::string speed_section(const DemoReport& report) {
  std::string text =
      fmt::format("Speed: q and k rotated in place, beside memcpy of the same bytes; milliseconds, medians of {} rounds.\n", kRounds);
  text += fmt::format("  {:6} {:9} {:>8} {:>10} {:>15} {:>10} {:>22}\n", "dtype", "threads", "MB", "from 0", "from " + grouped(report.far),
                      "memcpy", "times memcpy's speed");
  for (const Speed& s : report.speeds) {
    text += fmt::format("  {:6} {:9} {:>8.1f} {:>10.2f} {:>15.2f} {:>10.2f} {:>22.2f}\n", phasor::name_of(s.dtype), name_of(s.threads),
                        static_cast<double>(s.bytes) / 1e6, s.near, s.far, s.copy, s.copy / s.far);
  }
  return text + "\n";
}

template <class Line, class Write>
std::string json_list(const std::vector<Line>& lines, const Write& write) {
  std::string text;
  for (const Line& line : lines) text += (text.empty() ? "\n  {" : ",\n  {") + write(line) + "}";
  return "[" + text + "]";
}

std::string distance_json(const Distances& line) {
  const DistanceCheck& c = line.check;
  return fmt::format(
      R"("dtype": "{}", "scores": {}, "largest_score": {}, "exact_difference": {}, "rounding": {}, "float32_difference": {}, "holds": {})",
      phasor::name_of(line.dtype), c.scores, c.largest_score, c.exact_difference, c.rounding, c.float32_difference, line.holds());
}

std::string accuracy_json(const Accuracy& line) {
  return fmt::format(R"("position": {}, "exact": {}, "float32": {})", line.position, line.error.exact, line.error.float32);
}

std::string speed_json(const Speed& s) {
  return fmt::format(R"("dtype": "{}", "threads": "{}", "bytes": {}, "near_ms": {:.4f}, "far_ms": {:.4f}, "memcpy_ms": {:.4f})",
                     phasor::name_of(s.dtype), name_of(s.threads), s.bytes, s.near, s.far, s.copy);
}

}  // namespace

Status verdict(const DemoReport& report) {
  for (const Distances& line : report.distances) {
    if (!line.holds()) {
      return Status::invalid(fmt::format("demo: a score of {} changed by {:.1e} between near and far, wanted at most {:.1e}",
                                         phasor::name_of(line.dtype), line.check.exact_difference, line.check.rounding));
    }
  }
  if (!report.same_bits) return Status::invalid("demo: threads or targets gave different bits, wanted the same on all");
  return {};
}

std::string to_text(const DemoReport& report) {
  return introduction(report) + distance_section(report) + accuracy_section(report) + speed_section(report) +
         fmt::format("Same bits on one thread, on the default runner and on every target ({}): {}\n", target_list(),
                     report.same_bits ? "yes" : "NO") +
         "\nA page about any model's positions, with plots: phasor report llama3.1 -o report.html (or config.json, or model.gguf)\n";
}

std::string to_json(const DemoReport& report) {
  return fmt::format(
      "{{\"version\": \"{}\", \"target\": \"{}\", \"hardware_threads\": {},\n \"spec\": {},\n"
      " \"tokens\": {}, \"query_heads\": {}, \"key_heads\": {}, \"far\": {},\n \"distances\": {},\n \"accuracy\": {},\n \"speed\": {},\n"
      " \"same_bits\": {}, \"ok\": {}}}\n",
      version(), report.target, report.hardware_threads, figures::to_json(report.spec), report.tokens, report.query_heads, report.key_heads,
      report.far, json_list(report.distances, distance_json), json_list(report.accuracies, accuracy_json),
      json_list(report.speeds, speed_json), report.same_bits, verdict(report).ok());
}

}  // namespace phasor::cli
