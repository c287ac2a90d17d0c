// SPDX-License-Identifier: Apache-2.0
// The steps of job::BackwardOneByOne by registers: the same operations in the same order, and the rest of a span one by one.

struct BackwardSpans : HeadSpans {
  static void add_products(const Lane& lane, const math::Pair<const float*>& x, std::int64_t count, std::int64_t first, float* sums) {
    constexpr std::int64_t kPartials = math::kNormPartials;
    constexpr int kRegisters = static_cast<int>(kPartials / kLanes);
    if (first % kPartials != 0) return job::BackwardOneByOne::add_products(lane, x, count, first, sums);
    std::int64_t c = 0;
    // By numbers that the compiler knows: the sums are to stay in registers.
    [&]<int... r>(std::integer_sequence<int, r...>) {
      const D d;
      V sum[] = {hn::LoadU(d, sums + r * kLanes)...};
      for (; c + kPartials <= count; c += kPartials) {
        ((sum[r] = hn::Add(sum[r], hn::Mul(hn::LoadU(d, x.x + c + r * kLanes), hn::LoadU(d, x.y + c + r * kLanes)))), ...);
      }
      (hn::StoreU(sum[r], d, sums + r * kLanes), ...);
    }(std::make_integer_sequence<int, kRegisters>());
    for (; c < count; ++c) sums[c % kPartials] += x.x[c] * x.y[c];
  }

  /// The loop in float64 is the compiler's: not every target of Highway's has float64.
  static void add_weight_terms(const Lane& /*lane*/, const job::WeightTerms& terms, std::int64_t count, double* sums) {
    constexpr std::int64_t kStaged = 256;
    alignas(64) float staged[kStaged];
    for (std::int64_t first = 0; first < count; first += kStaged) {
      const std::int64_t n = std::min(kStaged, count - first);
      const float* normed = terms.normed + first;
      if (terms.rounds && terms.dtype != DType::f32) {
        std::copy_n(normed, n, staged);
        HeadSpans::scale_by_norm({0, 1}, {1, nullptr, false, true, terms.dtype}, n, staged);
        normed = staged;
      }
      const float* const gradient = terms.gradient + first;
      double* const to = sums + first;
      for (std::int64_t c = 0; c < n; ++c) to[c] += static_cast<double>(gradient[c]) * static_cast<double>(normed[c]);
    }
  }

  template <DType rounding>
  static HWY_INLINE std::int64_t norm_back_registers(const job::NormBack& by, std::int64_t count, float* gradient) {
    const D d;
    const V along = hn::Set(d, by.along);
    const V factor = hn::Set(d, by.factor);
    std::int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) {
      const V rest = hn::Sub(hn::LoadU(d, gradient + c), hn::Mul(hn::LoadU(d, by.normed + c), along));
      hn::StoreU(rounded_register<rounding>(d, hn::Mul(rest, factor)), d, gradient + c);
    }
    return c;
  }
  static void norm_back(const Lane& /*lane*/, const job::NormBack& by, std::int64_t count, float* gradient) {
    std::int64_t c = 0;
    with_dtype(rounding_of(by.rounds, by.dtype), [&](auto rounding) { c = norm_back_registers<rounding.value>(by, count, gradient); });
    const job::NormBack rest = {by.normed + c, by.along, by.factor, by.rounds, by.dtype};
    job::BackwardOneByOne::norm_back({0, 1}, rest, count - c, gradient + c);
  }
};
