// SPDX-License-Identifier: Apache-2.0
// Calls with tables by distance on both sides or on one, and the kernels around a backward on Hopper run by the host on them, with emulated
// instructions.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "cuda/attention/hopper/backward/band/before.cuh"
#include "cuda/attention/hopper/backward/band/features.cuh"
#include "cuda/attention/hopper/backward/band/lines.cuh"
#include "cuda/attention/hopper/backward/band/shifts.cuh"
#include "cuda/attention/hopper/backward/work.hpp"

namespace phasor::test {
using namespace cuda::hopper;

using Bits = std::vector<std::uint16_t>;

struct Rule {
  std::int64_t left, right;    // of clipped rows
  std::int64_t threshold = 0;  // not 0: buckets that grow there, and are constant from left and right on
  bool is_there = true;
};
constexpr Rule kNoTable = {0, 0, 0, false};
struct Case {
  int queries, keys, width;
  Rule rules[2];
  bool causal, by_head, half;
  std::int64_t window;                     // to the left
  int parts = 0;                           // of a head; 0: as many as there are in a call
  bool features = true, gradients = true;  // whether what queries and keys get is wanted, and what tables do
  bool shifts = false;                     // and what is added to queries
};

/// Packed tensors of two batch rows, two heads that share a key head, and all that the kernels of both sides write, as much as the
/// workspace has for it.
template <class Element, int kOfWidths>
class Sides {
 public:
  static constexpr int kBatch = 2, kHeads = 2, kKeyHeads = 1;
  static constexpr std::uint16_t kUntouched = 0x7fed;
  template <int kSide>
  using Body = BandBody<Element, kOfWidths, kSide>;
  static constexpr int kWidth = Body<0>::kWidth, kQueries = Body<0>::kQueries;

  explicit Sides(const Case& c) : is(c), random_(static_cast<unsigned>(c.queries * 131 + c.keys)) {
    const Device gpu = {DeviceKind::cuda, 0};
    const DType dtype = c.half ? DType::f16 : DType::bf16;
    const auto view = [&](Bits& of, const Extents& shape) { return TensorView{of.data(), dtype, shape, contiguous_strides(shape), gpu}; };
    const Extents of_q = {kBatch, c.queries, kHeads, c.width}, of_k = {kBatch, c.keys, kKeyHeads, c.width};
    features[0] = numbers(of_q), features[1] = numbers(of_k);
    b.forward.q = view(features[0], of_q), b.forward.k = b.forward.v = view(features[1], of_k);
    b.forward.causal = c.causal, b.forward.left = c.window, b.forward.scale = 0.25;
    table_heads = c.by_head ? kHeads : 1;
    for (int side = 0; side < 2; ++side) {
      const Rule& rule = c.rules[side];
      if (!rule.is_there) continue;
      rows[side] = static_cast<int>(rule.left + rule.right + 1);
      const Extents shape = {1, rows[side], table_heads, c.width};
      table[side] = numbers(shape);
      gradient[side].assign(static_cast<std::size_t>(rows[side] * table_heads * c.width), NAN);
      b.tables[side] = {view(table[side], shape), {.left = rule.left, .right = rule.right}, 0.3, rule.left, rule.right};
      if (c.gradients) b.tables[side].gradient = gradient[side].data();
      if (rule.threshold == 0) continue;
      b.tables[side].map = {.has_buckets = true};
      plan::RowRule& buckets = b.tables[side].map.buckets;  // rows -r - 1 to r + 1 around those in the middle
      thresholds[side] = {rule.threshold, rule.left};
      buckets = {.kind = plan::RowRule::Kind::deberta,
                 .buckets = rows[side] / 2,
                 .mid = 2,
                 .thresholds = thresholds[side].data(),
                 .threshold_count = 2};
    }
    tiles = key_tiles_of(b);
    near = clips_of(b, tiles);
    near_count = most_near_blocks(tiles, near);
    layout = layout_of(b, tiles, windows_of(b, tiles));
    strips.assign(room(layout.strips, layout.parts) / 4, {~0U, ~0U, ~0U, ~0U});
    lse.assign(room(layout.lse, layout.delta), 0.0F);
    for (float& x : lse) x = normal();
    key_ends.assign(room(layout.key_ends, layout.key_sums), NAN);
    key_sums.assign(room(layout.key_sums, layout.dk), NAN);
    sums[0].assign(room(layout.dq, layout.strips), NAN);
    sums[1].assign(room(layout.dk, layout.band[has(0) ? 0 : 1].lines), NAN);
    shift.resize(static_cast<std::size_t>(kHeads * c.width));
    for (float& x : shift) x = normal();
    for (std::vector<float>& x : shift_sums) x.assign(static_cast<std::size_t>(kBatch * kHeads * shift_parts(tiles) * kWidth), NAN);
    for (int side = 0; side < 2; ++side) {
      to[side].assign(features[side].size(), kUntouched);
      work[side] = make_work(side, view(to[side], side == 0 ? of_q : of_k));
    }
  }
  bool has(int side) const { return is.rules[side].is_there; }
  /// Numbers of 32 bits between two places of the workspace.
  static std::size_t room(std::int64_t from, std::int64_t to) { return static_cast<std::size_t>((to - from) / 4); }
  int padded_keys() const { return tiles.blocks() * kBlockKeys; }

