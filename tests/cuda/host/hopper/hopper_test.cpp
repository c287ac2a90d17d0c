// SPDX-License-Identifier: Apache-2.0
// What a launch of attention on Hopper decides, against definitions written out: what is taken, who sees which tile, where a bias lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cuda/attention/hopper/work.hpp"

namespace phasor::test {
namespace {

using namespace cuda::hopper;

constexpr Device kOnGpu = {DeviceKind::cuda, 0};

alignas(16) std::byte some_memory[64];

TensorView tensor(const Extents& shape, DType dtype = DType::bf16) {
  return {some_memory, dtype, shape, contiguous_strides(shape), kOnGpu};
}

Forward plain(std::int64_t queries, std::int64_t keys, std::int64_t width = 128, std::int64_t value_width = 128) {
  Forward f;
  f.q = tensor({2, queries, 6, width}), f.k = tensor({2, keys, 3, width});
  f.v = tensor({2, keys, 3, value_width}), f.out = tensor({2, queries, 6, value_width});
  f.scale = 0.1;
  return f;
}

TEST(HopperWork, takes_what_a_tensor_map_can_have) {
  EXPECT_TRUE(takes(plain(177, 129), 9));
  EXPECT_FALSE(takes(plain(177, 129), 8));
  EXPECT_FALSE(takes(plain(177, 129), 10));
  EXPECT_TRUE(takes(plain(1, 1, 8, 8), 9));
  EXPECT_TRUE(takes(plain(1, 1, 256, 256), 9));
  EXPECT_TRUE(takes(plain(1, 1, 192, 128), 9));
  EXPECT_FALSE(takes(plain(1, 1, 264, 128), 9));
  EXPECT_FALSE(takes(plain(1, 1, 60, 64), 9));
  EXPECT_FALSE(takes(plain(0, 5), 9));
  EXPECT_FALSE(takes(plain(5, 0), 9));
  const auto refused = [](auto&& change) {
    Forward f = plain(5, 7);
    change(f);
    return !takes(f, 9);
  };
  EXPECT_TRUE(refused([](Forward& f) { f.q.dtype = DType::f16; }));
  EXPECT_TRUE(refused([](Forward& f) { f.q.dtype = f.k.dtype = f.v.dtype = f.out.dtype = DType::f32; }));
  EXPECT_TRUE(refused([](Forward& f) { f.out.dtype = DType::f32; }));
  EXPECT_TRUE(refused([](Forward& f) { f.k.data = some_memory + 2; }));
  EXPECT_TRUE(refused([](Forward& f) { f.k.strides[1] += 1; }));
  EXPECT_TRUE(refused([](Forward& f) { f.v.strides[2] = 0; }));
  EXPECT_TRUE(refused([](Forward& f) { f.q.strides[3] = 2; }));
  EXPECT_TRUE(refused([](Forward& f) { f.v.device = {}; }));
  EXPECT_TRUE(refused([](Forward& f) { f.scale = 0; }));
  EXPECT_TRUE(refused([](Forward& f) { f.scale = -1; }));
  const float value = 0;
  EXPECT_TRUE(refused([&](Forward& f) { f.diagonal = &value, f.distances = 0; }));
  EXPECT_FALSE(refused([&](Forward& f) { f.diagonal = &value, f.distances = 1; }));
  EXPECT_FALSE(refused([](Forward& f) { f.q.dtype = f.k.dtype = f.v.dtype = f.out.dtype = DType::f16; }));
  EXPECT_FALSE(refused([](Forward& f) { f.softcap = 30; }));
  EXPECT_FALSE(refused([](Forward& f) { f.q.shape[0] = f.k.shape[0] = f.v.shape[0] = f.out.shape[0] = 1, f.k.strides[0] = 1; }));
}

TEST(HopperWork, every_block_of_every_head_is_worked_on_once) {
  for (const std::int64_t queries : {1, 127, 128, 129, 700}) {
    for (const std::int64_t keys : {4000, 16000, 40000}) {  // 12, 8 and 2 of the 12 heads together
      Forward f = plain(queries, keys);
      f.causal = queries % 2 == 0;
      const Tiles t = tiles_of(f);
      std::vector<int> count(static_cast<std::size_t>(t.work()));
      for (int n = 0; n < t.work(); ++n) {
        const Work w = work_at(t, n);
        ASSERT_TRUE(w.row % t.block_queries == 0 && w.row < t.queries && w.head < t.heads && w.batch < t.batch);
        ++count[static_cast<std::size_t>((w.batch * t.heads + w.head) * t.blocks() + w.row / t.block_queries)];
      }
      EXPECT_EQ(std::count(count.begin(), count.end(), 1), t.work());
    }
  }
}

/// A call with random lengths, masks and clips.
struct RandomCut {
  std::mt19937_64 random;
  Forward forward;
  std::vector<float> values;

