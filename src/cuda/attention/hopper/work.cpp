// SPDX-License-Identifier: Apache-2.0
// What a launch of attention on Hopper decides: whether it is taken, how it is cut, what the workspace holds.
#include "cuda/attention/hopper/work.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/attention/hopper/strip/work.hpp"

namespace phasor::cuda::hopper {
namespace {

/// Tokens, and distances that count, are below this: the kernel's numbers of tokens have 32 bits.
constexpr std::int64_t kMostTokens = std::int64_t{1} << 28;
/// Blocks of queries: with those that are asked for beyond the end they have 31 bits.
constexpr std::int64_t kMostWork = std::int64_t{1} << 30;
/// Bytes of keys and values that stay in the L2 while the blocks of some heads run; an H200 has 50 MiB.
constexpr std::int64_t kTogetherBytes = std::int64_t{32} << 20;
/// Key heads walked together, at most: with more, causal blocks gain nothing.
constexpr std::int64_t kMostTogether = 8;

/// What a tensor map can have: 16-byte units, strides below 2^40 bytes.
bool is_mappable(const ConstTensorView& v) {
  constexpr std::int64_t kUnit = 16, kMostStride = std::int64_t{1} << 40;
  if (v.data == nullptr || reinterpret_cast<std::uintptr_t>(v.data) % kUnit != 0) return false;
  if (v.shape[3] % 8 != 0 || v.strides[3] != 1) return false;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t bytes = v.strides[axis] * 2;
    if (v.shape[axis] < 1 || v.shape[axis] >= kMostTokens) return false;
    if (v.shape[axis] > 1 && (bytes <= 0 || bytes % kUnit != 0 || bytes >= kMostStride)) return false;
  }
  return true;
}
/// A score is multiplied after it was looked for the greatest, and a bias is divided by it.
bool is_scale(double scale) { return scale >= 0x1p-60 && scale <= 0x1p60; }
int clamped(std::int64_t limit) { return static_cast<int>(std::clamp<std::int64_t>(limit, -kFar, kFar)); }
int rounded_down(int x) { return x & ~3; }

}  // namespace

int widths_for(std::int64_t width, std::int64_t value_width) {
  int i = 0;
  while (i < kPlainWidths && (kWidths[i].width < width || kWidths[i].value_width < value_width)) ++i;
  return i < kPlainWidths ? i : kWidthsCount;
}

int widths_for(const Forward& f) {
  const int found = widths_for(f.q.shape[3], f.v.shape[3]);
  if (f.table.data == nullptr && f.value_table.data == nullptr) return found;
  if (found > 1) return kWidthsCount;
  if (has_windows(f)) return kWindowWidths + found;
  return found == 0 ? found : kTableWidths;
}

bool has_windows(const Forward& f) {
  const bool shifted = f.content_shift.data != nullptr || f.table_shift.data != nullptr;
  const bool known = !shifted && !f.zero_outside && f.features.data == nullptr;  // to `Clipped`
  return f.table.data != nullptr && !(known && f.table.shape[1] <= Clips::kMostRows);
}
Seen seen_by(const Forward& f) {
  const std::int64_t right = f.causal ? std::min<std::int64_t>(f.right, 0) : f.right;
  return {std::clamp<std::int64_t>(f.left, 0, f.k.shape[1] - 1), std::clamp<std::int64_t>(right, 0, f.q.shape[1] - 1)};
}
bool needs_spread(const Forward& f) {
  const Seen seen = seen_by(f);
  return has_windows(f) && !f.zero_outside && (seen.left > f.table_left || seen.right > f.table_right);
}

namespace {

bool takes_features(const Forward& f) {
  const ConstTensorView& v = f.features;
  if (v.data == nullptr) return true;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (v.shape[axis] != f.q.shape[axis]) return false;
  }
  return v.dtype == f.q.dtype && v.device == f.q.device && is_mappable(v) && v.shape[3] <= kMostFeatures && f.table_shift.data == nullptr &&
         f.content_shift.data == nullptr;
}

/// Whether a table has the rows that the call says.
bool has_rows(const Forward& f, const ConstTensorView& table, std::int64_t width) {
  const Extents& s = table.shape;
  return table.dtype == f.q.dtype && table.device == f.q.device && is_mappable(table) && f.table_left >= 0 && f.table_right >= 0 &&
         f.table_left < kMostTokens && f.table_right < kMostTokens && s[0] == 1 && s[1] == f.table_left + f.table_right + 1 &&
         (s[2] == 1 || s[2] == f.q.shape[2]) && s[3] == width;
}

