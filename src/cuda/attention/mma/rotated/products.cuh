// SPDX-License-Identifier: Apache-2.0
// Products of rotated copies, whose float32 numbers are two of bfloat16 each (high_low.hpp): high . high + high . low + low . high in the
// same float32 sums. What is left out is low . low. Rows of both numbers are two rows in shared memory, low ones behind all high ones.
#pragma once

#include "cuda/attention/mma/rows.cuh"

namespace phasor::cuda::attention::mma {

/// Rows of one head: 16 bytes of high numbers, then 16 of low ones, and so on; a row is twice as long as one of 16 bits.
__device__ inline HeadRows high_low_rows(const ConstTensorView& v, int64_t batch, int64_t head, int64_t first, int64_t count) {
  ConstTensorView halves = v;
  for (auto& stride : halves.strides) stride *= 2;
  return head_rows(halves, batch, head, first, count);
}

/// Low numbers lie as high ones do, but with every 64 channels' halves swapped: copies bring both from the same 32 bytes side by side, and
/// so they go to different banks.
constexpr int kLowPieces = 4;
constexpr int low_step(int step) { return step ^ (kLowPieces / 2); }

/// Asks for kRows rows; zeros beyond their count and width.
template <int kRows, int kWidth>
__device__ __forceinline__ void bring_high_low(std::uint32_t to, const HeadRows& rows) {
  constexpr int kPieces = kWidth / 4;  // of a row in the device's memory
#pragma unroll
  for (int n = 0; n < kRows * kPieces / kBlockThreads; ++n) {
    const int at = n * kBlockThreads + static_cast<int>(threadIdx.x);
    const int row = at / kPieces;
    const int piece = at % kPieces / 2;
    const bool low = at % 2 != 0;
    const bool wanted = row < rows.count && piece * 8 < rows.width;
    const std::uint32_t place = low ? kRows * kWidth * 2 + piece_offset<kWidth>(row, piece ^ kLowPieces) : piece_offset<kWidth>(row, piece);
    copy_in(to + place, wanted ? rows.data + row * rows.stride + at % kPieces * 8 : rows.data, wanted);
  }
}

/// 32 rows of keys as the right operand, 16 channels from 16 `step` on.
template <int kWidth>
__device__ __forceinline__ void right_operand(std::uint32_t (&b)[2][4], std::uint32_t memory, int row, int step) {
  const int lane = lane_of_warp();
  const int of_b = row + (lane & 7) + ((lane >> 4) << 3);
#pragma unroll
  for (int n = 0; n < 2; ++n) load_matrices(b[n], memory + piece_offset<kWidth>(of_b + 16 * n, 2 * step + (lane >> 3 & 1)));
}
template <int kRowTiles, int kColumns>
__device__ __forceinline__ void add_to_columns(float (&d)[kRowTiles][kColumns][4], int column, const std::uint32_t (&a)[kRowTiles][4],
                                               const std::uint32_t (&b)[2][4]) {
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      add_product<__nv_bfloat16>(d[m][column + n], a[m], b[n / 2][2 * (n % 2)], b[n / 2][2 * (n % 2) + 1]);
    }
  }
}

/// d += q . k of 16 kRowTiles rows of q from `row` on and of K::kKeys keys. Products of one sum do not follow each other: each would wait
/// for the one before. kKeysToo: keys have low numbers, too; else theirs are bfloat16 as they came.
template <class K, bool kKeysToo>
__device__ __forceinline__ void multiply_high_low(float (&d)[K::kRowTiles][K::kKeys / 8][4], std::uint32_t q, int row, std::uint32_t k) {
  constexpr std::uint32_t kLowQueries = K::kQueries * K::kWidth * 2;
  constexpr std::uint32_t kLowKeys = K::kKeys * K::kWidth * 2;
#pragma unroll
  for (int step = 0; step < K::kWidth / 16; ++step) {
    std::uint32_t high[K::kRowTiles][4];
    std::uint32_t low[K::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < K::kRowTiles; ++m) {
      left_operand<K::kWidth>(high[m], q, row + 16 * m, step);
      left_operand<K::kWidth>(low[m], q + kLowQueries, row + 16 * m, low_step(step));
    }
#pragma unroll
    for (int key = 0; key < K::kKeys; key += 32) {
      std::uint32_t right[2][4];
      right_operand<K::kWidth>(right, k, key, step);
      add_to_columns(d, key / 8, high, right);
      add_to_columns(d, key / 8, low, right);
      if constexpr (kKeysToo) {
        right_operand<K::kWidth>(right, k + kLowKeys, key, low_step(step));
        add_to_columns(d, key / 8, high, right);
      }
    }
  }
}

}  // namespace phasor::cuda::attention::mma
