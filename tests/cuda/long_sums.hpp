// SPDX-License-Identifier: Apache-2.0
// Random gradients that are summed over more tokens than a block of a GPU takes at a time: of learned tables with few rows, so that many
// tokens are of one, and of frequencies, few and many.
#pragma once

#include "cuda/random_calls.hpp"
#include "cuda/random_memory.hpp"

namespace phasor::test {

inline RandomCall long_scatter(Draw& draw, Builder& builder) {
  const Extents shape = {2, draw.of<int64_t>({8190, 10001}), 1, draw.of<int64_t>({8, 24, 33})};
  const int64_t rows = draw.of<int64_t>({1, 3, 17});
  const int64_t offset = draw.of<int64_t>({0, 2});
  const bool shared = draw.one_in(2);  // one list of positions for both batch rows
  const bool narrow = draw.one_in(2);
  const Placed table = builder.tensor(draw.of({DType::f32, DType::f32, DType::f64, DType::bf16}), {1, rows + offset, 1, shape[3]});
  const Placed gradient = builder.tensor(draw.of({DType::f32, DType::f64, DType::f16, DType::bf16}), shape);
  std::vector<int64_t> list(static_cast<std::size_t>(shape[1] * (shared ? 1 : 2)));
  for (int64_t& row : list) row = draw.below(rows);
  const PlacedPositions at = {.buffer = narrow ? builder.list(std::vector<std::int32_t>(list.begin(), list.end())) : builder.list(list),
                              .type = narrow ? PositionType::i32 : PositionType::i64,
                              .shape = {1, shared ? 1 : 2, shape[1], 1}};
  ScatterOptions options = {.offset = offset};
  if (draw.one_in(3)) options.padding_row = draw.below(rows) + offset;
  return {"long scatter", std::move(builder.buffers), std::move(builder.elements),
          [=](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
            ScatterOptions with = options;
            with.execution = execution;
            return scatter_gradient(table.at(memory, device), ConstTensorView(gradient.at(memory, device)), at.at(memory, device), with);
          }};
}

inline RandomCall long_frequencies(Draw& draw, Builder& builder) {
  const int64_t pairs = draw.of<int64_t>({3, 160});  // of few frequencies a block has one
  const Rotary rotary = *Rotary::make({.head_dim = 2 * pairs});
  const Extents shape = pairs == 3 ? Extents{draw.between(1, 2), draw.of<int64_t>({8500, 17000}), draw.of<int64_t>({1, 3}), pairs}
                                   : Extents{draw.between(1, 2), draw.of<int64_t>({255, 300, 600}), draw.of<int64_t>({1, 2}), pairs};
  const Placed gradient = builder.tensor(draw.of({DType::f32, DType::f64}), shape);
  const Placed sum = builder.tensor(draw.of({DType::f32, DType::f64}), {1, 1, 1, pairs});
  const PlacedPositions at = any_positions(draw, builder, 1, shape[0], shape[1]);
  return {"long frequency gradient", std::move(builder.buffers), std::move(builder.elements),
          [=](const std::vector<std::byte*>& memory, const Execution& execution, Device device) {
            return rotary.frequency_gradient(sum.at(memory, device), ConstTensorView(gradient.at(memory, device)), at.at(memory, device),
                                             execution);
          }};
}

inline std::optional<RandomCall> long_sum(uint64_t seed) {
  Draw draw(seed);
  Builder builder(draw);
  return seed % 2 == 0 ? long_scatter(draw, builder) : long_frequencies(draw, builder);
}

}  // namespace phasor::test
