// SPDX-License-Identifier: Apache-2.0
// One call of rerotation beside the reference: rows read off through keys of (1, 0), and the naive rotation by them.
#pragma once

#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {

inline Pairing key_pairing(const RotarySpec& spec) { return spec.output_pairing.value_or(spec.pairing); }

/// A rerotation: what from, what to, for (B, T).
struct Moving {
  RotatedAt from;
  RotatedAt to;
  std::int64_t batch;
  std::int64_t tokens;
  Direction direction = Direction::forward;

  const RotarySpec& spec() const { return to.rotary.spec(); }
  std::int64_t pairs() const { return to.rotary.rotary_width() / 2; }
  reference::Geometry geometry() const { return {2 * pairs(), spec().rotary_offset, key_pairing(spec()), key_pairing(spec())}; }
};

/// The rows of a rerotation on the active target, by what it makes of keys whose every pair is (1, 0): x cos - y sin is cos to the bit.
template <class V>
reference::Rows<V> rows_by_probe(const Moving& m) {
  const reference::Geometry g = m.geometry();
  const std::int64_t head_dim = m.spec().head_dim;
  std::vector<V> keys(static_cast<std::size_t>(m.batch * m.tokens * head_dim));
  reference::Rows<V> rows{m.batch, m.tokens, m.pairs(), {}, {}};
  const auto channel = [&](std::int64_t row, std::int64_t pair, int lane) -> V& {
    return keys[static_cast<std::size_t>(row * head_dim + g.offset + reference::channel(g.read, g.width, pair, lane))];
  };
  for (std::int64_t row = 0; row < m.batch * m.tokens; ++row) {
    for (std::int64_t i = 0; i < rows.pairs; ++i) channel(row, i, 0) = 1;
  }
  const Status status = rerotate(view(keys.data(), {m.batch, m.tokens, 1, head_dim}), m.from, m.to, {.direction = m.direction});
  EXPECT_TRUE(status.ok()) << status.message();
  for (std::int64_t row = 0; row < m.batch * m.tokens; ++row) {
    for (std::int64_t i = 0; i < rows.pairs; ++i) {
      for (const int lane : {0, 1}) {
        rows.cos[lane].push_back(channel(row, i, 0));
        rows.sin[lane].push_back(channel(row, i, 1));
      }
    }
  }
  return rows;
}

/// Out of place, then in place, on the active target; every bit of both memories against the naive rotation by the scalar target's rows.
template <class T>
void check_rerotate(const Moving& m, const Extents& shape, const Extents& strides) {
  const reference::Geometry g = m.geometry();
  const auto rows = [&] {
    const OnTarget scalar("scalar");
    return rows_by_probe<typename Element<T>::Value>(m);
  }();
  Tensor<T> in(shape, strides, 2);
  in.with_numbers(g.offset, g.width);
  Tensor<T> out(shape, 3);
  Tensor<T> wanted = out;
  const Tensor<T> before = in;
  rotate_reference(in, wanted, g, rows);
  const ApplyOptions options = {.direction = m.direction};
  const Status apart = rerotate({in.view(), out.view()}, m.from, m.to, options);
  ASSERT_TRUE(apart.ok()) << apart.message();
  EXPECT_TRUE(same_bits(out.memory, wanted.memory)) << "out of place";
  EXPECT_TRUE(same_bits(in.memory, before.memory)) << "input";
  const Status status = rerotate(in.view(), m.from, m.to, options);
  ASSERT_TRUE(status.ok()) << status.message();
  Tensor<T> in_place = before;
  rotate_reference(before, in_place, g, rows);
  EXPECT_TRUE(same_bits(in.memory, in_place.memory)) << "in place";
}

}  // namespace phasor::test
