// SPDX-License-Identifier: Apache-2.0
// Random bias specs made from a draw: every scheme, and now and then tables and perceptrons that do not fit into a kernel's parameter.
#pragma once

#include <utility>
#include <vector>

#include "cuda/random_specs.hpp"
#include "phasor/bias.hpp"

namespace phasor::test {

inline Mlp any_mlp(Draw& draw, int64_t inputs, int64_t heads) {
  Mlp mlp = {.widths = {inputs}, .activation = draw.of({Activation::relu, Activation::silu})};
  const int64_t hidden = draw.between(0, 3);
  for (int64_t l = 0; l < hidden; ++l) mlp.widths.push_back(hidden == 1 && draw.one_in(4) ? 512 : draw.between(1, 20));
  mlp.widths.push_back(heads);
  int64_t count = 0;
  for (std::size_t l = 1; l < mlp.widths.size(); ++l) count += mlp.widths[l] * (mlp.widths[l - 1] + 1);
  mlp.parameters = numbers(draw, count, -1, 1);
  return mlp;
}

inline std::vector<double> any_table(Draw& draw, int64_t heads, int64_t rows) {
  return draw.one_in(6) ? std::vector<double>{} : numbers(draw, heads * rows, -3, 3);
}

inline BiasSpec any_deberta(Draw& draw, int64_t heads) {
  DebertaBuckets spec = {.heads = heads,
                         .buckets = draw.of<int64_t>({0, 8, 32, 256}),
                         .max_distance = draw.of<int64_t>({20, 64, 512}),
                         .reading = draw.of({DebertaReading::hf, DebertaReading::microsoft, DebertaReading::hf_swapped})};
  spec.table = any_table(draw, heads, 2 * (spec.buckets == 0 ? spec.max_distance : spec.buckets));
  return spec;
}

inline BiasSpec any_alibi(Draw& draw, int64_t heads) {
  return Alibi{.heads = heads,
               .slopes = draw.one_in(2) ? numbers(draw, heads, -1, 1) : std::vector<double>{},
               .form = draw.of({AlibiForm::symmetric, AlibiForm::causal, AlibiForm::key_position}),
               .rounding = draw.of({SlopeRounding::float64, SlopeRounding::bf16})};
}

inline BiasSpec any_t5(Draw& draw, int64_t heads) {
  const int64_t buckets = draw.of<int64_t>({8, 10, 32});
  return T5Buckets{.heads = heads,
                   .buckets = buckets,
                   .max_distance = draw.of<int64_t>({20, 128}),
                   .sides = draw.of({BucketSides::both, BucketSides::behind}),
                   .table = any_table(draw, heads, buckets)};
}

inline BiasSpec any_bias(Draw& draw) {
  const int64_t heads = draw.of<int64_t>({1, 3, 8, 12});
  const Window window = {draw.between(2, 7), draw.between(2, 7)};
  switch (draw.below(10)) {
    case 0:
      return any_alibi(draw, heads);
    case 1:
      return any_t5(draw, heads);
    case 2:
      return any_deberta(draw, heads);
    case 3: {
      const int64_t left = draw.between(0, 20);
      const int64_t right = draw.between(0, 20);
      return ShawClip{.heads = heads, .left = left, .right = right, .table = any_table(draw, heads, left + right + 1)};
    }
    case 4:
      return Kerple{draw.of({KerpleKind::logarithmic, KerpleKind::power}), numbers(draw, heads, 0.1, 2), numbers(draw, heads, 0.1, 2)};
    case 5:
      return Sandwich{.heads = heads, .width = 2 * draw.between(1, 20), .base = draw.of({100.0, 10000.0})};
    case 6:
      return Fire{.mlp = any_mlp(draw, 1, heads), .c = 0.1 + draw.real(), .length = 100 * draw.real() + 1, .epsilon = draw.of({0.0, 1e-6})};
    case 7:
      return DynamicMlp{.mlp = any_mlp(draw, 1, heads), .scale = draw.of({DistanceScale::linear, DistanceScale::logarithmic})};
    case 8:
      return SwinTable{.heads = heads, .window = window, .table = any_table(draw, heads, (2 * window.height - 1) * (2 * window.width - 1))};
    default:
      return SwinV2{.window = window, .trained = draw.one_in(2) ? Window{} : Window{6, 3}, .mlp = any_mlp(draw, 2, heads)};
  }
}

/// 0 x 0: the scheme has none.
inline Window window_of(const BiasSpec& spec) {
  if (const auto* s = std::get_if<SwinTable>(&spec)) return s->window;
  if (const auto* s = std::get_if<SwinV2>(&spec)) return s->window;
  return {};
}

}  // namespace phasor::test
