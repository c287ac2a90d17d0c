// SPDX-License-Identifier: Apache-2.0
// Queries, and keys, that a call has rotated among the random calls of mma_terms.hpp: copies in float32, as kernels of mma.sync take them.
#pragma once

#include "cuda/attention/mma/rotated/high_low.hpp"
#include "cuda/attention/mma_terms.hpp"

namespace phasor::test {

/// Any numbers of float32 are as good as rotated ones. Keys of bf16 may have come rotated. Biases beside, and all rules.
inline void TermsProblem::add_rotated() {
  AttentionWork& w = *work_;
  w.content_shift = {};
  const bool keys_too = dtype_ == DType::f16 || chance(2);
  for (int side = 0; side < (keys_too ? 2 : 1); ++side) {
    ConstTensorView& content = side == 0 ? w.contents[0].q : w.contents[0].k;
    const TensorView exact = tensor(DType::f32, content.shape);
    TensorView copy = exact;
    const std::int64_t count = exact.shape[0] * exact.shape[1] * exact.shape[2] * exact.shape[3];
    copy.data = memory_.take<float>(count);
    std::copy_n(static_cast<const float*>(exact.data), count, static_cast<float*>(copy.data));
    for (std::int64_t n = 0; n < count / cuda::attention::kHighLowChannels; ++n) cuda::attention::make_high_low(copy.data, n);
    rotated_[side] = exact;
    content = copy;
  }
  say(keys_too ? "rotated" : "rotated queries");
  const int terms = any({0, 0, 1, 2});
  for (int t = 0; t < terms; ++t) add_term(false);
}

/// Scaled. Three products in the place of one go through the sums, and what they leave out is below 2^-15 (1 + 2^-17) of the magnitudes
/// (tests/attention/support/rotated_problems.hpp), 2^-17 where keys are bfloat16 as they came.
inline TermsProblem::Score TermsProblem::rotated_product(std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t h) const {
  const AttentionWork& w = *work_;
  const bool keys_too = rotated_[1].data != nullptr;
  const ConstTensorView& k = keys_too ? rotated_[1] : w.k;
  const std::int64_t key_head = h / (w.shape.heads / w.shape.key_heads);
  double sum = 0, size = 0;
  for (std::int64_t c = 0; c < w.shape.width; ++c) {
    const double z = w.scale * number(rotated_[0], b, i, h, c) * number(k, b, j, key_head, c);
    sum += z, size += std::abs(z);
  }
  const double roundings = 3 * (static_cast<double>(w.shape.width) + 15) / 16 + 4 + 2 * w.term_count;
  return {sum, size * (roundings * 0x1p-23 + (keys_too ? 0x1p-15 * (1 + 0x1p-17) : 0x1p-17)), true};
}

}  // namespace phasor::test
