// SPDX-License-Identifier: Apache-2.0
// Every scheme of the reference through the library, forward and backward; and many terms at once.
#include <gtest/gtest.h>

#include "attention/support/held.hpp"

namespace phasor::test {
namespace {

TEST(attention_scheme, every_scheme_is_the_reference_forward_and_backward) { expect_every_scheme_as_reference(); }

/// What has a value at any distance.
std::vector<ref::Scheme> many_terms(const ref::Shape& s) {
  Numbers random(4);
  const std::int64_t d = s.width;
  return {ref::Rope{{.rotary_width = 4, .base = 50}},
          ref::Alibi{random.values(s.heads, 0.01, 0.1)},
          random_t5(s, random, true),
          ref::WavLm{random_t5(s, random, false), random.values(s.batch * s.queries * s.heads)},
          ref::LearnedDiagonal{.left = 30, .right = 4, .table = random.values(s.heads * 35)},
          ref::Dense{.extents = {1, s.heads, 1, s.keys}, .bias = random.values(s.heads * s.keys)},
          ref::Shaw{.left = 20, .right = 9, .keys = random.values(30 * d), .values = random.values(30 * s.value_width)},
          random_deberta(s, random, 4, ref::DebertaReading::hf),
          ref::Inkling{.extent = 40,
                       .feature_width = 3,
                       .features = random.values(s.batch * s.queries * s.heads * 3),
                       .table = random.values(120),
                       .alpha = 0.4,
                       .floor = 2}};
}

TEST(attention_scheme, many_terms_add_up_whether_it_decodes_or_not) {
  for (const auto& [queries, keys] : {std::pair{6, 600}, {130, 150}}) {
    const ref::Shape shape{.batch = 2, .queries = queries, .keys = keys, .heads = 2, .key_heads = 1, .width = 10, .value_width = 7};
    for (const bool causal : {false, true}) {
      ref::Problem p = random_problem(shape, 5);
      p.schemes = many_terms(shape);
      p.softcap = 6;
      p.visibility.causal = causal;
      if (causal) p.visibility.key_mask = every_mask(shape)[6].visibility.key_mask;
      for (const DType dtype : {DType::f64, DType::f32}) {
        expect_as_reference(p, dtype, std::to_string(queries) + (causal ? " queries, causal" : " queries"));
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
