// SPDX-License-Identifier: Apache-2.0
// What a forward with tables that queries and keys meet decides on the host: which ones are taken, in how many parts strips are made, where
// things lie.
#include <gtest/gtest.h>

#include <vector>

#include "cuda/attention/hopper/strip/work.hpp"
#include "cuda/attention/hopper/work.hpp"
#include "cuda/host/hopper/no_memory.hpp"

namespace phasor::test {
namespace {

using namespace cuda::hopper;

Forward both_tables(std::int64_t tokens, std::int64_t width = 128, std::int64_t left = 256) {
  Forward f;
  f.q = f.out = on_gpu({2, tokens, 6, width});
  f.k = f.v = on_gpu({2, tokens, 3, width});
  f.scale = 0.1;
  for (ByDistance* const side : {&f.of_queries, &f.of_keys}) {
    *side = {on_gpu({1, 2 * left + 1, 6, width}), {.left = left, .right = left}, 0.2, left, left};
  }
  return f;
}

TEST(HopperStrip, takes_tables_that_queries_and_keys_meet) {
  EXPECT_TRUE(takes(both_tables(177), 9));
  EXPECT_TRUE(takes(both_tables(177, 40), 9));
  EXPECT_FALSE(takes(both_tables(177), 8));
  EXPECT_FALSE(takes(both_tables(177, 136), 9));
  const auto refused = [](const auto& change) {
    bool both = true, any = false;
    for (ByDistance Forward::* const side : {&Forward::of_queries, &Forward::of_keys}) {
      Forward f = both_tables(177);
      change(f, f.*side);
      both = both && !takes_strips(f), any = any || !takes_strips(f);
    }
    EXPECT_EQ(both, any);  // whichever side it is
    return both;
  };
  EXPECT_FALSE(refused([](Forward&, ByDistance& side) { side = {}; }));
  EXPECT_FALSE(refused([](Forward&, ByDistance& side) { side.table = on_gpu({1, 513, 1, 128}); }));
  EXPECT_FALSE(refused([](Forward&, ByDistance& side) { side.far_left = 3, side.far_right = 0; }));
  EXPECT_FALSE(refused([](Forward&, ByDistance& side) { side.table.strides[0] = 1; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.dtype = DType::f32; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.dtype = DType::f16; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.device.index = 1; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.far_left = -1; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.far_right = -1; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.data = some_memory + 8; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.strides[1] += 4; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.strides[2] += 4; }));
  EXPECT_FALSE(refused([](Forward&, ByDistance& side) { side.table.shape[2] = 1, side.table.strides[2] += 4; }));  // never added
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.strides[3] = 2; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.shape[0] = 2; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.shape[1] = 0; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.shape[2] = 3; }));
  EXPECT_TRUE(refused([](Forward&, ByDistance& side) { side.table.shape[3] = 64; }));
  // What else a call may have.
  const float value = 0;
  EXPECT_TRUE(refused([](Forward& f, ByDistance&) { f.table = on_gpu({1, 9, 6, 128}); }));
  EXPECT_TRUE(refused([](Forward& f, ByDistance&) { f.content_shift = on_gpu({1, 1, 6, 128}); }));
  EXPECT_TRUE(refused([&](Forward& f, ByDistance&) { f.diagonal = &value; }));
  EXPECT_TRUE(refused([](Forward& f, ByDistance&) { f.softcap = 30; }));
  EXPECT_TRUE(refused([](Forward& f, ByDistance&) { f.q = f.out = on_gpu({65536, 177, 6, 128}); }));
}

/// Its kernels know nothing of rows that are added to values.
TEST(HopperStrip, leaves_tables_of_values_to_others) {
  Forward f = both_tables(177);
  f.value_table = on_gpu({1, 9, 6, 128}), f.table_left = f.table_right = 4;
  EXPECT_FALSE(takes(f, 9));
  f.of_queries = f.of_keys = {};
  EXPECT_TRUE(takes(f, 9));
}

