// SPDX-License-Identifier: Apache-2.0
// Products of tensor cores: queries with keys, weights with values.
#pragma once

#include "cuda/attention/decode/instructions.cuh"
#include "cuda/attention/decode/shape.cuh"

namespace phasor::cuda::decode {

/// Steps that are loaded together, before any of them is multiplied.
constexpr int kTogether = 4;

/// Products of a warp's rows with 16 keys that begin at `row` of a stage.
template <class S>
__device__ inline void multiply_keys(std::uint32_t stage, std::uint32_t queries, int row, bool split_queries, float (&scores)[2][4]) {
  float odd[2][4] = {};  // of every other step: a chain half as long
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int query_row = lane % 16;
  const auto query_at = [&](int step) { return queries + query_row * S::kWidth * 2 + (((step * 2 + lane / 16) ^ (query_row & 7)) * 16); };
  const auto add = [&](int first, const std::uint32_t(&b)[kTogether][4], int part) {
    std::uint32_t a[kTogether][4];
#pragma unroll
    for (int n = 0; n < kTogether; ++n) load_matrices(a[n], query_at(first + n) + part * S::kQueryBytes);
#pragma unroll
    for (int n = 0; n < kTogether; ++n) {
      auto& to = n % 2 == 0 ? scores : odd;
      multiply<S::kBrain>(to[0], a[n], b[n][0], b[n][1]);
      multiply<S::kBrain>(to[1], a[n], b[n][2], b[n][3]);
    }
  };
  if constexpr (!S::kBytes) {
    const int key = row + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (int step = 0; step < S::kSteps; step += kTogether) {
      std::uint32_t b[kTogether][4];
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
        load_matrices(b[n], stage + key * S::kRowBytes + swizzled<S, false>(key, (step + n) * 2 + lane / 8 % 2) * 16);
      }
      add(step, b, 0);
      if (split_queries) add(step, b, 1);
    }
  } else {
    const int key = row + lane / 4;
#pragma unroll
    for (int segment = 0; segment < S::kWidth / 64; ++segment) {
      const int vector = segment * 4 + lane % 4;
      const uint4 first = load_16(stage + key * S::kRowBytes + swizzled<S, false>(key, vector) * 16);
      const uint4 second = load_16(stage + (key + 8) * S::kRowBytes + swizzled<S, false>(key + 8, vector) * 16);
      const std::uint32_t x[2][4] = {{first.x, first.y, first.z, first.w}, {second.x, second.y, second.z, second.w}};
      std::uint32_t b[kTogether][4];
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
        for (int half = 0; half < 2; ++half) {
          b[n][half * 2] = widened_f8<S::kE5m2>(x[half][n]);
          b[n][half * 2 + 1] = widened_f8<S::kE5m2>(x[half][n] >> 16);
        }
      }
      add(segment * kTogether, b, 0);
      if (split_queries) add(segment * kTogether, b, 1);
    }
  }
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 4; ++c) scores[n][c] += odd[n][c];
  }
}

/// out += weights times 16 values that begin at `row` of a stage's.
template <class S>
__device__ inline void multiply_values(std::uint32_t values, int row, const std::uint32_t (&weights)[4], float (&out)[S::kValueTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (!S::kBytes) {
    const int key = row + lane % 16;
#pragma unroll
    for (int tile = 0; tile < S::kValueTiles; tile += 2 * kTogether) {
      std::uint32_t b[kTogether][4];
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
        load_transposed(b[n], values + key * S::kRowBytes + swizzled<S, true>(key, tile + n * 2 + lane / 16) * 16);
      }
#pragma unroll
      for (int n = 0; n < kTogether; ++n) {
        multiply<S::kBrain>(out[tile + n * 2], weights, b[n][0], b[n][1]);
        multiply<S::kBrain>(out[tile + n * 2 + 1], weights, b[n][2], b[n][3]);
      }
    }
  } else {
    // Of a row a thread has the channels value_channel(0 to kValueTiles - 1, its column): side by side. Rows 2t and 2t + 1, 2t + 8 and 2t
    // + 9.
    constexpr int kWords = S::kValueTiles / 4;
    std::uint32_t x[4][kWords];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int key = row + lane % 4 * 2 + n % 2 + n / 2 * 8;
      if constexpr (kWords == 2) {
        const uint2 two = load_8(values + key * S::kRowBytes + lane / 4 * 8);
        x[n][0] = two.x, x[n][1] = two.y;
      } else {
#pragma unroll
        for (int w = 0; w < kWords; w += 4) {
          const uint4 four = load_16(values + key * S::kRowBytes + swizzled<S, true>(key, (lane / 4 * kWords + w) / 4) * 16);
          x[n][w] = four.x, x[n][w + 1] = four.y, x[n][w + 2] = four.z, x[n][w + 3] = four.w;
        }
      }
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {  // two channels of both rows: a b a b
        const std::uint32_t selector = pair == 0 ? 0x5140 : 0x7362;
        const std::uint32_t low = __byte_perm(x[0][w], x[1][w], selector);
        const std::uint32_t high = __byte_perm(x[2][w], x[3][w], selector);
        const int tile = w * 4 + pair * 2;
        multiply<false>(out[tile], weights, widened_f8<S::kE5m2>(low), widened_f8<S::kE5m2>(high));
        multiply<false>(out[tile + 1], weights, widened_f8<S::kE5m2>(low >> 16), widened_f8<S::kE5m2>(high >> 16));
      }
    }
  }
}

}  // namespace phasor::cuda::decode
