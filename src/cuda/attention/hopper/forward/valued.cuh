// SPDX-License-Identifier: Apache-2.0
// Rows by distance that are added to values, beside a query-side table of clipped rows or alone: out_i gets sum_j p_ij row[clip(j - i)].
//
// Every distance between the ends is one key, so its weight takes the place of the product with the table that its score read there, by the
// thread that read it. Behind the last tile of keys come the rows from the second one on, as one more tile of values, which meets these
// weights. All keys that are further left share the first row, all that are further right the last one: sums of their weights meet them,
// in float32.
#pragma once

#include "cuda/attention/hopper/forward/outputs.cuh"
#include "cuda/attention/hopper/terms.cuh"

namespace phasor::cuda::hopper {

struct Valued : Clipped {
  static constexpr bool kHasValueRows = true;
  template <int kQueries, int kKeys, int kStages>
  struct Shared : Clipped::Shared<kQueries, kKeys, kStages> {
    float greatest[kQueries][4];  // what weights of a tile are relative to, by its number modulo 4: a query's distances are in two
  };

  template <int kQueries, int kKeys, class S>
  struct Presets : Clipped::Presets<kQueries, kKeys, S> {
    static_assert(kKeys >= Clips::kMostRows - 1);  // so they are in two tiles at most
    using Rowwise = Clipped::Presets<kQueries, kKeys, S>;
    using Rowwise::odd, Rowwise::row;
    float (*greatest)[4];     // of the thread's first query
    float right[2] = {0, 0};  // sum of this thread's weights of keys beyond the last row

    __device__ __forceinline__ Presets(const Windows& w, S& shared, const Work& at)
        : Rowwise(w, shared, at),
          greatest(shared.greatest + (threadIdx.x / 128 - 1) * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4) {}

    template <int kCount>
    __device__ __forceinline__ bool operator()(const ForwardParameter& p, const Place& at, int stage, float (&s)[kCount],
                                               RowShifts& shift) const {
      if (p.has_key_table) return Rowwise::operator()(p, at, stage, s, shift);
      shift.of[0] = shift.of[1] = 0;
      return false;
    }
    /// Place of the row for what is so far behind the thread's first query; that of the other query is eight less.
    __device__ __forceinline__ int place_of(const ForwardParameter& p, const Place& at, int key) const {
      return key - (at.row + p.tiles.offset()) + p.clips.left + 2 + odd;
    }
    /// Weights of a tile, as sums of their softmax have them.
    template <int kCount>
    __device__ __forceinline__ void keep_weights(const ForwardParameter& p, const Place& at, const float (&s)[kCount], const Rows& rows,
                                                 const float (&shrink)[2]) {
      right[0] *= shrink[0], right[1] *= shrink[1];
      const int group = at.group_row + p.tiles.offset();  // position of the warpgroup's first query
      if (at.key > group + 63 + p.clips.right) {
        right[0] = rows.sum[0], right[1] = rows.sum[1];  // tiles are visited from the last one on
        return;
      }
      if (is_left_of_clips(p.tiles, p.clips, at.group_row, at.key)) return;
      if (threadIdx.x % 4 == 0) {
        greatest[0][at.key / kKeys % 4] = rows.greatest[0];
        greatest[8][at.key / kKeys % 4] = rows.greatest[1];
      }
      const int first = place_of(p, at, at.key + 2 * int(threadIdx.x % 4));
      const unsigned own = Rowwise::end(p.clips) - 2;  // places of one key each are those from 2 on
#pragma unroll
      for (int x = 0; x < kCount / 4; ++x) {
        const int a = first + 8 * x, b = a - 8;
        if (unsigned(a - 2) < own) *reinterpret_cast<std::uint32_t*>(row + a) = halves_of(s[4 * x], s[4 * x + 1]);
        if (unsigned(b - 2) < own) *reinterpret_cast<std::uint32_t*>(row + 8 * Clipped::kPitch + b) = halves_of(s[4 * x + 2], s[4 * x + 3]);
      }
      if (p.tiles.right > p.clips.right && at.key + kKeys - 1 > group + p.clips.right)
        add_right<kCount>(s, first, p.clips.rows() + 2 + odd);
    }
    /// Adds weights of places from `beyond` on.
    template <int kCount>
    __device__ __forceinline__ void add_right(const float (&s)[kCount], int first, int beyond) {
#pragma unroll
      for (int x = 0; x < kCount / 4; ++x) {
        const int a = first + 8 * x - beyond;
        if (a >= 0) right[0] += s[4 * x];
        if (a >= -1) right[0] += s[4 * x + 1];
        if (a >= 8) right[1] += s[4 * x + 2];
        if (a >= 7) right[1] += s[4 * x + 3];
      }
    }