/// Every part has some blocks of queries for each multiprocessor, and not more strips than may be.
TEST(HopperStrip, leaves_wide_bands_of_long_calls_to_others) {
  EXPECT_TRUE(takes_strips(both_tables(8192)));
  EXPECT_FALSE(takes_strips(both_tables(8192, 128, 8000)));
  EXPECT_TRUE(takes_strips(both_tables(4096, 128, 8000)));  // few blocks of queries
  Forward seen = both_tables(8192, 128, 8000);
  seen.left = seen.right = 256;  // what is seen is narrow
  EXPECT_TRUE(takes_strips(seen));
}

TEST(HopperStrip, parts_have_all_blocks_once) {
  const Forward f = both_tables(2000, 64);
  const Tiles t = tiles_of(f);
  const Strips whole = strips_of(f, t);
  EXPECT_EQ(whole.first, 0);
  EXPECT_EQ(whole.end, t.work());
  EXPECT_EQ(strip_parts(t, whole), 1);
  const std::int64_t of_block = std::int64_t{t.block_queries} * whole.near * t.tile_keys * 2;
  for (const int blocks : {1, 3, 5, t.work() - 1, t.work()}) {
    const Strips first = strips_of(f, t, (blocks + 1) * of_block - 1);
    EXPECT_EQ(first.end, blocks);
    EXPECT_EQ(strip_layout_of(f, t, first).bytes - strip_layout_of(f, t, first).values, blocks * of_block);
    int next = 0;
    for (int n = 0; n < strip_parts(t, first); ++n) {
      const Strips part = strip_part(t, first, n);
      EXPECT_EQ(part.near, whole.near);
      EXPECT_EQ(part.first, next);
      EXPECT_GT(part.end, part.first);
      EXPECT_LE(part.end - part.first, blocks);
      next = part.end;
    }
    EXPECT_EQ(next, t.work());
  }
  const Forward large = both_tables(65536, 128, 1500);  // 6144 blocks of queries, 19 tiles of 176 keys each
  EXPECT_TRUE(takes_strips(large));
  EXPECT_EQ(strip_parts(tiles_of(large), strips_of(large, tiles_of(large))), 10);
}

/// Each thing has as much of the workspace as is written there.
TEST(HopperStrip, room_is_what_is_written) {
  Forward f = both_tables(700);
  f.of_keys.table = on_gpu({1, 513, 1, 128});  // heads share it
  const Tiles t = tiles_of(f);
  const Strips s = strips_of(f, t);
  EXPECT_EQ(s.clips.rows(), 513);
  EXPECT_EQ(s.rows_length, 768);  // whole blocks of 128 queries
  EXPECT_EQ(s.columns_length, 704);
  EXPECT_EQ(s.near, 4);  // all
  const StripLayout layout = strip_layout_of(f, t, s);
  EXPECT_EQ(layout.tables[0], 0);
  EXPECT_EQ(layout.tables[1] - layout.tables[0], 6 * 513 * 128 * 2);
  EXPECT_EQ(layout.rows - layout.tables[1], 513 * 128 * 2);
  EXPECT_EQ(layout.columns - layout.rows, 12 * 2 * 768 * 4);
  EXPECT_EQ(layout.values - layout.columns, 12 * 2 * 704 * 4);
  EXPECT_EQ(layout.bytes - layout.values, 12 * 6 * 128 * 4 * 176 * 2);
  EXPECT_GE(layout_of(f, t).bytes - layout_of(f, t).strips, layout.bytes);
  for (const std::int64_t place : {layout.tables[1], layout.rows, layout.columns, layout.values}) EXPECT_EQ(place % 16, 0);
  Forward keys = f;
  keys.of_queries = {};
  const StripLayout alone = strip_layout_of(keys, t, s);
  EXPECT_EQ(alone.tables[1], 0);
  EXPECT_EQ(alone.columns, alone.rows);
  EXPECT_EQ(alone.values - alone.columns, layout.values - layout.columns);
}

}  // namespace
}  // namespace phasor::test
