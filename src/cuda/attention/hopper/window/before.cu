// SPDX-License-Identifier: Apache-2.0
// Before a forward with windows of a table: a row for each distance, where those that are seen go beyond the table, and what is added to
// queries multiplied with keys and rows: (q + u) . k is q . k + u . k, so nothing is rounded into q.
#include "cuda/attention/hopper/window/before.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/attention/hopper/work.hpp"
#include "cuda/device.hpp"
#include "job/element.hpp"

namespace phasor::cuda::hopper {
namespace {

constexpr int kThreads = 256;

// ---- Rows ----

struct SpreadWork {
  const unsigned char* from;
  std::int64_t row_bytes;  // between rows
  std::int64_t head_bytes;
  uint4* to;  // (heads, rows, vectors)
  int rows;
  int vectors;  // of a row: 8 channels each
  int before;   // distances before the table's first row
  int last;     // row of the table
};
/// A thread per vector.
__global__ void __launch_bounds__(kThreads) spread_rows(const __grid_constant__ SpreadWork w) {
  const std::int64_t x = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = x / w.vectors;
  const int vector = static_cast<int>(x % w.vectors);
  if (row >= w.rows) return;
  const int from = min(max(static_cast<int>(row) - w.before, 0), w.last);
  w.to[(std::int64_t{blockIdx.y} * w.rows + row) * w.vectors + vector] =
      *reinterpret_cast<const uint4*>(w.from + blockIdx.y * w.head_bytes + from * w.row_bytes + 16 * vector);
}

// ---- Sums ----

/// A vector of a head times rows.
struct SumsWork {
  ConstTensorView rows;    // (B or 1, rows, heads or 1, D), of 16 bits
  ConstTensorView vector;  // (1, 1, H or 1, D); no data: all sums are 0
  int heads_of_row;        // that share a head of rows
  int first;               // row of the first sum; outside of the rows: 0
  int length;              // sums of a head
  int lanes;               // threads of a row, a power of two
  float* to;               // (B, H, ...)
  std::int64_t of_batch;
  std::int64_t of_head;
  std::int64_t second;  // there is a second copy so much further on, one place later; 0: none
};

/// Eight channels of a row times eight numbers.
template <class Element>
__device__ float multiply_eight(const unsigned char* row, const float (&by)[8]) {
  const uint4 bits = *reinterpret_cast<const uint4*>(row);
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const auto half = static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
    sum = fmaf(static_cast<float>(reinterpret_cast<const Element&>(half)), by[i], sum);
  }
  return sum;
}

constexpr int kRowsEach = 8;
template <class Element>
__global__ void __launch_bounds__(kThreads) multiply_rows(const __grid_constant__ SumsWork w) {
  const int lane = threadIdx.x % w.lanes, head = blockIdx.y, batch = blockIdx.z, together = kThreads / w.lanes;
  const bool has_channels = 8 * lane < w.rows.shape[3];
  float by[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t at = (w.vector.shape[2] == 1 ? 0 : head * w.vector.strides[2]) + (8 * lane + i) * w.vector.strides[3];
    by[i] = w.vector.data != nullptr && has_channels ? static_cast<float>(job::load_element(w.vector.data, w.vector.dtype, at)) : 0;
  }
  const auto* const rows = static_cast<const unsigned char*>(w.rows.data) +
                           2 * (batch * w.rows.strides[0] + head / w.heads_of_row * w.rows.strides[2] + 8 * lane);
  float* const to = w.to + batch * w.of_batch + head * w.of_head;
#pragma unroll
  for (int n = 0; n < kRowsEach; ++n) {
    const int x = (blockIdx.x * kRowsEach + n) * together + threadIdx.x / w.lanes;
    const int row = w.first + x;
    const bool is_there = x < w.length && row >= 0 && row < w.rows.shape[1] && has_channels && w.vector.data != nullptr;
    float sum = is_there ? multiply_eight<Element>(rows + 2 * row * w.rows.strides[1], by) : 0;
    for (int i = 1; i < w.lanes; i *= 2) sum += __shfl_xor_sync(~0u, sum, i);
    if (lane != 0 || x >= w.length) continue;
    to[x] = sum;
    if (w.second != 0 && x + 1 < w.length) to[w.second + x + 1] = sum;
  }
}

int lanes_of(std::int64_t width) {
  int lanes = 1;
  while (lanes * 8 < width) lanes *= 2;
  return lanes;
}

Status make_sums(const char* where, SumsWork& work, const Tiles& tiles, int batch, void* stream) {
  const auto kernel = work.rows.dtype == DType::f16 ? reinterpret_cast<const void*>(&multiply_rows<__half>)
                                                    : reinterpret_cast<const void*>(&multiply_rows<__nv_bfloat16>);
  const int of_block = kThreads / work.lanes * kRowsEach;
  const auto blocks = static_cast<unsigned>((work.length + of_block - 1) / of_block);
  return launch(where, {kernel, {blocks, static_cast<unsigned>(tiles.heads), static_cast<unsigned>(batch)}, kThreads, 0, stream}, &work);
}

Status spread(const char* where, const Forward& f, void* workspace, void* stream) {
  const ConstTensorView to = window_table(f, workspace);
  if (to.data == f.table.data) return {};
  SpreadWork work = {.from = static_cast<const unsigned char*>(f.table.data),
                     .row_bytes = f.table.strides[1] * 2,
                     .head_bytes = f.table.strides[2] * 2,
                     .to = static_cast<uint4*>(const_cast<void*>(to.data)),
                     .rows = static_cast<int>(to.shape[1]),
                     .vectors = static_cast<int>(to.shape[3] / 8),
                     .before = static_cast<int>(seen_by(f).left - f.table_left),
                     .last = static_cast<int>(f.table.shape[1] - 1)};
  const std::int64_t blocks = (to.shape[1] * work.vectors + kThreads - 1) / kThreads;
  const Grid grid = {static_cast<unsigned>(blocks), static_cast<unsigned>(to.shape[2])};
  return launch(where, {reinterpret_cast<const void*>(&spread_rows), grid, kThreads, 0, stream}, &work);
}

}  // namespace

