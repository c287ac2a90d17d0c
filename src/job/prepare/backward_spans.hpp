// SPDX-License-Identifier: Apache-2.0
// The steps of a head's gradients, beside those of heads (job/prepare/spans.hpp), one channel at a time. Registers have the same steps in
// src/cpu/prepare/backward_spans.inl.
#pragma once

#include "job/prepare/spans.hpp"

namespace phasor::job {

/// What a weight was multiplied by, and the gradients by the products.
struct WeightTerms {
  const float* gradient;
  const float* normed;
  bool rounds;  // the normed values were rounded to the dtype before
  DType dtype;
};
/// What a norm does to the gradients by its normed values.
struct NormBack {
  const float* normed;
  float along;
  float factor;
  bool rounds;  // the result, to the dtype
  DType dtype;
};

struct BackwardOneByOne : OneByOne {
  /// As add_squares.
  static PHASOR_HD void add_products(const TeamLane& lane, const math::Pair<const float*>& x, std::int64_t count, std::int64_t first,
                                     float* sums) {
    for (int j = lane.at; j < math::kNormPartials; j += lane.of) {
      const std::int64_t from = (j - first % math::kNormPartials + math::kNormPartials) % math::kNormPartials;
      for (std::int64_t c = from; c < count; c += math::kNormPartials) sums[j] += x.x[c] * x.y[c];
    }
  }
  /// Products of float32 are exact in float64: it does not matter whether they are fused with the sum.
  static PHASOR_HD void add_weight_terms(const TeamLane& lane, const WeightTerms& terms, std::int64_t count, double* sums) {
    for (std::int64_t c = lane.at; c < count; c += lane.of) {
      const float normed = terms.rounds ? rounded_as(terms.dtype, terms.normed[c]) : terms.normed[c];
      sums[c] += static_cast<double>(terms.gradient[c]) * static_cast<double>(normed);
    }
  }
  /// The products of a head, added to 32 sums.
  static PHASOR_HD void add_factor_terms(const TeamLane& lane, const math::Pair<const float*>& x, std::int64_t count, double* sums) {
    for (int j = lane.at; j < math::kNormPartials; j += lane.of) {
      double sum = 0;
      for (std::int64_t c = j; c < count; c += math::kNormPartials) sum += static_cast<double>(x.x[c]) * static_cast<double>(x.y[c]);
      sums[j] = sum;
    }
  }
  static PHASOR_HD void norm_back(const TeamLane& lane, const NormBack& by, std::int64_t count, float* gradient) {
    for (std::int64_t c = lane.at; c < count; c += lane.of) {
      const float value = math::norm_gradient(gradient[c], by.normed[c], by.along, by.factor);
      gradient[c] = by.rounds ? rounded_as(by.dtype, value) : value;
    }
  }
};

}  // namespace phasor::job
