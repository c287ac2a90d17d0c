// SPDX-License-Identifier: Apache-2.0
// Random problems for attention on Hopper.
#pragma once

#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cuda/attention/hopper/run.hpp"
#include "cuda/attention/place.hpp"

namespace phasor::test {

using HopperForward = cuda::hopper::Forward;
using cuda::hopper::kNoLimit;

inline double value_of(DType dtype, std::uint16_t bits) {
  if (dtype == DType::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  return __half2float(std::bit_cast<__half>(bits));
}
inline std::uint16_t bits_of(DType dtype, float x) {
  if (dtype == DType::bf16) return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
  return std::bit_cast<std::uint16_t>(__float2half_rn(x));
}

/// 16-bit numbers in one buffer, of which a tensor takes some; the rest is not to be touched.
struct Tensor16 {
  std::vector<std::uint16_t> memory;
  Extents shape{};
  Extents strides{};
  std::int64_t begin = 0;
  std::vector<float> values;  // the same numbers: a reference reads each thousands of times

  void widen(DType dtype) {
    values.resize(memory.size());
    for (std::size_t i = 0; i < memory.size(); ++i) values[i] = static_cast<float>(value_of(dtype, memory[i]));
  }
  std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return begin + b * strides[0] + t * strides[1] + h * strides[2] + d;
  }
};

/// A table by distance that queries, or keys, meet, and its rule of rows.
struct SideProblem {
  Tensor16 table;  // (1, rows, heads or 1, D); no memory: none
  double scale = 0;
  job::RowMap map = {};
  std::vector<std::int64_t> thresholds;  // of its buckets
  std::int64_t far_left = 0, far_right = 0;

  bool is_there() const { return !table.memory.empty(); }
  /// -1: none.
  std::int64_t row(std::int64_t distance) const {
    job::RowMap rule = map;
    rule.buckets.thresholds = thresholds.data();
    return cuda::attention::row_by_distance(rule, distance);
  }
};

struct HopperProblem {
  DType dtype = DType::bf16;
  Tensor16 q, k, v, out;
  double scale = 1, softcap = 0;
  bool causal = false;
  std::int64_t left = kNoLimit, right = kNoLimit;
  std::vector<float> diagonal;  // (heads or 1, distances); empty: none
  std::int64_t diagonal_stride = 0, first_distance = 0, distances = 0, far_left = kNoLimit, far_right = kNoLimit;
  bool skip = false;
  Tensor16 table;        // (1, rows, heads or 1, D); no memory: none
  Tensor16 value_table;  // (1, rows, heads or 1, Dv), added to values; no memory: none
  Tensor16 features;     // (B, Tq, H, D), in the place of q there; no memory: none
  std::int64_t table_left = 0, table_right = 0;
  double table_scale = 0;
  bool zero_outside = false;
  std::vector<float> table_shift, content_shift;  // (heads or 1, D); empty: none
  SideProblem sides[2];                           // of queries, of keys

  /// Channel c of what is added for a head.
  double shift_at(const std::vector<float>& shift, std::int64_t h, std::int64_t c) const {
    const auto d = static_cast<std::size_t>(q.shape[3]);
    return shift.empty() ? 0 : shift[(shift.size() == d ? 0 : static_cast<std::size_t>(h)) * d + static_cast<std::size_t>(c)];
  }
  /// What meets the table.
  const Tensor16& meets_table() const { return features.memory.empty() ? q : features; }
  /// Channel c of a row of the table as a head reads it.
  double table_at(std::int64_t row, std::int64_t h, std::int64_t c) const {
    return value_of(dtype, table.memory[static_cast<std::size_t>(table.at(0, row, table.shape[2] == 1 ? 0 : h, c))]);
  }
  void widen() {
    for (Tensor16* const x : {&q, &k, &v, &table, &value_table, &features, &sides[0].table, &sides[1].table}) x->widen(dtype);
  }
  std::string text() const {
    const auto of = [](const Tensor16& x) {
      std::string s;
      for (const std::int64_t n : x.shape) s += (s.empty() ? "(" : ", ") + std::to_string(n);
      return s + ")";
    };
    return std::string(name_of(dtype)) + " q " + of(q) + " k " + of(k) + " v " + of(v) + (causal ? " causal" : "") + " left " +
           std::to_string(left) + " right " + std::to_string(right) + " cap " + std::to_string(softcap) + " distances " +
           std::to_string(first_distance) + " + " + std::to_string(distances) + " far " + std::to_string(far_left) + " " +
           std::to_string(far_right) + (skip ? " skip" : "") +
           (table.memory.empty() ? "" : " table " + of(table) + " left " + std::to_string(table_left)) + (zero_outside ? " zeros" : "") +
           (value_table.memory.empty() ? "" : " values' table " + of(value_table) + " left " + std::to_string(table_left)) +
           (features.memory.empty() ? "" : " features") + (table_shift.empty() ? "" : " shift") +
           (content_shift.empty() ? "" : " content shift") + (sides[0].is_there() ? " queries meet " + of(sides[0].table) : "") +
           (sides[1].is_there() ? " keys meet " + of(sides[1].table) : "");
  }
};

/// Makes problems with awkward lengths, edges of tiles and clips, and strides.
class RandomHopper {
 public:
  explicit RandomHopper(std::uint64_t seed) : random_(seed) {}

