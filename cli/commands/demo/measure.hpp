// SPDX-License-Identifier: Apache-2.0
// What phasor demo measures: the data, the checks and the clock, without a word of output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/analysis.hpp"

namespace phasor::cli {

/// q (1, T, H, D) and k (1, T, heads of keys, D) one after the other in one block of memory.
struct Sample {
  DType dtype = DType::f32;
  Extents q_shape{};
  Extents k_shape{};
  std::vector<std::byte> memory;

  TensorView q() { return {memory.data(), dtype, q_shape, contiguous_strides(q_shape)}; }
  TensorView k();
};

/// Normal-like values (mean 0, variance 1) from a fixed generator of integers: the same on every machine.
Sample make_sample(DType dtype, const Extents& q_shape, const Extents& k_shape);

/// Scores of the sample near 0 and at `far`.
struct Distances {
  DType dtype = DType::f32;
  DistanceCheck check;
  bool holds() const { return check.exact_difference <= check.rounding; }
};

struct Accuracy {
  std::int64_t position = 0;
  AngleError error;
};

enum class Threads : std::uint8_t { one, default_runner };

/// Medians, in milliseconds, of rotating in place and of copying the same bytes, taken in turns.
struct Speed {
  DType dtype = DType::f32;
  Threads threads = Threads::one;
  std::int64_t bytes = 0;
  double near = 0;
  double far = 0;
  double copy = 0;
};

/// Whether one thread, the default runner and every target of this machine rotate `sample` at `position` to the same bits.
Result<bool> same_bits_everywhere(const Rotary& rotary, const Sample& sample, std::int64_t position);

Result<Speed> measure_speed(const Rotary& rotary, Sample sample, Threads threads, std::int64_t far);

/// Counted rounds of measure_speed; one more warms up.
constexpr int kRounds = 15;

}  // namespace phasor::cli
