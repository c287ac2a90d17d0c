// SPDX-License-Identifier: Apache-2.0
// What is made before a forward with strips, put on a stream: tables with a row for each near distance, products with the rows beyond the
// ends, strips.
#include "cuda/attention/hopper/strip/before.hpp"

#include "cuda/attention/hopper/strip/before.cuh"
#include "cuda/attention/hopper/strip/ends.cuh"
#include "cuda/attention/hopper/strip/work.hpp"
#include "cuda/attention/hopper/work.hpp"
#include "cuda/attention/place.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {
namespace {

constexpr int kSpreadThreads = 256;

struct SpreadWork {
  InputRows from;
  job::RowMap map;
  uint4* to;     // (heads, rows, vectors)
  int of_table;  // rows
  int left;      // of the first row
  int rows;
  int vectors;  // of a row: 8 channels each
};
/// A thread per vector.
__global__ void __launch_bounds__(kSpreadThreads) spread_rows(const __grid_constant__ SpreadWork w) {
  const std::int64_t x = std::int64_t{blockIdx.x} * kSpreadThreads + threadIdx.x;
  const int row = static_cast<int>(x / w.vectors), vector = static_cast<int>(x % w.vectors);
  if (row >= w.rows) return;
  const std::int64_t from = attention::row_by_distance(w.map, w.left - row);
  uint4 value = {0, 0, 0, 0};
  if (from >= 0 && from < w.of_table)
    value = *reinterpret_cast<const uint4*>(w.from.row(0, static_cast<int>(from), blockIdx.y) + 16 * vector);
  w.to[(std::int64_t{blockIdx.y} * w.rows + row) * w.vectors + vector] = value;
}

/// Heads of the same tokens, which lie side by side in memory, run side by side.
template <class Element>
__global__ void __launch_bounds__(kEndThreads) ends(const __grid_constant__ EndWork w) {
  const unsigned heads = w.heads;
  multiply_ends<Element>(w, blockIdx.x / heads, blockIdx.x % heads, blockIdx.y);
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) strips(const __grid_constant__ StripWork w) {
  extern __shared__ __align__(1024) unsigned char memory[];
  make_strip<T>(*reinterpret_cast<typename T::Shared*>(memory), w, int(blockIdx.x));
}

int lanes_of(std::int64_t width) {
  int lanes = 1;
  while (lanes * 8 < width) lanes *= 2;
  return lanes;
}

/// The table as it lies in the workspace.
ConstTensorView spread_table(const Forward& f, const ForwardParameter& p, void* workspace, int side) {
  ConstTensorView table = (side == 0 ? f.of_queries : f.of_keys).table;
  if (table.data == nullptr) return table;
  const StripLayout layout = strip_layout_of(f, p.tiles, strips_of(f, p.tiles));
  table.data = reinterpret_cast<const void*>(aligned(workspace) + layout_of(f, p.tiles).strips + layout.tables[side]);
  table.shape[1] = p.strips.clips.rows();
  const std::int64_t head = table.shape[1] * table.shape[3];
  table.strides = {0, table.shape[3], head, 1};
  return table;
}

Status spread(const char* where, const ByDistance& side, const ConstTensorView& to, const Clips& clips, void* stream) {
  SpreadWork work = {.from = input_rows(side.table),
                     .map = side.map,
                     .to = static_cast<uint4*>(const_cast<void*>(to.data)),
                     .of_table = static_cast<int>(side.table.shape[1]),
                     .left = clips.left,
                     .rows = clips.rows(),
                     .vectors = static_cast<int>(to.shape[3] / 8)};
  const std::int64_t blocks = (to.shape[1] * work.vectors + kSpreadThreads - 1) / kSpreadThreads;
  const Grid grid = {static_cast<unsigned>(blocks), static_cast<unsigned>(to.shape[2])};
  return launch(where, {reinterpret_cast<const void*>(&spread_rows), grid, kSpreadThreads, 0, stream}, &work);
}

Status launch_ends(const char* where, EndWork& work, DType dtype, int batch, void* stream) {
  const auto kernel =
      dtype == DType::f16 ? reinterpret_cast<const void*>(&ends<__half>) : reinterpret_cast<const void*>(&ends<__nv_bfloat16>);
  const int of_block = kEndThreads / work.lanes * kEndRows;
  const Grid grid = {static_cast<unsigned>((work.length + of_block - 1) / of_block * work.heads), static_cast<unsigned>(batch)};
  return launch(where, {kernel, grid, kEndThreads, 0, stream}, &work);
}

template <class T>
Status launch_strips(const char* where, StripWork& work, void* stream) {
  const auto* const kernel = reinterpret_cast<const void*>(&strips<T>);
  const Grid grid = {static_cast<unsigned>(work.strips.end - work.strips.first)};
  return launch(where, {kernel, grid, T::kThreads, sizeof(typename T::Shared), stream}, &work);
}

float factor_of(const ByDistance& side, const Forward& f) { return static_cast<float>(side.scale / f.scale); }

}  // namespace

Status make_ends(const char* where, const Forward& f, const ForwardParameter& p, void* workspace, void* stream) {
  const Tiles& t = p.tiles;
  for (int side = 0; side < 2; ++side) {
    const ByDistance& of = side == 0 ? f.of_queries : f.of_keys;
    if (of.table.data == nullptr) continue;
    const ConstTensorView table = spread_table(f, p, workspace, side);
    if (Status s = spread(where, of, table, p.strips.clips, stream); !s) return s;
    const ConstTensorView& rows = side == 0 ? f.q : f.k;
    EndWork work = {.rows = input_rows(rows),
                    .table = input_rows(table),
                    .heads_of_row = side == 0 ? 1 : t.heads_of_key,
                    .heads = t.heads,
                    .tokens = side == 0 ? t.queries : t.keys,
                    .last = p.strips.clips.rows() - 1,
                    .length = side == 0 ? p.strips.rows_length : p.strips.columns_length,
                    .lanes = lanes_of(f.q.shape[3]),
                    .factor = factor_of(of, f),
                    .to = const_cast<float*>(side == 0 ? p.strips.rows : p.strips.columns)};
    if (Status s = launch_ends(where, work, f.q.dtype, t.batch, stream); !s) return s;
  }
  return {};
}

Status make_strips(const char* where, const Forward& f, const ForwardParameter& p, void* workspace, void* stream) {
  StripWork work = {.tiles = p.tiles,
                    .strips = p.strips,
                    .queries = input_rows(f.q),
                    .keys = input_rows(f.k),
                    .of_queries = input_rows(spread_table(f, p, workspace, 0)),
                    .of_keys = input_rows(spread_table(f, p, workspace, 1)),
                    .query_factor = factor_of(f.of_queries, f),
                    .key_factor = factor_of(f.of_keys, f)};
  const bool half = f.q.dtype == DType::f16;
  if (f.q.shape[3] <= 64) {
    return half ? launch_strips<StripBody<__half, 64>>(where, work, stream)
                : launch_strips<StripBody<__nv_bfloat16, 64>>(where, work, stream);
  }
  return half ? launch_strips<StripBody<__half, 128>>(where, work, stream)
              : launch_strips<StripBody<__nv_bfloat16, 128>>(where, work, stream);
}

}  // namespace phasor::cuda::hopper
