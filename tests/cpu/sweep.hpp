// SPDX-License-Identifier: Apache-2.0
// What the exhaustive sweeps share: counts, ladders made by the plan and by the oracle, threads with a progress line.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>

#include "cpu/exact_rows.hpp"
#include "math/exact_oracle.hpp"
#include "math/sincos.hpp"

namespace phasor::exact {

struct Counts {
  std::uint64_t values = 0;     // cosines and sines compared
  std::uint64_t asked = 0;      // of them, by MPFR
  std::uint64_t doubt = 0;      // pairs whose level 1 (Long, 128 bits) is in doubt
  std::uint64_t unproven = 0;   // values that one rounding of level 1 would have got wrong
  std::uint64_t wrong = 0;      // values that are not the nearest
  std::uint64_t undecided = 0;  // pairs that level 2 could not decide

  Counts& operator+=(const Counts& other) {
    values += other.values;
    asked += other.asked;
    doubt += other.doubt;
    unproven += other.unproven;
    wrong += other.wrong;
    undecided += other.undecided;
    return *this;
  }
};

/// A ladder twice: as the library plans it, and as the oracle has it.
struct Ladder {
  double base;
  int width;
  plan::RotaryPlan plan;
  std::vector<oracle::MpfrReal> frequencies;

  std::int64_t pairs() const { return width / 2; }
};

inline Ladder make_ladder(double base, int width) {
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan({.head_dim = width, .base = base});
  if (!plan.ok()) {
    std::fprintf(stderr, "base %a width %d: %s\n", base, width, plan.status().message().c_str());
    std::exit(2);
  }
  return {base, width, *std::move(plan), oracle::ladder(base, width)};
}

/// One pair of one ladder at one position, for reports.
struct Place {
  const Ladder& ladder;
  std::int64_t pair;
  double position;
};

struct Values {
  float cos;
  float sin;
};

/// Prints the first few wrong values so that each can be reproduced.
inline void report_wrong(const Place& at, const char* path) {
  static std::atomic<int> printed{0};
  if (printed++ >= 20) return;
  std::fprintf(stderr, "WRONG: base %a width %d pair %lld position %.0f (%a) by %s\n", at.ladder.base, at.ladder.width,
               static_cast<long long>(at.pair), at.position, at.position, path);
}

/// One pair of values found by `path` against the truth.
inline void compare(Counts& counts, const Place& at, Values truth, Values found, const char* path) {
  const bool cos_wrong = !(truth.cos == found.cos);
  const bool sin_wrong = !(truth.sin == found.sin);
  if (cos_wrong || sin_wrong) report_wrong(at, path);
  counts.wrong += static_cast<std::uint64_t>(cos_wrong) + static_cast<std::uint64_t>(sin_wrong);
  counts.values += 2;
}

/// math::sincos as its parts, so that doubt and indecision can be counted.
template <class Position>
Values decide(Counts& counts, const math::Step& step, Position position) {
  math::Phase128 top{};
  double tiny = 0;
  if constexpr (std::is_same_v<Position, double>) {
    const math::Phase phase = math::phase_of(step, position);
    top = {phase.limb[2], phase.limb[1]};
    tiny = math::tiny_bound_of_fraction();
  } else {
    top = math::phase128_of(step, position);
    tiny = math::tiny_bound(position);
  }
  Values found{};
  if (!math::sincos_proven<math::Long>(top, tiny, 1, found.cos, found.sin)) return found;
  const Values unproven = found;
  ++counts.doubt;
  counts.undecided += static_cast<std::uint64_t>(math::sincos_in_doubt(math::phase_of(step, position), 1, found.cos, found.sin));
  counts.unproven += static_cast<std::uint64_t>(unproven.cos != found.cos) + static_cast<std::uint64_t>(unproven.sin != found.sin);
  return found;
}

/// Runs work(item, counts) for every item on all cores; a progress line on a terminal, a result line always.
inline Counts sweep(const char* name, std::int64_t items, const std::function<void(std::int64_t, Counts&)>& work) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  Counts total;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto start = std::chrono::steady_clock::now();
  const auto worker = [&] {
    for (std::int64_t item = next++; item < items; item = next++) {
      Counts counts;
      work(item, counts);
      const std::lock_guard<std::mutex> lock(mutex);
      total += counts;
      if (terminal) std::fprintf(stderr, "\r%s: %5.1f %%", name, 100.0 * static_cast<double>(item) / static_cast<double>(items));
    }
    mpfr_free_cache();
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(worker);
  for (std::thread& thread : threads) thread.join();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (terminal) std::fprintf(stderr, "\r");
  std::printf(
      "%s: %llu values, %llu by MPFR, %llu pairs in doubt, %llu values wrong without the proof, %llu wrong, %llu undecided; %.0f "
      "s\n",
      name, static_cast<unsigned long long>(total.values), static_cast<unsigned long long>(total.asked),
      static_cast<unsigned long long>(total.doubt), static_cast<unsigned long long>(total.unproven),
      static_cast<unsigned long long>(total.wrong), static_cast<unsigned long long>(total.undecided), seconds);
  std::fflush(stdout);
  return total;
}

}  // namespace phasor::exact
