// SPDX-License-Identifier: Apache-2.0
// The gradient by phases by vectors of 16 bytes: a thread has as many neighbouring pairs as a vector has elements. The additions of
// cuda/gradient/phase.hpp, which has what is not aligned.
#pragma once

#include "cuda/divided.hpp"
#include "cuda/gradient/phase.hpp"
#include "cuda/rotary/rotate.hpp"

namespace phasor::cuda {

inline bool takes_vectors(const job::PhaseGradientJob& job) {
  const int64_t size = bytes_of(job.rotated.dtype);
  const auto whole = [](int64_t bytes) { return bytes % kVectorBytes == 0; };
  const auto aligned = [&](const ConstTensorView& v) {
    return whole(static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(v.data))) && whole(v.strides[0] * size) &&
           whole(v.strides[1] * size) && whole(v.strides[2] * size);
  };
  return job.rotated.dtype == job.gradient.dtype && aligned(job.rotated) && aligned(job.gradient) && whole(job.offset * size) &&
         whole((job.interleaved ? job.pairs : job.segment_pairs) * size);
}

/// Heads whose vectors a thread asks for together.
constexpr int kPhaseHeads = 4;

template <DType dtype>
constexpr int kPhaseWidth = static_cast<int>(kVectorBytes / bytes_of(dtype));
template <DType dtype>
PHASOR_HD inline int64_t phase_vectors(const job::PhaseGradientJob& job) {
  return phase_items(job) / kPhaseWidth<dtype>;
}

template <DType dtype, Pairing pairing>
PHASOR_HD inline void phase_gradient_vector(const job::PhaseGradientJob& job, int64_t index) {
  using E = Element<dtype>;
  constexpr int kWidth = kPhaseWidth<dtype>;
  constexpr int kSize = static_cast<int>(bytes_of(dtype));
  const int64_t vectors = job.pairs / kWidth;
  const int64_t head_row = divided(index, vectors);
  const int64_t pair = (index - head_row * vectors) * kWidth;
  const int64_t row = divided(head_row, job.out.shape[2]);
  const int64_t out_head = head_row - row * job.out.shape[2];
  const int64_t batch = divided(row, job.tokens);
  const int64_t token = row - batch * job.tokens;
  const bool own = job.out.shape[2] != 1;
  const int64_t heads = own ? 1 : job.rotated.shape[2];
  const int64_t first = pair_channels(job, pair).first;
  const auto head_of = [&](const ConstTensorView& v) {
    return static_cast<const std::byte*>(v.data) + (index_of(v, batch, token, own ? out_head : 0) + first) * kSize;
  };
  const std::byte* const y_at = head_of(job.rotated);
  const std::byte* const g_at = head_of(job.gradient);
  const int64_t y_stride = job.rotated.strides[2] * kSize;
  const int64_t g_stride = job.gradient.strides[2] * kSize;
  double sums[kWidth] = {};
  for (int64_t head = 0; head < heads; head += kPhaseHeads) {
    Pairs<dtype, kWidth> y[kPhaseHeads];
    Pairs<dtype, kWidth> g[kPhaseHeads];
    unrolled<kPhaseHeads>([&](auto h) {
      if (head + h >= heads) return;
      y[h] = load_pairs<dtype, pairing, kWidth>(y_at + (head + h) * y_stride, 0, job.segment_pairs);
      g[h] = load_pairs<dtype, pairing, kWidth>(g_at + (head + h) * g_stride, 0, job.segment_pairs);
    });
    unrolled<kPhaseHeads>([&](auto h) {
      if (head + h >= heads) return;
      unrolled<kWidth>([&](auto i) {
        sums[i] += math::phase_gradient(E::widen(y[h].x[i]), E::widen(y[h].y[i]), E::widen(g[h].x[i]), E::widen(g[h].y[i]));
      });
    });
  }
  const int64_t to = index_of(job.out, batch, token, out_head) + pair;
  unrolled<kWidth>([&](auto i) { put_phase_gradient(job, to + i, sums[i]); });
}

}  // namespace phasor::cuda
