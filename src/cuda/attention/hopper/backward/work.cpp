// SPDX-License-Identifier: Apache-2.0
// What a launch of a backward on Hopper decides: whether it is taken, how it is cut, what the workspace holds.
#include "cuda/attention/hopper/backward/work.hpp"

#include <algorithm>

#include "cuda/attention/hopper/backward/band/lines.hpp"
#include "cuda/attention/hopper/backward/parts.hpp"
#include "cuda/attention/hopper/strip/work.hpp"

namespace phasor::cuda::hopper {
namespace {

/// Key heads walked together, by their channels: consecutive blocks of keys of one head are claimed so far apart that the later one seldom
/// waits for the earlier one's turn, and what heads share stays in the L2.
std::int64_t together(int width) { return 1024 / width; }

/// Slots of sums by distance: blocks of keys that share one run one after the other, so few heads need many to keep a device busy (with 16
/// a single key head had an eighth of it); long windows have no more than fit into so many bytes, and at least 16.
constexpr std::int64_t kLeastSlots = 16;
constexpr std::int64_t kBlocksAtOnce = 144;
constexpr std::int64_t kMostSlotBytes = std::int64_t{128} << 20;
int slots_for(const KeyTiles& t, int length) {
  const std::int64_t key_heads = std::int64_t{t.batch} * t.key_heads();
  const std::int64_t busy = (kBlocksAtOnce + key_heads - 1) / key_heads;
  const std::int64_t fit = kMostSlotBytes / (4 * std::int64_t{t.batch} * t.heads * length);
  const std::int64_t slots = std::max(kLeastSlots, std::min(busy, fit));
  return static_cast<int>(std::min<std::int64_t>(slots, t.blocks()));
}

/// Batch rows and heads are axes of a grid in the kernels before and after.
constexpr std::int64_t kMostOfGrid = 65535;
std::int64_t part_numbers(const Backward& b, const KeyTiles& t, const Clips& clips) {
  return std::int64_t{t.batch} * t.heads * parts_of(t) * table_lines(clips) * b.forward.q.shape[3];
}
bool fits_grid(const ConstTensorView& q) { return q.shape[0] <= kMostOfGrid && q.shape[2] <= kMostOfGrid; }
bool has_room_for_table(const Backward& b) {
  if (b.table == nullptr) return true;
  const KeyTiles t = key_tiles_of(b);
  return 4 * part_numbers(b, t, clips_of(b, t)) <= kMostPartBytes;
}

bool is_table(const Backward& b, const DistanceTable& table) {
  const ConstTensorView &v = table.rows, &q = b.forward.q;
  return v.dtype == q.dtype && v.device == q.device && v.shape[0] == 1 && v.shape[1] >= 1 && v.shape[1] < kMostOfGrid &&
         (v.shape[2] == 1 || v.shape[2] == q.shape[2]) && v.shape[3] == q.shape[3] && v.strides[3] == 1 && table.left >= 0 &&
         table.right >= 0 && !table.map.zero_outside;
}
bool is_shift(const Backward& b, const QueryShift& shift) {
  const ConstTensorView &v = shift.vector, &q = b.forward.q;
  return v.device == q.device && (v.shape[2] == 1 || v.shape[2] == q.shape[2]) && v.shape[3] == q.shape[3];
}
/// Tables by distance: but for shifts of queries nothing else is added to scores then.
bool takes_tables(const Backward& b) {
  const Forward& f = b.forward;
  for (const QueryShift& shift : b.shifts) {
    if (shift.vector.data != nullptr && (!has_tables(b) || !is_shift(b, shift))) return false;
  }
  if (b.shifts[kOfRows].vector.data != nullptr && b.tables[0].rows.data == nullptr) return false;
  if (!has_tables(b)) return true;
  if (f.table.data != nullptr || f.diagonal != nullptr || b.table != nullptr) return false;
  for (const DistanceTable& table : b.tables) {
    if (table.rows.data != nullptr && !is_table(b, table)) return false;
  }
  return parts_for(b).batch > 0;
}

int clamped(std::int64_t limit) { return static_cast<int>(std::clamp<std::int64_t>(limit, -kFar, kFar)); }
int rounded_down(int x) { return x & ~3; }

}  // namespace

int backward_widths_for(std::int64_t width, std::int64_t value_width) {
  int i = 0;
  while (i < kBackwardWidthsCount && kBackwardWidths[i].width < std::max(width, value_width)) ++i;
  return i;
}

bool takes(const Backward& b, int compute_major) {
  Forward f = b.forward;
  // Tensors of the outputs' shape that are read or written by vectors or maps, in the place of the output.
  for (const ConstTensorView& v : {b.out, b.out_gradient}) {
    f.out = {const_cast<void*>(v.data), v.dtype, v.shape, v.strides, v.device};
    if (!takes(f, compute_major)) return false;
  }
  const auto fits = [&](const TensorView& gradient, ConstTensorView Forward::* of) {
    if (gradient.data == nullptr) return true;
    Forward g = f;
    g.*of = gradient;
    return gradient.dtype == f.q.dtype && takes(g, compute_major);
  };
  if (!fits(b.q, &Forward::q) || !fits(b.k, &Forward::k) || !fits(b.v, &Forward::v)) return false;
  // Of tables it takes those that the forward keeps all products with.
  if (has_windows(f) || has_strips(f) || f.value_table.data != nullptr || (b.table != nullptr && f.table.data == nullptr)) return false;
  if (b.lse == nullptr || f.softcap != 0 || (b.diagonal != nullptr && f.diagonal == nullptr)) return false;
  if (backward_widths_for(f.q.shape[3], f.v.shape[3]) >= kBackwardWidthsCount) return false;
  return fits_grid(f.q) && has_room_for_table(b) && takes_tables(b);
}

KeyTiles key_tiles_of(const Backward& b) {
  const Forward& f = b.forward;
  const auto [width, tile_queries] = kBackwardWidths[backward_widths_for(f.q.shape[3], f.v.shape[3])];
  return {.queries = static_cast<int>(f.q.shape[1]),
          .keys = static_cast<int>(f.k.shape[1]),
          .heads = static_cast<int>(f.q.shape[2]),
          .batch = static_cast<int>(f.q.shape[0]),
          .heads_of_key = static_cast<int>(f.q.shape[2] / f.k.shape[2]),
          .together = static_cast<int>(std::min(together(width), f.k.shape[2] * f.q.shape[0])),
          .left = clamped(f.left),
          .right = clamped(f.causal ? std::min<std::int64_t>(f.right, 0) : f.right),
          .tile_queries = tile_queries,
          .tile_count = static_cast<int>((f.q.shape[1] + tile_queries - 1) / tile_queries)};
}

Clips clips_of(const Backward& b, const KeyTiles& t) {
  const Forward& f = b.forward;
  if (has_tables(b)) {
    const Clips queries = clips_of(b, t, kOfQueries), keys = clips_of(b, t, kOfKeys);
    return {std::max(queries.left, keys.left), std::max(queries.right, keys.right), false, 0};
  }
  if (f.table.data == nullptr) return {};
  return {static_cast<int>(f.table_left), static_cast<int>(std::clamp<std::int64_t>(t.right, 0, f.table_right)), f.table.shape[2] > 1,
          static_cast<float>(f.table_scale / f.scale)};
}

Clips clips_of(const Backward& b, const KeyTiles& t, int side) {
  const DistanceTable& table = b.tables[side];
  if (table.rows.data == nullptr) return {};
  // No distance is beyond the last key's, or before the last query's.
  const std::int64_t left = std::min(table.left, std::int64_t{t.keys}), right = std::min(table.right, std::int64_t{t.queries});
  return {static_cast<int>(std::clamp<std::int64_t>(t.left, 0, left)), static_cast<int>(std::clamp<std::int64_t>(t.right, 0, right)),
          table.rows.shape[2] > 1, static_cast<float>(table.scale / b.forward.scale)};
}

std::int64_t strip_numbers(const KeyTiles& t, const Clips& clips) {
  return std::int64_t{t.batch} * t.heads * t.tiles() * most_near_blocks(t, clips) * kBlockKeys * t.tile_queries / 2;
}

std::int64_t band_part_numbers(const Backward& b, const KeyTiles& t, int side) {
  const LineSpan span = line_span(t, clips_of(b, t, side), side);
  return std::int64_t{t.batch} * t.heads * band_parts_of(t, span, side) * span.lines() * b.forward.q.shape[3];
}

int band_parts_of(const KeyTiles& t, const LineSpan& span, int side) {
  constexpr int kBlocks = 1024, kWarps = 4, kFeatures = 64;
  const int features = side == kOfQueries ? t.queries : t.keys;
  const int of_head = (span.units() + 2 + kWarps - 1) / kWarps, heads = t.heads * t.batch;
  const int parts = (kBlocks / of_head + heads - 1) / heads;
  return std::clamp(parts, 1, (features + kFeatures - 1) / kFeatures);
}

Windows windows_of(const Backward& b, const KeyTiles& t) {
  const Forward& f = b.forward;
  Windows w = {};
  if (has_rows(b)) {
    const Clips clips = clips_of(b, t);
    w.far_left = clips.left, w.far_right = clips.right;
  }
  if (f.diagonal == nullptr) return w;
  // Clamped distances are constant beyond the ends of what is given, too.
  w.far_left = clamped(std::min(f.far_left, f.first_distance + f.distances - 1));
  w.far_right = clamped(std::min(f.far_right, -f.first_distance));
  // A tile's window begins a block of keys below its row - key; tiles that are not far are at most so much beyond the ends.
  const int around = kBlockKeys + t.tile_queries;
  w.first = std::max(rounded_down(-t.offset() - w.far_right - around), -t.blocks() * kBlockKeys);
  const int end = std::min(rounded_down(w.far_left - t.offset() + around + 3), t.rows());
  w.length = std::max(end - w.first, 4);
  w.slots = slots_for(t, w.length);
  w.of_head = f.diagonal_stride == 0 ? 0 : 2 * std::int64_t{w.length};
  w.far_of_head = f.diagonal_stride == 0 ? 0 : 2;
  return w;
}

BackwardLayout layout_of(const Backward& b, const KeyTiles& t, const Windows& w) {
  std::int64_t used = kAlignment;
  const auto take = [&](std::int64_t numbers, bool wanted = true) {
    const std::int64_t at = used;
    if (wanted) used += (numbers * 4 + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  const std::int64_t heads = std::int64_t{t.batch} * t.heads;
  const std::int64_t width = kBackwardWidths[backward_widths_for(b.forward.q.shape[3], b.forward.v.shape[3])].width;
  const std::int64_t bias_heads = w.of_head == 0 ? 1 : t.heads;
  const bool sums = b.diagonal != nullptr, table = has_rows(b);
  const Clips clips = clips_of(b, t);
  BackwardLayout layout = {};
  layout.turns = take(heads * t.tiles());
  layout.done = take(std::int64_t{t.batch} * t.key_heads() * t.blocks(), sums);
  layout.slots = take(heads * w.slots * w.length, sums);
  layout.far = take(heads * t.blocks() * 2, sums);
  layout.zeros = used;
  layout.lse = take(heads * t.rows() * (table ? 3 : 1));
  layout.delta = take(heads * t.rows());
  layout.windows = take(bias_heads * 2 * w.length, w.length > 0);
  layout.far_values = take(bias_heads * 2, w.length > 0);
  layout.dq = take(heads * t.tiles() * dq_numbers(t, table));
  layout.strips = take(strip_numbers(t, clips), table);
  layout.parts = take(part_numbers(b, t, clips), b.table != nullptr);
  const bool keys = b.tables[kOfKeys].rows.data != nullptr;
  layout.key_ends = take(heads * 2 * t.blocks() * kBlockKeys, keys);
  layout.key_sums = take(heads * 2 * t.blocks() * kBlockKeys, keys);
  layout.dk = take(std::int64_t{t.batch} * t.key_heads() * t.blocks() * kBlockKeys * width, keys);
  for (int side = 0; side < 2; ++side) {
    const DistanceTable& of = b.tables[side];
    if (of.rows.data == nullptr) continue;
    const LineSpan span = line_span(t, clips_of(b, t, side), side);
    const std::int64_t chunk = of.rows.shape[2] * kChunkLines * width / 2;
    layout.band[side] = {take(chunk * (span.chunks() + 2)), take(span.lines()),
                         take(heads * 2 * (side == kOfQueries ? t.rows() : t.blocks() * kBlockKeys)),
                         take(band_part_numbers(b, t, side), of.gradient != nullptr)};
  }
  for (int n = 0; n < 2; ++n) {
    const QueryShift& shift = b.shifts[n];
    layout.shifted[n] = take(heads * t.queries * b.forward.q.shape[3] / 2, shift.vector.data != nullptr);
    layout.shift_sums[n] = take(heads * shift_parts(t) * width, shift.gradient != nullptr);
  }
  layout.bytes = used;
  return layout;
}

ConstTensorView queries_of(const Backward& b, const BackwardLayout& layout, const std::byte* begin, int shift) {
  ConstTensorView q = b.forward.q;
  if (b.shifts[shift].vector.data == nullptr) return q;
  const std::int64_t of_head = q.shape[1] * q.shape[3];
  q.data = begin + layout.shifted[shift];
  q.strides = {q.shape[2] * of_head, q.shape[3], of_head, 1};
  return q;
}

std::int64_t workspace_bytes(const Backward& backward) {
  const Parts parts = parts_for(backward);
  const auto bytes_of_part = [&](std::int64_t number) {
    const Backward part = part_of(backward, parts, number);
    const KeyTiles tiles = key_tiles_of(part);
    return layout_of(part, tiles, windows_of(part, tiles)).bytes;
  };
  return std::max(bytes_of_part(0), bytes_of_part(parts.count(backward) - 1)) + kAlignment - 1;
}

}  // namespace phasor::cuda::hopper