  explicit RandomCut(std::uint64_t seed) : random(seed) {
    const auto any = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)); };
    const std::int64_t widths[] = {64, 128, 192, 256};
    const std::int64_t width = widths[any(4)];
    forward = plain(any(700) + 1, any(700) + 1, width, width == 192 ? 128 : width);
    forward.causal = any(2) == 0;
    if (any(2) == 0) forward.left = any(300);
    if (any(2) == 0) forward.right = any(300);
    if (any(2) == 0) {  // windows that end where tiles do, or beside
      const Tiles t = tiles_of(forward);
      forward.left = t.offset() + t.block_queries - 1 + any(3) * t.tile_keys + any(3) - 1;
      forward.right = any(3) * t.tile_keys - t.offset() + any(3) - 2;
    }
    forward.first_distance = any(900) - 700;
    forward.distances = any(900) + 1;
    forward.diagonal_stride = any(2) * forward.distances;
    values.resize(static_cast<std::size_t>(6 * forward.distances));
    forward.diagonal = values.data();
  }
  bool sees(std::int64_t query, std::int64_t key) const {
    const std::int64_t r = query + forward.k.shape[1] - forward.q.shape[1] - key;
    return (!forward.causal || r >= 0) && r <= forward.left && -r <= forward.right;
  }
};

TEST(HopperWork, tiles_hold_every_key_that_is_seen_and_whole_ones_are_not_masked) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomCut cut(seed);
    const Tiles t = tiles_of(cut.forward);
    for (int row = 0; row < t.queries; row += t.block_queries) {
      const TileSpan span = tiles_of(t, row);
      ASSERT_TRUE(span.first >= 0 && span.end > span.first && (span.end - 1) * t.tile_keys < t.keys);
      const int rows = std::min(t.block_queries, t.queries - row);
      std::vector<int> seen(static_cast<std::size_t>(t.keys + t.tile_keys));  // by how many of the rows
      for (int i = row; i < row + rows; ++i) {
        for (int j = 0; j < t.keys; ++j) seen[static_cast<std::size_t>(j)] += cut.sees(i, j) ? 1 : 0;
      }
      for (int j = 0; j < t.keys; ++j) {
        if (seen[static_cast<std::size_t>(j)] == 0) continue;
        ASSERT_TRUE(j >= span.first * t.tile_keys && j < (span.end - 1) * t.tile_keys + span.keys_in_last) << "seed " << seed;
      }
      for (int tile = span.first; tile < span.end; ++tile) {
        bool whole = true;
        for (int j = 0; j < t.tile_keys; ++j) whole = whole && seen[static_cast<std::size_t>(tile * t.tile_keys + j)] == rows;
        if (rows == t.block_queries) {
          ASSERT_EQ(is_partial(t, row, rows, tile * t.tile_keys), !whole) << "seed " << seed;
        }
        if (!whole) {
          ASSERT_TRUE(is_partial(t, row, t.block_queries, tile * t.tile_keys)) << "seed " << seed;
        }
      }
    }
  }
}

TEST(HopperWork, tiles_that_are_not_far_have_their_window) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const RandomCut cut(seed);
    const Forward& f = cut.forward;
    const Tiles t = tiles_of(f);
    const Windows w = windows_of(f, t);
    const Layout layout = layout_of(f, t);
    ASSERT_EQ(w.first % 4, 0);
    ASSERT_EQ(w.length % 4, 0);
    ASSERT_EQ(layout.windows % 16, 0);
    ASSERT_EQ(layout.norms - layout.far, (f.diagonal_stride == 0 ? 1 : 6) * 2 * 4);
    ASSERT_EQ(layout.far - layout.windows, (f.diagonal_stride == 0 ? 1 : 6) * 2 * w.length * 4);
    ASSERT_EQ(workspace_bytes(f), layout.bytes + kAlignment - 1);
    for (int row = 0; row < t.queries; row += t.block_queries) {
      for (int key = 0; key < t.keys; key += t.tile_keys) {
        // Distances of the tile: constant if all lie beyond one end of those that are given.
        const std::int64_t least = row + t.offset() - (key + t.tile_keys - 1);
        const std::int64_t most = row + t.block_queries - 1 + t.offset() - key;
        ASSERT_EQ(is_far_left(t, w, row, key), least >= f.first_distance + f.distances - 1);
        ASSERT_EQ(is_far_right(t, w, row, t.block_queries, key), most <= f.first_distance);
        if (is_far_left(t, w, row, key) || is_far_right(t, w, row, t.block_queries, key)) continue;
        ASSERT_GE(key - row - t.block_queries, w.first) << "seed " << seed;
        ASSERT_LE(key - row + t.tile_keys, w.first + w.length) << "seed " << seed;
      }
    }
  }
}

