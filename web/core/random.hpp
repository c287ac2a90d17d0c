// SPDX-License-Identifier: Apache-2.0
// Random numbers of a seed, the same in every build: contents for pictures, no statistics.
#pragma once

#include <cstdint>
#include <vector>

namespace phasor::web {

class Random {
 public:
  explicit Random(std::int64_t seed) : state_(static_cast<std::uint64_t>(seed)) {}

  /// So many of mean 0 and variance 1, nearly normal, times `strength`.
  template <class T>
  std::vector<T> normal(std::int64_t count, double strength = 1) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& value : values) value = static_cast<T>(strength * one());
    return values;
  }

 private:
  /// A multiple of 2^-16 in [0, 1), by splitmix64.
  double uniform() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<double>((z ^ (z >> 31)) >> 48) * 0x1p-16;
  }
  /// The sum of twelve: near enough to the bell, and no function that machines round differently.
  double one() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  std::uint64_t state_;
};

}  // namespace phasor::web
