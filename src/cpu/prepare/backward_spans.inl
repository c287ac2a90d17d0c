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

  static void add_factor_terms(const Lane& lane, const math::Pair<const float*>& x, std::int64_t count, double* sums) {
    job::BackwardOneByOne::add_factor_terms(lane, x, count, sums);
  }

  static void add_weight_terms(const Lane& /*lane*/, const job::WeightTerms& terms, std::int64_t count, double* sums) {
    std::int64_t c = 0;
#if HWY_HAVE_FLOAT64
    with_dtype(rounding_of(terms.rounds, terms.dtype), [&](auto rounding) {
      const D d;
      for (; c + kLanes <= count; c += kLanes) {
        const V normed = rounded_register<rounding.value>(d, hn::LoadU(d, terms.normed + c));
        const V gradient = hn::LoadU(d, terms.gradient + c);
        add_halves(hn::LowerHalf(Half(), gradient), hn::LowerHalf(Half(), normed), sums + c);
        add_halves(hn::UpperHalf(Half(), gradient), hn::UpperHalf(Half(), normed), sums + c + kLanes / 2);
      }
    });
#endif
    const job::WeightTerms rest = {terms.gradient + c, terms.normed + c, terms.rounds, terms.dtype};
    job::BackwardOneByOne::add_weight_terms({0, 1}, rest, count - c, sums + c);
  }
#if HWY_HAVE_FLOAT64
  using Half = hn::Half<D>;
  static HWY_INLINE void add_halves(hn::Vec<Half> gradient, hn::Vec<Half> normed, double* sums) {
    const hn::Rebind<double, Half> d;
    hn::StoreU(hn::Add(hn::LoadU(d, sums), hn::Mul(hn::PromoteTo(d, gradient), hn::PromoteTo(d, normed))), d, sums);
  }
#endif

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