  HopperProblem make() {
    HopperProblem p;
    p.dtype = chance(2) ? DType::bf16 : DType::f16;
    const std::int64_t batch = any({1, 2, 3}), key_heads = any({1, 2, 3}), group = any({1, 1, 2, 4});
    const std::int64_t tq = length(), tk = chance(2) ? tq : length();
    const auto [d, dv] = widths();
    p.q = tensor(p.dtype, {batch, tq, key_heads * group, d}), p.k = tensor(p.dtype, {batch, tk, key_heads, d});
    p.v = tensor(p.dtype, {batch, tk, key_heads, dv}), p.out = tensor(p.dtype, {batch, tq, key_heads * group, dv});
    std::fill(p.out.memory.begin(), p.out.memory.end(), std::uint16_t{0x7fed});  // NaN: what is not written shows
    p.scale = any({1.0, 0.3, 2.0}) / std::sqrt(static_cast<double>(d));
    p.causal = chance(2);
    if (chance(3)) p.left = any({0, 1, 63, 64, 127, 128, 175, 176, 200});
    if (chance(4)) p.right = any({0, 1, 64, 127, 177});
    if (chance(6)) p.softcap = any({5.0, 30.0});
    if (p.softcap == 0 && chance(2)) add_bias(p, tq, tk);
    if (p.diagonal.empty() && p.softcap == 0 && p.causal && chance(2)) add_falling(p, tq, tk);
    if (p.diagonal.empty() && p.softcap == 0 && d <= 128 && dv <= 128 && chance(2)) {
      if (chance(2)) {
        add_table(p);
      } else {
        add_long_table(p);
      }
    }
    return p;
  }
  /// One with a long table.
  HopperProblem make_long() {
    HopperProblem p = make();
    while (p.q.shape[3] > 128 || p.v.shape[3] > 128) p = make();
    p.diagonal.clear(), p.softcap = 0, p.skip = false;
    p.table_shift.clear(), p.content_shift.clear();
    add_long_table(p);
    return p;
  }
  /// One with features that meet rows of some distances, and keys beyond them.
  HopperProblem make_featured() {
    HopperProblem p = make_long();
    while (p.features.memory.empty() || !p.zero_outside) p = make_long();
    p.k = tensor(p.dtype, {p.k.shape[0], any({700, 901, 1100}), p.k.shape[2], p.k.shape[3]});
    p.v = tensor(p.dtype, {p.v.shape[0], p.k.shape[1], p.v.shape[2], p.v.shape[3]});
    return p;
  }
  /// One with a table of clipped rows.
  HopperProblem make_clipped() {
    HopperProblem p = make();
    while (p.q.shape[3] > 128 || p.v.shape[3] > 128) p = make();
    p.diagonal.clear(), p.softcap = 0, p.skip = false, p.zero_outside = false;
    p.table_shift.clear(), p.content_shift.clear();
    add_table(p);
    return p;
  }
  /// One with a table of clipped rows that are added to values, beside one that meets queries or alone.
  HopperProblem make_valued() {
    HopperProblem p = make_clipped();
    p.features = {};
    add_value_table(p);
    return p;
  }
  /// One with tables that queries meet, keys meet, or both.
  HopperProblem make_sides() {
    HopperProblem p = make();
    while (p.q.shape[3] > 128 || p.v.shape[3] > 128) p = make();
    p.diagonal.clear(), p.softcap = 0, p.skip = false, p.zero_outside = false;
    p.table = {}, p.features = {};
    p.table_shift.clear(), p.content_shift.clear();
    const int which = any({0, 1, 2, 2});
    if (which != 1) add_side(p, p.sides[0]);
    if (which != 0) add_side(p, p.sides[1]);
    return p;
  }
  /// Causal, many keys, one slope for all heads.
  HopperProblem steep(float slope) {
    HopperProblem p;
    p.q = tensor(p.dtype, {2, 400, 4, 128}), p.k = tensor(p.dtype, {2, 900, 2, 128});
    p.v = tensor(p.dtype, p.k.shape), p.out = tensor(p.dtype, p.q.shape);
    p.scale = 1 / std::sqrt(128.0);
    p.causal = p.skip = true;
    p.first_distance = -400, p.distances = 1300;
    for (std::int64_t r = p.first_distance; r < p.first_distance + p.distances; ++r)
      p.diagonal.push_back(-slope * std::abs(static_cast<float>(r)));
    return p;
  }
  bool chance(int of) { return random_() % static_cast<std::uint64_t>(of) == 0; }
  template <class T>
  T any(std::initializer_list<T> list) {
    return list.begin()[random_() % list.size()];
  }
  float normal() { return normal_(random_); }
  std::vector<std::uint16_t> numbers(DType dtype, std::size_t count) {
    std::vector<std::uint16_t> list(count);
    for (auto& x : list) x = bits_of(dtype, normal());
    return list;
  }

