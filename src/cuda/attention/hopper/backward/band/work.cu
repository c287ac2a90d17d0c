// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/hopper/backward/band/launch.cuh"

namespace phasor::cuda::hopper {

BandWork band_work(const Backward& b, const BackwardParameter& p, const BandMemory& memory, int side) {
  const Forward& f = b.forward;
  const DistanceTable& table = b.tables[side];
  const bool of_queries = side == kOfQueries;
  const BandLayout& layout = memory.layout.band[side];
  const auto at = [&](std::int64_t place) { return reinterpret_cast<float*>(memory.begin + place); };
  BandWork w = {};
  w.tiles = p.tiles;
  w.near = p.table.clips;
  w.near_blocks = p.table.near_blocks;
  w.strips = p.table.strips;
  w.scale = p.scale, w.scale_log2 = p.scale_log2;
  w.features = input_rows(of_queries ? f.q : f.k);
  w.to = output_rows(of_queries ? b.q : b.k);
  w.sums = of_queries ? p.dq : p.keys.dk;
  w.far = p.keys.sums;
  w.ends = of_queries ? const_cast<float*>(p.lse) : const_cast<float*>(p.keys.ends);
  w.ends_of_side = p.table.lse_of_side;
  for (int n = 0; n < 2 && of_queries; ++n) {
    if (b.shifts[n].gradient != nullptr) w.shift_sums[n] = at(memory.layout.shift_sums[n]);
  }
  if (table.rows.data == nullptr) return w;
  w.adds = !of_queries && b.tables[kOfQueries].rows.data != nullptr;
  w.clips = clips_of(b, p.tiles, side);
  w.span = line_span(p.tiles, w.clips, side);
  w.rows = input_rows(table.rows);
  w.map = table.map;
  w.row_count = static_cast<int>(table.rows.shape[1]);
  w.lines = reinterpret_cast<uint4*>(memory.begin + layout.lines);
  if (of_queries && b.shifts[kOfRows].vector.data != nullptr) w.of_lines = at(memory.layout.of_lines);
  w.line_rows = reinterpret_cast<int*>(memory.begin + layout.line_rows);
  w.beyond = at(layout.beyond);
  w.factor = w.clips.factor;
  w.table_scale = static_cast<float>(table.scale);
  w.parts = band_parts_of(p.tiles, w.span, side);
  w.parts_at = at(layout.parts);
  w.gradient = table.gradient;
  w.gradient_pitch = static_cast<int>(table.gradient_pitch != 0 ? table.gradient_pitch : table.rows.shape[2] * table.rows.shape[3]);
  w.adds_to_gradient = table.adds;
  return w;
}

}  // namespace phasor::cuda::hopper
