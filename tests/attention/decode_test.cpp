// SPDX-License-Identifier: Apache-2.0
// Decoding on every target: rows of keys and values read where they lie, for every dtype, widths that end in half a step of two registers
// or must be packed, every number of rows up to the last that is read in place and beyond, tiles that end early. And what terms lay out for
// the softmax to add, around the edges of tiles and of the ring of a sliding table.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "attention/support/held.hpp"
#include "attention/support/table_problems.hpp"
#include "phasor/targets.hpp"

namespace phasor::test {
namespace {

void expect_forward_on_every_target(const ref::Problem& p, std::initializer_list<DType> dtypes, const std::string& name) {
  for (const std::string_view target : targets()) {
    ASSERT_TRUE(force_target(target).ok());
    for (const DType dtype : dtypes) expect_forward(p, dtype, name + ", " + std::string(target));
  }
  ASSERT_TRUE(force_target("").ok());
}

constexpr std::initializer_list<DType> kEveryDType = {DType::f64, DType::f32, DType::f16, DType::bf16};

TEST(attention_decode, rows_in_place_of_every_width_and_dtype) {
  for (const std::int64_t width : {16, 31, 48, 64, 80, 128}) {
    const ref::Shape shape{.batch = 2, .queries = 3, .keys = 75, .heads = 2, .key_heads = 2, .width = width, .value_width = 144 - width};
    expect_forward_on_every_target(random_problem(shape, 3), kEveryDType, "width " + std::to_string(width));
  }
}

TEST(attention_decode, every_number_of_rows_that_share_keys) {
  for (std::int64_t group = 1; group <= 11; ++group) {
    const ref::Shape shape{.batch = 1, .queries = 1, .keys = 70, .heads = 2 * group, .key_heads = 2, .width = 48, .value_width = 16};
    expect_forward_on_every_target(random_problem(shape, 4), kEveryDType, "group of " + std::to_string(group));
  }
}

TEST(attention_decode, tiles_that_end_early_and_several_splits) {
  for (const std::int64_t keys : {1, 2, 3, 5, 63, 64, 65, 130, 700}) {
    ref::Problem p =
        random_problem({.batch = 1, .queries = 2, .keys = keys, .heads = 4, .key_heads = 2, .width = 32, .value_width = 32}, 5);
    expect_forward_on_every_target(p, kEveryDType, std::to_string(keys) + " keys");
    p.visibility = {.causal = true, .left = 40};
    expect_forward_on_every_target(p, {DType::f32, DType::bf16}, std::to_string(keys) + " keys in a window");
  }
}

// Values that no query sees may be anything.
TEST(attention_decode, a_key_that_is_masked_may_hold_no_number) {
  ref::Problem p = random_problem({.batch = 1, .queries = 1, .keys = 90, .heads = 2, .key_heads = 1, .width = 16, .value_width = 16}, 6);
  p.visibility.key_mask.assign(90, 1);
  p.visibility.key_mask[70] = 0;
  expect_forward_on_every_target(p, kEveryDType, "masked");
  for (const DType dtype : {DType::f32, DType::f64}) {
    Bridge sound(p, dtype);
    ASSERT_TRUE(sound.forward().ok());
    ref::Problem spoilt = p;
    for (std::size_t c = 0; c < 16; ++c) spoilt.v[70 * 16 + c] = NAN;
    Bridge bridge(spoilt, dtype);
    ASSERT_TRUE(bridge.forward().ok());
    EXPECT_EQ(bridge.output().out, sound.output().out) << name_of(dtype);
  }
}

/// Schemes that only add to scores, one at a time and two together: the softmax adds the first one that it can.
void expect_added(std::int64_t queries, std::int64_t keys) {
  const ref::Shape shape{.batch = 1, .queries = queries, .keys = keys, .heads = 2, .key_heads = 1, .width = 16, .value_width = 16};
  Numbers random(8);
  const ref::Scheme xl = xl_table(shape, queries + keys);
  const ref::Scheme t5 = random_t5(shape, random, true);
  const ref::Scheme alibi = ref::Alibi{random.values(shape.heads, 0.01, 0.1)};
  const std::vector<std::vector<ref::Scheme>> lists = {{alibi}, {t5}, {xl}, {xl, t5}, {alibi, xl}};
  for (std::size_t n = 0; n < lists.size(); ++n) {
    ref::Problem p = random_problem(shape, 9);
    p.schemes = lists[n];
    const std::string name = std::to_string(queries) + " x " + std::to_string(keys) + ", schemes " + std::to_string(n);
    expect_forward_on_every_target(p, {DType::f64, DType::f32}, name);
    p.visibility.causal = true;
    expect_forward_on_every_target(p, {DType::f64, DType::f32}, name + ", causal");
    p.softcap = 3;
    expect_forward_on_every_target(p, {DType::f32}, name + ", capped");
  }
}

TEST(attention_added, by_the_softmax_or_before_it_in_whole_tiles) { expect_added(96, 128); }
TEST(attention_added, by_the_softmax_or_before_it_in_a_tile_and_a_row) { expect_added(97, 200); }
TEST(attention_added, by_the_softmax_or_before_it_with_fewer_keys_than_queries) { expect_added(200, 64); }
TEST(attention_added, by_the_softmax_or_before_it_in_many_tiles) { expect_added(193, 330); }

}  // namespace
}  // namespace phasor::test
