// SPDX-License-Identifier: Apache-2.0
// What positions add to a score, in two small functions: the producer brings what a tile needs, the consumer puts it into the accumulators
// before the product q . k, which then adds to it and costs nothing more. Where a tile's term is one number per row, that number is the
// row's shift, and the scores are left alone.
// Scores are raw, before the scale: a term that is not scaled comes divided by it.
//
// A thread of a warpgroup has rows r and r + 8 of its 64, and of every 8 columns the two at 2 (lane % 4): s[4c], s[4c + 1] of row r,
// s[4c + 2], s[4c + 3] of row r + 8.
#pragma once

#include "cuda/attention/hopper/forward/softmax.cuh"
#include "cuda/attention/hopper/instructions.cuh"
#include "cuda/attention/hopper/parameter.cuh"

namespace phasor::cuda::hopper {

/// Blocks of queries that a launch does, by their numbers.
struct Numbers {
  int first;
  int end;
};

struct Plain {
  using Shift = float;
  static constexpr bool kHasTable = false, kHasValueRows = false;
  template <int kQueries, int kKeys, int kStages>
  struct Shared {};

  static __device__ __forceinline__ Numbers numbers(const ForwardParameter& p) { return {0, p.tiles.work()}; }
  /// Tiles that a block visits.
  static __device__ __forceinline__ TileSpan span(const ForwardParameter& p, const Work& at) { return tiles_of(p.tiles, at.row); }

  template <int kQueries, int kKeys>
  static __device__ __forceinline__ int bytes(const ForwardParameter&, const Work&, int) {
    return 0;
  }
  template <int kQueries, int kKeys, class S>
  static __device__ __forceinline__ void bring(const ForwardParameter&, const Work&, int, S&, int, std::uint64_t*) {}

  /// Of one head, for one thread.
  template <int kQueries, int kKeys, class S>
  struct Presets {
    __device__ __forceinline__ Presets(const Windows&, const S&, const Work&) {}
    /// Presets the scores of as many columns as there are and returns true, or leaves them and sets the shift of every row.
    template <int kCount>
    __device__ __forceinline__ bool operator()(const ForwardParameter&, const Place&, int, float (&)[kCount], float&) const {
      return false;
    }
  };
};

/// One number per distance: ALiBi, T5, KERPLE, learned. A tile that lies wholly where the number is constant brings nothing.
struct Diagonal {
  using Shift = float;
  static constexpr bool kHasTable = false, kHasValueRows = false;
  template <int kQueries, int kKeys, int kStages>
  struct Shared {
    /// By key - row from -queries on, and one place earlier. Even rows read the one, odd rows the other at the same time: half of the banks
    /// lie between them.
    static constexpr int kLength = kQueries + kKeys, kPitch = kLength + (kLength % 32 + 16) % 32;
    alignas(16) float window[kStages][2][kPitch];
  };

  static __device__ __forceinline__ Numbers numbers(const ForwardParameter& p) { return {0, p.tiles.work()}; }
  static __device__ __forceinline__ TileSpan span(const ForwardParameter& p, const Work& at) {
    const TileSpan seen = tiles_of(p.tiles, at.row);
    return p.first_tiles == nullptr ? seen : from_tile(seen, p.first_tiles[block_index(p.tiles, at)]);
  }

  template <int kQueries, int kKeys>
  static __device__ __forceinline__ int bytes(const ForwardParameter& p, const Work& at, int key) {
    const bool far = is_far_left(p.tiles, p.windows, at.row, key) || is_far_right(p.tiles, p.windows, at.row, kQueries, key);
    return far ? 0 : 2 * (kQueries + kKeys) * int(sizeof(float));
  }
  template <int kQueries, int kKeys, class S>
  static __device__ __forceinline__ void bring(const ForwardParameter& p, const Work& at, int key, S& to, int stage, std::uint64_t* full) {
    const int size = bytes<kQueries, kKeys>(p, at, key);
    if (size == 0) return;
    const Windows& w = p.windows;
    const float* const from = w.values + at.head * w.of_head + (key - at.row - kQueries - w.first);
    copy_in_bytes(to.window[stage][0], from, size / 2, full);
    copy_in_bytes(to.window[stage][1], from + w.length, size / 2, full);
  }

  template <int kQueries, int kKeys, class S>
  struct Presets {
    const S& shared;
    float far_left, far_right;

