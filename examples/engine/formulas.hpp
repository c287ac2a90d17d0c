// SPDX-License-Identifier: Apache-2.0
// The formulas that every device has: sums go in the same order on each, so that results differ by the roundings of exp and attention
// alone.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ENGINE_ANYWHERE __host__ __device__
#else
#define ENGINE_ANYWHERE
#endif

namespace engine {

ENGINE_ANYWHERE inline float product(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}
/// What a row is multiplied by to have a mean square of 1.
ENGINE_ANYWHERE inline float norm_factor(const float* x, std::int64_t count, float epsilon) {
  return 1 / std::sqrt(product(x, x, count) / static_cast<float>(count) + epsilon);
}
ENGINE_ANYWHERE inline float silu(float x) { return x / (1 + std::exp(-x)); }

}  // namespace engine
