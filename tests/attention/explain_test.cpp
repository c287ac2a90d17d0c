// SPDX-License-Identifier: Apache-2.0
// What explain_attention says, against tiles counted one score at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "attention/support/bridge.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {
namespace {

struct Tiles {
  std::int64_t band = 0;
  std::int64_t far = 0;
  std::int64_t unseen = 0;
  std::int64_t scores = 0;  // of tiles that are seen
};

/// Of every head and batch row. far: whether all distances of a tile count as one.
Tiles count(const ref::Problem& p, const AttentionReport& report, const std::function<bool(std::int64_t least, std::int64_t most)>& far) {
  Tiles tiles;
  for (std::int64_t b = 0; b < p.shape.batch; ++b) {
    for (std::int64_t i = 0; i < p.shape.queries; i += report.query_tile) {
      for (std::int64_t j = 0; j < p.shape.keys; j += report.key_tile) {
        const std::int64_t end_i = std::min(p.shape.queries, i + report.query_tile);
        const std::int64_t end_j = std::min(p.shape.keys, j + report.key_tile);
        bool seen = false;
        std::int64_t least = INT64_MAX;
        std::int64_t most = INT64_MIN;
        for (ref::Cell cell{.b = b, .i = i}; cell.i < end_i; ++cell.i) {
          for (cell.j = j; cell.j < end_j; ++cell.j) {
            seen = seen || ref::visible(p, cell);
            least = std::min(least, ref::distance(p, cell));
            most = std::max(most, ref::distance(p, cell));
          }
        }
        if (seen) tiles.scores += (end_i - i) * (end_j - j) * p.shape.heads;
        (!seen ? tiles.unseen : far(least, most) ? tiles.far : tiles.band) += p.shape.heads;
      }
    }
  }
  return tiles;
}

AttentionReport explained(const ref::Problem& p) {
  const Bridge bridge(p, DType::f32);
  return expect_ok(explain_attention(bridge.inputs, bridge.spec));
}

void expect_tiles(const AttentionReport& report, const Tiles& wanted) {
  EXPECT_EQ(report.band_tiles, wanted.band);
  EXPECT_EQ(report.far_tiles, wanted.far);
  EXPECT_EQ(report.unseen_tiles, wanted.unseen);
}

ref::Problem problem() {
  return random_problem({.batch = 2, .queries = 500, .keys = 620, .heads = 4, .key_heads = 2, .width = 8, .value_width = 6}, 1);
}

TEST(explain_attention, counts_tiles_that_no_query_sees) {
  const auto far = [](std::int64_t, std::int64_t) { return true; };  // no term: no work a score
  for (const bool causal : {false, true}) {
    for (const bool window : {false, true}) {
      ref::Problem p = problem();
      p.visibility.causal = causal;
      if (window) p.visibility.left = 150;
      const AttentionReport report = explained(p);
      const Tiles wanted = count(p, report, far);
      expect_tiles(report, wanted);
      EXPECT_EQ(wanted.unseen > 0, causal || window);
      EXPECT_EQ(report.plain_operations, static_cast<double>(2 * wanted.scores * (8 + 6)));
      EXPECT_EQ(report.operations, report.plain_operations);
    }
  }
}

TEST(explain_attention, a_tile_beyond_the_clip_is_far) {
  for (const std::int64_t left : {3, 100}) {
    ref::Problem p = problem();
    const std::int64_t right = 40;
    Numbers random(2);
    p.schemes = {ref::Shaw{.left = left, .right = right, .keys = random.values((left + 1 + right) * 8)}};
    const AttentionReport report = explained(p);
    const Tiles wanted = count(p, report, [&](std::int64_t least, std::int64_t most) { return least >= left || most <= -right; });
    expect_tiles(report, wanted);
    EXPECT_GT(wanted.far, 0);
    EXPECT_GT(wanted.band, 0);
    EXPECT_GT(report.operations, report.plain_operations);
    EXPECT_LT(report.operations, 2 * report.plain_operations);
  }
}

TEST(explain_attention, a_map_computes_tiles_at_its_border_twice) {
  ref::Problem p = problem();
  p.visibility.causal = true;
  p.schemes = {ref::Rope{}};
  const double once = explained(p).operations;
  p.schemes = {ref::MappedRope{.window = 100}};
  const AttentionReport report = explained(p);
  EXPECT_EQ(report.plain_operations, once);
  EXPECT_GT(report.operations, once);
  EXPECT_LT(report.operations, 1.6 * once);
}

TEST(explain_attention, says_bytes_and_the_workspace_that_the_call_asks_for) {
  const ref::Problem p = problem();
  Bridge bridge(p, DType::bf16);
  const AttentionReport report = expect_ok(explain_attention(bridge.inputs, bridge.spec));
  EXPECT_EQ(report.workspace, expect_ok(attention_workspace(bridge.inputs, bridge.spec)));
  const double q = 2 * 500 * 4;
  const double k = 2 * 620 * 2;
  EXPECT_EQ(report.bytes, 2 * (q * 8 + k * 8 + k * 6 + q * 6) + 4 * q);
  EXPECT_NE(report.words.find("2 x 500 queries of 4 heads, 620 keys of 2 heads, width 8 and 6, computed in float32\n"), std::string::npos)
      << report.words;
  EXPECT_NE(report.words.find(" operations, 1.000 times those without terms\n"), std::string::npos) << report.words;
}

TEST(explain_attention, a_call_that_fails_is_not_explained) {
  Bridge bridge(problem(), DType::f32);
  bridge.spec.softcap = -1;
  EXPECT_EQ(explain_attention(bridge.inputs, bridge.spec).status().message(),
            "explain_attention: softcap is -1, wanted 0 (none) or a finite number above");
}

}  // namespace
}  // namespace phasor::test