/// Weights take the place of products that `Clipped` keeps.
bool takes_value_table(const Forward& f) {
  if (f.value_table.data == nullptr) return true;
  return !has_windows(f) && !f.zero_outside && f.features.data == nullptr && f.diagonal == nullptr && f.softcap == 0 &&
         f.value_table.shape[1] <= Clips::kMostRows && has_rows(f, f.value_table, f.v.shape[3]);
}

bool takes_table(const Forward& f) {
  if (!takes_value_table(f)) return false;
  if (f.table.data == nullptr) return f.content_shift.data == nullptr;
  if (!takes_features(f)) return false;
  if (f.diagonal != nullptr || f.softcap != 0) return false;
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third axis
  if (has_windows(f) && (f.q.shape[2] > kMostBlocks || f.q.shape[0] > kMostBlocks)) return false;
  const auto is_shift = [&](const ConstTensorView& v) {
    return v.data == nullptr || (v.device == f.q.device && (v.shape[2] == 1 || v.shape[2] == f.q.shape[2]) && v.shape[3] == f.q.shape[3]);
  };
  if (!is_shift(f.content_shift) || !is_shift(f.table_shift)) return false;
  return has_rows(f, f.table, (f.features.data != nullptr ? f.features : f.q).shape[3]);
}

}  // namespace

bool takes(const Forward& f, int compute_major) {
  if (compute_major != kComputeMajor) return false;  // later devices have other instructions
  for (const ConstTensorView& v : {f.q, f.k, f.v, ConstTensorView(f.out)}) {
    if (v.device.kind != DeviceKind::cuda || v.device != f.q.device || v.dtype != f.q.dtype || !is_mappable(v)) return false;
  }
  if (f.q.dtype != DType::bf16 && f.q.dtype != DType::f16) return false;
  if (widths_for(f) == kWidthsCount || f.q.shape[2] % f.k.shape[2] != 0 || !takes_table(f)) return false;
  if (!is_scale(f.scale) || (f.softcap != 0 && !is_scale(f.softcap / f.scale))) return false;
  if (f.diagonal != nullptr && (f.distances < 1 || f.softcap != 0)) return false;
  // Distances that go beyond the numbers of the kernel: nobody has them.
  const auto is_near = [](std::int64_t x) { return x > -kMostTokens && x < kMostTokens; };
  if (f.diagonal != nullptr && (!is_near(f.first_distance) || !is_near(f.distances))) return false;
  const std::int64_t blocks = (f.q.shape[1] + 63) / 64;
  if (blocks * f.q.shape[2] >= kMostWork || blocks * f.q.shape[2] * f.q.shape[0] >= kMostWork) return false;
  return !has_strips(f) || takes_strips(f);
}

Tiles tiles_of(const Forward& f) {
  const Widths& widths = kWidths[widths_for(f)];
  const std::int64_t heads_of_key = f.q.shape[2] / f.k.shape[2];
  const std::int64_t bytes = f.k.shape[1] * (f.q.shape[3] + f.v.shape[3]) * 2;
  const std::int64_t together = std::clamp<std::int64_t>(kTogetherBytes / bytes, 1, kMostTogether) * heads_of_key;
  return {.queries = static_cast<int>(f.q.shape[1]),
          .keys = static_cast<int>(f.k.shape[1]),
          .heads = static_cast<int>(f.q.shape[2]),
          .batch = static_cast<int>(f.q.shape[0]),
          .heads_of_key = static_cast<int>(heads_of_key),
          .together = static_cast<int>(std::min(together, f.q.shape[2] * f.q.shape[0])),
          .left = clamped(f.left),
          .right = clamped(f.causal ? std::min<std::int64_t>(f.right, 0) : f.right),
          .block_queries = widths.queries(),
          .tile_keys = widths.keys};
}

