// SPDX-License-Identifier: Apache-2.0
// Weights by distance of Hopper's forward, for rows that are added to values: the threads of a warpgroup, run by the host, walk over the
// tiles of keys as the kernel does; what they keep and read is held against a softmax written out.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cuda/attention/hopper/forward/by_distance.cuh"

namespace phasor::test {
namespace {

using namespace cuda::hopper;

struct Case {
  int queries, keys, left, right;  // left, right: of the table
  bool causal = false;
  int window = kFar, ahead = kFar;
  float rise = 0;  // of scores from one key to the next
};

constexpr int kPitch = 136;
/// What a thread reads at the end, of its two queries.
struct Read {
  std::vector<std::uint32_t> weights;
  float near[2], left[2], right[2], sum[2], greatest[2];
};

template <int kKeys, class Element>
class Warpgroup {
 public:
  static constexpr float kScale = 0.7F;

  explicit Warpgroup(const Case& c) : is(c), random_(static_cast<unsigned>(c.queries * 17 + c.keys)) {
    tiles = {.queries = c.queries,
             .keys = c.keys,
             .heads = 1,
             .batch = 1,
             .heads_of_key = 1,
             .together = 1,
             .left = c.window,
             .right = c.causal ? 0 : c.ahead,
             .block_queries = 64,
             .tile_keys = kKeys};
    clips = {c.left, std::clamp(tiles.right, 0, c.right), false, 1};
    for (int i = 0; i < c.queries * c.keys; ++i) scores_.push_back(3 * normal_(random_) + c.rise * static_cast<float>(i % c.keys));
  }
  /// A block of 64 queries; shared memory begins as whatever `rubbish` is.
  template <int kSteps>
  void run(int row, std::uint16_t rubbish, bool backwards) {
    std::vector<std::uint16_t> places(64 * kPitch, rubbish);
    std::vector<float> greatest(64 * 4, NAN);
    read.assign(128, {});
    emulated::Block().run(128, [&] { walk<kSteps>(row, places.data(), greatest.data()); }, backwards);
  }
  bool sees(int i, int j) const {
    const int position = i + tiles.offset();
    return i < tiles.queries && j >= 0 && j < tiles.keys && j >= position - tiles.left && j <= position + tiles.right;
  }
  /// Of a query, its weights before they are divided by their sum.
  std::vector<double> weights_of(int i, double& greatest) const {
    greatest = -INFINITY;
    for (int j = 0; j < tiles.keys; ++j) {
      if (sees(i, j)) greatest = std::max(greatest, double{score(i, j)});
    }
    std::vector<double> list(static_cast<std::size_t>(tiles.keys), 0.0);
    for (int j = 0; j < tiles.keys; ++j) {
      if (sees(i, j)) list[static_cast<std::size_t>(j)] = std::exp2((double{score(i, j)} - greatest) * kScale);
    }
    return list;
  }

  Case is;
  Tiles tiles;
  Clips clips;
  std::vector<Read> read;