 private:
  std::int64_t length() {
    return chance(3) ? static_cast<std::int64_t>(random_() % 520 + 1)
                     : any<std::int64_t>({1, 2, 63, 64, 65, 127, 128, 129, 175, 176, 177, 192, 193, 256, 352, 353, 385});
  }
  std::pair<std::int64_t, std::int64_t> widths() {
    using Pair = std::pair<std::int64_t, std::int64_t>;
    return any<Pair>({{128, 128},
                      {64, 64},
                      {128, 128},
                      {64, 64},
                      {32, 32},
                      {96, 96},
                      {80, 80},
                      {192, 128},
                      {256, 256},
                      {64, 128},
                      {40, 8},
                      {200, 256},
                      {160, 104}});
  }
  /// Tokens or heads outermost, packed or with room between.
  Tensor16 tensor(DType dtype, const Extents& shape) {
    Tensor16 x;
    x.shape = shape;
    const std::int64_t row = shape[3] + 8 * any({0, 0, 1, 5});
    x.strides =
        chance(2) ? Extents{shape[1] * shape[2] * row, shape[2] * row, row, 1} : Extents{shape[1] * shape[2] * row, row, shape[1] * row, 1};
    x.strides[0] += 8 * any({0, 3});
    x.begin = 8 * any({0, 1, 4});
    x.memory = numbers(dtype, static_cast<std::size_t>(x.begin + shape[0] * x.strides[0] + 24));
    return x;
  }
  void add_bias(HopperProblem& p, std::int64_t tq, std::int64_t tk) {
    const std::int64_t heads = p.q.shape[2];
    const bool clipped = chance(2);
    const std::int64_t clip_left = clipped ? any({0, 1, 15, 48, 63, 64, 91, 128, 176, 177}) : tk - 1;
    const std::int64_t clip_right = clipped ? any({0, 1, 15, 63, 64, 91, 129}) : std::max(tq - tk, tk - 1) + tq;
    // Given whole with its clips named, or the part between them alone.
    const bool whole = clipped && chance(2);
    p.first_distance = whole ? -(tq + tk) : -clip_right;
    p.distances = (whole ? tq + tk : clip_left) - p.first_distance + 1;
    if (whole) p.far_left = clip_left, p.far_right = clip_right;
    const std::int64_t rows = chance(4) ? 1 : heads;
    p.diagonal_stride = rows == 1 ? 0 : p.distances + any({0, 3});
    p.diagonal.resize(static_cast<std::size_t>((rows - 1) * p.diagonal_stride + p.distances));
    for (float& x : p.diagonal) x = 2 * normal();
    if (!whole) return;
    for (std::int64_t h = 0; h < rows; ++h) {
      float* const of = p.diagonal.data() + h * p.diagonal_stride - p.first_distance;
      for (std::int64_t r = p.first_distance; r < p.first_distance + p.distances; ++r) of[r] = of[std::clamp(r, -clip_right, clip_left)];
    }
  }
  /// ALiBi of slopes that leave out many tiles, some, or none.
  void add_falling(HopperProblem& p, std::int64_t tq, std::int64_t tk) {
    p.first_distance = -tq, p.distances = p.diagonal_stride = tq + tk;
    for (std::int64_t h = 0; h < p.q.shape[2]; ++h) {
      const float slope = any({4.0f, 1.0f, 0.25f, 0.0625f, -0.5f});
      for (std::int64_t x = 0; x < p.distances; ++x) p.diagonal.push_back(-slope * static_cast<float>(std::abs(x + p.first_distance)));
    }
    p.skip = true;
  }
  void add_table(HopperProblem& p) {
    p.table_left = any({0, 1, 7, 31, 63, 64}), p.table_right = any({0, 1, 16, 63, 64});
    p.table = tensor(p.dtype, {1, p.table_left + p.table_right + 1, chance(3) ? 1 : p.q.shape[2], p.q.shape[3]});
    p.table_scale = chance(3) ? 0.7 * p.scale : p.scale;
  }
  /// Of as many rows as that of keys, which some lose then.
  void add_value_table(HopperProblem& p) {
    p.value_table = tensor(p.dtype, {1, p.table.shape[1], chance(3) ? 1 : p.q.shape[2], p.v.shape[3]});
    if (chance(3)) p.table = {};
  }
  /// Clipped, with zeros or the last row beyond, or DeBERTa's buckets and distances.
  void add_side(HopperProblem& p, SideProblem& side) {
    using Kind = plan::RowRule::Kind;
    std::int64_t rows = 0;
    plan::RowRule& rule = side.map.buckets;
    side.map.has_buckets = chance(2);
    if (!side.map.has_buckets) {
      side.map.left = any({0, 3, 40, 64, 130, 190, 300}), side.map.right = any({0, 1, 17, 64, 140, 256});
      side.map.zero_outside = chance(3);
      rows = side.map.left + side.map.right + 1;
      const int beyond = side.map.zero_outside ? 1 : 0;
      side.far_left = side.map.left + beyond, side.far_right = side.map.right + beyond;
    } else if (chance(3)) {
      rule.kind = Kind::deberta_clip;
      rule.max_distance = any({1, 30, 64, 128});
      rows = 2 * rule.max_distance;
      side.far_left = rule.max_distance - 1, side.far_right = rule.max_distance;
    } else {
      rule.kind = Kind::deberta;
      rule.mid = any({2, 16, 40});
      std::int64_t at = rule.mid;
      for (int n = any({1, 5, 12}); n > 0; --n) side.thresholds.push_back(at = at * 5 / 4 + 1);
      rule.threshold_count = static_cast<std::int64_t>(side.thresholds.size());
      rule.buckets = rule.mid + rule.threshold_count + 1;
      rule.rising = !chance(4);
      rows = 2 * rule.buckets;
      side.far_left = side.far_right = at;
    }
    side.table = tensor(p.dtype, {1, rows, chance(3) ? 1 : p.q.shape[2], p.q.shape[3]});
    side.scale = chance(3) ? 0.7 * p.scale : p.scale;
  }
  /// A table that is longer, or met by more than q: as long as the call, or shorter, with an end that is repeated or zeros beyond it.
  void add_long_table(HopperProblem& p) {
    const std::int64_t heads = p.q.shape[2];
    p.features = {};
    if (chance(3)) p.features = tensor(p.dtype, {p.q.shape[0], p.q.shape[1], heads, any({8, 16, 16})});
    const bool featured = !p.features.memory.empty();
    p.zero_outside = chance(featured ? 2 : 3);
    const bool whole = (!featured || !p.zero_outside || chance(4)) && chance(2);  // else tiles beyond the rows are left out
    const std::int64_t d = p.meets_table().shape[3];
    p.table_left = whole ? p.k.shape[1] - 1 + any({0, 5}) : any({0, 3, 63, 130, 190});
    p.table_right = whole ? p.q.shape[1] - 1 + any({0, 9}) : any({0, 1, 64, 140});
    p.table = tensor(p.dtype, {1, p.table_left + p.table_right + 1, chance(3) ? 1 : heads, d});
    p.table_scale = chance(3) ? 0.7 * p.scale : p.scale;
    if (featured) return;
    const auto shift = [&] {
      std::vector<float> list(static_cast<std::size_t>((chance(3) ? 1 : heads) * d));
      for (float& x : list) x = normal();
      return list;
    };
    if (chance(2)) p.table_shift = shift();
    if (chance(2)) p.content_shift = shift();
  }
  std::mt19937_64 random_;
  std::normal_distribution<float> normal_;
};

}  // namespace phasor::test