TEST(HopperWork, skips_where_queries_see_their_own_keys) {
  const float value = 0;
  const auto skips = [&](auto&& change) {
    Forward f = plain(500, 700);
    f.diagonal = &value, f.distances = 1, f.causal = f.skip = true;
    change(f);
    const Tiles t = tiles_of(f);
    const Layout layout = layout_of(f, t);
    EXPECT_EQ(layout.first_tiles - layout.norms, may_skip(f) ? 2 * 3 * 4 : 0);
    EXPECT_EQ(layout.bytes - layout.first_tiles, may_skip(f) ? t.work() * 4 : 0);
    return may_skip(f);
  };
  EXPECT_TRUE(skips([](Forward&) {}));
  EXPECT_FALSE(skips([](Forward& f) { f.skip = false; }));
  EXPECT_FALSE(skips([](Forward& f) { f.causal = false; }));
  EXPECT_FALSE(skips([](Forward& f) { f.right = -1; }));
  EXPECT_FALSE(skips([](Forward& f) { f.first_distance = 1; }));
  EXPECT_FALSE(skips([](Forward& f) { f.diagonal = nullptr; }));
  const TileSpan span = {2, 7, 5};
  EXPECT_EQ(from_tile(span, 0).first, 2);
  EXPECT_EQ(from_tile(span, 4).first, 4);
  EXPECT_EQ(from_tile(span, 9).first, 6);  // one is always visited
}

TEST(HopperWork, far_tiles_of_a_table_have_one_row_of_it) {
  for (const std::int64_t width : {64, 128}) {
    Forward f = plain(700, 900, width, width);
    f.table = tensor({1, 50, 6, width}), f.table_left = 40, f.table_right = 9;
    ASSERT_TRUE(takes(f, 9));
    const Tiles t = tiles_of(f);
    const Clips clips = {40, 9, true, 1};
    for (int row = 0; row < t.queries; row += 64) {
      for (int key = 0; key < t.keys; key += t.tile_keys) {
        const int most = row + 63 + t.offset() - key;  // distances of the tile
        const int least = row + t.offset() - (key + t.tile_keys - 1);
        EXPECT_EQ(is_left_of_clips(t, clips, row, key), least >= 40);
        EXPECT_EQ(is_right_of_clips(t, clips, row, 64, key), most <= -9);
      }
    }
  }
  Forward wide = plain(7, 9, 192, 128);
  wide.table = tensor({1, 50, 6, 192}), wide.table_left = 40, wide.table_right = 9;
  EXPECT_FALSE(takes(wide, 9));
}

/// A call with a table whose rows pass with the keys, and random lengths and masks.
Forward random_windows(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto any = [&](std::int64_t most) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)); };
  Forward f = plain(any(500) + 1, any(500) + 1, any(2) == 0 ? 64 : 128, 64);
  f.causal = any(2) == 0;
  if (any(2) == 0) f.left = any(300);
  if (any(2) == 0) f.right = any(300);
  f.table_left = any(400), f.table_right = any(400);
  f.table = tensor({1, f.table_left + f.table_right + 1, any(2) == 0 ? 1 : 6, f.q.shape[3]});
  f.table_shift = tensor({1, 1, 6, f.q.shape[3]});
  return f;
}

