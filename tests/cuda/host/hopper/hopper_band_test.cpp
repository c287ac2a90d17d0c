// SPDX-License-Identifier: Apache-2.0
// The kernels around a backward with tables by distance on Hopper, their blocks run by the host with emulated instructions, against sums
// written out: products where the backward's threads read them, and gradients from where they leave them.
#include <gtest/gtest.h>

#include "cuda/host/hopper/band_sides.hpp"

namespace phasor::test {
namespace {

/// In units of q . k.
template <class S>
double product(const S& s, int side, int batch, int head, int token, int row) {
  double sum = 0;
  for (int c = 0; c < s.is.width; ++c) {
    sum += (s.feature_at(side, batch, token, head, c) + (side == 0 ? s.shift_at(head, c) : 0)) * s.table_at(side, row, head, c);
  }
  return sum * 0.3 / 0.25;
}

/// Products with all rows, of all tokens of a side.
template <class S>
std::vector<double> products(const S& s, int side, int count) {
  std::vector<double> list;
  for (int n = 0; n < S::kBatch * S::kHeads * count; ++n) {
    for (int row = 0; row < s.rows[side]; ++row)
      list.push_back(product(s, side, n / count / S::kHeads, n / count % S::kHeads, n % count, row));
  }
  return list;
}

template <class S>
void products_are_where_threads_read_them(const Case& c) {
  S s(c);
  const std::vector<float> lse = s.lse;
  s.template make_products_of<kOfQueries>();
  s.template make_products_of<kOfKeys>();
  const int queries = s.tiles.rows(), keys = s.padded_keys();
  const std::vector<double> of[2] = {products(s, 0, queries), products(s, 1, keys)};
  const auto at = [&](int side, int number, int row) { return of[side][static_cast<std::size_t>(number * s.rows[side] + row)]; };
  const auto of_score = [&](int side, int number, int i, int j) { return s.has(side) ? at(side, number, s.row_of(side, i, j)) : 0; };
  int wrong = 0, read = 0;
  s.each_word([&](int b, int h, int i, int j, std::uint32_t word) {
    const float2 both = unpack<__half>(word);
    for (int x = 0; x < 2; ++x) {
      if (!s.sees(i + x, j)) continue;
      const double a = of_score(0, (b * S::kHeads + h) * queries + i + x, i + x, j);
      const double k = of_score(1, (b * S::kHeads + h) * keys + j, i + x, j);
      const double is = static_cast<double>(x == 0 ? both.x : both.y), bound = 0x1p-11 * (std::abs(a) + std::abs(k) + std::abs(a + k));
      ++read;
      if (!(std::abs(is - a - k) <= 1.01 * bound + 1e-5)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0) << "of " << read;
  const int all = S::kBatch * S::kHeads;
  if (!s.has(0)) {
    EXPECT_EQ(s.lse, lse);
  }
  for (int side = 0; side < 2; ++side) {
    if (!s.has(side)) continue;
    const Clips clips = s.work[side].clips;
    for (int far = 0; far < 2; ++far) {
      const int row = static_cast<int>(cuda::attention::row_by_distance(s.b.tables[side].map, far == 0 ? clips.left : -clips.right));
      for (int n = 0; n < all * (side == 0 ? queries : keys); ++n) {
        const double want = 0.36 * at(side, n, row);
        if (side == 0) {
          const auto is = static_cast<double>(s.lse[static_cast<std::size_t>(n + (1 + far) * all * queries)]);
          ASSERT_NEAR(is, static_cast<double>(lse[static_cast<std::size_t>(n)]) - want, 1e-4 + 1e-5 * std::abs(want));
        } else {
          const auto is = static_cast<double>(s.key_ends[static_cast<std::size_t>((n / keys * 2 + far) * keys + n % keys)]);
          ASSERT_NEAR(is, want, 1e-4 + 1e-5 * std::abs(want)) << n;
        }
      }
    }
  }
}

/// Gradients of scores as the backward leaves them, by features and rows of a side: strips, and sums of far tiles; and what it gives them.
template <class S>
struct Given {
  std::vector<double> by_row[2];  // (B, H, tokens, rows of the table)
  std::vector<double> own[2];     // (B, H or Hk, tokens, channels)
  int count[2];

  explicit Given(S& s) : count{s.tiles.rows(), s.padded_keys()} {
    for (int side = 0; side < 2; ++side) {
      by_row[side].assign(static_cast<std::size_t>(S::kBatch * S::kHeads * count[side] * s.rows[side]), 0.0);
      own[side].assign(static_cast<std::size_t>(S::kBatch * S::kHeads * count[side] * S::kWidth), 0.0);
    }
    fill_strips(s);
    fill_queries(s);
    fill_keys(s);
  }
  double& at(const S& s, int side, int head_number, int token, int row) {
    return by_row[side][static_cast<std::size_t>((head_number * count[side] + token) * s.rows[side] + row)];
  }
  void fill_strips(S& s) {
    s.each_word([&](int b, int h, int i, int j, std::uint32_t& word) {
      const float low = s.sees(i, j) ? 0.1F * s.normal() : 0, high = s.sees(i + 1, j) ? 0.1F * s.normal() : 0;
      word = cuda::attention::mma::pack<typename S::template Body<0>::Element>(low, high);
      const float2 both = unpack<typename S::template Body<0>::Element>(word);
      for (int x = 0; x < 2; ++x) {
        if (!s.sees(i + x, j)) continue;
        const auto ds = static_cast<double>(x == 0 ? both.x : both.y);
        if (s.has(0)) at(s, 0, b * S::kHeads + h, i + x, s.row_of(0, i + x, j)) += ds;
        if (s.has(1)) at(s, 1, b * S::kHeads + h, j, s.row_of(1, i + x, j)) += ds;
      }
    });
  }
  int end_row(const S& s, int side, int far) const {
    const Clips clips = s.work[side].clips;
    return static_cast<int>(cuda::attention::row_by_distance(s.b.tables[side].map, far == 0 ? clips.left : -clips.right));
  }
  void fill_queries(S& s) {
    for (int number = 0; number < S::kBatch * S::kHeads * s.tiles.tiles(); ++number) {
      const int tile = number % s.tiles.tiles(), head = number / s.tiles.tiles();
      const Span visitors = key_blocks(s.tiles, tile);
      if (visitors.first >= visitors.end) continue;  // nobody has written there
      float* const to = s.sums[0].data() + number * dq_numbers(s.tiles, true);
      for (int n = 0; n < kDqNumbers; ++n) {
        const int half = n / 4096, x = n / 512 % 8, thread = n / 4 % 128, e = n % 4;
        const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * (e / 2), channel = 8 * x + 2 * (thread % 4) + e % 2;
        const int i = tile * S::kQueries + row + (S::kQueries == 128 ? 64 * half : 0), c = channel + (S::kQueries == 128 ? 0 : 64 * half);
        to[n] = s.normal();
        own[0][static_cast<std::size_t>((head * count[0] + i) * S::kWidth + c)] = static_cast<double>(to[n]);
      }
      for (int n = 0; n < 2 * S::kQueries; ++n) {
        const int far = n / S::kQueries, i = tile * S::kQueries + n % S::kQueries;
        to[kDqNumbers + n] = i < s.is.queries ? s.normal() : 0;
        if (s.has(0)) at(s, 0, head, i, end_row(s, 0, far)) += static_cast<double>(to[kDqNumbers + n]);
      }
    }
  }
  void fill_keys(S& s) {
    for (int n = 0; n < static_cast<int>(s.sums[1].size()); ++n) {
      const int block = n / (kBlockKeys * S::kWidth), inside = n % (kBlockKeys * S::kWidth);
      const int group = inside / (64 * S::kWidth), x = inside / 512 % (S::kWidth / 8), thread = inside / 4 % 128, e = inside % 4;
      const int j = block % s.tiles.blocks() * kBlockKeys + 64 * group + thread / 32 * 16 + thread % 32 / 4 + 8 * (e / 2);
      s.sums[1][static_cast<std::size_t>(n)] = s.normal();
      own[1][static_cast<std::size_t>((block / s.tiles.blocks() * count[1] + j) * S::kWidth + 8 * x + 2 * (thread % 4) + e % 2)] =
          static_cast<double>(s.sums[1][static_cast<std::size_t>(n)]);
    }
    for (int n = 0; n < static_cast<int>(s.key_sums.size()); ++n) {
      const int j = n % count[1], far = n / count[1] % 2, head = n / count[1] / 2;
      const Span visited = query_tiles(s.tiles, j / kBlockKeys);
      if (visited.first >= visited.end) continue;
      s.key_sums[static_cast<std::size_t>(n)] = j < s.is.keys ? s.normal() : 0;
      at(s, 1, head, j, end_row(s, 1, far)) += static_cast<double>(s.key_sums[static_cast<std::size_t>(n)]);
    }
  }
};

template <class S>
void check_side(S& s, Given<S>& given, int side) {
  if (!finishes_features(s.work[side], side)) return;
  if (!s.is.features) {
    EXPECT_EQ(s.to[side], Bits(s.to[side].size(), S::kUntouched));
  }
  const int count = side == 0 ? s.is.queries : s.is.keys, heads = side == 0 ? S::kHeads : S::kKeyHeads, group = S::kHeads / heads;
  std::vector<double> of_table(s.gradient[side].size(), 0.0);
  for (int n = 0; n < S::kBatch * heads * count; ++n) {
    const int token = n % count, head = n / count % heads, batch = n / count / heads;
    for (int c = 0; c < s.is.width; ++c) {
      double sum = 0, size = 0;
      for (int x = 0; x < group * s.rows[side]; ++x) {
        const int h = head * group + x / s.rows[side], row = x % s.rows[side];
        const double ds = given.at(s, side, batch * S::kHeads + h, token, row), y = ds * s.table_at(side, row, h, c);
        sum += y, size += std::abs(y);
        of_table[static_cast<std::size_t>((row * s.table_heads + (s.is.by_head ? h : 0)) * s.is.width + c)] +=
            ds * s.feature_at(side, batch, token, h, c);
      }
      const double own = given.own[side][static_cast<std::size_t>(((batch * heads + head) * given.count[side] + token) * S::kWidth + c)];
      const double want = 0.25 * own + 0.3 * sum;
      const double is = s.value(s.to[side][static_cast<std::size_t>(((batch * count + token) * heads + head) * s.is.width + c)]);
      if (!s.is.features) continue;
      ASSERT_NEAR(is, want, 0x1p-8 * std::abs(want) + 1e-4 * size + 1e-6)
          << side << ' ' << batch << ' ' << token << ' ' << head << ' ' << c;
    }
  }
  for (std::size_t n = 0; n < of_table.size(); ++n) {
    if (!s.is.gradients) {
      ASSERT_TRUE(std::isnan(s.gradient[side][n]));
      continue;
    }
    ASSERT_NEAR(static_cast<double>(s.gradient[side][n]), 0.3 * of_table[n], 4e-3) << side << ' ' << n;
  }
}
/// What is added to queries where they meet keys, and where they meet rows: of heads by themselves, or of all.
template <class S>
void check_shifts(S& s, Given<S>& given) {
  for (int n = 0; n < 2 && s.is.shifts; ++n) {
    std::vector<double> want(static_cast<std::size_t>(S::kHeads * s.is.width), 0.0);
    for (int x = 0; x < S::kBatch * S::kHeads * s.is.queries; ++x) {
      const int head = x / s.is.queries, i = x % s.is.queries;  // of all batch rows
      for (int c = 0; c < s.is.width; ++c) {
        double sum = n == 0 ? given.own[0][static_cast<std::size_t>((head * given.count[0] + i) * S::kWidth + c)] : 0;
        for (int row = 0; row < (n == 1 ? s.rows[0] : 0); ++row) {
          sum += given.at(s, 0, head, i, row) * s.table_at(0, row, head % S::kHeads, c);
        }
        want[static_cast<std::size_t>(head % S::kHeads * s.is.width + c)] += n == 0 ? 0.25 * sum : 0.3 * sum;
      }
    }
    for (const int heads : {1, S::kHeads}) {
      std::vector<float> is(static_cast<std::size_t>(heads * s.is.width), NAN), sums = s.shift_sums[n];
      ShiftEnds w = {s.tiles, sums.data(), S::kWidth, s.is.width, heads, n == 0 ? 0.25F : 0.3F, is.data(), false};
      for (int x = 0; x < S::kHeads * 128; ++x) add_queries(w, x % 128, x / 128);
      for (int x = 0; x < heads * 128; ++x) store_shift(w, x % 128, x / 128);
      for (int x = 0; x < heads * s.is.width; ++x) {
        const double sum = want[static_cast<std::size_t>(x)] + (heads == 1 ? want[static_cast<std::size_t>(x + s.is.width)] : 0);
        ASSERT_NEAR(static_cast<double>(is[static_cast<std::size_t>(x)]), sum, 4e-3) << n << ' ' << x;
      }
      std::vector<float> twice = is;
      for (float& x : twice) x += x;
      w.adds = true;
      for (int x = 0; x < heads * 128; ++x) store_shift(w, x % 128, x / 128);
      EXPECT_EQ(is, twice);
    }
  }
}
template <class S>
void gradients_are_what_threads_left(const Case& c) {
  S s(c);
  for (int side = 0; side < 2; ++side) {
    for (int head = 0; head < s.table_heads && s.has(side); ++head) {
      const int count = (s.work[side].span.chunks() + 2) * 32 * (S::kWidth / 16);
      for (int x = 0; x < count; ++x) {
        side == 0 ? lay_out_lines<typename S::template Body<0>>(s.work[0], x, head)
                  : lay_out_lines<typename S::template Body<1>>(s.work[1], x, head);
      }
    }
  }
  Given<S> given(s);
  s.template finish<kOfQueries>();
  s.template finish<kOfKeys>();
  check_side(s, given, 0);
  check_side(s, given, 1);
  check_shifts(s, given);
  // A later part of a call that has the same gradients adds them.
  for (int side = 0; side < 2 && c.gradients; ++side) {
    std::vector<float> twice = s.gradient[side];
    for (float& x : twice) x += x;
    s.work[side].adds_to_gradient = true;
    for (int head = 0; head < s.table_heads; ++head) {
      for (int x = 0; x < s.rows[side] * c.width; ++x) add_lines(s.work[side], x, head);
    }
    EXPECT_EQ(s.gradient[side], twice);
  }
}

constexpr Case kCases[] = {
    {130, 130, 64, {{64, 64}, {40, 100}}, true, true, false, INT64_MAX},
    {65, 190, 40, {{0, 0}, {300, 300}}, false, true, true, INT64_MAX},
    {190, 65, 64, {{1, 0}, {20, 5}}, false, true, true, 40},
    {70, 129, 96, {{7, 63}, {9, 9, 5}}, true, false, false, 100},
    {129, 70, 128, {{12, 12, 7}, {0, 1}}, true, true, false, INT64_MAX},
    // Several parts of a block; more distances than there are.
    {260, 200, 64, {{128, 0}, {500, 40}}, false, true, true, INT64_MAX, 1},
    {140, 180, 128, {{100, 28}, {17, 31}}, false, false, true, 70, 2},
    {1, 1, 64, {{5, 5}, {2, 2}}, false, true, false, INT64_MAX},
    // One table alone; gradients of tables, or of features, that nobody wants.
    {140, 200, 64, {kNoTable, {30, 50}}, false, true, true, INT64_MAX},
    {200, 140, 96, {kNoTable, {60, 3, 5}}, true, false, false, 90},
    {140, 200, 64, {{30, 50}, kNoTable}, false, true, true, INT64_MAX},
    {200, 140, 96, {{60, 3, 5}, kNoTable}, true, false, false, 90},
    {130, 190, 64, {{20, 30}, {9, 40}}, false, true, false, INT64_MAX, 0, false, true},
    {150, 130, 128, {{20, 30}, {9, 40}}, true, false, true, INT64_MAX, 0, true, false},
    // Something is added to queries; a row for each distance.
    {150, 170, 72, {{169, 149}, kNoTable}, false, true, true, INT64_MAX, 0, true, true, true},
    {170, 150, 64, {{149, 0}, {30, 40}}, true, true, false, INT64_MAX, 0, false, false, true},
    {300, 150, 128, {{40, 9}, kNoTable}, true, false, false, 50, 0, true, false, true},
};

template <class Body>
void each_case(const Body& body) {
  for (const Case& c : kCases) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(c.queries) + " " + std::to_string(c.width));
    if (c.half) {
      c.width <= 64 ? body.template operator()<Sides<__half, 0>>(c) : body.template operator()<Sides<__half, 1>>(c);
    } else {
      c.width <= 64 ? body.template operator()<Sides<__nv_bfloat16, 0>>(c) : body.template operator()<Sides<__nv_bfloat16, 1>>(c);
    }
  }
}

TEST(HopperBand, products_are_where_threads_read_them) {
  each_case([]<class S>(const Case& c) { products_are_where_threads_read_them<S>(c); });
}

TEST(HopperBand, gradients_are_what_threads_left) {
  each_case([]<class S>(const Case& c) { gradients_are_what_threads_left<S>(c); });
}

/// Queries with what is added to them, rounded once, packed by head.
TEST(HopperBand, adds_shifts_to_queries) {
  each_case([]<class S>(const Case& c) {
    S s(c);
    for (const int heads : {1, S::kHeads}) {
      std::vector<double> vector(static_cast<std::size_t>(heads * c.width));
      for (double& x : vector) x = static_cast<double>(s.normal());
      const Extents shape = {1, 1, heads, c.width};
      const ConstTensorView of = {vector.data(), DType::f64, shape, contiguous_strides(shape), {}};
      std::vector<uint4> to(static_cast<std::size_t>(S::kBatch * S::kHeads * c.queries * c.width / 8));
      const ShiftedWork w = {s.tiles, input_rows(s.b.forward.q), of, to.data()};
      for (int x = 0; x < 128 * ((c.queries * c.width / 8 + 127) / 128) * S::kBatch * S::kHeads; ++x) {
        const int number = x % (S::kBatch * S::kHeads);
        shift_query<typename S::template Body<0>::Element>(w, x / (S::kBatch * S::kHeads), number % S::kHeads, number / S::kHeads);
      }
      Bits is(to.size() * 8);
      std::memcpy(is.data(), to.data(), is.size() * 2);
      for (std::size_t n = 0; n < is.size(); ++n) {
        const int at = static_cast<int>(n) / c.width, channel = static_cast<int>(n) % c.width, head = at / c.queries;
        const auto shift = static_cast<float>(vector[static_cast<std::size_t>((heads == 1 ? 0 : head % S::kHeads) * c.width + channel)]);
        const auto query = static_cast<float>(s.feature_at(0, head / S::kHeads, at % c.queries, head % S::kHeads, channel));
        ASSERT_EQ(is[n], static_cast<std::uint16_t>(cuda::attention::mma::pack<typename S::template Body<0>::Element>(query + shift, 0)));
      }
    }
  });
}

/// Tiles that a block of keys is near are those that are near the block.
TEST(HopperBand, tiles_are_near_blocks) {
  for (const Case& c : kCases) {
    const Sides<__half, 0> s(c);
    KeyTiles t = s.tiles;
    for (const int queries : {64, 128}) {
      t.tile_queries = queries, t.tile_count = (c.queries + queries - 1) / queries;
      for (int x = 0; x < t.tiles() * t.blocks(); ++x) {
        const Span blocks = near_blocks(t, s.near, x / t.blocks()), tiles = near_tiles(t, s.near, x % t.blocks());
        EXPECT_EQ(x % t.blocks() >= blocks.first && x % t.blocks() < blocks.end,
                  x / t.blocks() >= tiles.first && x / t.blocks() < tiles.end)
            << x << ' ' << c.queries;
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