  /// Every block of a grid of `count`, every other one backwards; shared memory begins as NaN.
  template <class Shared, int kThreads = 128, class Run>
  void run(int count, int heads, const Run& body) {
    std::vector<unsigned char> memory(sizeof(Shared) + 1024);
    unsigned char* const begin = memory.data() + (1024 - reinterpret_cast<std::uintptr_t>(memory.data()) % 1024) % 1024;
    cuda::attention::mma::shared_begin() = begin;
    emulated::Block block;
    for (int n = 0; n < count * heads * kBatch; ++n) {
      std::memset(begin, 0xff, sizeof(Shared));
      block.run(kThreads, [&] { body(*reinterpret_cast<Shared*>(begin), n / count / heads, n / count % heads, n % count); }, n % 2 == 0);
    }
  }
  template <int kSide>
  void make_products_of() {
    const BandWork& w = work[kSide];
    if (w.span.chunks() == 0) return;
    for (int head = 0; head < table_heads; ++head) {
      for (int x = 0; x < (w.span.chunks() + 2) * 32 * Body<kSide>::kSteps; ++x) lay_out_lines<Body<kSide>>(w, x, head);
    }
    const int rows_of_side = kSide == kOfQueries ? tiles.rows() : padded_keys();
    if (w.of_lines != nullptr) {
      const LineSumsWork sums = {w.lines, (w.span.chunks() + 2) * kChunkLines, w.clips.by_head, shift_view(), of_lines.data()};
      for (int x = 0; x < kHeads * sums.of_head; ++x) multiply_line<Element, kWidth>(sums, x % sums.of_head, x / sums.of_head);
    }
    using Products = BandProducts<Body<kSide>>;
    run<typename Products::Shared, Products::kThreads>((rows_of_side + 127) / 128, kHeads,
                                                       [&](typename Products::Shared& shared, int batch, int head, int n) {
                                                         const BandPlace at = {batch, head, 8 * n};
                                                         Products(shared, w, at).run(rows_of_side);
                                                       });
  }
  template <int kSide>
  void finish() {
    const BandWork& w = work[kSide];
    const int count = w.feature_count(kSide), heads_of_key = kSide == kOfQueries ? 1 : 2;
    if (finishes_features(w, kSide)) {
      using Features = BandFeatures<Body<kSide>>;
      run<typename Features::Shared, Features::kThreads>((count + 127) / 128, kHeads / heads_of_key,
                                                         [&](typename Features::Shared& shared, int batch, int head, int n) {
                                                           Features(shared, w, {batch, head * heads_of_key, 8 * n}).run();
                                                         });
    }
    if (w.gradient == nullptr) return;
    using Lines = BandLines<Body<kSide>>;
    run<typename Lines::Shared, Lines::kThreads>(Lines::blocks_of_lines(w.span) * w.parts, kHeads,
                                                 [&](typename Lines::Shared& shared, int batch, int head, int n) {
                                                   const LinesPlace at = {batch, head, n / w.parts, n % w.parts};
                                                   Lines(shared, w, at).run();
                                                 });
    for (int head = 0; head < table_heads; ++head) {
      for (int x = 0; x < w.span.lines() * is.width; ++x) add_parts(w, x, head);
    }
    for (int head = 0; head < table_heads; ++head) {
      for (int x = 0; x < rows[kSide] * is.width; ++x) add_lines(w, x, head);
    }
  }
  ConstTensorView shift_view() const {
    const Extents shape = {1, 1, kHeads, is.width};
    return {shift.data(), DType::f32, shape, contiguous_strides(shape), {}};
  }
  /// What is added to queries where they meet rows.
  double shift_at(int head, int c) const {
    return is.shifts ? static_cast<double>(shift[static_cast<std::size_t>(head * is.width + c)]) : 0;
  }
  double value(std::uint16_t bits) const { return static_cast<double>(cuda::attention::mma::widened<Element>(bits)); }
  /// Of query or key `token`, of the head of queries.
  double feature_at(int side, int batch, int token, int head, int c) const {
    const int count = side == 0 ? is.queries : is.keys, heads = side == 0 ? kHeads : kKeyHeads;
    const auto at = static_cast<std::size_t>(((batch * count + token) * heads + (side == 0 ? head : head / 2)) * is.width + c);
    return token < count ? value(features[side][at]) : 0;
  }
  int row_of(int side, int i, int j) const {
    return static_cast<int>(cuda::attention::row_by_distance(b.tables[side].map, i + tiles.offset() - j));
  }
  double table_at(int side, int row, int head, int c) const {
    return value(table[side][static_cast<std::size_t>((row * table_heads + (is.by_head ? head : 0)) * is.width + c)]);
  }
  bool sees(int i, int j) const {
    const int position = i + tiles.offset();
    return i < is.queries && j < is.keys && j >= position - tiles.left && j <= position + tiles.right;
  }
  /// The word of a strip that a thread of the backward has for two queries and a key: its registers are (c, r, x) with key r of its two and
  /// query 8 c + 2 (lane % 4) + x. body(batch, head, first query, key, word) of all.
  template <class Each>
  void each_word(const Each& body) {
    for (int number = 0; number < kBatch * kHeads * tiles.tiles(); ++number) {
      const int tile = number % tiles.tiles(), head = number / tiles.tiles() % kHeads, batch = number / tiles.tiles() / kHeads;
      const Span blocks = near_blocks(tiles, near, tile);
      for (int block = blocks.first; block < blocks.end; ++block) {
        for (int x = 0; x < 2 * 128 * kQueries / 4; ++x) {
          const int group = x % 2, thread = x / 2 % 128, c = x / 256 / 2, r = x / 256 % 2;
          const int key = block * kBlockKeys + 64 * group + thread / 32 * 16 + thread % 32 / 4 + 8 * r;
          const int strip = number * near_count + block - blocks.first;
          uint4& four = strips[static_cast<std::size_t>((strip * 2 + group) * (kQueries / 16) * 128 + (2 * c + r) / 4 * 128 + thread)];
          body(batch, head, tile * kQueries + 8 * c + 2 * (thread % 4), key, (&four.x)[(2 * c + r) % 4]);
        }
      }
    }
  }
  float normal() { return normal_(random_); }