    __device__ __forceinline__ Presets(const Windows& w, const S& from, const Work& at) : shared(from) {
      const float2 far = *reinterpret_cast<const float2*>(w.far + at.head * w.far_of_head);
      far_left = far.x, far_right = far.y;
    }
    template <int kCount>
    __device__ __forceinline__ bool operator()(const ForwardParameter& p, const Place& at, int stage, float (&s)[kCount],
                                               float& shift) const {
      const bool on_left = is_far_left(p.tiles, p.windows, at.group_row, at.key);
      if (on_left || is_far_right(p.tiles, p.windows, at.group_row, 64, at.key)) {
        shift = on_left ? far_left : far_right;
        return false;
      }
      shift = 0;
      const int row = at.row - at.block_row;
      const int odd = row & 1;  // pairs of odd rows begin at odd places: they are read from the second copy
      const float* const v = shared.window[stage][odd] - odd + 2 * (threadIdx.x % 4) - row + kQueries;
      // Row r + 8 at column c + 8 has the distance of row r at column c: each pair serves twice.
      float2 before = *reinterpret_cast<const float2*>(v - 8);
#pragma unroll
      for (int c = 0; c < kCount / 4; ++c) {
        const float2 now = *reinterpret_cast<const float2*>(v + 8 * c);
        s[4 * c] = now.x, s[4 * c + 1] = now.y;
        s[4 * c + 2] = before.x, s[4 * c + 3] = before.y;
        before = now;
      }
      return true;
    }
  };
};

/// q . table[clip(key - query)]: Shaw's keys. The rows of the table pass through the keys' stages before the keys do; their products with
/// the queries stay in shared memory as float16, a row for a query, and are read back along it. A quad of threads writes and reads rows of
/// its own only.
struct Clipped : Plain {
  using Shift = RowShifts;
  static constexpr bool kHasTable = true;
  /// Two places before the first product and as many behind the last repeat them; odd rows begin one place later, so that a thread's
  /// pairs are aligned in every row.
  static constexpr int kPitch = 136;
  template <int kQueries, int kKeys, int kStages>
  struct Shared {
    alignas(16) __half products[kQueries][kPitch];
  };

  template <int kQueries, int kKeys, class S>
  struct Presets {
    __half* row;  // of the thread's first query; the other is eight further on
    int odd = 0;
    float far_left[2], far_right[2];

    __device__ __forceinline__ Presets(const Windows&, S& shared, const Work&)
        : row(shared.products[(threadIdx.x / 128 - 1) * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4]) {}

    /// Which of two neighbours begins a pair: that whose key - query and the row's number are even together.
    __device__ __forceinline__ void begin(const ForwardParameter& p, int query) { odd = (query + p.tiles.offset() + p.clips.left) & 1; }
    /// Products with rows of the table from kKeys `tile` on.
    __device__ __forceinline__ void keep(const Clips& c, const float (&s)[kKeys / 2], int tile) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        const int x = tile * kKeys + 8 * (i / 4) + 2 * (threadIdx.x % 4) + (i & 1);
        if (x < c.rows()) row[(i & 2 ? 8 * kPitch : 0) + x + 2 + odd] = half_of(s[i] * c.factor);
      }
    }
    /// All are kept: the ends are repeated outwards.
    __device__ __forceinline__ void ready(const Clips& c) {
      __syncwarp();
      const int last = c.rows() + 1 + odd;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        __half* const to = row + r * 8 * kPitch;
        const __half left = to[2 + odd], right = to[last];
        far_left[r] = __half2float(left), far_right[r] = __half2float(right);
        if (threadIdx.x % 4 == 0) to[0] = to[1] = to[1 + odd] = left;
        if (threadIdx.x % 4 == 1) {
          for (int x = last + 1; x <= c.end(odd) + 1; ++x) to[x] = right;
        }
      }
      __syncwarp();
    }

    template <int kCount>
    __device__ __forceinline__ bool operator()(const ForwardParameter& p, const Place& at, int, float (&s)[kCount],
                                               RowShifts& shift) const {
      const Clips& c = p.clips;
      const bool on_left = is_left_of_clips(p.tiles, c, at.group_row, at.key);
      if (on_left || is_right_of_clips(p.tiles, c, at.group_row, 64, at.key)) {
        shift.of[0] = on_left ? far_left[0] : far_right[0], shift.of[1] = on_left ? far_left[1] : far_right[1];
        return false;
      }
      shift.of[0] = shift.of[1] = 0;
      const int last = c.end(odd);
      const int first = at.key + 2 * int(threadIdx.x % 4) - (at.row + p.tiles.offset()) + c.left + 2 + odd;
#pragma unroll
      for (int x = 0; x < kCount / 4; ++x) {
        const float2 a = __half22float2(*reinterpret_cast<const __half2*>(row + min(max(first + 8 * x, 0), last)));
        const float2 b = __half22float2(*reinterpret_cast<const __half2*>(row + 8 * kPitch + min(max(first + 8 * x - 8, 0), last)));
        s[4 * x] = a.x, s[4 * x + 1] = a.y;
        s[4 * x + 2] = b.x, s[4 * x + 3] = b.y;
      }
      return true;
    }
  };
};

}  // namespace phasor::cuda::hopper
