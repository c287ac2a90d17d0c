// SPDX-License-Identifier: Apache-2.0
// One call of the rotation beside the reference: what most tests of the operators are made of.
#pragma once

#include "tensor.hpp"

namespace phasor::test {

inline Rotary make_rotary(const RotarySpec& spec) {
  Result<Rotary> rotary = Rotary::make(spec);
  EXPECT_TRUE(rotary.ok()) << rotary.status().message();
  return *rotary;
}

inline Pairing other(Pairing pairing) { return pairing == Pairing::half ? Pairing::interleaved : Pairing::half; }

inline reference::Geometry geometry_of(const RotarySpec& spec, Direction direction = Direction::forward) {
  const std::int64_t width = spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width;
  const Pairing output = spec.output_pairing.value_or(spec.pairing);
  if (direction == Direction::forward) return {width, spec.rotary_offset, spec.pairing, output};
  return {width, spec.rotary_offset, output, spec.pairing};
}

/// What the tokens of a call are at.
struct Where {
  Positions positions;
  std::int64_t batch;  // 1 where the rows are shared
  std::int64_t tokens;
};

/// The library's own rows, made by its scalar target; (batch, tokens, pairs).
template <class V>
reference::Rows<V> rows_of(const Rotary& rotary, const Where& where, Direction direction = Direction::forward) {
  const OnTarget scalar("scalar");
  reference::Rows<V> rows{where.batch, where.tokens, rotary.rotary_width() / 2, {}, {}};
  const std::size_t size = static_cast<std::size_t>(rows.batch * rows.tokens * rows.pairs);
  for (int lane : {0, 1}) {
    rows.cos[lane].resize(size);
    rows.sin[lane].resize(size);
    const Extents shape = {rows.batch, rows.tokens, 1, rows.pairs};
    const Status status =
        rotary.cos_sin(where.positions, view(rows.cos[lane].data(), shape), view(rows.sin[lane].data(), shape), {.direction = direction});
    EXPECT_TRUE(status.ok()) << status.message();
    if (rotary.spec().sense == Sense::clockwise) {
      for (V& s : rows.sin[lane]) s = -s;
    }
  }
  return rows;
}

struct Call {
  RotarySpec spec;
  Extents shape;
  Where where;
  Direction direction = Direction::forward;
};

/// Out of place, then in place, on the active target; every bit of both memories against the reference.
template <class T>
void check_apply(const Call& call) {
  const Rotary rotary = make_rotary(call.spec);
  const reference::Geometry g = geometry_of(call.spec, call.direction);
  const auto rows = rows_of<typename Element<T>::Value>(rotary, call.where, call.direction);
  Tensor<T> in(call.shape, 2);
  in.with_numbers(g.offset, g.width);
  Tensor<T> out(call.shape, 3);
  Tensor<T> wanted = out;
  const Tensor<T> before = in;
  rotate_reference(in, wanted, g, rows);
  const ApplyOptions options = {.direction = call.direction};
  const Status apart = rotary.apply({in.view(), out.view()}, call.where.positions, options);
  ASSERT_TRUE(apart.ok()) << apart.message();
  EXPECT_TRUE(same_bits(out.memory, wanted.memory)) << "out of place";
  EXPECT_TRUE(same_bits(in.memory, before.memory)) << "input";

  const Status status = rotary.apply(in.view(), call.where.positions, options);
  if (g.read != g.write && g.width > 4096) {
    EXPECT_EQ(status.kind(), ErrorKind::unsupported);
    EXPECT_TRUE(same_bits(in.memory, before.memory)) << "refused";
    return;
  }
  ASSERT_TRUE(status.ok()) << status.message();
  Tensor<T> in_place = before;
  rotate_reference(in_place, in_place, g, rows);
  EXPECT_TRUE(same_bits(in.memory, in_place.memory)) << "in place";
}

}  // namespace phasor::test
