// SPDX-License-Identifier: Apache-2.0
// Tables by distance that queries meet, keys meet, or both (DeBERTa). Near tiles preset their scores from strips, which the copy engine
// brings to the L2 when it brings the keys. Far ones have a number of each query, which its shift is, and one of each key, which comes with
// the keys.
#pragma once

#include "cuda/attention/hopper/terms.cuh"

namespace phasor::cuda::hopper {

struct Stripped : Plain {
  using Shift = RowShifts;
  template <int kQueries, int kKeys, int kStages>
  struct Shared {
    alignas(16) float columns[kStages][kKeys];
  };

  static __device__ __forceinline__ Numbers numbers(const ForwardParameter& p) { return {p.strips.first, p.strips.end}; }

  /// Which end some of a block's queries are beyond, wholly by their 64: 0 the left one, 1 the right one, -1 none. It is one end at most.
  template <int kQueries>
  static __device__ __forceinline__ int far_side(const ForwardParameter& p, const Work& at, int key) {
    const Clips& c = p.strips.clips;
    if (is_left_of_clips(p.tiles, c, at.row + kQueries - kStripQueries, key)) return 0;
    return is_right_of_clips(p.tiles, c, at.row, kStripQueries, key) ? 1 : -1;
  }
  template <int kQueries, int kKeys>
  static __device__ __forceinline__ int bytes(const ForwardParameter& p, const Work& at, int key) {
    return p.strips.columns != nullptr && far_side<kQueries>(p, at, key) >= 0 ? kKeys * int(sizeof(float)) : 0;
  }
  template <int kQueries, int kKeys, class S>
  static __device__ __forceinline__ void bring(const ForwardParameter& p, const Work& at, int key, S& to, int stage, std::uint64_t* full) {
    const Strips& s = p.strips;
    if (const int size = bytes<kQueries, kKeys>(p, at, key); size != 0) {
      const std::int64_t line = (std::int64_t{at.batch} * p.tiles.heads + at.head) * 2 + far_side<kQueries>(p, at, key);
      copy_in_bytes(to.columns[stage], s.columns + line * s.columns_length + key, size, full);
    }
    for (int group = 0; group < kQueries / kStripQueries; ++group) {
      const int row = at.row + kStripQueries * group;
      if (row >= p.tiles.queries || is_left_of_clips(p.tiles, s.clips, row, key) ||
          is_right_of_clips(p.tiles, s.clips, row, kStripQueries, key)) {
        continue;
      }
      prefetch_bytes(s.values + strip_place(p.tiles, s, at.number, group, row, key / kKeys), kKeys * kStripQueries * 2);
    }
  }

  template <int kQueries, int kKeys, class S>
  struct Presets {
    const S& shared;
    const Work at_work;

    __device__ __forceinline__ Presets(const Windows&, const S& from, const Work& at) : shared(from), at_work(at) {}

    template <int kCount>
    __device__ __forceinline__ bool operator()(const ForwardParameter& p, const Place& at, int stage, float (&s)[kCount],
                                               RowShifts& shift) const {
      const Strips& strips = p.strips;
      const bool on_left = is_left_of_clips(p.tiles, strips.clips, at.group_row, at.key);
      if (on_left || is_right_of_clips(p.tiles, strips.clips, at.group_row, kStripQueries, at.key)) {
        if (strips.rows != nullptr) {
          const std::int64_t line = (std::int64_t{at_work.batch} * p.tiles.heads + at_work.head) * 2 + (on_left ? 0 : 1);
          const float* const from = strips.rows + line * strips.rows_length + at.row;
          shift.of[0] = from[0], shift.of[1] = from[8];
        }
        if (strips.columns == nullptr) return false;
        const float* const from = shared.columns[stage] + 2 * (threadIdx.x % 4);
#pragma unroll
        for (int c = 0; c < kCount / 4; ++c) {
          const float2 x = *reinterpret_cast<const float2*>(from + 8 * c);
          s[4 * c] = s[4 * c + 2] = x.x, s[4 * c + 1] = s[4 * c + 3] = x.y;
        }
        return true;
      }
      shift.of[0] = shift.of[1] = 0;
      const int group = (at.group_row - at.block_row) / kStripQueries;
      const uint4* const from =
          strips.values + strip_place(p.tiles, strips, at_work.number, group, at.group_row, at.key / kKeys) + threadIdx.x % 128;
#pragma unroll
      for (int i = 0; i < kCount / 8; ++i) {
        const uint4 x = __ldcs(from + 128 * i);
        const std::uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const float2 pair = unpack<__half>(words[n]);
          s[8 * i + 2 * n] = pair.x, s[8 * i + 2 * n + 1] = pair.y;
        }
      }
      return true;
    }
  };
};

}  // namespace phasor::cuda::hopper
