// SPDX-License-Identifier: Apache-2.0
// What a launch of a backward on Hopper decides, against definitions written out: who visits which tile, in which order, and where a bias
// lies.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cuda/attention/hopper/backward/band/lines.hpp"
#include "cuda/attention/hopper/backward/work.hpp"

namespace phasor::test {
namespace {

using namespace cuda::hopper;

constexpr Device kOnGpu = {DeviceKind::cuda, 0};
alignas(16) std::byte some_memory[64];

TensorView tensor(const Extents& shape) { return {some_memory, DType::bf16, shape, contiguous_strides(shape), kOnGpu}; }

Backward plain(std::int64_t queries, std::int64_t keys, std::int64_t width = 128) {
  Backward b;
  b.forward.q = b.q = tensor({2, queries, 6, width});
  b.forward.k = b.forward.v = b.k = b.v = tensor({2, keys, 3, width});
  b.out = b.out_gradient = tensor({2, queries, 6, width});
  b.lse = reinterpret_cast<const float*>(some_memory);
  b.forward.scale = 0.1;
  return b;
}

Backward random_backward(std::mt19937& random) {
  const auto any = [&](std::initializer_list<std::int64_t> list) { return list.begin()[random() % list.size()]; };
  Backward b = plain(any({1, 63, 64, 129, 300, 700}), any({1, 127, 128, 129, 300, 700}), any({40, 64, 96, 128}));
  b.forward.causal = random() % 2 == 0;
  if (random() % 2 == 0) b.forward.left = any({0, 1, 63, 64, 200});
  if (random() % 3 == 0) b.forward.right = any({0, 5, 130});
  return b;
}
bool sees(const KeyTiles& t, int query, int key) {
  const int position = query + t.offset();
  return query < t.queries && key < t.keys && key >= position - t.left && key <= position + t.right;
}

TEST(HopperBackward, takes_two_widths) {
  EXPECT_TRUE(takes(plain(177, 129), 9));
  EXPECT_TRUE(takes(plain(1, 1, 8), 9));
  EXPECT_FALSE(takes(plain(177, 129), 8));
  EXPECT_FALSE(takes(plain(177, 129, 136), 9));
  const auto refused = [](auto&& change) {
    Backward b = plain(5, 7);
    change(b);
    return !takes(b, 9);
  };
  EXPECT_TRUE(refused([](Backward& b) { b.forward.softcap = 30; }));
  EXPECT_TRUE(refused([](Backward& b) { b.lse = nullptr; }));
  EXPECT_TRUE(refused([](Backward& b) { b.out_gradient.dtype = DType::f32; }));
  EXPECT_TRUE(refused([](Backward& b) { b.out_gradient.strides[1] += 1; }));
  EXPECT_TRUE(refused([](Backward& b) { b.k.dtype = DType::f32; }));
  EXPECT_TRUE(refused([](Backward& b) { b.q.data = some_memory + 2; }));
  EXPECT_TRUE(refused([](Backward& b) { b.diagonal = reinterpret_cast<float*>(some_memory); }));
  EXPECT_FALSE(refused([](Backward& b) { b.q = {}, b.v = {}; }));
}

TEST(HopperBackward, every_block_is_claimed_once_and_after_those_before_it) {
  std::mt19937 random(1);
  for (int n = 0; n < 100; ++n) {
    const KeyTiles t = key_tiles_of(random_backward(random));
    std::vector<int> next(static_cast<std::size_t>(t.key_heads() * t.batch), 0);
    for (int number = 0; number < t.work(); ++number) {
      const KeyWork at = key_work_at(t, number);
      ASSERT_TRUE(at.key_head < t.key_heads() && at.batch < t.batch);
      ASSERT_EQ(at.block, next[static_cast<std::size_t>(at.batch * t.key_heads() + at.key_head)]++);
    }
    for (const int blocks : next) ASSERT_EQ(blocks, t.blocks());
  }
}

TEST(HopperBackward, tiles_and_blocks_agree_on_who_visits_whom_and_miss_nobody) {
  std::mt19937 random(2);
  for (int n = 0; n < 60; ++n) {
    const KeyTiles t = key_tiles_of(random_backward(random));
    for (int block = 0; block < t.blocks(); ++block) {
      const Span tiles = query_tiles(t, block);
      for (int tile = 0; tile < t.tiles(); ++tile) {
        const bool visits = tile >= tiles.first && tile < tiles.end;
        const Span blocks = key_blocks(t, tile);
        ASSERT_EQ(visits, block >= blocks.first && block < blocks.end);
        for (int group = 0; group < 2; ++group) {
          bool some = false, all = true;
          for (int key = block * kBlockKeys + 64 * group; key < block * kBlockKeys + 64 * (group + 1); ++key) {
            for (int query = tile * t.tile_queries; query < (tile + 1) * t.tile_queries; ++query) {
              some = some || sees(t, query, key);
              all = all && (query >= t.queries || sees(t, query, key));
            }
          }
          ASSERT_TRUE(visits || !some);
          ASSERT_TRUE(all || is_partial(t, block * kBlockKeys + 64 * group, tile * t.tile_queries));
        }
      }
    }
  }
}

TEST(HopperBackward, a_walk_has_every_tile_of_every_head_from_the_last_on) {
  std::mt19937 random(3);
  for (int n = 0; n < 60; ++n) {
    const KeyTiles t = key_tiles_of(random_backward(random));
    for (int number = 0; number < t.work(); ++number) {
      const KeyWork at = key_work_at(t, number);
      const Span tiles = query_tiles(t, at.block);
      Walk walk(t, at);
      ASSERT_EQ(walk.steps(), t.heads_of_key * (tiles.end - tiles.first));
      for (int head = at.key_head * t.heads_of_key; head < (at.key_head + 1) * t.heads_of_key; ++head) {
        for (int tile = tiles.end - 1; tile >= tiles.first; --tile) {
          ASSERT_TRUE(walk.is_there() && walk.head == head && walk.tile == tile);
          ASSERT_EQ(walk.is_last_of_head(), tile == tiles.first);
          ASSERT_EQ(walk.is_last(), tile == tiles.first && head + 1 == (at.key_head + 1) * t.heads_of_key);
          walk.next();
        }
      }
      ASSERT_FALSE(walk.is_there());
    }
  }
}

/// The window of every tile that is not far lies within what is kept, aligned as copies want it; of a far tile all distances are far.
TEST(HopperBackward, windows_hold_what_tiles_read) {
  std::mt19937 random(4);
  const float value = 0;
  for (int n = 0; n < 200; ++n) {
    Backward b = random_backward(random);
    b.forward.diagonal = &value;
    b.forward.first_distance = -static_cast<std::int64_t>(random() % 300);
    b.forward.distances = static_cast<std::int64_t>(random() % 600) + 1 - b.forward.first_distance;
    if (random() % 2 == 0) b.forward.far_left = static_cast<std::int64_t>(random() % 100);
    const KeyTiles t = key_tiles_of(b);
    const Windows w = windows_of(b, t);
    ASSERT_EQ(w.first % 4, 0);
    ASSERT_EQ(w.length % 4, 0);
    for (int block = 0; block < t.blocks(); ++block) {
      const Span tiles = query_tiles(t, block);
      for (int tile = tiles.first; tile < tiles.end; ++tile) {
        const int key = block * kBlockKeys, row = tile * t.tile_queries;
        const int side = far_side(t, w, key, row);
        const int least = row + t.offset() - (key + kBlockKeys - 1), most = row + t.tile_queries - 1 + t.offset() - key;
        ASSERT_TRUE(side >= 0 || least >= w.far_left);
        ASSERT_TRUE(side <= 0 || most <= -w.far_right);
        if (side != 0) continue;
        ASSERT_GE(row - key - kBlockKeys, w.first);
        ASSERT_LE(row - key + t.tile_queries, w.first + w.length);
      }
    }
  }
}

Backward with_table(Backward b, std::int64_t left, std::int64_t right) {
  b.forward.table = tensor({1, left + right + 1, 6, b.forward.q.shape[3]});
  b.forward.table_left = left;
  b.forward.table_right = right;
  b.forward.table_scale = b.forward.scale;
  return b;
}

TEST(HopperBackward, takes_tables_that_the_forward_keeps_all_products_with) {
  EXPECT_TRUE(takes(with_table(plain(177, 129), 64, 64), 9));
  EXPECT_TRUE(takes(with_table(plain(177, 129, 40), 0, 0), 9));
  EXPECT_FALSE(takes(with_table(plain(177, 129), 65, 64), 9));
  EXPECT_FALSE(takes(with_table(plain(177, 129), 64, 64), 8));
  const auto refused = [](auto&& change) {
    Backward b = with_table(plain(5, 7), 3, 4);
    change(b);
    return !takes(b, 9);
  };
  EXPECT_TRUE(refused([](Backward& b) { b.forward.zero_outside = true; }));
  EXPECT_TRUE(refused([](Backward& b) { b.forward.content_shift = tensor({1, 1, 6, 128}); }));
  EXPECT_TRUE(refused([](Backward& b) { b.forward.table_left = 4; }));
  EXPECT_FALSE(refused([](Backward& b) { b.table = reinterpret_cast<float*>(some_memory); }));
  EXPECT_TRUE(refused([](Backward& b) { b.table = reinterpret_cast<float*>(some_memory), b.forward.table = {}; }));
}

/// Batch rows are an axis of a grid, and each has a part of a table's gradient.
TEST(HopperBackward, leaves_many_batch_rows_to_other_kernels) {
  const auto of_rows = [](std::int64_t batch) {
    Backward b = with_table(plain(5, 7), 3, 3);
    b.forward.q = b.out = b.out_gradient = b.q = tensor({batch, 5, 6, 128});
    b.forward.k = b.forward.v = b.k = b.v = tensor({batch, 7, 3, 128});
    return b;
  };
  EXPECT_TRUE(takes(of_rows(65535), 9));
  EXPECT_FALSE(takes(of_rows(65536), 9));
  Backward learned = of_rows(20000);
  EXPECT_TRUE(takes(learned, 9));
  learned.table = reinterpret_cast<float*>(some_memory);
  EXPECT_FALSE(takes(learned, 9));  // 20000 x 6 parts of 11 lines, 5.6 KB each
}

/// Blocks that visit a tile are near it or far from it, near ones follow each other, and there is room for them; of a far one all pairs
/// that are seen read one end's row.
TEST(HopperBackward, near_blocks_are_those_that_are_not_far) {
  std::mt19937 random(5);
  const auto any = [&](std::initializer_list<std::int64_t> list) { return list.begin()[random() % list.size()]; };
  for (int n = 0; n < 300; ++n) {
    const Backward b = with_table(random_backward(random), any({0, 1, 16, 63, 64}), any({0, 1, 7, 63, 64}));
    const KeyTiles t = key_tiles_of(b);
    const Clips c = clips_of(b, t);
    const Windows w = windows_of(b, t);
    ASSERT_EQ(c.left, b.forward.table_left);
    ASSERT_LE(c.right, b.forward.table_right);
    ASSERT_TRUE(c.right == b.forward.table_right || c.right >= t.right);
    for (int tile = 0; tile < t.tiles(); ++tile) {
      const Span near = near_blocks(t, c, tile), all = key_blocks(t, tile);
      ASSERT_LE(near.end - near.first, most_near_blocks(t, c));
      const int row = tile * t.tile_queries;
      for (int block = all.first; block < all.end; ++block) {
        const int key = block * kBlockKeys, side = far_side(t, w, key, row);
        ASSERT_EQ(side == 0, block >= near.first && block < near.end);
        const int left_most = key - (row + t.tile_queries - 1 + t.offset()), right_most = key + kBlockKeys - 1 - (row + t.offset());
        ASSERT_TRUE(side >= 0 || right_most <= -c.left);
        ASSERT_TRUE(side <= 0 || left_most >= c.right);
      }
      ASSERT_TRUE(near.first >= near.end || (near.first >= all.first && near.end <= all.end));
    }
  }
}

/// Whatever the clips, though they be longer than the call.
TEST(HopperBackward, near_blocks_of_wide_clips_have_room) {
  std::mt19937 random(6);
  for (int n = 0; n < 1000; ++n) {
    Backward b =
        plain(1 + static_cast<std::int64_t>(random() % 1500), 1 + static_cast<std::int64_t>(random() % 1500), n % 2 == 0 ? 64 : 128);
    b.forward.causal = n % 3 == 0;
    const KeyTiles t = key_tiles_of(b);
    const Clips c = {static_cast<int>(random() % 800), static_cast<int>(random() % 800), false, 1};
    for (int tile = 0; tile < t.tiles(); ++tile) {
      const Span near = near_blocks(t, c, tile);
      ASSERT_LE(near.end - near.first, most_near_blocks(t, c)) << c.left << ' ' << c.right << ' ' << t.queries << ' ' << t.keys;
    }
  }
}

Backward with_tables(Backward b, std::int64_t rows, std::int64_t left) {
  for (DistanceTable& table : b.tables) {
    table = {tensor({1, rows, b.forward.q.shape[2], b.forward.q.shape[3]}), {.left = left, .right = left}, b.forward.scale, left, left};
  }
  return b;
}
TEST(HopperBackward, takes_tables_by_distance) {
  const Backward both = with_tables(plain(177, 129), 513, 256);
  EXPECT_TRUE(takes(both, 9));
  EXPECT_FALSE(takes(both, 8));
  const auto refused = [&](const auto& change) {
    Backward b = both;
    change(b);
    return !takes(b, 9);
  };
  EXPECT_FALSE(refused([](Backward& b) { b.tables[0] = {}; }));
  EXPECT_FALSE(refused([](Backward& b) { b.tables[1] = {}; }));
  EXPECT_FALSE(refused([](Backward& b) { b.tables[1].gradient = reinterpret_cast<float*>(some_memory); }));
  EXPECT_TRUE(refused([](Backward& b) { b.tables[1].rows.dtype = DType::f32; }));
  EXPECT_TRUE(refused([](Backward& b) { b.tables[1].rows.shape[3] = 64; }));
  EXPECT_TRUE(refused([](Backward& b) { b.tables[0].rows.shape[2] = 2; }));
  EXPECT_TRUE(refused([](Backward& b) { b.tables[0].map.zero_outside = true; }));
  EXPECT_TRUE(refused([](Backward& b) { b = with_table(b, 3, 3); }));
}
/// Each thing has as much of the workspace as is written there; distances that nobody has take nothing.
TEST(HopperBackward, room_for_tables_by_distance) {
  Backward b = with_tables(plain(400, 300, 64), 513, 256);
  b.tables[0].rows = tensor({1, 513, 1, 64});  // heads share it
  b.tables[0].left = 40, b.tables[0].right = 9001;
  b.tables[1].gradient = reinterpret_cast<float*>(some_memory);
  const KeyTiles t = key_tiles_of(b);
  const BackwardLayout at = layout_of(b, t, windows_of(b, t));
  const Clips near = clips_of(b, t);
  EXPECT_EQ(near.left, 256);
  EXPECT_EQ(near.right, 400);
  const std::int64_t heads = 12, rows = 512, keys = 384;  // in whole tiles of 128 queries, in whole blocks
  EXPECT_EQ(at.delta - at.lse, 3 * heads * rows * 4);
  EXPECT_EQ(at.strips - at.dq, heads * 4 * (64 * 128 + 2 * 128) * 4);
  EXPECT_EQ(most_near_blocks(t, near), 3);  // all
  EXPECT_EQ(at.parts - at.strips, heads * 4 * 3 * 128 * 128 * 2);
  EXPECT_EQ(at.key_ends, at.parts);
  EXPECT_EQ(at.key_sums - at.key_ends, heads * 2 * keys * 4);
  EXPECT_EQ(at.dk - at.key_sums, heads * 2 * keys * 4);
  EXPECT_EQ(at.band[0].lines - at.dk, 6 * keys * 64 * 4);
  // Lines of queries begin at key - query = -100 - 40, those of keys at query - key = 100 - 256, and go on for as many distances as differ.
  const std::int64_t chunks[2] = {chunk_of(-140 + 440) - chunk_of(-140) + 1, chunk_of(-156 + 512) - chunk_of(-156) + 1};
  const std::int64_t lines[2] = {32 * ((chunks[0] + 1) / 2) + 2, 32 * ((chunks[1] + 1) / 2) + 2};
  const std::int64_t table_heads[2] = {1, 6}, ends[2] = {at.band[1].lines, at.bytes}, features[2] = {rows, keys};
  for (int side = 0; side < 2; ++side) {
    const BandLayout& of = at.band[side];
    const auto rounded = [](std::int64_t bytes) { return (bytes + 15) / 16 * 16; };
    EXPECT_EQ(of.line_rows - of.lines, table_heads[side] * (chunks[side] + 2) * 16 * 64 * 2) << side;
    EXPECT_EQ(of.beyond - of.line_rows, rounded(lines[side] * 4)) << side;
    EXPECT_EQ(of.parts - of.beyond, heads * 2 * features[side] * 4) << side;
    const LineSpan span = line_span(t, clips_of(b, t, side), side);
    EXPECT_EQ(ends[side] - of.parts, side == 0 ? 0 : rounded(heads * band_parts_of(t, span, side) * lines[side] * 64 * 4)) << side;
  }
  Backward without = b;
  without.tables[0] = without.tables[1] = {};
  EXPECT_LT(layout_of(without, t, windows_of(without, t)).bytes, at.strips);
  // DeBERTa at 4096 tokens: 640 MiB of strips for 128 heads.
  const KeyTiles long_ones = key_tiles_of(plain(4096, 4096));
  EXPECT_EQ(most_near_blocks(long_ones, {256, 256, false, 1}), 5);
}

/// What the workspace has for a table does not overlap, and only calls with one pay for it.
TEST(HopperBackward, room_for_a_table) {
  const Backward without = plain(700, 300);
  Backward with = with_table(without, 64, 64);
  const KeyTiles t = key_tiles_of(with);
  const auto layout = [&](const Backward& b) { return layout_of(b, t, windows_of(b, t)); };
  const std::int64_t heads = 12;
  EXPECT_EQ(layout(without).strips, layout(without).bytes);
  EXPECT_EQ(layout(with).delta - layout(with).lse, 3 * heads * t.rows() * 4);
  EXPECT_EQ(layout(with).strips - layout(with).dq, heads * t.tiles() * (64 * 128 + 2 * 64) * 4);
  EXPECT_EQ(layout(with).parts - layout(with).strips, heads * t.tiles() * 3 * 128 * 64 * 2);
  EXPECT_EQ(layout(with).bytes, layout(with).parts);
  with.table = reinterpret_cast<float*>(some_memory);
  EXPECT_EQ(parts_of(t), 11);  // as many as there are tiles
  EXPECT_EQ(layout(with).bytes - layout(with).parts, heads * 11 * 133 * 128 * 4);
  const Clips widest = clips_of(with, t);
  EXPECT_EQ(most_near_blocks(key_tiles_of(plain(4096, 4096)), widest), 2);  // what blocks of keys and tiles are at when they begin together
  EXPECT_EQ(most_near_blocks(key_tiles_of(plain(4096, 4096, 64)), widest), 3);
  EXPECT_EQ(most_near_blocks(key_tiles_of(plain(100, 100, 64)), widest), 1);  // there is one
  KeyTiles many = key_tiles_of(plain(4096, 4096));
  many.heads = 32, many.batch = 4;
  EXPECT_EQ(parts_of(many), 4);
}

/// Blocks that share a slot wait for each other: few heads have enough of them for a whole device, unless windows are long.
TEST(HopperBackward, few_heads_have_many_slots) {
  const auto slots = [](std::int64_t batch, std::int64_t key_heads, std::int64_t tokens, std::int64_t distances) {
    Backward b = plain(1, 1);
    b.forward.q = b.out = b.out_gradient = b.q = tensor({batch, tokens, 4 * key_heads, 64});
    b.forward.k = b.forward.v = b.k = b.v = tensor({batch, tokens, key_heads, 64});
    b.forward.diagonal = b.diagonal = reinterpret_cast<float*>(some_memory);
    b.forward.diagonal_stride = distances;
    b.forward.first_distance = -distances / 2;
    b.forward.distances = distances;
    const KeyTiles t = key_tiles_of(b);
    return windows_of(b, t).slots;
  };
  EXPECT_EQ(slots(1, 1, 65536, 183), 144);
  EXPECT_EQ(slots(2, 3, 65536, 183), 24);
  EXPECT_EQ(slots(4, 32, 4096, 183), 16);
  EXPECT_EQ(slots(1, 1, 512, 183), 4);  // as many as there are blocks
  EXPECT_EQ(slots(1, 1, 65536, 131071), 64);
  EXPECT_EQ(slots(1, 8, 65536, 131071), 16);
}

}  // namespace
}  // namespace phasor::test
