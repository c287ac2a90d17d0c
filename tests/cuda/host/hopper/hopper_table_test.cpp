// SPDX-License-Identifier: Apache-2.0
// The kernels before and after a backward with a table on Hopper, their blocks run by the host with emulated instructions, against sums
// written out: products where the backward's threads read them, and gradients from where they leave them.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cuda/attention/hopper/backward/table/after.cuh"
#include "cuda/attention/hopper/backward/table/before.cuh"
#include "cuda/attention/hopper/backward/work.hpp"

namespace phasor::test {
namespace {

using namespace cuda::hopper;

using Bits = std::vector<std::uint16_t>;

struct Case {
  int queries, keys, width, left, right;
  bool causal, by_head, half;
  std::int64_t window;  // to the left
  int blocks = 0;       // of a head; 0: as many as there are in a call
};

/// Packed tensors of two batch rows, four heads that share two key heads, and all that the kernels write.
template <class T>
class Tables {
 public:
  using Element = typename T::Element;
  static constexpr int kBatch = 2, kHeads = 4;

  explicit Tables(const Case& c) : is(c), random_(static_cast<unsigned>(c.queries * 131 + c.keys)) {
    q = numbers(kBatch * c.queries * kHeads * c.width, 1);
    rows_of_table = c.left + c.right + 1;
    table_heads = c.by_head ? kHeads : 1;
    table = numbers(rows_of_table * table_heads * c.width, 1);
    Backward b;
    const Device gpu = {DeviceKind::cuda, 0};
    const DType dtype = c.half ? DType::f16 : DType::bf16;
    const auto view = [&](Bits& of, const Extents& shape) { return TensorView{of.data(), dtype, shape, contiguous_strides(shape), gpu}; };
    b.forward.q = view(q, {kBatch, c.queries, kHeads, c.width});
    b.forward.k = b.forward.v = view(q, {kBatch, c.keys, kHeads / 2, c.width});
    b.forward.table = view(table, {1, rows_of_table, table_heads, c.width});
    b.forward.table_left = c.left, b.forward.table_right = c.right;
    b.forward.causal = c.causal;
    b.forward.left = c.window;
    b.forward.scale = 0.25, b.forward.table_scale = 0.3;
    tiles = key_tiles_of(b);
    clips = clips_of(b, tiles);
    near = most_near_blocks(tiles, clips);
    lines.assign(static_cast<std::size_t>(kBatch * kHeads * tiles.rows() * 3), 0.0F);
    for (float& x : lines) x = normal();
    strips.assign(static_cast<std::size_t>(kBatch * kHeads * tiles.tiles() * near * kBlockKeys * T::kQueries / 8), {~0U, ~0U, ~0U, ~0U});
    sums.assign(static_cast<std::size_t>(kBatch * kHeads * tiles.tiles() * dq_numbers(tiles, true)), NAN);
    blocks = c.blocks == 0 ? parts_of(tiles) : c.blocks;
    parts.assign(static_cast<std::size_t>(kBatch * kHeads * blocks * table_lines(clips) * c.width), NAN);
    dq.assign(q.size(), 0x7fed);
    gradient.assign(static_cast<std::size_t>(rows_of_table * table_heads * c.width), NAN);
    work = {.tiles = tiles,
            .of = {clips, near, std::int64_t{kBatch} * kHeads * tiles.rows(), strips.data(), blocks, parts.data()},
            .q = input_rows(b.forward.q),
            .table = input_rows(b.forward.table),
            .dq = output_rows(view(dq, b.forward.q.shape)),
            .dq_sums = sums.data(),
            .lse = lines.data(),
            .scale = 0.25F,
            .scale_log2 = 0.36F,
            .table_scale = 0.3F,
            .gradient = gradient.data(),
            .rows = rows_of_table};
  }
  /// Every block of a grid, every other one backwards; shared memory begins as NaN.
  template <class Shared, class Body>
  void run(const Body& body) {
    std::vector<unsigned char> memory(sizeof(Shared) + 128);
    unsigned char* const begin = memory.data() + (128 - reinterpret_cast<std::uintptr_t>(memory.data()) % 128) % 128;
    cuda::attention::mma::shared_begin() = begin;
    emulated::Block block;
    int count = 0;
    for (int batch = 0; batch < kBatch; ++batch) {
      for (int head = 0; head < kHeads; ++head) {
        for (int part = 0; part < blocks; ++part) {
          std::memset(begin, 0xff, sizeof(Shared));
          const TableBlock at = {part, blocks, head, batch};
          block.run(T::kThreads, [&] { body(*reinterpret_cast<Shared*>(begin), at); }, count++ % 2 == 0);
        }
      }
    }
  }
  double value(std::uint16_t bits) const { return static_cast<double>(cuda::attention::mma::widened<Element>(bits)); }
  double q_at(int b, int i, int h, int c) const {
    return value(q[static_cast<std::size_t>(((b * is.queries + i) * kHeads + h) * is.width + c)]);
  }
  double table_at(int row, int h, int c) const {
    return value(table[static_cast<std::size_t>((row * table_heads + (is.by_head ? h : 0)) * is.width + c)]);
  }
  int row_of(int i, int j) const { return std::clamp(j - i - tiles.offset(), -is.left, is.right) + is.left; }
  bool sees(int i, int j) const {
    const int position = i + tiles.offset();
    return i < is.queries && j < is.keys && j >= position - tiles.left && j <= position + tiles.right;
  }
  /// The word of a strip that a thread of the backward has for two queries and a key: its registers are (c, r, x) with key r of its two and
  /// query 8 c + 2 (lane % 4) + x.
  std::uint32_t& word(int strip, int group, int thread, int c, int r) {
    uint4& four = strips[static_cast<std::size_t>((strip * 2 + group) * (T::kQueries / 16) * 128 + (2 * c + r) / 4 * 128 + thread)];
    return (&four.x)[(2 * c + r) % 4];
  }
  /// body(batch, head, tile, near block's number, block, group, thread, c, r) of all words that are read.
  template <class Body>
  void each_word(const Body& body) {
    for (int number = 0; number < kBatch * kHeads * tiles.tiles(); ++number) {
      const int tile = number % tiles.tiles(), head = number / tiles.tiles() % kHeads, batch = number / tiles.tiles() / kHeads;
      const Span blocks = near_blocks(tiles, clips, tile);
      for (int block = blocks.first; block < blocks.end; ++block) {
        for (int x = 0; x < 2 * 128 * T::kQueries / 4; ++x) {
          const int group = x % 2, thread = x / 2 % 128, c = x / 256 / 2, r = x / 256 % 2;
          const int key = block * kBlockKeys + 64 * group + thread / 32 * 16 + thread % 32 / 4 + 8 * r;
          const int query = tile * T::kQueries + 8 * c + 2 * (thread % 4);
          body(batch, head, query, key, word(number * near + block - blocks.first, group, thread, c, r));
        }
      }
    }
  }
  Bits numbers(std::int64_t count, float size) {
    Bits list(static_cast<std::size_t>(count));
    for (auto& x : list) x = static_cast<std::uint16_t>(cuda::attention::mma::pack<Element>(size * normal(), 0));
    return list;
  }
  float normal() { return normal_(random_); }

