// SPDX-License-Identifier: Apache-2.0
// The kernels before a forward with strips on Hopper, their blocks run by the host with emulated instructions, against sums written out: a
// product of a query and one of a key where every thread of the forward reads them, and those with the rows beyond the ends.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cuda/attention/hopper/strip/before.cuh"
#include "cuda/attention/hopper/strip/ends.cuh"
#include "cuda/attention/hopper/strip/work.hpp"
#include "cuda/attention/hopper/work.hpp"

namespace phasor::test {
namespace {

using namespace cuda::hopper;

/// Of blocks of queries so many are passed over, since instructions that are emulated take long.
constexpr int kStride = 7;

struct Case {
  int queries, keys, width;
  std::int64_t far_left, far_right;
  bool causal, of_queries, of_keys, by_head, half;
  std::int64_t window;  // to the left
  int part = 0;         // not 0: so many blocks of queries at a time, and these are the second so many
  int value_width = 0;  // 0: as of keys; wider ones make blocks of queries smaller
};

/// Packed tensors of two batch rows, four heads that share two key heads, and what the kernels write.
template <class T>
class Call {
 public:
  using Element = typename T::Element;
  static constexpr int kBatch = 2, kHeads = 4;

  explicit Call(const Case& c) : is(c), random_(static_cast<unsigned>(c.queries * 131 + c.keys)) {
    q = numbers(kBatch * c.queries * kHeads * c.width);
    k = numbers(kBatch * c.keys * kHeads / 2 * c.width);
    table_heads = c.by_head ? kHeads : 1;
    Forward f;
    const DType dtype = c.half ? DType::f16 : DType::bf16;
    const auto view = [&](std::vector<std::uint16_t>& of, const Extents& shape) {
      return TensorView{of.data(), dtype, shape, contiguous_strides(shape), {DeviceKind::cuda, 0}};
    };
    f.q = view(q, {kBatch, c.queries, kHeads, c.width});
    f.k = f.v = view(k, {kBatch, c.keys, kHeads / 2, c.width});
    if (c.value_width > 0) f.v.shape[3] = c.value_width;
    f.causal = c.causal, f.left = c.window;
    f.of_queries.far_left = f.of_keys.far_left = c.far_left;
    f.of_queries.far_right = f.of_keys.far_right = c.far_right;
    f.of_queries.table = c.of_queries ? ConstTensorView(view(q, {1, 1, table_heads, c.width})) : ConstTensorView();
    f.of_keys.table = c.of_keys ? ConstTensorView(view(q, {1, 1, table_heads, c.width})) : ConstTensorView();
    tiles = tiles_of(f);
    strips = strips_of(f, tiles);
    if (c.part > 0) {
      const std::int64_t of_block = std::int64_t{tiles.block_queries} * strips.near * tiles.tile_keys * 2;
      strips = strip_part(tiles, strips_of(f, tiles, c.part * of_block), 1);
      EXPECT_EQ(strips.first, c.part);
    }
    // Tables as they are spread out: what the rule of rows makes of them is of no matter here.
    const int rows = strips.clips.rows();
    for (auto* const table : {&query_table, &key_table}) *table = numbers(table_heads * rows * c.width);
    const auto spread = [&](std::vector<std::uint16_t>& of, bool present) {
      ConstTensorView v = view(of, {1, rows, table_heads, c.width});
      v.strides = {0, c.width, std::int64_t{rows} * c.width, 1};
      if (!present) v.data = nullptr;
      return input_rows(v);
    };
    query_ends.assign(static_cast<std::size_t>(kBatch * kHeads * 2 * strips.rows_length), NAN);
    key_ends.assign(static_cast<std::size_t>(kBatch * kHeads * 2 * strips.columns_length), NAN);
    const int count = (strips.end - strips.first) * groups();
    values.assign(static_cast<std::size_t>(count * strips.near * tiles.tile_keys * 8 + 2 * kGuard), {~0U, ~0U, ~0U, ~0U});
    strips.values = values.data() + kGuard, strips.rows = query_ends.data(), strips.columns = key_ends.data();
    work = {tiles, strips, input_rows(f.q), input_rows(f.k), spread(query_table, c.of_queries), spread(key_table, c.of_keys), 1.5F, 0.7F};
  }
  int groups() const { return tiles.block_queries / kStripQueries; }
  /// Blocks of queries that are looked at are so far apart.
  int stride() const { return is.part > 0 ? 1 : kStride; }
  /// A block of threads after the other, every other one backwards; shared memory begins as NaN.
  template <class Body>
  void block(int threads, const Body& body) {
    constexpr std::size_t kBytes = sizeof(typename T::Shared);
    constexpr std::size_t kAligned = 1024;
    std::vector<unsigned char> memory(kBytes + kAligned, 0xff);
    unsigned char* const begin = memory.data() + (kAligned - reinterpret_cast<std::uintptr_t>(memory.data()) % kAligned) % kAligned;
    cuda::attention::mma::shared_begin() = begin;
    emulated::Block block;
    block.run(threads, [&] { body(*reinterpret_cast<typename T::Shared*>(begin)); }, blocks_++ % 2 == 0);
  }
  void make() {
    EndWork end = {.rows = work.queries,
                   .table = work.of_queries,
                   .heads_of_row = 1,
                   .heads = kHeads,
                   .tokens = is.queries,
                   .last = strips.clips.rows() - 1,
                   .length = strips.rows_length,
                   .lanes = T::kWidth / 8,
                   .factor = work.query_factor,
                   .to = query_ends.data()};
    if (is.of_queries) make_ends(end);
    end.rows = work.keys, end.table = work.of_keys, end.heads_of_row = 2, end.tokens = is.keys, end.length = strips.columns_length;
    end.factor = work.key_factor, end.to = key_ends.data();
    if (is.of_keys) make_ends(end);
    for (int number = 0; number < strips.end - strips.first; number += stride()) {
      block(T::kThreads, [&](typename T::Shared& shared) { make_strip<T>(shared, work, number); });
    }
  }
  double value(std::uint16_t bits) const { return static_cast<double>(cuda::attention::mma::widened<Element>(bits)); }
  /// A query, and a key, times the row of key - query, which is clamped.
  double of_query(int b, int h, int i, int distance) const {
    return is.of_queries && i < is.queries
               ? 1.5 * product(&q[static_cast<std::size_t>(((b * is.queries + i) * kHeads + h) * is.width)], query_table, h, distance)
               : 0;
  }
  double of_key(int b, int h, int j, int distance) const {
    return is.of_keys && j < is.keys
               ? 0.7 * product(&k[static_cast<std::size_t>(((b * is.keys + j) * kHeads / 2 + h / 2) * is.width)], key_table, h, distance)
               : 0;
  }
  float end_at(const std::vector<float>& ends, int length, int b, int h, int side, int n) const {
    return ends[static_cast<std::size_t>(((b * kHeads + h) * 2 + side) * length + n)];
  }