    /// Nobody sees these, so nothing was kept there; behind the last row, too.
    __device__ __forceinline__ void clear_unseen(const ForwardParameter& p, const Place& at, int columns) {
      const Tiles& t = p.tiles;
      const int lowest = at.group_row + t.offset() - p.clips.left + 1, last = lowest + 63 + p.clips.rows() - 2;
      __syncwarp();
      if (columns == p.clips.rows() - 1 && lowest >= 0 && p.clips.left <= t.left + 1 && last < t.keys && p.clips.right <= t.right) return;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int position = at.row + 8 * r + t.offset(), of_first = position - p.clips.left + 1;
        const int begin = max(position - t.left, 0) - of_first;
        const int end = min(min(position + t.right, t.keys - 1) - of_first + 1, p.clips.rows() - 1);
        __half* const to = row + r * 8 * Clipped::kPitch + 3 + odd;
        for (int c = threadIdx.x % 4; c < columns; c += 4) {
          if (c < begin || c >= end) to[c] = __half(0.0f);
        }
      }
      __syncwarp();
    }
    /// Weights as the left operand of a product with the rows from the second one on; `sums` of this thread's.
    template <class Element, int kSteps>
    __device__ __forceinline__ void read_weights(const ForwardParameter& p, const Place& at, const Rows& rows,
                                                 std::uint32_t (&weights)[4 * kSteps], float (&sums)[2]) {
      clear_unseen(p, at, 16 * kSteps);
      float before[2], behind[2];  // by how much those of the first, and of the second tile shrink
      int second[2];               // the column where it begins, less the thread's first one
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int of_first = at.row + 8 * r + p.tiles.offset() - p.clips.left + 1;
        const int tile = max(of_first, 0) / kKeys;
        const float finite = rows.greatest[r] == -INFINITY ? 0 : rows.greatest[r];
        const auto shrink = [&](int x) {
          const float factor = exp2_approximate((greatest[8 * r][x % 4] - finite) * p.scale_log2);
          return factor <= 1 ? factor : 0;  // of tiles that were not visited there is anything
        };
        before[r] = shrink(tile), behind[r] = shrink(tile + 1);
        second[r] = (tile + 1) * kKeys - of_first - 2 * int(threadIdx.x % 4);
        sums[r] = 0;
      }
      const __half* const from = row + 2 + 2 * (threadIdx.x % 4);
#pragma unroll
      for (int i = 0; i < 4 * kSteps; ++i) {
        const int r = i & 1, c = i / 2 * 8;
        const auto* const words = reinterpret_cast<const std::uint32_t*>(from + r * 8 * Clipped::kPitch + c);
        const std::uint32_t both = __byte_perm(words[0], words[1], odd ? 0x7654 : 0x5432);  // rows of even number begin in between
        const float2 kept = __half22float2(reinterpret_cast<const __half2&>(both));
        const float a = kept.x * (c < second[r] ? before[r] : behind[r]), b = kept.y * (c + 1 < second[r] ? before[r] : behind[r]);
        sums[r] += a + b;
        weights[i] = pack<Element>(a, b);
      }
    }
  };
};

/// The first and the last row of the table of values, of the channels that a thread has.
template <int kWidth>
struct EndRows {
  std::uint32_t left[kWidth / 8], right[kWidth / 8];

  __device__ __forceinline__ void read(const ForwardParameter& p, const Work& w) {
    const unsigned char* const from = p.value_rows + w.head * p.value_rows_head + 4 * (threadIdx.x % 4);
    const std::int64_t last = (p.clips.rows() - 1) * p.value_rows_row;
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c) {
      const bool is_there = 8 * c < p.value_width;
      left[c] = is_there ? __ldg(reinterpret_cast<const unsigned*>(from + 16 * c)) : 0;
      right[c] = is_there ? __ldg(reinterpret_cast<const unsigned*>(from + last + 16 * c)) : 0;
    }
  }
  /// o += its row for each of the two sums of weights.
  template <class Element>
  __device__ __forceinline__ void add(const float (&of_left)[2], const float (&of_right)[2], float (&o)[kWidth / 2]) const {
#pragma unroll
    for (int c = 0; c < kWidth / 8; ++c) {
      const float2 a = unpack<Element>(left[c]), b = unpack<Element>(right[c]);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        o[4 * c + 2 * r] += of_left[r] * a.x + of_right[r] * b.x;
        o[4 * c + 2 * r + 1] += of_left[r] * a.y + of_right[r] * b.y;
      }
    }
  }
};

/// Sum over the quad's threads.
__device__ __forceinline__ float sum_of_quad(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
/// Weights of all keys that the first row is for: what is left of the sum of all. Nothing where a query sees none of them.
__device__ __forceinline__ float left_of_sum(const ForwardParameter& p, int position, float all, float known) {
  return max(position - p.tiles.left, 0) <= position - p.clips.left ? all - known : 0;
}

}  // namespace phasor::cuda::hopper
