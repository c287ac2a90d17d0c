// SPDX-License-Identifier: Apache-2.0
// The queries of a block: one or two parts of 16 bits each in shared memory.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// Bits of q, of some rows of a warp: all are asked for before any is looked at.
template <class S>
constexpr int kRowsTogether = S::kRows / kWarps < 4 ? S::kRows / kWarps : 4;
template <class S>
constexpr int kRowGroups = S::kRows / kWarps / kRowsTogether<S>;
template <class S>
struct QueryBits {
  std::uint32_t x[kRowsTogether<S>][S::kWidth / 32];
};
/// The row of a block that is number n of a warp's, of group `group`.
template <class S>
__device__ inline int query_row(int group, int n) {
  return (group * kRowsTogether<S> + n) * kWarps + static_cast<int>(threadIdx.x) / 32;
}
/// The query of a row; heads that share keys lie side by side.
__device__ inline int query_of(const DecodeWork& work, int row) {
  return work.queries == 1 ? 0 : static_cast<int>(static_cast<unsigned>(row) / static_cast<unsigned>(work.group));
}

template <class T, class S>
__device__ __forceinline__ void load_row(const void* q, int64_t at, std::uint32_t (&x)[S::kWidth / 32]) {
  const T* const from = static_cast<const T*>(q) + at;
#pragma unroll
  for (int c = 0; c < S::kWidth / 32; ++c) x[c] = from[query_channel<S>(c * 32)];
}
template <class S>
__device__ __forceinline__ QueryBits<S> ask_for_queries(const DecodeWork& work, const Block& block, int group) {
  QueryBits<S> bits = {};
  const int rows = rows_of(work);
  const int64_t first = block.batch * work.q.strides[0] + int64_t{block.key_head} * work.group * work.q.strides[2] +
                        query_channel<S>(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
  for (int n = 0; n < kRowsTogether<S>; ++n) {
    const int row = block.first_row + query_row<S>(group, n);
    if (row >= rows) continue;
    const int query = query_of(work, row);
    const int64_t at = first + query * work.q.strides[1] + (row - query * work.group) * work.q.strides[2];
    if (splits_queries(work)) {
      load_row<std::uint32_t, S>(work.q.data, at, bits.x[n]);
    } else {
      load_row<std::uint16_t, S>(work.q.data, at, bits.x[n]);
    }
  }
  return bits;
}
template <int kCount>
__device__ __forceinline__ void widen_queries(DType dtype, const std::uint32_t (&bits)[kCount], float (&x)[kCount]) {
  const auto each = [&](const auto& value) {
#pragma unroll
    for (int c = 0; c < kCount; ++c) x[c] = value(bits[c]);
  };
  if (dtype == DType::bf16) {
    each([](std::uint32_t of) { return low_of<true>(of); });
  } else if (dtype == DType::f16) {
    each([](std::uint32_t of) { return low_of<false>(of); });
  } else {
    each([](std::uint32_t of) { return __uint_as_float(of); });
  }
}

/// The exponent of a row's power of two, by which f16 is divided to stay in its range: bf16 has the range of q.
template <class S>
__device__ inline int row_exponent(float most) {
  if constexpr (S::kBrain) return 127;
  const auto exponent = static_cast<int>(__float_as_uint(most) >> 23);
  return exponent == 0 || exponent == 255 ? 127 : exponent < 253 ? exponent : 253;
}
__device__ inline float power_of(int exponent) { return __uint_as_float(static_cast<unsigned>(exponent) << 23); }

__device__ inline float bias_at(const DecodeWork& work, const float* diagonal, int64_t distance) {
  int64_t n = distance - work.first_distance;
  n = n < 0 ? 0 : n >= work.distances ? work.distances - 1 : n;
  return diagonal[n];
}
/// All of rows but their powers: a thread for each.
template <class S>
__device__ __forceinline__ void put_rows(const DecodeWork& work, const Block& block, Row* rows) {
  const auto r = static_cast<int>(threadIdx.x);
  if (r >= S::kRows) return;
  const int row = block.first_row + r;
  const bool there = row < rows_of(work);
  const int query = there ? query_of(work, row) : work.queries;
  rows[r].query = query;
  if (!there || work.diagonal == nullptr) return;
  const int head = block.key_head * work.group + row - query * work.group;
  rows[r].diagonal =
      work.diagonal + block.batch * work.diagonal_strides[0] + query * work.diagonal_strides[1] + head * work.diagonal_strides[2];
  rows[r].far = bias_at(work, rows[r].diagonal, work.far_left);
}

/// q in two parts (the second only where it is float32), each of 16 bits, and the rows' powers.
template <class S>
__device__ __forceinline__ void put_queries(const DecodeWork& work, const QueryBits<S>& bits, int group, std::byte* to, Row* rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kRowsTogether<S>; ++n) {
    const int r = query_row<S>(group, n);
    float x[S::kWidth / 32];
    widen_queries(work.q.dtype, bits.x[n], x);
    float most = 0;
#pragma unroll
    for (int c = 0; c < S::kWidth / 32; ++c) most = fmaxf(most, fabsf(x[c]));
    if constexpr (!S::kBrain) {
#pragma unroll
      for (int other = 16; other > 0; other /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, other));
    }
    const int exponent = row_exponent<S>(most);
    const float inverse = power_of(254 - exponent);  // exactly: both are powers of two
    if (lane == 0) rows[r].power = power_of(exponent);
    // Channels 32 apart lie 64 bytes apart, exclusively or'ed.
    const int own = r * S::kWidth * 2 + (lane / 8 ^ (r & 7)) * 16 + lane % 8 * 2;
    const auto put = [&](int c, int part, std::uint32_t number) {
      *reinterpret_cast<std::uint16_t*>(to + part * S::kQueryBytes + (own ^ c * 64)) = static_cast<std::uint16_t>(number);
    };
#pragma unroll
    for (int c = 0; c < S::kWidth / 32; ++c) {
      if constexpr (!S::kBrain) x[c] *= inverse;
      put(c, 0, packed<S::kBrain>(x[c], 0));
    }
    if (!splits_queries(work)) continue;
#pragma unroll
    for (int c = 0; c < S::kWidth / 32; ++c) {
      const float rest = x[c] - low_of<S::kBrain>(packed<S::kBrain>(x[c], 0));
      put(c, 1, packed<S::kBrain>(rest == rest ? rest : 0, 0));  // of an infinity there is no rest
    }
  }
}

}  // namespace phasor::cuda::decode
