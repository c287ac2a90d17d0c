// SPDX-License-Identifier: Apache-2.0
// Scores in the registers of products: the bias by distance, the soft cap and who is not seen, for queries and keys at the positions of
// tokens.
#pragma once

#include "cuda/attention/mma/softmax.cuh"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/attention/scores.hpp"

namespace phasor::cuda::attention::mma {

/// What the rows of a warp have in common.
struct WarpScores {
  Bands bands;
  const float* diagonal;     // of the head: the value of distance r at r; null: none
  bool by_key;               // of distances as if every query stood at 0
  const std::uint8_t* mask;  // of the sequence's keys; null: none
  int64_t mask_stride;
  float scale;
  float softcap;
  int position;  // of the lane's first row
  int lowest;    // of the warp's rows
  int highest;
};

__device__ inline WarpScores warp_scores(const AttentionWork& work, const QueryTile& tile, int64_t head, int rows_of_warp) {
  const Sequence& s = tile.sequence;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  WarpScores w = {};
  w.bands = bands_of(work, s);
  for (int t = 0; t < work.term_count; ++t) {
    if (work.terms[t].use != TermUse::bias) continue;
    const BiasWork& bias = work.terms[t].bias;
    w.diagonal = static_cast<const float*>(bias.diagonal) + head * bias.distances - bias.first_distance;
    w.by_key = bias_distance(bias.bias, 1, 0) == 0;
  }
  const KeyMask& mask = work.see.key_mask;
  if (mask.data != nullptr) w.mask = mask.data + s.batch * mask.strides[0] + s.first_key * mask.strides[1];
  w.mask_stride = mask.strides[1];
  w.scale = static_cast<float>(work.scale);
  w.softcap = static_cast<float>(work.softcap);
  w.lowest = static_cast<int>(query_position(work, s, tile.first)) + warp * rows_of_warp;
  w.highest = w.lowest + rows_of_warp - 1;
  w.position = w.lowest + lane / 4;
  return w;
}

/// s <- scale s + the bias of each distance. Along a diagonal of 8 x 8 scores a lane reads the same two numbers.
template <int kRowTiles, int kColumns>
__device__ __forceinline__ void add_diagonal(float (&s)[kRowTiles][kColumns][4], const WarpScores& w, int own) {
  const float* const at = w.diagonal + (w.position - own);
#pragma unroll
  for (int e = 1 - kColumns; e < 2 * kRowTiles; ++e) {
    const float even = __ldg(at + 8 * e);
    const float odd = __ldg(at + 8 * e - 1);
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r) {
      const int n = r - e;
      if (n < 0 || n >= kColumns) continue;
      float* const two = &s[r / 2][n][2 * (r & 1)];
      two[0] = fmaf(two[0], w.scale, even);
      two[1] = fmaf(two[1], w.scale, odd);
    }
  }
}
/// The same at the ends of a sequence, whose tiles go beyond what the diagonal holds, and by the key's position alone.
template <int kRowTiles, int kColumns>
__device__ __forceinline__ void add_diagonal_by_one(float (&s)[kRowTiles][kColumns][4], const WarpScores& w, int own) {
  const int last = w.bands.keys - 1;
#pragma unroll
  for (int r = 0; r < 2 * kRowTiles; ++r) {
    const int position = w.by_key ? 0 : min(w.position + 8 * r, last);
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        float& score = s[r / 2][n][2 * (r & 1) + x];
        score = fmaf(score, w.scale, __ldg(w.diagonal + (position - min(own + 8 * n + x, last))));
      }
    }
  }
}

template <int kRowTiles, int kColumns, class Body>
__device__ __forceinline__ void each_own_score(float (&s)[kRowTiles][kColumns][4], const Body& body) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
#pragma unroll
      for (int x = 0; x < 4; ++x) body(s[m][n][x]);
    }
  }
}

/// Keys from number `key` of the sequence on.
template <bool kChanged, int kRowTiles, int kColumns>
__device__ __forceinline__ void finish_scores(float (&s)[kRowTiles][kColumns][4], const WarpScores& w, int key) {
  const int own = key + 2 * (static_cast<int>(threadIdx.x) & 3);
  if constexpr (kChanged) {
    const int last = w.bands.keys - 1;
    if (w.diagonal == nullptr) {
      each_own_score(s, [&](float& x) { x *= w.scale; });
    } else if (!w.by_key && w.highest <= last && key + 8 * kColumns - 1 <= last) {
      add_diagonal(s, w, own);
    } else {
      add_diagonal_by_one(s, w, own);
    }
    if (w.softcap != 0) each_own_score(s, [&](float& x) { x = capped(x, w.softcap); });
  }
  const Band low = w.bands.at(w.lowest);
  const Band high = w.bands.at(w.highest);
  const bool all = low.first + low.count >= key + 8 * kColumns && high.first <= key && low.count > 0;
  if (!all) {
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r) {
      const Band band = w.bands.at(w.position + 8 * r);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          if (static_cast<unsigned>(own + 8 * n + x - band.first) >= static_cast<unsigned>(band.count)) {
            s[r / 2][n][2 * (r & 1) + x] = -INFINITY;
          }
        }
      }
    }
  }
  if (w.mask == nullptr) return;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int number = own + 8 * n + x;
      if (number < w.bands.keys && w.mask[number * w.mask_stride] != 0) continue;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) s[m][n][x] = s[m][n][2 + x] = -INFINITY;
    }
  }
}

}  // namespace phasor::cuda::attention::mma
