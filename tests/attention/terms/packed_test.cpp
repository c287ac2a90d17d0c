// SPDX-License-Identifier: Apache-2.0
// Gradients of terms where many sequences are packed: sums are as long as a sequence reaches, sequences at positions far apart share them,
// and still every gradient is the reference's and no bit depends on the order of tasks.
#include <gtest/gtest.h>

#include <cmath>

#include "attention/support/every_target.hpp"

namespace phasor::test {
namespace {

/// Empty, of one token, of two, odd, as long as tiles and longer, and with fewer queries than keys.
constexpr std::int64_t kQueries[] = {0, 1, 2, 7, 0, 64, 3, 96, 1, 5, 0, 97, 11, 1, 30, 2};
constexpr std::int64_t kKeys[] = {0, 1, 2, 7, 3, 65, 3, 96, 130, 6, 0, 99, 11, 1, 33, 140};
constexpr std::int64_t kLongest = 140;
static_assert(std::size(kQueries) == std::size(kKeys));

ref::Problem packed_problem(std::uint64_t seed, std::int64_t key_heads = 2) {
  ref::Integers query_starts = {0};
  ref::Integers key_starts = {0};
  for (std::size_t n = 0; n < std::size(kQueries); ++n) {
    query_starts.push_back(query_starts.back() + kQueries[n]);
    key_starts.push_back(key_starts.back() + kKeys[n]);
  }
  ref::Problem p = random_problem({.batch = 1,
                                   .queries = query_starts.back(),
                                   .keys = key_starts.back(),
                                   .heads = 2,
                                   .key_heads = key_heads,
                                   .width = 5,
                                   .value_width = 3},
                                  seed);
  p.visibility.query_starts = query_starts;
  p.visibility.key_starts = key_starts;
  return p;
}

/// The sequences at positions in no order, `step` apart, each from another place on.
ref::Problem scattered_problem(std::uint64_t seed, std::int64_t step) {
  ref::Problem p = packed_problem(seed);
  for (std::size_t n = 0; n < std::size(kQueries); ++n) {
    const auto first = static_cast<std::int64_t>(n) * 11 * step;
    for (const std::int64_t at : shuffled(kQueries[n])) p.query_positions.push_back(first + at * step);
    for (const std::int64_t at : shuffled(kKeys[n])) p.key_positions.push_back(first + at * step + step / 3);
  }
  return p;
}

struct Clip {
  std::int64_t left;
  std::int64_t right;
};
/// Inside every sequence but the shortest; longer than some; longer than all.
constexpr Clip kClips[] = {{0, 0}, {3, 1}, {1, 40}, {70, 20}, {300, 160}};

ref::Shaw shaw(const ref::Shape& s, const Clip& clip, bool per_head) {
  Numbers random(static_cast<std::uint64_t>(clip.left * 3 + clip.right));
  const std::int64_t rows = (clip.left + 1 + clip.right) * (per_head ? s.heads : 1);
  return {.left = clip.left,
          .right = clip.right,
          .per_head = per_head,
          .keys = random.values(rows * s.width),
          .values = random.values(rows * s.value_width)};
}
ref::Deberta deberta(const ref::Shape& s, std::int64_t buckets, std::int64_t max_distance, ref::DebertaReading reading) {
  Numbers random(static_cast<std::uint64_t>(buckets + max_distance));
  const std::int64_t count = s.heads * 2 * (buckets > 0 ? buckets : max_distance) * s.width;
  return {.buckets = buckets,
          .max_distance = max_distance,
          .c2p = reading == ref::DebertaReading::hf_swapped ? ref::DebertaReading::hf : reading,
          .p2c = reading,
          .keys = random.values(count),
          .queries = random.values(count)};
}
ref::Xlnet xlnet(const ref::Shape& s, std::int64_t clamp) {
  Numbers random(12);
  ref::Xlnet made{.xl = xl_table(s, clamp), .clamp = clamp};
  made.segment_bias = random.values(s.heads * s.width);
  made.segment_table = random.values(2 * s.heads * s.width);
  for (std::int64_t n = 0; n < s.queries; ++n) made.query_segments.push_back(n % 3 == 0 ? 1 : 0);
  for (std::int64_t n = 0; n < s.keys; ++n) made.key_segments.push_back(n % 2);
  return made;
}
ref::Inkling inkling(const ref::Shape& s, std::int64_t extent) {
  Numbers random(13);
  return {.extent = extent,
          .feature_width = 3,
          .features = random.values(s.queries * s.heads * 3),
          .table = random.values(3 * extent),
          .alpha = 0.4,
          .floor = 2};
}
ref::Cope cope(const ref::Shape& s, std::int64_t rows, bool per_head) {
  Numbers random(14);
  return {.rows = rows, .per_head = per_head, .table = random.values((per_head ? s.heads : 1) * rows * s.width)};
}

/// Every family that keeps sums of a table, but for Shaw's. Distances are below `reach`.
std::vector<NamedScheme> schemes(const ref::Shape& s, std::int64_t reach = kLongest) {
  Numbers random(15);
  const std::int64_t width = 12;  // of a grid that holds the longest sequence
  return {{"T5", ref::T5{.buckets = 16, .max_distance = 60, .table = random.values(s.heads * 16)}},
          {"learned diagonal", ref::LearnedDiagonal{.left = 90, .right = 7, .table = random.values(s.heads * 98)}},
          {"Transformer-XL", xl_table(s, reach)},
          {"XLNet", xlnet(s, 17)},
          {"DeBERTa", deberta(s, 16, 60, ref::DebertaReading::hf)},
          {"DeBERTa, swapped", deberta(s, 12, 24, ref::DebertaReading::hf_swapped)},
          {"DeBERTa's first", deberta(s, 0, 45, ref::DebertaReading::hf)},
          {"Inkling", inkling(s, 50)},
          {"Swin", ref::Swin{.height = width, .width = width, .table = random.values(s.heads * 529)}},
          {"SAM", ref::Sam{.query_grid = {width, width},
                           .key_grid = {width, width},
                           .rows_h = random.values(23 * s.width),
                           .rows_w = random.values(23 * s.width)}}};
}

TEST(attention_packed, clips_shorter_and_longer_than_sequences) {
  for (const Clip& clip : kClips) {
    for (const bool per_head : {false, true}) {
      ref::Problem p = packed_problem(1, per_head ? 2 : 1);
      p.schemes = {shaw(p.shape, clip, per_head)};
      expect_as_reference(p, "clip " + std::to_string(clip.left) + ", " + std::to_string(clip.right) + (per_head ? ", per head" : ""));
    }
  }
}

TEST(attention_packed, every_family_under_every_mask) {
  ref::Problem full = packed_problem(2);
  ref::Problem causal = packed_problem(3, 1);
  causal.visibility.causal = true;
  ref::Problem window = packed_problem(4);
  window.visibility.left = 30;
  window.visibility.right = 4;
  ref::Problem prefix = packed_problem(5);
  prefix.visibility.causal = true;
  for (std::size_t n = 0; n < std::size(kQueries); ++n) prefix.visibility.prefix.push_back(static_cast<std::int64_t>(n) * 3);
  const MaskedProblem problems[] = {{"full", full}, {"causal", causal}, {"window", window}, {"prefix", prefix}};
  for (const MaskedProblem& masked : problems) {
    for (const NamedScheme& scheme : schemes(full.shape)) {
      ref::Problem p = masked.problem;
      p.schemes = {scheme.scheme};
      expect_as_reference(p, masked.name == "full" ? DType::f32 : DType::f64, scheme.name + ", " + masked.name);
    }
  }
}

TEST(attention_packed, cope_of_more_rows_than_a_sequence_has_keys) {
  for (const std::int64_t rows : {40, 500}) {
    ref::Problem p = packed_problem(6);
    p.visibility.causal = true;
    p.schemes = {cope(p.shape, rows, rows == 500)};
    expect_as_reference(p, DType::f64, std::to_string(rows) + " rows");
  }
}

/// Steps of 97: beyond short clips, within long ones, where tables of over 4096 columns go score by score.
TEST(attention_packed, positions_in_any_order_and_far_apart) {
  for (const std::int64_t step : {1, 97, 1 << 20}) {
    for (const Clip& clip : {Clip{3, 1}, Clip{90, 400}, Clip{5000, 3000}}) {
      ref::Problem p = scattered_problem(7, step);
      p.visibility.causal = clip.left == 90;
      p.schemes = {shaw(p.shape, clip, clip.left == 3)};
      expect_as_reference(p, "step " + std::to_string(step) + ", left " + std::to_string(clip.left));
    }
  }
}
TEST(attention_packed, every_family_at_positions_in_any_order) {
  for (const std::int64_t step : {1, 97}) {
    const ref::Problem scattered = scattered_problem(8, step);
    for (const NamedScheme& scheme : schemes(scattered.shape, kLongest * step)) {
      if (scheme.name == "Swin" || scheme.name == "SAM") continue;  // positions are those of the grid
      ref::Problem p = scattered;
      p.schemes = {scheme.scheme};
      expect_as_reference(p, step == 1 ? DType::f32 : DType::f64, scheme.name + ", step " + std::to_string(step));
    }
  }
}

/// Few tasks: keys are cut into parts, and the short sequences still share sums.
TEST(attention_packed, parts_of_keys_of_sequences_that_share_sums) {
  for (const std::int64_t step : {1, 97}) {
    ref::Problem p =
        random_problem({.batch = 1, .queries = 153, .keys = 204, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, 21);
    p.visibility.query_starts = {0, 1, 3, 153};
    p.visibility.key_starts = {0, 1, 4, 204};
    for (const std::int64_t at : shuffled(153)) p.query_positions.push_back(at * step);
    for (const std::int64_t at : shuffled(204)) p.key_positions.push_back(at * step + 1);
    p.schemes = {shaw(p.shape, {700, 300}, true), deberta(p.shape, 0, 500, ref::DebertaReading::hf), xl_table(p.shape, 205 * step)};
    expect_as_reference(p, DType::f64, "step " + std::to_string(step));
    expect_same_bits_by_any_runner(p, "step " + std::to_string(step));
  }
}

/// Batch rows at positions of their own, some of them far: they share sums where they may, and not where each has a table.
TEST(attention_packed, batch_rows_at_positions_far_apart) {
  ref::Problem p = random_problem({.batch = 40, .queries = 3, .keys = 5, .heads = 2, .key_heads = 1, .width = 5, .value_width = 3}, 9);
  for (std::int64_t n = 0; n < 40 * 3; ++n) p.query_positions.push_back(n * n * 37 % 4001);
  for (std::int64_t n = 0; n < 40 * 5; ++n) p.key_positions.push_back(n * n * 53 % 3989);
  p.schemes = {shaw(p.shape, {900, 2000}, true)};
  expect_as_reference(p, "one table");
  expect_same_bits_by_any_runner(p, "one table");
  Numbers random(10);
  ref::Xlnet turned{.xl = random_xl(p.shape, random), .clamp = 700, .direction = ref::Integers(40, 1)};
  for (std::size_t b = 0; b < 40; b += 3) turned.direction[b] = -1;
  p.schemes = {turned};
  expect_as_reference(p, "one table per batch row");
}

/// Beyond the clip on one side only, so far that a slot has one row.
TEST(attention_packed, every_distance_beyond_the_clip) {
  for (const std::int64_t offset : {-100000, 100000}) {
    ref::Problem p = packed_problem(11);
    for (std::int64_t i = 0; i < p.shape.queries; ++i) p.query_positions.push_back(i + offset);
    for (std::int64_t j = 0; j < p.shape.keys; ++j) p.key_positions.push_back(j);
    p.schemes = {shaw(p.shape, {20, 9}, true), deberta(p.shape, 0, 12, ref::DebertaReading::hf)};
    expect_as_reference(p, "offset " + std::to_string(offset));
  }
}

TEST(attention_packed, the_order_of_tasks_does_not_matter) {
  for (const NamedScheme& scheme : schemes(packed_problem(12).shape)) {
    ref::Problem p = packed_problem(12);
    p.schemes = {scheme.scheme};
    expect_same_bits_by_any_runner(p, scheme.name);
  }
  ref::Problem far = scattered_problem(13, 97);
  far.schemes = {shaw(far.shape, {5000, 3000}, true)};
  expect_same_bits_by_any_runner(far, "far apart");
  ref::Problem counted = packed_problem(14);
  counted.visibility.causal = true;
  counted.schemes = {cope(counted.shape, 500, true)};
  expect_same_bits_by_any_runner(counted, "CoPE");
}

TEST(attention_packed, on_every_target) {
  ref::Problem p = scattered_problem(15, 3);
  p.visibility.right = 200;
  p.schemes = {shaw(p.shape, {70, 100}, true), deberta(p.shape, 12, 24, ref::DebertaReading::hf), inkling(p.shape, 50)};
  expect_on_every_target(p, "three tables");
}

/// A query that is no number has NaN at every distance, even those that it does not see: no other sequence's rows get any of that.
TEST(attention_packed, a_query_that_is_no_number_stays_in_its_rows) {
  for (const bool scattered : {false, true}) {
    ref::Problem p = scattered ? scattered_problem(19, 3) : packed_problem(19);
    p.visibility.causal = true;
    p.schemes = {shaw(p.shape, {5000, 3000}, true), deberta(p.shape, 0, 400, ref::DebertaReading::hf)};
    ref::Problem broken = p;
    const auto first = static_cast<std::size_t>(p.visibility.query_starts[3] * p.shape.heads * p.shape.width);
    broken.q[first] = NAN;  // of the sequence of 7 tokens
    Bridge is(broken, DType::f64);
    Bridge wanted(p, DType::f64);
    Numbers random(20);
    const ref::Values out_gradient = random.values(p.shape.queries * p.shape.heads * p.shape.value_width);
    for (Bridge* bridge : {&is, &wanted}) {
      ASSERT_TRUE(bridge->forward().ok());
      ASSERT_TRUE(bridge->backward(out_gradient).ok());
    }
    const auto by_is = is.reference_gradients().schemes;
    const auto by_wanted = wanted.reference_gradients().schemes;
    const std::int64_t reach = 7 * (scattered ? 3 : 1);
    int same = 0;
    const auto expect_others_same = [&](const ref::Values& x, const ref::Values& y, std::int64_t rows, std::int64_t origin) {
      const auto width = static_cast<std::int64_t>(x.size()) / (p.shape.heads * rows);
      for (std::size_t n = 0; n < x.size(); ++n) {
        const std::int64_t row = static_cast<std::int64_t>(n) / width % rows;
        if (std::abs(row - origin) <= reach) continue;
        ASSERT_EQ(x[n], y[n]) << "row " << row;
        same += y[n] != 0 ? 1 : 0;
      }
    };
    expect_others_same(std::get<ref::Shaw>(by_is[0]).keys, std::get<ref::Shaw>(by_wanted[0]).keys, 8001, 5000);
    expect_others_same(std::get<ref::Shaw>(by_is[0]).values, std::get<ref::Shaw>(by_wanted[0]).values, 8001, 5000);
    expect_others_same(std::get<ref::Deberta>(by_is[1]).queries, std::get<ref::Deberta>(by_wanted[1]).queries, 800, 400);
    EXPECT_GT(same, 1000);
  }
}

// ---- A table on the key side by ClipRows, which the reference does not have: packed is as one call per sequence ----

struct KeyTable {
  Bridge bridge;
  ref::Values table;
  std::vector<double> gradient;

  KeyTable(const ref::Problem& p, const Clip& clip, OutsideRows outside) : bridge(p, DType::f64) {
    Numbers random(16);
    const Extents shape = {1, clip.left + 1 + clip.right, p.shape.heads, p.shape.width};
    table = random.values(shape[1] * shape[2] * shape[3]);
    gradient.assign(table.size(), 0);
    const Extents strides = contiguous_strides(shape);
    bridge.spec.terms = {TableTerm{
        .side = TableSide::key, .table = {table.data(), DType::f64, shape, strides}, .rows = ClipRows{clip.left, clip.right, outside}}};
    bridge.gradients.terms = {{.table = {gradient.data(), DType::f64, shape, strides}}};
  }
  void run(const ref::Values& out_gradient) {
    ASSERT_TRUE(bridge.forward().ok());
    const Status status = bridge.backward(out_gradient);
    ASSERT_TRUE(status.ok()) << status.message();
  }
};
template <class Values>
Values slice(const Values& all, std::int64_t first, std::int64_t count, std::int64_t row) {
  return all.empty() ? all : Values(all.begin() + first * row, all.begin() + (first + count) * row);
}

TEST(attention_packed, a_key_table_is_as_one_call_per_sequence) {
  for (const OutsideRows outside : {OutsideRows::clamp, OutsideRows::zero}) {
    for (const Clip& clip : kClips) {
      for (const std::int64_t step : {0, 1, 97}) {
        const ref::Problem p = step == 0 ? packed_problem(17) : scattered_problem(17, step);
        const ref::Shape& s = p.shape;
        Numbers random(18);
        const ref::Values out_gradient = random.values(s.queries * s.heads * s.value_width);
        KeyTable packed(p, clip, outside);
        packed.run(out_gradient);
        std::vector<double> sum(packed.gradient.size());
        for (std::size_t n = 0; n < std::size(kQueries); ++n) {
          const std::int64_t query = p.visibility.query_starts[n];
          const std::int64_t key = p.visibility.key_starts[n];
          ref::Problem one = random_problem(s, 0);
          one.shape.queries = kQueries[n];
          one.shape.keys = kKeys[n];
          one.q = slice(p.q, query, kQueries[n], s.heads * s.width);
          one.k = slice(p.k, key, kKeys[n], s.key_heads * s.width);
          one.v = slice(p.v, key, kKeys[n], s.key_heads * s.value_width);
          one.query_positions = slice(p.query_positions, query, kQueries[n], 1);
          one.key_positions = slice(p.key_positions, key, kKeys[n], 1);
          KeyTable alone(one, clip, outside);
          alone.run(slice(out_gradient, query, kQueries[n], s.heads * s.value_width));
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += alone.gradient[i];
        }
        EXPECT_LE(apart(packed.gradient, sum), 1e-12) << clip.left << ", " << clip.right << ", step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
