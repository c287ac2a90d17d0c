// SPDX-License-Identifier: Apache-2.0
// The ceiling of attention in float32: how many multiplications and additions a core does in the registers of the active target.
#pragma once

#include <string_view>

#include "phasor/targets.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace bench {

/// As many sums as hide the latency of two units, and what keeps them finite.
constexpr int kSums = 12;
constexpr float kShrink = 0.9990234F;
constexpr float kStep = 0x1p-10F;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline float fma_steps_avx512(std::int64_t steps) {
  __m512 sums[kSums];
  for (__m512& s : sums) s = _mm512_set1_ps(1);
  const __m512 shrink = _mm512_set1_ps(kShrink);
  const __m512 step = _mm512_set1_ps(kStep);
  for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kSums; ++j) sums[j] = _mm512_fmadd_ps(sums[j], shrink, step);
  }
  for (int j = 1; j < kSums; ++j) sums[0] = _mm512_add_ps(sums[0], sums[j]);
  return _mm512_cvtss_f32(sums[0]);
}
__attribute__((target("avx2,fma"))) inline float fma_steps_avx2(std::int64_t steps) {
  __m256 sums[kSums];
  for (__m256& s : sums) s = _mm256_set1_ps(1);
  const __m256 shrink = _mm256_set1_ps(kShrink);
  const __m256 step = _mm256_set1_ps(kStep);
  for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kSums; ++j) sums[j] = _mm256_fmadd_ps(sums[j], shrink, step);
  }
  for (int j = 1; j < kSums; ++j) sums[0] = _mm256_add_ps(sums[0], sums[j]);
  return _mm256_cvtss_f32(sums[0]);
}
#elif defined(__aarch64__)
// An operation here overwrites what it adds to: the sums grow by a constant, and no register is copied.
inline float fma_steps_neon(std::int64_t steps) {
  float32x4_t sums[kSums];
#pragma GCC unroll 12
  for (int j = 0; j < kSums; ++j) sums[j] = vdupq_n_f32(1);
  const float32x4_t shrink = vdupq_n_f32(kShrink);
  const float32x4_t step = vdupq_n_f32(kStep);
  for (std::int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < kSums; ++j) sums[j] = vfmaq_f32(sums[j], shrink, step);
  }
#pragma GCC unroll 12
  for (int j = 1; j < kSums; ++j) sums[0] = vaddq_f32(sums[0], sums[j]);
  return vgetq_lane_f32(sums[0], 0);
}
#endif
inline float fma_steps_scalar(std::int64_t steps) {
  float sums[kSums];
  for (float& s : sums) s = 1;
  for (std::int64_t i = 0; i < steps; ++i) {
    for (float& s : sums) s = s * kShrink + kStep;
  }
  float sum = 0;
  for (const float s : sums) sum += s;
  return sum;
}

/// A chain of fused operations, and how many operations a step of it is.
struct FmaPeak {
  float (*run)(std::int64_t steps);
  std::int64_t operations;
};
inline FmaPeak fma_peak(std::string_view target) {
#if defined(__x86_64__)
  if (target == "avx512") return {fma_steps_avx512, 2 * kSums * 16};
  if (target == "avx2") return {fma_steps_avx2, 2 * kSums * 8};
#elif defined(__aarch64__)
  if (target == "neon") return {fma_steps_neon, 2 * kSums * 4};
#endif
  (void)target;
  return {fma_steps_scalar, 2 * kSums};
}

}  // namespace bench
