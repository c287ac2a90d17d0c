// SPDX-License-Identifier: Apache-2.0
// The parts of attention on every target of this machine, in float and double, and numbers for them.
#pragma once

#include <vector>

#include "cpu/attention/parts.hpp"
#include "cpu/rotary/kernels.hpp"
#include "tensor.hpp"

namespace phasor::test {

/// body(parts, T) for float and double on every target that this machine runs.
template <class Body>
void on_every_part(Body body) {
  const cpu::AttentionPartsTable table = cpu::attention_parts();
  const cpu::RotaryKernelTable known = cpu::rotary_kernels();
  ASSERT_EQ(table.count, known.count);
  for (int i = 0; i < table.count; ++i) {
    if (!known.entries[i].available()) continue;
    SCOPED_TRACE(known.entries[i].target);
    body(table.entries[i].f32, float{});
    body(table.entries[i].f64, double{});
  }
}

template <class T>
std::vector<T> numbers(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> list(static_cast<std::size_t>(count));
  for (T& x : list) x = static_cast<T>(random.number());
  return list;
}

}  // namespace phasor::test
