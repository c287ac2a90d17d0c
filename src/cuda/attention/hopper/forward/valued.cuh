// SPDX-License-Identifier: Apache-2.0
// Rows by distance that are added to values, beside a query-side table of clipped rows or alone: out_i gets sum_j p_ij row[clip(j - i)].
//
// Weights are kept by distance (by_distance.cuh). Behind the last tile of values come the rows from the second one on, as one more tile of
// them, which meets these weights. The first row meets what is left of the sum of all weights, the last one that of keys beyond it, in
// float32.
#pragma once

#include "cuda/attention/hopper/forward/by_distance.cuh"
#include "cuda/attention/hopper/terms.cuh"

namespace phasor::cuda::hopper {

struct Valued : Clipped {
  static constexpr bool kHasValueRows = true;
  template <int kQueries, int kKeys, int kStages>
  struct Shared : Clipped::Shared<kQueries, kKeys, kStages> {
    float greatest[kQueries][4];
  };

  template <int kQueries, int kKeys, class S>
  struct Presets : Clipped::Presets<kQueries, kKeys, S> {
    using Products = Clipped::Presets<kQueries, kKeys, S>;
    S& shared;
    float right[2] = {0, 0};

    __device__ __forceinline__ Presets(const Windows& w, S& of, const Work& at) : Products(w, of, at), shared(of) {}

    __device__ __forceinline__ ByDistance<kKeys, kPitch> weights() {
      const int query = (threadIdx.x / 128 - 1) * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
      return {reinterpret_cast<std::uint16_t*>(this->row), shared.greatest + query, this->odd, right};
    }
    template <int kCount>
    __device__ __forceinline__ bool operator()(const ForwardParameter& p, const Place& at, int stage, float (&s)[kCount],
                                               RowShifts& shift) const {
      if (p.has_key_table) return Products::operator()(p, at, stage, s, shift);
      shift.of[0] = shift.of[1] = 0;
      return false;
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

}  // namespace phasor::cuda::hopper