Windows windows_of(const Forward& f, const Tiles& t) {
  Windows w = {};
  if (f.diagonal == nullptr) return w;
  // Clamped distances are constant beyond the ends of what is given, too.
  w.far_left = clamped(std::min(f.far_left, f.first_distance + f.distances - 1));
  w.far_right = clamped(std::min(f.far_right, -f.first_distance));
  // A tile's window begins M below its key - row. Both are multiples of four, so that windows are aligned if `first` is, too. Tiles that
  // are not far are at most M + N beyond the ends.
  const int around = t.block_queries + t.tile_keys;
  const int tiles = (t.keys + t.tile_keys - 1) / t.tile_keys;
  w.first = std::max(rounded_down(t.offset() - w.far_left - around), -t.blocks() * t.block_queries);
  const int end = std::min(rounded_down(t.offset() + w.far_right + around + 3), tiles * t.tile_keys);
  w.length = std::max(end - w.first, 4);
  w.of_head = f.diagonal_stride == 0 ? 0 : 2 * std::int64_t{w.length};
  w.far_of_head = f.diagonal_stride == 0 ? 0 : 2;
  return w;
}

bool may_skip(const Forward& f) {
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third axis
  return f.skip && f.diagonal != nullptr && f.causal && f.left >= 0 && f.right >= 0 && f.first_distance <= 0 &&
         f.q.shape[2] <= kMostBlocks && f.q.shape[0] <= kMostBlocks;
}

ShiftSums sums_of(const Forward& f, const Tiles& t) {
  ShiftSums sums = {};
  if (f.content_shift.data == nullptr && f.table_shift.data == nullptr) return sums;
  // All are multiples of four, so that copies are aligned. The first block of queries begins at 0, the last tile's block is the highest.
  sums.columns_length = (t.keys + t.tile_keys - 1) / t.tile_keys * t.tile_keys;
  sums.first = -t.blocks() * t.block_queries - window_blocks(t.block_queries, t.tile_keys) * t.tile_keys;
  sums.lines_length = sums.columns_length - sums.first;
  return sums;
}

namespace {

/// Of a call with a table whose rows pass with the keys.
void lay_out_window(const Forward& f, const Tiles& t, Layout& layout) {
  const ShiftSums sums = sums_of(f, t);
  const Seen seen = seen_by(f);
  constexpr auto kBytes = std::int64_t{sizeof(float)};
  layout.lines = layout.columns + std::int64_t{t.batch} * t.heads * sums.columns_length * kBytes;
  layout.rows = layout.lines + 2 * std::int64_t{t.heads} * sums.lines_length * kBytes;
  layout.bytes = layout.rows;
  if (needs_spread(f)) layout.bytes += f.table.shape[2] * (seen.left + seen.right + 1) * f.table.shape[3] * 2;
}

}  // namespace

Layout layout_of(const Forward& f, const Tiles& t) {
  const Windows w = windows_of(f, t);
  Layout layout = {.windows = kAlignment,
                   .far = kAlignment,
                   .norms = kAlignment,
                   .first_tiles = kAlignment,
                   .columns = kAlignment,
                   .lines = kAlignment,
                   .rows = kAlignment,
                   .strips = kAlignment,
                   .bytes = kAlignment};
  if (has_strips(f)) layout.bytes += strip_layout_of(f, t, strips_of(f, t)).bytes;
  if (has_windows(f)) lay_out_window(f, t, layout);
  if (w.length == 0) return layout;
  const std::int64_t rows = w.of_head == 0 ? 1 : t.heads;
  layout.far = layout.windows + rows * 2 * w.length * std::int64_t{sizeof(float)};
  layout.norms = layout.far + rows * 2 * std::int64_t{sizeof(float)};
  layout.first_tiles = layout.bytes = layout.norms;
  if (!may_skip(f)) return layout;
  layout.first_tiles += std::int64_t{t.batch} * (t.heads / t.heads_of_key) * std::int64_t{sizeof(float)};
  layout.bytes = layout.first_tiles + std::int64_t{t.work()} * std::int64_t{sizeof(int)};
  return layout;
}

std::int64_t workspace_bytes(const Forward& forward) { return layout_of(forward, tiles_of(forward)).bytes + kAlignment - 1; }

MapShape map_shape(const ConstTensorView& v) {
  constexpr std::uint64_t kAny = 16, kPanelBytes = 128;
  const auto size = [&](std::size_t axis) { return static_cast<std::uint64_t>(v.shape[axis]); };
  const auto stride = [&](std::size_t axis) { return v.shape[axis] == 1 ? kAny : static_cast<std::uint64_t>(v.strides[axis]) * 2; };
  return {.sizes = {is_whole(v) ? 64 : size(3), size(1), is_whole(v) ? size(3) / 64 : 1, size(2), size(0)},
          .strides = {stride(1), kPanelBytes, stride(2), stride(0)}};
}

}  // namespace phasor::cuda::hopper