ConstTensorView window_table(const Forward& f, void* workspace) {
  ConstTensorView table = f.table;
  const Seen seen = seen_by(f);
  if (!needs_spread(f)) return table;
  table.data = reinterpret_cast<const void*>(aligned(workspace) + static_cast<std::uintptr_t>(layout_of(f, tiles_of(f)).rows));
  table.shape[1] = seen.left + seen.right + 1;
  const std::int64_t head = table.shape[1] * table.shape[3];
  table.strides = {head * table.shape[2], table.shape[3], head, 1};
  return table;
}

Status make_window_rows(const char* where, const Forward& f, const ForwardParameter& p, void* workspace, void* stream) {
  if (Status s = spread(where, f, workspace, stream); !s || p.sums.columns == nullptr) return s;
  const Tiles& t = p.tiles;
  const ConstTensorView table = window_table(f, workspace);
  SumsWork columns = {.rows = f.k,
                      .vector = f.content_shift,
                      .heads_of_row = t.heads_of_key,
                      .first = 0,
                      .length = p.sums.columns_length,
                      .lanes = lanes_of(f.k.shape[3]),
                      .to = const_cast<float*>(p.sums.columns),
                      .of_batch = std::int64_t{t.heads} * p.sums.columns_length,
                      .of_head = p.sums.columns_length,
                      .second = 0};
  if (Status s = make_sums(where, columns, t, t.batch, stream); !s) return s;
  SumsWork lines = {.rows = table,
                    .vector = f.table_shift,
                    .heads_of_row = table.shape[2] == 1 ? t.heads : 1,
                    .first = p.sums.first - t.offset() + p.clips.left,
                    .length = p.sums.lines_length,
                    .lanes = columns.lanes,
                    .to = const_cast<float*>(p.sums.lines),
                    .of_batch = 0,
                    .of_head = std::int64_t{2} * p.sums.lines_length,
                    .second = p.sums.lines_length};
  return make_sums(where, lines, t, 1, stream);
}

}  // namespace phasor::cuda::hopper