TEST(HopperWork, windows_have_the_row_of_every_key_that_is_seen) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Forward f = random_windows(seed);
    ASSERT_TRUE(takes(f, 9) && has_windows(f));
    const Tiles t = tiles_of(f);
    const ShiftSums sums = sums_of(f, t);
    const int blocks = window_blocks(t.block_queries, t.tile_keys);
    ASSERT_TRUE(sums.first % 4 == 0 && sums.lines_length % 4 == 0 && sums.columns_length % 4 == 0);
    for (int row = 0; row < t.queries; row += t.block_queries) {
      const TileSpan span = tiles_of(t, row);
      const int first = first_window_block(t, row, span);
      for (int tile = span.end - 1; tile >= span.first; --tile) {
        const int number = span.end - 1 - tile;
        // The blocks that this tile reads, and the next one, which is made meanwhile.
        for (int n = number; n <= number + blocks; ++n) {
          const int begin = block_begin(t, row, span, n);
          ASSERT_GE(begin - 1, sums.first);
          ASSERT_LE(begin + t.tile_keys, sums.first + sums.lines_length);
          ASSERT_EQ((begin - sums.first) % 4, 0);
        }
        for (int i = row; i < std::min(row + t.block_queries, t.queries); ++i) {
          for (int j = tile * t.tile_keys; j < std::min((tile + 1) * t.tile_keys, t.keys); ++j) {
            const int distance = j - i - t.offset();
            if (distance > t.right || -distance > t.left) continue;
            // As the kernel: odd queries are one place earlier in a block.
            const int place = j - i + i % 2;
            const int n = (block_begin(t, row, span, 0) + t.tile_keys - 1 - place) / t.tile_keys;
            ASSERT_TRUE(n >= first && n >= number && n < number + blocks) << "seed " << seed;
          }
        }
      }
    }
  }
}

TEST(HopperWork, tables_are_spread_where_more_distances_are_seen_than_they_have) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Forward f = random_windows(seed);
    const Tiles t = tiles_of(f);
    std::int64_t left = 0, right = 0;
    for (int i = 0; i < t.queries; ++i) {
      for (int j = 0; j < t.keys; ++j) {
        const std::int64_t distance = j - i - t.offset();
        if (distance > t.right || -distance > t.left) continue;
        left = std::max(left, -distance), right = std::max(right, distance);
      }
    }
    const Seen seen = seen_by(f);
    ASSERT_TRUE(seen.left >= left && seen.right >= right) << "seed " << seed;
    const bool spread = seen.left > f.table_left || seen.right > f.table_right;
    EXPECT_EQ(needs_spread(f), spread);
    const Layout layout = layout_of(f, t);
    EXPECT_EQ(layout.rows % 16, 0);
    EXPECT_EQ(layout.bytes - layout.rows, spread ? f.table.shape[2] * (seen.left + seen.right + 1) * f.table.shape[3] * 2 : 0);
    f.zero_outside = true;
    EXPECT_FALSE(needs_spread(f));
  }
}

TEST(HopperWork, tiles_before_the_first_with_rows_have_nobody_near) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Forward f = random_windows(seed);
    const Tiles t = tiles_of(f);
    const int left = static_cast<int>(f.table_left);
    for (int row = 0; row < t.queries; row += t.block_queries) {
      const TileSpan span = tiles_of(t, row);
      const int first = first_tile_with_rows(t, row, span, left);
      ASSERT_TRUE(first >= span.first && first < span.end) << "seed " << seed;
      EXPECT_EQ(first_tile_with_rows(t, row, span, kFar), span.first);
      for (int tile = span.first; tile < span.end - 1; ++tile) {
        const int nearest = row + t.offset() - (tile * t.tile_keys + t.tile_keys - 1);  // the first query's, of the last key
        EXPECT_EQ(tile >= first, nearest <= left) << "seed " << seed << ", tile " << tile;
      }
    }
  }
}

/// Tiles with rows and those beyond them have every key that is seen, once.
TEST(HopperWork, tiles_beyond_the_rows_have_the_other_keys) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Forward f = random_windows(seed);
    const Tiles t = tiles_of(f);
    for (int row = 0; row < t.queries; row += t.block_queries) {
      const TileSpan span = tiles_of(t, row);
      const int with_rows = first_tile_with_rows(t, row, span, static_cast<int>(f.table_left));
      const BeyondRows beyond = beyond_rows(t, span, with_rows);
      EXPECT_EQ(beyond.end, with_rows * t.tile_keys) << "seed " << seed;
      EXPECT_EQ(beyond.count == 0, with_rows == span.first) << "seed " << seed;
      if (beyond.count == 0) continue;
      EXPECT_EQ(beyond.key(0) + kBeyondKeys, beyond.end);
      EXPECT_LE(beyond.key(beyond.count - 1), span.first * t.tile_keys) << "seed " << seed;
      EXPECT_GT(beyond.key(beyond.count - 1) + kBeyondKeys, span.first * t.tile_keys) << "seed " << seed;
    }
  }
}