  Case is;
  KeyTiles tiles;
  Clips clips;
  int near, blocks, rows_of_table, table_heads;
  Bits q, table, dq;
  std::vector<float> lines, sums, parts, gradient;
  std::vector<uint4> strips;
  TableWork work;

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

template <class T>
double product(const Tables<T>& t, int b, int i, int h, int row) {
  double sum = 0;
  for (int c = 0; c < t.is.width && i < t.is.queries; ++c) sum += t.q_at(b, i, h, c) * t.table_at(row, h, c);
  return sum * 0.3 / 0.25;
}

template <class T>
void products_are_where_threads_read_them(const Case& c) {
  Tables<T> t(c);
  const std::vector<float> lse = t.lines;
  t.template run<BeforeShared<T>>([&](BeforeShared<T>& shared, const TableBlock& at) { make_products<T>(shared, t.work, at); });
  std::vector<double> products(static_cast<std::size_t>(2 * 4 * t.tiles.rows() * t.rows_of_table));
  for (int n = 0; n < 2 * 4 * t.tiles.rows(); ++n) {
    for (int row = 0; row < t.rows_of_table; ++row) {
      products[static_cast<std::size_t>(n * t.rows_of_table + row)] =
          product(t, n / t.tiles.rows() / 4, n % t.tiles.rows(), n / t.tiles.rows() % 4, row);
    }
  }
  const auto of = [&](int b, int i, int h, int row) {
    return products[static_cast<std::size_t>(((b * 4 + h) * t.tiles.rows() + i) * t.rows_of_table + row)];
  };
  const auto close = [](double is, double want) { return std::abs(is - want) <= 0x1p-10 * std::abs(want) + 1e-5; };
  int wrong = 0;
  t.each_word([&](int b, int h, int i, int j, std::uint32_t word) {
    const float2 is = unpack<__half>(word);
    for (int x = 0; x < 2; ++x) {
      if (t.sees(i + x, j) && !close(static_cast<double>(x == 0 ? is.x : is.y), of(b, i + x, h, t.row_of(i + x, j)))) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  const int all = 2 * 4 * t.tiles.rows();
  for (int n = 0; n < all; ++n) {
    const int b = n / t.tiles.rows() / 4, h = n / t.tiles.rows() % 4, i = n % t.tiles.rows();
    ASSERT_EQ(t.lines[static_cast<std::size_t>(n)], lse[static_cast<std::size_t>(n)]);
    for (int side = 0; side < 2; ++side) {
      const double want = static_cast<double>(lse[static_cast<std::size_t>(n)]) - 0.36 * of(b, i, h, side == 0 ? 0 : t.clips.rows() - 1);
      ASSERT_NEAR(t.lines[static_cast<std::size_t>(n + (1 + side) * all)], want, 1e-2);
    }
  }
}

/// Gradients of scores as the backward leaves them: strips, and sums of far tiles; dq of the keys in its registers' order.
template <class T>
struct Left {
  std::vector<double> by_row;  // (B, H, rows, rows of the table)
  std::vector<double> dq;      // (B, H, rows, channels)

  explicit Left(Tables<T>& t) {
    const int rows = t.tiles.rows(), width = T::kWidth;
    by_row.assign(static_cast<std::size_t>(2 * 4 * rows * t.rows_of_table), 0.0);
    dq.assign(static_cast<std::size_t>(2 * 4 * rows * width), 0.0);
    const auto add = [&](int b, int h, int i, int row, double x) {
      by_row[static_cast<std::size_t>(((b * 4 + h) * rows + i) * t.rows_of_table + row)] += x;
    };
    t.each_word([&](int b, int h, int i, int j, std::uint32_t& word) {
      const float low = t.sees(i, j) ? 0.1F * t.normal() : 0, high = t.sees(i + 1, j) ? 0.1F * t.normal() : 0;
      word = cuda::attention::mma::pack<typename T::Element>(low, high);
      const float2 x = unpack<typename T::Element>(word);
      if (t.sees(i, j)) add(b, h, i, t.row_of(i, j), static_cast<double>(x.x));
      if (t.sees(i + 1, j)) add(b, h, i + 1, t.row_of(i + 1, j), static_cast<double>(x.y));
    });
    for (int number = 0; number < 2 * 4 * t.tiles.tiles(); ++number) {
      const int tile = number % t.tiles.tiles(), h = number / t.tiles.tiles() % 4, b = number / t.tiles.tiles() / 4;
      const Span visitors = key_blocks(t.tiles, tile);
      if (visitors.first >= visitors.end) continue;  // nobody has written there
      float* const to = t.sums.data() + number * dq_numbers(t.tiles, true);
      for (int n = 0; n < kDqNumbers; ++n) {
        const int half = n / 4096, x = n / 512 % 8, thread = n / 4 % 128, e = n % 4;
        const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (e / 2), channel = 8 * x + 2 * (thread % 4) + e % 2;
        const int i = tile * T::kQueries + row + (T::kQueries == 128 ? 64 * half : 0), c = channel + (T::kQueries == 128 ? 0 : 64 * half);
        to[n] = t.normal();
        dq[static_cast<std::size_t>(((b * 4 + h) * rows + i) * width + c)] = static_cast<double>(to[n]);
      }
      for (int n = 0; n < 2 * T::kQueries; ++n) {
        const int side = n / T::kQueries, i = tile * T::kQueries + n % T::kQueries;
        to[kDqNumbers + n] = i < t.is.queries ? t.normal() : 0;
        add(b, h, i, side == 0 ? 0 : t.clips.rows() - 1, static_cast<double>(to[kDqNumbers + n]));
      }
    }
  }
};

template <class T>
void gradients_are_what_threads_left(const Case& c) {
  Tables<T> t(c);
  const Left<T> left(t);
  t.template run<AfterShared<T>>([&](AfterShared<T>& shared, const TableBlock& at) { TableEnd<T>(shared, t.work).run(at); });
  for (int head = 0; head < t.table_heads; ++head) {
    for (int x = 0; x < t.rows_of_table * c.width; ++x) add_parts(t.work, x, head, t.table_heads);
  }
  const int rows = t.tiles.rows();
  std::vector<double> of_table(t.gradient.size(), 0.0);
  for (int n = 0; n < 2 * 4 * c.queries; ++n) {
    const int b = n / c.queries / 4, h = n / c.queries % 4, i = n % c.queries;
    const double* const by_row = left.by_row.data() + ((b * 4 + h) * rows + i) * t.rows_of_table;
    for (int channel = 0; channel < c.width; ++channel) {
      double sum = 0, size = 0;
      for (int row = 0; row < t.rows_of_table; ++row) {
        sum += by_row[row] * t.table_at(row, h, channel), size += std::abs(by_row[row] * t.table_at(row, h, channel));
        of_table[static_cast<std::size_t>((row * t.table_heads + (c.by_head ? h : 0)) * c.width + channel)] +=
            by_row[row] * t.q_at(b, i, h, channel);
      }
      const double want = 0.25 * left.dq[static_cast<std::size_t>(((b * 4 + h) * rows + i) * T::kWidth + channel)] + 0.3 * sum;
      const double is = t.value(t.dq[static_cast<std::size_t>(((b * c.queries + i) * 4 + h) * c.width + channel)]);
      ASSERT_NEAR(is, want, 0x1p-8 * std::abs(want) + 1e-4 * size + 1e-6) << b << ' ' << i << ' ' << h << ' ' << channel;
    }
  }
  for (std::size_t n = 0; n < of_table.size(); ++n) ASSERT_NEAR(static_cast<double>(t.gradient[n]), 0.3 * of_table[n], 2e-3) << n;
}

/// What float16 has no room for is in the second of two numbers.
void sums_beyond_float16_are_finite() {
  const Case c = {130, 300, 64, 3, 2, false, true, true, INT64_MAX};
  Tables<TableBody<__half, 0>> t(c);
  const Left<TableBody<__half, 0>> left(t);
  constexpr int kQuery = 7;
  t.sums[kDqNumbers + kQuery] = 90000;  // of the first tile, head and batch row, beyond the left end
  t.template run<AfterShared<TableBody<__half, 0>>>(
      [&](AfterShared<TableBody<__half, 0>>& shared, const TableBlock& at) { TableEnd<TableBody<__half, 0>>(shared, t.work).run(at); });
  for (int x = 0; x < t.rows_of_table * c.width; ++x) add_parts(t.work, x, 0, t.table_heads);
  for (int channel = 0; channel < c.width; ++channel) {
    const double of_query = t.value(t.dq[static_cast<std::size_t>(kQuery * 4 * c.width + channel)]);
    const double want = 0.3 * 90000 * t.table_at(0, 0, channel);
    if (std::abs(want) < 60000) {
      EXPECT_NEAR(of_query, want, 0x1p-9 * std::abs(want) + 40) << channel;
    }
    const double of_row = static_cast<double>(t.gradient[static_cast<std::size_t>(channel)]);
    const double row = 0.3 * 90000 * t.q_at(0, kQuery, 0, channel);
    EXPECT_NEAR(of_row, row, 0x1p-9 * std::abs(row) + 40) << channel;
  }
}

constexpr Case kCases[] = {
    {130, 130, 64, 64, 64, true, true, false, INT64_MAX},
    {200, 300, 40, 16, 3, false, false, true, INT64_MAX},
    {65, 190, 64, 0, 0, false, true, false, INT64_MAX},
    {190, 65, 64, 1, 0, false, true, true, 40},
    {129, 129, 128, 64, 64, false, true, true, INT64_MAX},
    {70, 200, 96, 7, 63, true, false, false, 100},
    {200, 70, 128, 0, 1, true, true, false, INT64_MAX},
    // Several tiles of a block; clips that are all on one side.
    {400, 300, 64, 128, 0, false, true, true, INT64_MAX, 1},
    {333, 400, 40, 3, 125, true, false, false, INT64_MAX, 2},
    {200, 300, 128, 100, 28, false, false, false, INT64_MAX, 1},
    {190, 190, 96, 0, 128, false, true, true, 70, 2},
    {1, 1, 64, 5, 5, false, true, false, INT64_MAX},
};

TEST(HopperTable, products_are_where_threads_read_them) {
  for (const Case& c : kCases) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(c.queries) + " " + std::to_string(c.width));
    if (c.half) {
      c.width <= 64 ? products_are_where_threads_read_them<TableBody<__half, 0>>(c)
                    : products_are_where_threads_read_them<TableBody<__half, 1>>(c);
    } else {
      c.width <= 64 ? products_are_where_threads_read_them<TableBody<__nv_bfloat16, 0>>(c)
                    : products_are_where_threads_read_them<TableBody<__nv_bfloat16, 1>>(c);
    }
  }
}

TEST(HopperTable, gradients_are_what_threads_left) {
  for (const Case& c : kCases) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(c.queries) + " " + std::to_string(c.width));
    if (c.half) {
      c.width <= 64 ? gradients_are_what_threads_left<TableBody<__half, 0>>(c) : gradients_are_what_threads_left<TableBody<__half, 1>>(c);
    } else {
      c.width <= 64 ? gradients_are_what_threads_left<TableBody<__nv_bfloat16, 0>>(c)
                    : gradients_are_what_threads_left<TableBody<__nv_bfloat16, 1>>(c);
    }
  }
}

TEST(HopperTable, sums_beyond_float16_are_finite) { sums_beyond_float16_are_finite(); }

}  // namespace
}  // namespace phasor::test
