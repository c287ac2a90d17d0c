// SPDX-License-Identifier: Apache-2.0
// Products of tensor cores: keys with queries, values with weights. Keys, and channels of values, are the 16 rows of a product, queries its
// 8 columns: no row of a product is empty where a key head has few queries.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// Steps that are loaded together, before any of them is multiplied.
constexpr int kTogether = 4;

/// A warp's queries as a product wants them, of two steps of 16 channels: channels 2t, 2t + 1, 2t + 8 and 2t + 9 of query g.
template <class S>
__device__ inline void load_queries(std::uint32_t queries, int step, int column, std::uint32_t (&b)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto own = static_cast<std::uint32_t>(lane % 8 * S::kWidth * 2 + (lane / 8 ^ lane % 8) * 16);
  load_matrices(b, ((queries + own) ^ static_cast<std::uint32_t>(step * 32)) + column * 8 * S::kWidth * 2);
}
/// All of them, where registers hold them.
template <class S>
struct HeldQueries {
  std::uint32_t x[S::kHoldsQueries ? S::kColumns : 1][S::kHoldsQueries ? S::kDepth / 2 : 1][4];
};
template <class S>
__device__ inline void hold_queries(std::uint32_t queries, HeldQueries<S>& held) {
  if constexpr (S::kHoldsQueries) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int n = 0; n < S::kDepth / 2; ++n) load_queries<S>(queries, n * 2, column, held.x[column][n]);
    }
  }
}

/// 16 keys that begin at `keys`: kTogether steps of 16 channels.
template <class S>
__device__ inline void load_keys(std::uint32_t keys, int first, std::uint32_t (&a)[kTogether][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (!S::kBytes) {
    const std::uint32_t own = keys + vector_at<S, false>(lane % 16, lane / 16);
#pragma unroll
    for (int n = 0; n < kTogether; ++n) load_matrices(a[n], own ^ static_cast<std::uint32_t>((first + n) * 32));
  } else {
    const std::uint32_t own = (keys + vector_at<S, false>(lane / 4, lane % 4)) ^ static_cast<std::uint32_t>(first * 16);
    const uint4 low = load_16(own);
    const uint4 high = load_16(own + 8 * S::kRowBytes);
    const std::uint32_t x[2][kTogether] = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint2 wide = widened_f8<S::kE5m2>(x[half][n]);
        a[n][half] = wide.x;
        a[n][half + 2] = wide.y;
      }
    }
  }
}

/// Adds products of 16 keys with one part of a warp's queries, held or in shared memory. Every other step goes to `odd`: a chain half as
/// long.
template <class S, bool kHeld>
__device__ __forceinline__ void add_keys(std::uint32_t keys, std::uint32_t queries, const HeldQueries<S>& held,
                                         float (&scores)[S::kColumns][4], float (&odd)[S::kColumns][4]) {
#pragma unroll
  for (int first = 0; first < S::kDepth; first += kTogether) {
    std::uint32_t a[kTogether][4];
    load_keys<S>(keys, first, a);
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) {
#pragma unroll
      for (int n = 0; n < kTogether; n += 2) {
        std::uint32_t b[4];
        if constexpr (!kHeld) load_queries<S>(queries, first + n, column, b);
        const auto& x = [&]() -> const std::uint32_t(&)[4] {
          if constexpr (kHeld)
            return held.x[column][(first + n) / 2];
          else
            return b;
        }();
        multiply<S::kBrain>(scores[column], a[n], x[0], x[1]);
        multiply<S::kBrain>(odd[column], a[n + 1], x[2], x[3]);
      }
    }
  }
}
/// Products of 16 keys with a warp's queries: of keys g and g + 8 with queries 2t and 2t + 1 in each thread. Keys come again for the second
/// part of queries, which few calls have.
template <class S>
__device__ __forceinline__ void multiply_keys(std::uint32_t keys, std::uint32_t queries, const HeldQueries<S>& held, bool split_queries,
                                              float (&scores)[S::kColumns][4]) {
  float odd[S::kColumns][4] = {};
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) {
    for (int c = 0; c < 4; ++c) scores[column][c] = 0;
  }
  add_keys<S, S::kHoldsQueries>(keys, queries, held, scores, odd);
  if (split_queries) add_keys<S, false>(keys, queries + S::kQueryBytes, held, scores, odd);
#pragma unroll
  for (int column = 0; column < S::kColumns; ++column) {
    for (int c = 0; c < 4; ++c) scores[column][c] += odd[column][c];
  }
}

/// Of a tile of channels and 16 keys, as a product wants it: those of number g and g + 8 of the tile. The channel of number n:
template <class S>
__device__ inline int value_channel(int tile, int n) {
  return S::kBytes ? n % 8 * (S::kWidth / 8) + tile * 2 + n / 8 : tile * 16 + n;
}
/// out += 16 values that begin at `values` times weights.
template <class S>
__device__ __forceinline__ void multiply_values(std::uint32_t values, const std::uint32_t (&weights)[S::kColumns][2],
                                                float (&out)[S::kDepth][S::kColumns][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto add = [&](int tile, const std::uint32_t(&a)[4]) {
#pragma unroll
    for (int column = 0; column < S::kColumns; ++column) multiply<S::kBrain>(out[tile][column], a, weights[column][0], weights[column][1]);
  };
  if constexpr (!S::kBytes) {
    const std::uint32_t own = values + vector_at<S, true>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
    for (int tile = 0; tile < S::kDepth; tile += kTogether) {
      std::uint32_t a[kTogether][4];
#pragma unroll
      for (int n = 0; n < kTogether; ++n) load_transposed(a[n], own ^ static_cast<std::uint32_t>((tile + n) * 32));
#pragma unroll
      for (int n = 0; n < kTogether; ++n) add(tile + n, a[n]);
    }
  } else {
    // A thread has the channels of its number, side by side, of keys 2t, 2t + 1, 2t + 8 and 2t + 9: bytes of two keys are interleaved.
    constexpr int kAtOnce = S::kWidth < 128 ? 2 : 4;  // words
    const std::uint32_t own = values + vector_at<S, true>(lane % 4 * 2, 0);
#pragma unroll
    for (int first = 0; first < S::kWidth / 32; first += kAtOnce) {
      std::uint32_t x[4][kAtOnce];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        const std::uint32_t key = (n % 2 + n / 2 * 8) * S::kRowBytes;
        if constexpr (kAtOnce == 2) {
          const uint2 two = load_8(own + lane / 4 * 8 + key);
          x[n][0] = two.x, x[n][1] = two.y;
        } else {
          const uint4 four = load_16((own ^ static_cast<std::uint32_t>((lane / 4 * (S::kWidth / 32) + first) * 4)) + key);
          x[n][0] = four.x, x[n][1] = four.y, x[n][2] = four.z, x[n][3] = four.w;
        }
      }
#pragma unroll
      for (int w = 0; w < kAtOnce; ++w) {
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {  // two channels of both keys: a b a b
          const std::uint32_t selector = pair == 0 ? 0x5140 : 0x7362;
          const uint2 low = widened_f8<S::kE5m2>(__byte_perm(x[0][w], x[1][w], selector));
          const uint2 high = widened_f8<S::kE5m2>(__byte_perm(x[2][w], x[3][w], selector));
          const std::uint32_t a[4] = {low.x, low.y, high.x, high.y};
          add((first + w) * 2 + pair, a);
        }
      }
    }
  }
}

}  // namespace phasor::cuda::decode
