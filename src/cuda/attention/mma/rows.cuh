// SPDX-License-Identifier: Apache-2.0
// Rows of 16-bit tensors in shared memory, and products of them. A row has kWidth channels in pieces of 16 bytes; piece c of row r lies at
// place c ^ (r % 8), so that eight rows' pieces are in different banks.
#pragma once

#include "cuda/attention/mma/instructions.cuh"
#include "cuda/attention/tile.hpp"

namespace phasor::cuda::attention::mma {

/// Threads of a block: four warps.
constexpr int kBlockThreads = 128;
__device__ __forceinline__ int warp_of_block() { return static_cast<int>(threadIdx.x) / 32; }
__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) & 31; }
/// The same for kernels with long loops and few registers: compilers would keep every offset that follows from them, and spill.
__device__ __forceinline__ int thread_here() { return anew(static_cast<int>(threadIdx.x)); }
__device__ __forceinline__ int warp_here() { return thread_here() / 32; }
__device__ __forceinline__ int lane_here() { return thread_here() & 31; }

/// Rows of a block in shared memory.
struct SharedRows {
  std::uint32_t q;
  std::uint32_t k;
  std::uint32_t values;        // rows of a table are staged here before the values come
  unsigned char* value_bytes;  // the same, for threads
  unsigned char* k_bytes;
};

template <int kWidth>
__device__ __forceinline__ std::uint32_t piece_offset(int row, int piece) {
  return static_cast<std::uint32_t>(row * kWidth * 2 + ((piece ^ (row & 7)) << 4));
}

/// Rows of one head, channels side by side: element (row, c) at data + row * stride + c.
template <class Number>
struct RowsOfHead {
  const Number* data;
  int64_t stride;
  int count;
  int width;
};
using HeadRows = RowsOfHead<std::uint16_t>;
template <class Number = std::uint16_t>
__device__ inline RowsOfHead<Number> head_rows(const ConstTensorView& v, int64_t batch, int64_t head, int64_t first, int64_t count) {
  const int64_t at = shared_or(v, 0, batch) * v.strides[0] + first * v.strides[1] + shared_or(v, 2, head) * v.strides[2];
  return {static_cast<const Number*>(v.data) + at, v.strides[1], static_cast<int>(count), static_cast<int>(v.shape[3])};
}

/// Asks for kRows rows; zeros beyond their count and width, and where is_there(row) is false.
template <int kRows, int kWidth, int kThreads = kBlockThreads, class IsThere>
__device__ __forceinline__ void bring_rows(std::uint32_t to, const HeadRows& rows, const IsThere& is_there) {
  constexpr int kPieces = kWidth / 8;
#pragma unroll
  for (int n = 0; n < kRows * kPieces / kThreads; ++n) {
    const int at = n * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / kPieces;
    const int piece = at % kPieces;
    const bool wanted = row < rows.count && piece * 8 < rows.width && is_there(row);
    copy_in(to + piece_offset<kWidth>(row, piece), wanted ? rows.data + row * rows.stride + piece * 8 : rows.data, wanted);
  }
}
template <int kRows, int kWidth, int kThreads = kBlockThreads>
__device__ __forceinline__ void bring_rows(std::uint32_t to, const HeadRows& rows) {
  bring_rows<kRows, kWidth, kThreads>(to, rows, [](int) { return true; });
}

/// The same of rows in float32, rounded on their way: no copy does that, so threads write the pieces that they would have asked for.
template <class Element, int kRows, int kWidth, int kThreads = kBlockThreads, class IsThere>
__device__ __forceinline__ void bring_rounded_rows(unsigned char* to, const RowsOfHead<float>& rows, const IsThere& is_there) {
  constexpr int kPieces = kWidth / 8;
#pragma unroll
  for (int n = 0; n < kRows * kPieces / kThreads; ++n) {
    const int at = n * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / kPieces;
    const int piece = at % kPieces;
    uint4 eight = {0, 0, 0, 0};
    if (row < rows.count && piece * 8 < rows.width && is_there(row)) {
      const auto* const from = reinterpret_cast<const float4*>(rows.data + row * rows.stride + piece * 8);
      const float4 a = from[0];
      const float4 b = from[1];
      eight = {pack<Element>(a.x, a.y), pack<Element>(a.z, a.w), pack<Element>(b.x, b.y), pack<Element>(b.z, b.w)};
    }
    *reinterpret_cast<uint4*>(to + piece_offset<kWidth>(row, piece)) = eight;
  }
}

/// Asks for kRows rows, each the one that `numbers` says: zeros where that is below 0, and beyond the width.
template <int kRows, int kWidth>
__device__ __forceinline__ void bring_listed_rows(std::uint32_t to, const HeadRows& rows, const std::int32_t* numbers) {
  constexpr int kPieces = kWidth / 8;
#pragma unroll
  for (int n = 0; n < kRows * kPieces / kBlockThreads; ++n) {
    const int row = (n * kBlockThreads + static_cast<int>(threadIdx.x)) / kPieces;
    const int piece = (n * kBlockThreads + static_cast<int>(threadIdx.x)) % kPieces;
    const std::int32_t from = numbers[row];
    const bool wanted = from >= 0 && piece * 8 < rows.width;
    copy_in(to + piece_offset<kWidth>(row, piece), wanted ? rows.data + from * rows.stride + piece * 8 : rows.data, wanted);
  }
}