 private:
  float score(int i, int j) const { return scores_[static_cast<std::size_t>(i * tiles.keys + j)]; }
  template <int kCount>
  void step(const ByDistance<kKeys, kPitch>& of, const Place& at, Rows& rows) {
    ByDistance<kKeys, kPitch> weights = of;
    float s[kCount], shrink[2];
    for (int x = 0; x < kCount; ++x) {
      const int i = at.row + 8 * (x / 2 % 2), j = at.key + 8 * (x / 4) + 2 * static_cast<int>(threadIdx.x % 4) + x % 2;
      s[x] = i < tiles.queries && j < tiles.keys ? score(i, j) : 0;
    }
    if (is_partial(tiles, at.group_row, 64, at.key))
      mask_scores<2 * kCount>(s, tiles, at.row, at.key + 2 * static_cast<int>(threadIdx.x % 4));
    update_softmax<2 * kCount>(s, rows, shrink, 0.0F, kScale);
    weights.keep(tiles, clips, at, s, rows, shrink);
  }
  template <int kSteps>
  void walk(int row, std::uint16_t* places, float* greatest) {
    const int query = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    float right[2] = {0, 0};
    ByDistance<kKeys, kPitch> weights = {places + query * kPitch, reinterpret_cast<float(*)[4]>(greatest) + query,
                                         (row + query + tiles.offset() + clips.left) & 1, right};
    Rows rows;
    const TileSpan span = tiles_of(tiles, row);
    Place at = {row, row, row + query, (span.end - 1) * kKeys};
    if (kKeys == 128 && span.keys_in_last <= 64) {  // as the kernel of that width does
      step<32>(weights, at, rows);
    } else {
      step<kKeys / 2>(weights, at, rows);
    }
    for (int j = span.end - 2; j >= span.first; --j) at.key = j * kKeys, step<kKeys / 2>(weights, at, rows);
    std::uint32_t words[4 * kSteps];
    Read& to = read[threadIdx.x];
    float near[2];
    weights.template read<Element, kSteps>(tiles, clips, at, rows, kScale, words, near);
    to.weights.assign(words, words + 4 * kSteps);
    for (int r = 0; r < 2; ++r) {
      to.near[r] = sum_of_quad(near[r]), to.right[r] = sum_of_quad(right[r]), to.sum[r] = sum_of_quad(rows.sum[r]);
      to.greatest[r] = rows.greatest[r];
      to.left[r] = left_of_sum(tiles, clips, at.row + 8 * r + tiles.offset(), to.sum[r], to.right[r] + to.near[r]);
    }
  }
  std::vector<float> scores_;
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

/// Weights of a query as threads read them: of rows from the second one on.
template <int kKeys, class Element>
void check_query(const Warpgroup<kKeys, Element>& w, int i, int in_block, int columns) {
  SCOPED_TRACE(testing::Message() << "query " << i);
  double greatest = 0;
  const std::vector<double> want = w.weights_of(i, greatest);
  double left = 0, right = 0, sum = 0, near = 0;
  const int position = i + w.tiles.offset();
  for (int j = 0; j < w.tiles.keys; ++j) {
    const double x = want[static_cast<std::size_t>(j)];
    (j - position <= -w.clips.left ? left : j - position > w.clips.right ? right : near) += x;
    sum += x;
  }
  const int warp = in_block / 16, r = in_block / 8 % 2, quad = 32 * warp + in_block % 8 * 4;
  const Read& first = w.read[static_cast<std::size_t>(quad)];
  const double small = 0x1p-20 * sum;  // of sums in float32
  EXPECT_NEAR(first.sum[r], sum, small);
  EXPECT_NEAR(first.right[r], right, small);
  EXPECT_NEAR(first.left[r], left, small + near * 0x1p-11 + 128 * 0x1p-25);
  EXPECT_TRUE(left != 0 || first.left[r] == 0);
  EXPECT_NEAR(first.near[r], near, small + near * 0x1p-11 + 128 * 0x1p-25);
  const double rounding = (std::is_same_v<Element, __half> ? 0x1p-11 : 0x1p-8) + 0x1p-11 + 0x1p-18;
  for (int c = 0; c < columns; ++c) {
    // The left operand: words of row r in blocks of eight columns.
    const Read& of = w.read[static_cast<std::size_t>(quad + c % 8 / 2)];
    const std::uint32_t word = of.weights[static_cast<std::size_t>(2 * (c / 8) + r)];
    const double is = double{cuda::attention::mma::widened<Element>(static_cast<std::uint16_t>(word >> 16 * (c % 2)))};
    const int key = position - w.clips.left + 1 + c;
    const double expected = c < w.clips.rows() - 1 && w.sees(i, key) ? want[static_cast<std::size_t>(key)] : 0;
    EXPECT_NEAR(is, expected, expected * rounding + (expected == 0 ? 0 : 0x1p-24)) << "column " << c;
  }
}

template <int kKeys, class Element>
void check(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.queries << " queries, " << c.keys << " keys, left " << c.left << " right " << c.right << " causal "
                                  << c.causal << " window " << c.window << " ahead " << c.ahead << " rise " << c.rise);
  Warpgroup<kKeys, Element> w(c);
  for (int row = 0; row < c.queries; row += 64) {
    const bool few = w.clips.rows() - 1 <= 64;
    few ? w.template run<4>(row, 0xffff, row % 128 == 0) : w.template run<8>(row, 0x7c00, row % 128 == 0);
    for (int n = 0; n < 64 && row + n < c.queries; ++n) check_query(w, row + n, n, few ? 64 : 128);
  }
}

constexpr Case kCases[] = {
    {.queries = 385, .keys = 385, .left = 64, .right = 64},
    {.queries = 385, .keys = 385, .left = 64, .right = 64, .causal = true},
    {.queries = 300, .keys = 700, .left = 64, .right = 64, .rise = 0.05F},
    {.queries = 300, .keys = 700, .left = 64, .right = 64, .rise = -0.05F},  // every tile has a greater maximum
    {.queries = 300, .keys = 500, .left = 63, .right = 64},
    {.queries = 129, .keys = 577, .left = 64, .right = 63, .causal = true, .rise = -0.3F},
    {.queries = 700, .keys = 130, .left = 64, .right = 64},
    {.queries = 193, .keys = 64, .left = 31, .right = 16, .causal = true},
    {.queries = 65, .keys = 290, .left = 0, .right = 0},
    {.queries = 130, .keys = 130, .left = 1, .right = 0},
    {.queries = 130, .keys = 130, .left = 0, .right = 1},
    {.queries = 1, .keys = 1, .left = 7, .right = 16},
    {.queries = 256, .keys = 352, .left = 128, .right = 0},
    {.queries = 256, .keys = 352, .left = 0, .right = 128},
    {.queries = 200, .keys = 400, .left = 64, .right = 64, .window = 63, .ahead = 64},
    {.queries = 200, .keys = 400, .left = 64, .right = 64, .window = 10, .ahead = 3},
    {.queries = 200, .keys = 400, .left = 20, .right = 9, .window = 150, .ahead = 0},
    {.queries = 400, .keys = 200, .left = 20, .right = 9, .window = 150, .ahead = 70},
};

TEST(HopperValues, keep_weights_by_distance) {
  for (const Case& c : kCases) {
    check<144, __nv_bfloat16>(c);
    if (c.queries < 200) check<144, __half>(c);
    check<128, __nv_bfloat16>(c);
  }
}

}  // namespace
}  // namespace phasor::test