  Case is;
  Backward b;
  KeyTiles tiles;
  Clips near;
  BackwardLayout layout;
  int near_count, table_heads, rows[2] = {0, 0};
  Bits features[2], table[2], to[2];
  std::vector<std::int64_t> thresholds[2];
  std::vector<uint4> strips, lines[2];
  std::vector<int> line_rows[2];
  std::vector<float> lse, key_ends, key_sums, beyond[2], sums[2], parts[2], gradient[2], shift_sums[2], shift, of_lines;
  BandWork work[2];

 private:
  BandWork make_work(int side, const TensorView& of_features) {
    BandWork w = {};
    w.tiles = tiles, w.near = near, w.near_blocks = near_count, w.strips = strips.data();
    w.features = input_rows(side == 0 ? b.forward.q : b.forward.k);
    w.scale = 0.25F, w.scale_log2 = 0.36F;
    w.ends = side == 0 ? lse.data() : key_ends.data();
    w.ends_of_side = std::int64_t{kBatch} * kHeads * tiles.rows();
    w.sums = sums[side].data(), w.far = key_sums.data();
    if (is.features) w.to = output_rows(of_features);
    for (int n = 0; n < 2 && is.shifts && side == 0; ++n) w.shift_sums[n] = shift_sums[n].data();
    if (!has(side)) return w;
    w.adds = side == kOfKeys && has(kOfQueries);
    w.clips = clips_of(b, tiles, side), w.span = line_span(tiles, w.clips, side);
    if (side == kOfQueries && is.shifts) {
      of_lines.assign(static_cast<std::size_t>(kHeads * (w.span.chunks() + 2) * kChunkLines), NAN);
      w.of_lines = of_lines.data();
    }
    w.rows = input_rows(b.tables[side].rows), w.map = b.tables[side].map, w.row_count = rows[side];
    const BandLayout& at = layout.band[side];
    lines[side].resize(room(at.lines, at.line_rows) / 4);
    line_rows[side].resize(room(at.line_rows, at.beyond));
    beyond[side].assign(room(at.beyond, at.parts), NAN);
    parts[side].assign(room(at.parts, side == kOfQueries && has(kOfKeys) ? layout.band[1].lines : layout.bytes), NAN);
    w.lines = lines[side].data(), w.line_rows = line_rows[side].data(), w.beyond = beyond[side].data();
    w.factor = w.clips.factor, w.table_scale = 0.3F;
    w.parts = is.parts == 0 ? band_parts_of(tiles, w.span, side) : is.parts;
    w.parts_at = parts[side].data(), w.gradient = b.tables[side].gradient;
    w.gradient_pitch = table_heads * is.width;
    return w;
  }
  Bits numbers(const Extents& shape) {
    Bits list(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    for (auto& x : list) x = static_cast<std::uint16_t>(cuda::attention::mma::pack<Element>(normal(), 0));
    return list;
  }
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
};

}  // namespace phasor::test