/// Matrices of 16 rows from `row` on and 16 channels from 16 `step` on, as the left operand.
template <int kWidth>
__device__ __forceinline__ void left_operand(std::uint32_t (&a)[4], std::uint32_t memory, int row, int step, int lane = lane_of_warp()) {
  load_matrices(a, memory + piece_offset<kWidth>(row + (lane & 15), 2 * step + (lane >> 4)));
}

/// d (16 kRowTiles rows from `row` on of a) x (kColumns rows of b) += their products over channels.
template <class Element, int kWidth, int kColumns, int kRowTiles>
__device__ __forceinline__ void multiply_rows(float (&d)[kRowTiles][kColumns / 8][4], std::uint32_t a, int row, std::uint32_t b,
                                              int lane = lane_of_warp()) {
  const int of_b = (lane & 7) + ((lane >> 4) << 3);
#pragma unroll
  for (int step = 0; step < kWidth / 16; ++step) {
    std::uint32_t left[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) left_operand<kWidth>(left[m], a, row + 16 * m, step, lane);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t right[4];
      load_matrices(right, b + piece_offset<kWidth>(16 * n + of_b, 2 * step + (lane >> 3 & 1)));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        add_product<Element>(d[m][2 * n], left[m], right[0], right[1]);
        add_product<Element>(d[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

/// o += weights (in the registers of a product) x rows of v.
template <class Element, int kWidth, int kKeys, int kRowTiles>
__device__ __forceinline__ void add_values(float (&o)[kRowTiles][kWidth / 8][4], const float (&p)[kRowTiles][kKeys / 8][4],
                                           std::uint32_t v) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    std::uint32_t left[kRowTiles][4];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      const float(&even)[4] = p[m][2 * step];
      const float(&odd)[4] = p[m][2 * step + 1];
      left[m][0] = pack<Element>(even[0], even[1]);
      left[m][1] = pack<Element>(even[2], even[3]);
      left[m][2] = pack<Element>(odd[0], odd[1]);
      left[m][3] = pack<Element>(odd[2], odd[3]);
    }
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      std::uint32_t right[4];
      load_transposed(right, v + piece_offset<kWidth>(16 * step + (lane & 15), 2 * n + (lane >> 4)));
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        add_product<Element>(o[m][2 * n], left[m], right[0], right[1]);
        add_product<Element>(o[m][2 * n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// ---- Vectors that are added to features: (q + shift) . row is q . row + shift . row ----

/// shift . row number `row` in `pieces`; both are zeros beyond their width.
template <class Element, int kWidth>
__device__ __forceinline__ float shift_product(const float* shift, const unsigned char* rows, int row, int pieces = kWidth / 8) {
  float sum = 0;
#pragma unroll
  for (int piece = 0; piece < pieces; ++piece) {
    const uint4 eight = *reinterpret_cast<const uint4*>(rows + piece_offset<kWidth>(row, piece));
    const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int x = 0; x < 8; ++x) {
      const auto bits = static_cast<std::uint16_t>(pairs[x / 2] >> 16 * (x & 1));
      sum = fmaf(shift[8 * piece + x], widened<Element>(bits), sum);
    }
  }
  return sum;
}

// ---- Operands: 16 x 16 numbers of 16 bits in rows of `pitch` bytes ----

__device__ __forceinline__ void left_from(std::uint32_t (&a)[4], const void* memory, int pitch, int row, int column) {
  const int lane = lane_here();
  load_matrices(a, shared_address(memory) + (row + (lane & 15)) * pitch + (column + 8 * (lane >> 4)) * 2);
}
/// Of the transpose: rows of memory are columns of the operand.
__device__ __forceinline__ void left_transposed(std::uint32_t (&a)[4], const void* memory, int pitch, int row, int column) {
  const int lane = lane_here();
  const int of_row = column + (lane & 7) + 8 * (lane >> 4);
  load_transposed(a, shared_address(memory) + of_row * pitch + (row + 8 * (lane >> 3 & 1)) * 2);
}

/// d += a x 16 rows of b from `row` on, channels from 16 `first` on.
template <class Element, int kWidth, int kColumns>
__device__ __forceinline__ void add_rows(float (&d)[kColumns][4], const std::uint32_t (&a)[4], const void* b, int row, int first) {
  const int lane = lane_here();
  const std::uint32_t memory = shared_address(b);
#pragma unroll
  for (int n = 0; n < kColumns / 2; ++n) {
    std::uint32_t right[4];
    load_transposed(right, memory + piece_offset<kWidth>(row + (lane & 15), 2 * (first + n) + (lane >> 4)));
    add_product<Element>(d[2 * n], a, right[0], right[1]);
    add_product<Element>(d[2 * n + 1], a, right[2], right[3]);
  }
}

}  // namespace phasor::cuda::attention::mma