TEST(HopperWork, features_meet_a_table_of_their_own_width) {
  Forward f = plain(70, 90, 128, 128);
  f.features = tensor({f.q.shape[0], 70, 6, 16});
  f.table = tensor({1, 40, 6, 16}), f.table_left = 39;
  EXPECT_TRUE(takes(f, 9) && has_windows(f));
  f.zero_outside = true;
  EXPECT_TRUE(takes(f, 9) && !needs_spread(f));
  Forward other = f;
  other.features.shape[1] = 69;
  EXPECT_FALSE(takes(other, 9));
  other = f, other.features.dtype = DType::f32;
  EXPECT_FALSE(takes(other, 9));
  other = f, other.features.strides[3] = 2;
  EXPECT_FALSE(takes(other, 9));
  other = f, other.table_shift = tensor({1, 1, 6, 16});
  EXPECT_FALSE(takes(other, 9));
  other = f, other.table = tensor({1, 40, 6, 128});
  EXPECT_FALSE(takes(other, 9));
  other = f, other.features = tensor({f.q.shape[0], 70, 6, 24}), other.table = tensor({1, 40, 6, 24});
  EXPECT_FALSE(takes(other, 9));
}

TEST(HopperWork, a_short_table_is_kept_whole) {
  Forward f = plain(70, 90, 64, 64);
  f.table = tensor({1, 129, 6, 64}), f.table_left = f.table_right = 64;
  EXPECT_FALSE(has_windows(f));
  f.table = tensor({1, 130, 6, 64}), f.table_left = 65;
  EXPECT_TRUE(has_windows(f) && takes(f, 9));
  EXPECT_EQ(layout_of(f, tiles_of(f)).bytes - layout_of(f, tiles_of(f)).rows, 6 * 159 * 64 * 2);
  f.content_shift = tensor({1, 1, 1, 64});
  EXPECT_TRUE(takes(f, 9));
  f.content_shift = tensor({1, 1, 2, 64});
  EXPECT_FALSE(takes(f, 9));
  f = plain(70, 90, 64, 64);
  f.content_shift = tensor({1, 1, 1, 64});
  EXPECT_FALSE(takes(f, 9));
}

TEST(HopperWork, rows_are_added_to_values_of_their_width) {
  Forward f = plain(70, 90, 64, 128);
  f.value_table = tensor({1, 25, 6, 128}), f.table_left = 16, f.table_right = 8;
  EXPECT_TRUE(takes(f, 9));
  EXPECT_EQ(widths_for(f), kTableWidths);
  const auto taken = [&](const auto& change) {
    Forward other = f;
    change(other);
    return takes(other, 9);
  };
  EXPECT_FALSE(taken([](Forward& o) { o.value_table = tensor({1, 25, 6, 64}); }));
  EXPECT_FALSE(taken([](Forward& o) { o.value_table.dtype = DType::f32; }));
  EXPECT_FALSE(taken([](Forward& o) { o.table_left = 17; }));
  EXPECT_FALSE(taken([](Forward& o) { o.softcap = 3; }));
  EXPECT_FALSE(taken([](Forward& o) { o.zero_outside = true; }));
  EXPECT_TRUE(taken([](Forward& o) { o.table = tensor({1, 25, 1, 64}); }));
  EXPECT_FALSE(taken([](Forward& o) { o.table = tensor({1, 26, 1, 64}); }));
  EXPECT_FALSE(taken([](Forward& o) { o.value_table = tensor({1, 130, 6, 128}), o.table_left = 65, o.table_right = 64; }));
  f.v = tensor({f.v.shape[0], 90, f.v.shape[2], 64}), f.out = tensor({f.q.shape[0], 70, 6, 64}), f.value_table = tensor({1, 25, 6, 64});
  EXPECT_EQ(widths_for(f), 0);
  EXPECT_EQ(layout_of(f, tiles_of(f)).bytes, layout_of(plain(70, 90, 64, 64), tiles_of(plain(70, 90, 64, 64))).bytes);
}

TEST(HopperWork, maps_have_panels_of_64_channels_where_heads_are_made_of_them) {
  const MapShape whole = map_shape(tensor({2, 5, 3, 192}));
  EXPECT_TRUE(std::equal(whole.sizes, whole.sizes + 5, std::vector<std::uint64_t>{64, 5, 3, 3, 2}.begin()));
  EXPECT_TRUE(std::equal(whole.strides, whole.strides + 4, std::vector<std::uint64_t>{1152, 128, 384, 5760}.begin()));
  const MapShape odd = map_shape(tensor({1, 5, 1, 40}));
  EXPECT_TRUE(std::equal(odd.sizes, odd.sizes + 5, std::vector<std::uint64_t>{40, 5, 1, 1, 1}.begin()));
  EXPECT_TRUE(std::equal(odd.strides, odd.strides + 4, std::vector<std::uint64_t>{80, 128, 16, 16}.begin()));
}

}  // namespace
}  // namespace phasor::test