  static constexpr int kGuard = 7;
  Case is;
  Tiles tiles;
  Strips strips;
  int table_heads;
  std::vector<std::uint16_t> q, k, query_table, key_table;
  std::vector<float> query_ends, key_ends;
  std::vector<uint4> values;
  StripWork work;

 private:
  void make_ends(const EndWork& end) {
    const int of_block = kEndThreads / end.lanes * kEndRows;
    for (int part = 0; part * of_block < end.length; ++part) {
      for (int n = 0; n < kBatch * kHeads; ++n) {
        block(kEndThreads, [&](typename T::Shared&) { multiply_ends<Element>(end, part, n % kHeads, n / kHeads); });
      }
    }
  }
  double product(const std::uint16_t* vector, const std::vector<std::uint16_t>& table, int h, int distance) const {
    const Clips& c = strips.clips;
    const int row = std::clamp(distance, -c.left, c.right) + c.left;
    double sum = 0;
    for (int x = 0; x < is.width; ++x) {
      sum += value(vector[x]) * value(table[static_cast<std::size_t>(((is.by_head ? h : 0) * c.rows() + row) * is.width + x)]);
    }
    return sum;
  }
  std::vector<std::uint16_t> numbers(std::int64_t count) {
    std::vector<std::uint16_t> list(static_cast<std::size_t>(count));
    for (auto& x : list) x = static_cast<std::uint16_t>(cuda::attention::mma::pack<Element>(normal_(random_), 0));
    return list;
  }
  int blocks_ = 0;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

bool close(double is, double query, double key) { return std::abs(is - query - key) <= 0x1p-10 * (std::abs(query) + std::abs(key)) + 1e-5; }

/// What a block of queries reads of the tiles that it visits.
template <class T>
void check_block(const Call<T>& c, int number) {
  const Work at = work_at(c.tiles, number);
  const TileSpan span = tiles_of(c.tiles, at.row);
  for (int n = span.first * c.tiles.block_queries / kStripQueries; n < span.end * c.tiles.block_queries / kStripQueries; ++n) {
    const int group = n % (c.tiles.block_queries / kStripQueries), tile = n / (c.tiles.block_queries / kStripQueries);
    const int row = at.row + kStripQueries * group, key = tile * c.tiles.tile_keys;
    if (row >= c.is.queries) continue;
    const bool on_left = is_left_of_clips(c.tiles, c.strips.clips, row, key);
    const bool is_far = on_left || is_right_of_clips(c.tiles, c.strips.clips, row, kStripQueries, key);
    const std::int64_t place = is_far ? 0 : strip_place(c.tiles, c.strips, number, group, row, tile);
    ASSERT_GE(place, 0);
    ASSERT_LE(place + c.tiles.tile_keys * 8, static_cast<std::int64_t>(c.values.size()) - 2 * c.kGuard);
    const uint4* const strip = c.strips.values + place;
    for (int x = number % 3; x < kStripQueries * c.tiles.tile_keys; x += 3) {
      // The registers of a thread are (8 columns, two of rows, two of columns).
      const int thread = x % 128, s = x / 128;
      const int i = row + thread / 32 * 16 + thread % 32 / 4 + 8 * (s / 2 % 2), j = key + s / 4 * 8 + 2 * (thread % 4) + s % 2;
      const int distance = j - i - c.tiles.offset();
      if (i >= c.is.queries || j >= c.is.keys || distance < -c.tiles.left || distance > c.tiles.right) continue;
      const double query = c.of_query(at.batch, at.head, i, distance), of_key = c.of_key(at.batch, at.head, j, distance);
      if (is_far) {
        const int side = on_left ? 0 : 1;
        double is = 0;
        if (c.is.of_queries) is += static_cast<double>(c.end_at(c.query_ends, c.strips.rows_length, at.batch, at.head, side, i));
        if (c.is.of_keys) is += static_cast<double>(c.end_at(c.key_ends, c.strips.columns_length, at.batch, at.head, side, j));
        ASSERT_NEAR(is, query + of_key, 1e-4) << i << ' ' << j;
      } else {
        const uint4& four = strip[s / 8 * 128 + thread];
        const float2 pair = unpack<__half>((&four.x)[s % 8 / 2]);
        ASSERT_TRUE(close(static_cast<double>(s % 2 == 0 ? pair.x : pair.y), query, of_key))
            << i << ' ' << j << ": " << (s % 2 == 0 ? pair.x : pair.y) << ", wanted " << query << " + " << of_key;
      }
    }
  }
}
template <class T>
void scores_find_their_products(const Case& is) {
  Call<T> c(is);
  c.make();
  for (int number = c.strips.first; number < c.strips.end; number += c.stride()) check_block(c, number);
  for (int n = 0; n < c.kGuard; ++n) {
    ASSERT_EQ(c.values.begin()[n].x, ~0U);
    ASSERT_EQ(c.values.end()[-1 - n].x, ~0U);
  }
}

constexpr std::int64_t kNone = INT64_MAX;
constexpr Case kCases[] = {
    {200, 200, 64, 70, 70, false, true, true, true, false, kNone},
    {130, 400, 64, 300, 20, false, true, true, false, true, kNone},
    {193, 500, 40, 16, 100, true, true, true, true, false, kNone},
    {500, 130, 64, 5, 300, false, true, true, true, true, kNone},
    {150, 620, 128, 100, 64, false, true, true, true, false, kNone},
    {129, 353, 96, 200, 1, true, true, true, false, false, kNone},
    {190, 190, 128, 0, 0, false, true, true, true, true, 40},
    {128, 600, 128, 500, 50, true, true, true, true, false, 300},
    {65, 300, 64, 90, 3, false, false, true, true, false, kNone},
    {65, 300, 128, 90, 3, false, true, false, false, true, kNone},
    {1, 1, 64, 5, 5, false, true, true, true, false, kNone},
    {1, 700, 128, 200, 9, true, true, true, true, false, kNone},
    {400, 300, 64, 70, 30, false, true, true, true, true, kNone, 3},
    {300, 400, 128, 100, 40, true, true, true, false, false, kNone, 3},
    {400, 441, 64, 177, 177, true, false, true, true, true, kNone, 10, 128},
    {390, 390, 64, 90, 60, false, true, false, true, true, kNone},
    {260, 420, 128, 40, 130, false, false, true, true, false, kNone},
    {700, 700, 64, 100, 80, false, true, true, false, false, 150},
    {300, 300, 128, 400, 400, false, true, true, true, true, kNone},
    {577, 610, 48, 30, 200, true, false, true, false, false, 90},
    {389, 389, 128, 0, 6, false, true, true, false, true, 3},
};

TEST(HopperStrip, scores_find_their_products) {
  for (const Case& c : kCases) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(c.queries) + " " + std::to_string(c.keys));
    if (c.half) {
      c.width <= 64 ? scores_find_their_products<StripBody<__half, 64>>(c) : scores_find_their_products<StripBody<__half, 128>>(c);
    } else {
      c.width <= 64 ? scores_find_their_products<StripBody<__nv_bfloat16, 64>>(c)
                    : scores_find_their_products<StripBody<__nv_bfloat16, 128>>(c);
    }
  }
}

/// Near tiles are those that are not far; there is room for them.
TEST(HopperStrip, near_tiles_have_room) {
  std::mt19937 random(3);
  for (int n = 0; n < 3000; ++n) {
    const auto any = [&](unsigned most) { return static_cast<int>(random() % most); };
    Tiles t = {};
    t.queries = 1 + any(900), t.keys = 1 + any(900), t.block_queries = any(2) == 0 ? 128 : 192, t.tile_keys = any(2) == 0 ? 128 : 176;
    const Clips c = {any(3) * any(300), any(3) * any(300), false, 1};
    const int all = (t.keys + t.tile_keys - 1) / t.tile_keys;
    for (int row = 0; row < t.blocks() * t.block_queries; row += kStripQueries) {
      const int first = first_near_tile(t, c, row), end = end_near_tile(t, c, row);
      ASSERT_LE(end - first, most_near_tiles(t, c));
      for (int tile = 0; tile < all; ++tile) {
        const int key = tile * t.tile_keys;
        const bool far = is_left_of_clips(t, c, row, key) || is_right_of_clips(t, c, row, kStripQueries, key);
        ASSERT_EQ(!far, tile >= first && tile < end);
        if (!far) {
          ASSERT_LT(tile - first, most_near_tiles(t, c));
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
