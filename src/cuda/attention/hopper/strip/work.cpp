// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/hopper/strip/work.hpp"

#include <algorithm>

#include "cuda/attention/hopper/work.hpp"

namespace phasor::cuda::hopper {
namespace {

/// Blocks of queries of a part, at least: some for each multiprocessor.
constexpr std::int64_t kLeastWork = 528;

std::int64_t bytes_of_block(const Tiles& t, int near) { return std::int64_t{t.block_queries} * near * t.tile_keys * 2; }

Clips clips_of(const Forward& f) {
  const Seen seen = seen_by(f);
  std::int64_t left = 0, right = 0;
  for (const ByDistance* const side : {&f.of_queries, &f.of_keys}) {
    if (side->table.data == nullptr) continue;
    left = std::max(left, side->far_left), right = std::max(right, side->far_right);
  }
  return {static_cast<int>(std::min(left, seen.left)), static_cast<int>(std::min(right, seen.right)), false, 1};
}

bool takes_side(const Forward& f, const ByDistance& side) {
  const ConstTensorView& v = side.table;
  if (v.data == nullptr) return true;
  if (v.dtype != f.q.dtype || v.device != f.q.device || side.far_left < 0 || side.far_right < 0) return false;
  const bool vectors = reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0 && v.strides[3] == 1 && v.strides[1] % 8 == 0 &&
                       (v.shape[2] == 1 || v.strides[2] % 8 == 0);
  return vectors && v.shape[0] == 1 && v.shape[1] > 0 && (v.shape[2] == 1 || v.shape[2] == f.q.shape[2]) && v.shape[3] == f.q.shape[3];
}

}  // namespace

bool takes_strips(const Forward& f) {
  if (f.table.data != nullptr || f.value_table.data != nullptr || f.content_shift.data != nullptr) return false;
  if (f.diagonal != nullptr || f.softcap != 0) return false;
  constexpr std::int64_t kMostBlocks = 65535;  // of a grid's second and third axis
  if (widths_for(f) > 1 || f.q.shape[2] > kMostBlocks || f.q.shape[0] > kMostBlocks) return false;
  if (!takes_side(f, f.of_queries) || !takes_side(f, f.of_keys)) return false;
  const Tiles t = tiles_of(f);
  const std::int64_t of_block = bytes_of_block(t, most_near_tiles(t, clips_of(f)));
  return std::min<std::int64_t>(t.work(), kLeastWork) * of_block <= kMostStripBytes;
}

Strips strips_of(const Forward& f, const Tiles& t, std::int64_t most_bytes) {
  Strips s = {};
  s.clips = clips_of(f);
  s.near = most_near_tiles(t, s.clips);
  s.end = static_cast<int>(std::min<std::int64_t>(t.work(), most_bytes / bytes_of_block(t, s.near)));
  s.rows_length = t.blocks() * t.block_queries;
  s.columns_length = (t.keys + t.tile_keys - 1) / t.tile_keys * t.tile_keys;
  return s;
}

int strip_parts(const Tiles& t, const Strips& first) { return (t.work() + first.end - 1) / first.end; }
Strips strip_part(const Tiles& t, const Strips& first, int n) {
  Strips s = first;
  s.first = n * first.end;
  s.end = std::min(t.work(), s.first + first.end);
  return s;
}

StripLayout strip_layout_of(const Forward& f, const Tiles& t, const Strips& s) {
  const std::int64_t heads = std::int64_t{t.batch} * t.heads;
  StripLayout layout = {};
  const ByDistance* const sides[2] = {&f.of_queries, &f.of_keys};
  const auto table_bytes = [&](const ConstTensorView& v) { return v.data == nullptr ? 0 : v.shape[2] * s.clips.rows() * v.shape[3] * 2; };
  const auto end_bytes = [&](const ConstTensorView& v, int length) { return v.data == nullptr ? 0 : heads * 2 * length * std::int64_t{4}; };
  layout.tables[1] = layout.tables[0] + table_bytes(sides[0]->table);
  layout.rows = layout.tables[1] + table_bytes(sides[1]->table);
  layout.columns = layout.rows + end_bytes(sides[0]->table, s.rows_length);
  layout.values = layout.columns + end_bytes(sides[1]->table, s.columns_length);
  layout.bytes = layout.values + s.end * bytes_of_block(t, s.near);
  return layout;
}

}  // namespace phasor::cuda::hopper
