// SPDX-License-Identifier: Apache-2.0
// The queries of a block: two parts of 16 bits each in shared memory.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// Bits of q, of four rows a warp: all are asked for before any is looked at.
constexpr int kRowsOfWarp = 4;
template <class S>
struct QueryBits {
  std::uint32_t x[kRowsOfWarp][S::kWidth / 32];
};
/// The row of a block that is number n of a warp's, of group `group`.
__device__ inline int query_row(int group, int n) { return (group * kRowsOfWarp + n) * kWarps + static_cast<int>(threadIdx.x) / 32; }

template <class S>
__device__ inline QueryBits<S> load_queries(const DecodeWork& work, const Block& block, int group) {
  QueryBits<S> bits = {};
  const bool wide = work.q.dtype == DType::f32;
#pragma unroll
  for (int n = 0; n < kRowsOfWarp; ++n) {
    const int row = block.first_row + query_row(group, n);
    if (row >= rows_of(work)) continue;
    const int64_t at = block.batch * work.q.strides[0] + row / work.group * work.q.strides[1] +
                       (block.key_head * work.group + row % work.group) * work.q.strides[2];
#pragma unroll
    for (int c = 0; c < S::kWidth / 32; ++c) {
      const int64_t place = at + query_channel<S>(c * 32 + static_cast<int>(threadIdx.x) % 32);
      bits.x[n][c] = wide ? static_cast<const std::uint32_t*>(work.q.data)[place] : static_cast<const std::uint16_t*>(work.q.data)[place];
    }
  }
  return bits;
}
__device__ inline float query_value(DType dtype, std::uint32_t bits) {
  return dtype == DType::f32 ? __uint_as_float(bits) : dtype == DType::bf16 ? low_of<true>(bits) : low_of<false>(bits);
}

/// A row's power of two, by which f16 is divided to stay in its range: bf16 has the range of q.
template <class S>
__device__ inline float row_power(float most) {
  if constexpr (S::kBrain) return 1;
  const int exponent = static_cast<int>(__float_as_uint(most) >> 23);
  return exponent == 0 || exponent == 255 ? 1 : __uint_as_float(static_cast<unsigned>(exponent < 253 ? exponent : 253) << 23);
}

/// q in two parts, each of 16 bits, and what each row's products are multiplied by then.
template <class S>
__device__ inline void put_queries(const DecodeWork& work, const QueryBits<S>& bits, int group, std::byte* to, float* powers) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kRowsOfWarp; ++n) {
    const int r = query_row(group, n);
    float x[S::kWidth / 32];
    float most = 0;
#pragma unroll
    for (int c = 0; c < S::kWidth / 32; ++c) {
      x[c] = query_value(work.q.dtype, bits.x[n][c]);
      most = fmaxf(most, fabsf(x[c]));
    }
    if constexpr (!S::kBrain) {
      for (int other = 16; other > 0; other /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, other));
    }
    const float power = row_power<S>(most);
    if (lane == 0) powers[r] = power;
#pragma unroll
    for (int c = 0; c < S::kWidth / 32; ++c) {
      const int channel = c * 32 + lane;
      const float value = S::kBrain ? x[c] : x[c] / power;
      const std::uint32_t high = packed<S::kBrain>(value, 0);
      const float rest = value - low_of<S::kBrain>(high);
      const std::uint32_t low = packed<S::kBrain>(rest == rest ? rest : 0, 0);  // of an infinity there is no rest
      std::byte* const place = to + r * S::kWidth * 2 + ((channel / 8) ^ (r & 7)) * 16 + channel % 8 * 2;
      *reinterpret_cast<std::uint16_t*>(place) = static_cast<std::uint16_t>(high);
      *reinterpret_cast<std::uint16_t*>(place + S::kQueryBytes) = static_cast<std::uint16_t>(low);
    }
  }
}

}  // namespace phasor::cuda::decode
