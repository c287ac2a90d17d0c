// SPDX-License-Identifier: Apache-2.0
// attention_weights of a problem as a bridge holds it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "attention/support/bridge.hpp"

namespace phasor::test {

/// A block of rows, of float or double.
template <class T>
struct Block {
  std::vector<T> weights;
  std::vector<T> factors;
};

inline Status weights_to(const Bridge& bridge, const AttentionRows& rows, const AttentionWeights& to) {
  const Result<std::int64_t> bytes = attention_weights_workspace(bridge.inputs, bridge.spec, rows, to);
  if (!bytes) return bytes.status();
  std::vector<std::byte> workspace(static_cast<std::size_t>(*bytes) + 1, std::byte{0xff});  // not aligned, full of NaN
  return attention_weights(bridge.inputs, bridge.spec, rows, to, std::span(workspace).subspan(1));
}

/// shape: batch rows, queries, heads from `rows` on, Tk.
template <class T>
Block<T> weights_of(const Bridge& bridge, const AttentionRows& rows, const Extents& shape) {
  const auto count = static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]);
  Block<T> block = {std::vector<T>(count, -7), std::vector<T>(count, -7)};
  const Status status = weights_to(bridge, rows, {view(block.weights.data(), shape), view(block.factors.data(), shape)});
  EXPECT_TRUE(status.ok()) << status.message();
  return block;
}

/// All rows.
template <class T>
Block<T> all_weights(const Bridge& bridge) {
  const ref::Shape& s = bridge.problem.shape;
  return weights_of<T>(bridge, {}, {s.batch, s.queries, s.heads, s.keys});
}

}  // namespace phasor::test
