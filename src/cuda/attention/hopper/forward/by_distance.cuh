// SPDX-License-Identifier: Apache-2.0
// Weights by distance, for rows that are added to values: kept while tiles of keys pass, read as the left operand of a product at the end.
//
// Distances from behind the first row's to the last row's are one key each, so there is a place for each of them in a query's row of
// shared memory, a pair for a thread: the same that had its product with the table of keys, which nobody reads again (`Clipped`). All keys
// that are further right share the last row: their weights are one sum.
#pragma once

#include "cuda/attention/hopper/forward/softmax.cuh"

namespace phasor::cuda::hopper {

/// Of one thread, of two queries that are eight apart.
template <int kKeys, int kPitch>
struct ByDistance {
  static_assert(kKeys >= Clips::kMostRows - 1);  // so a query's distances are in two tiles at most
  std::uint16_t* row;                            // of the first query
  float (*greatest)[4];                          // of it: what weights of a tile are relative to, by its number modulo 4
  int odd;                                       // by how many places more rows begin there, so that pairs of keys are pairs of places
  float (&right)[2];                             // 0 at first: sum of this thread's weights of keys beyond the last row

  /// Weights of a tile, as `rows` have added them up.
  template <int kCount>
  __device__ __forceinline__ void keep(const Tiles& t, const Clips& c, const Place& at, const float (&s)[kCount], const Rows& rows,
                                       const float (&shrink)[2]) {
    right[0] *= shrink[0], right[1] *= shrink[1];
    const int group = at.group_row + t.offset();  // position of the warpgroup's first query
    if (at.key > group + 63 + c.right) {
      right[0] = rows.sum[0], right[1] = rows.sum[1];  // tiles are visited from the last one on
      return;
    }
    if (is_left_of_clips(t, c, at.group_row, at.key)) return;
    if (threadIdx.x % 4 == 0) {
      greatest[0][at.key / kKeys % 4] = rows.greatest[0];
      greatest[8][at.key / kKeys % 4] = rows.greatest[1];
    }
    const int first = at.key + 2 * int(threadIdx.x % 4) - (at.row + t.offset()) + c.left + 2 + odd;
    const unsigned own = c.end(odd) - 2;
#pragma unroll
    for (int x = 0; x < kCount / 4; ++x) {
      const int a = first + 8 * x, b = a - 8;
      if (unsigned(a - 2) < own) *reinterpret_cast<std::uint32_t*>(row + a) = halves_of(s[4 * x], s[4 * x + 1]);
      if (unsigned(b - 2) < own) *reinterpret_cast<std::uint32_t*>(row + 8 * kPitch + b) = halves_of(s[4 * x + 2], s[4 * x + 3]);
    }
    if (t.right > c.right && at.key + kKeys - 1 > group + c.right) add_right<kCount>(s, first - (c.rows() + 2 + odd));
  }
  /// `first`: the place of the thread's first column, less that of the first key beyond the last row.
  template <int kCount>
  __device__ __forceinline__ void add_right(const float (&s)[kCount], int first) {
#pragma unroll
    for (int x = 0; x < kCount / 4; ++x) {
      if (first >= -8 * x) right[0] += s[4 * x];
      if (first >= -8 * x - 1) right[0] += s[4 * x + 1];
      if (first >= 8 - 8 * x) right[1] += s[4 * x + 2];
      if (first >= 7 - 8 * x) right[1] += s[4 * x + 3];
    }
  }

  /// Zeros for distances that have no row or whose keys a query does not see: there may be anything.
  __device__ __forceinline__ void clear_unseen(const Tiles& t, const Clips& c, const Place& at, int columns) {
    const int lowest = at.group_row + t.offset() - c.left + 1, highest = lowest + 63 + c.rows() - 2;
    __syncwarp();
    if (columns == c.rows() - 1 && lowest >= 0 && c.left <= t.left + 1 && highest < t.keys && c.right <= t.right) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position = at.row + 8 * r + t.offset(), of_first = position - c.left + 1;
      const int begin = max(position - t.left, 0) - of_first;
      const int behind = min(min(position + t.right, t.keys - 1) - of_first + 1, c.rows() - 1);
      std::uint16_t* const to = row + r * 8 * kPitch + 3 + odd;
      for (int x = threadIdx.x % 4; x < columns; x += 4) {
        if (x < begin || x >= behind) to[x] = 0;
      }
    }
    __syncwarp();
  }
  /// All tiles have passed. Columns of the operand are rows of the table from the second one on; `sums` of this thread's.
  template <class Element, int kSteps>
  __device__ __forceinline__ void read(const Tiles& t, const Clips& c, const Place& at, const Rows& rows, float scale_log2,
                                       std::uint32_t (&weights)[4 * kSteps], float (&sums)[2]) {
    clear_unseen(t, c, at, 16 * kSteps);
    float before[2], behind[2];  // by how much those of the first, and of the second tile shrink
    int second[2];               // the column where that begins, less the thread's first one
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int of_first = at.row + 8 * r + t.offset() - c.left + 1;
      const int tile = max(of_first, 0) / kKeys;
      const float finite = rows.greatest[r] == -INFINITY ? 0 : rows.greatest[r];
      const auto shrink = [&](int x) {
        const float factor = exp2_approximate((greatest[8 * r][x % 4] - finite) * scale_log2);
        return factor <= 1 ? factor : 0;  // of a tile that was not visited there may be anything
      };
      before[r] = shrink(tile), behind[r] = shrink(tile + 1);
      second[r] = (tile + 1) * kKeys - of_first - 2 * int(threadIdx.x % 4);
      sums[r] = 0;
    }
    const std::uint16_t* const from = row + 2 + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < 4 * kSteps; ++i) {
      const int r = i & 1, x = i / 2 * 8;
      const auto* const words = reinterpret_cast<const std::uint32_t*>(from + r * 8 * kPitch + x);
      const float2 kept = unpack<__half>(__byte_perm(words[0], words[1], odd ? 0x7654 : 0x5432));  // else a pair begins in between
      const float a = kept.x * (x < second[r] ? before[r] : behind[r]), b = kept.y * (x + 1 < second[r] ? before[r] : behind[r]);
      sums[r] += a + b;
      weights[i] = pack<Element>(a, b);
    }
  }
};

/// Sum over the quad's threads.
__device__ __forceinline__ float sum_of_quad(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
/// Weights of all keys that the first row is for: what is left of the sum of all. Nothing where a query sees none of them.
__device__ __forceinline__ float left_of_sum(const Tiles& t, const Clips& c, int position, float all, float known) {
  return max(position - t.left, 0) <= position - c.left ? all - known : 0;
}

}  // namespace phasor::cuda::hopper
