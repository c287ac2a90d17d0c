// SPDX-License-Identifier: Apache-2.0
// Rows on NEON at positions below 2^32, eight pairs at a time: phases made in registers, and the doubts of a row or of a whole run
// collected and asked for once, since an answer from a vector register takes long.

#include "cpu/common/four_neon.inl"
#include "math/phase/neon.inl"
#include "math/sincos_neon.inl"

HWY_INLINE bool is_word(std::int64_t position) { return static_cast<u64>(position) <= 0xffffffff; }
HWY_INLINE bool is_word(double /*position*/) { return false; }

/// The float32 nearest to each of four doubles. Spelt out: g++ 12 copies the first half before it adds the second.
HWY_INLINE float32x4_t to_float(float64x2_t first, float64x2_t last) {
  float32x4_t both;
  asm("fcvtn %0.2s, %1.2d" : "=w"(both) : "w"(first));
  asm("fcvtn2 %0.4s, %1.2d" : "+w"(both) : "w"(last));
  return both;
}

/// One row's position, bound of `tiny`, and what its cosines and sines are multiplied with.
struct RowAt {
  uint32x4_t position;
  double tiny;
  double factor_cos;
  double factor_sin;
  RowAt(const job::RowSource& source, std::int64_t at, double bound)
      : position(vdupq_n_u32(static_cast<u32>(at))),
        tiny(bound),
        factor_cos(source.amplitude),
        factor_sin(source.amplitude * source.sine_sign) {}
};

/// Level 1 for eight pairs, the amplitude and the sign applied; returns where one is tiny. (What is returned in a struct of this size, g++
/// puts into memory.)
template <class Polynomials>
HWY_INLINE uint64x2_t sincos_of_eight(const RowAt& at, const math::Step* steps, Four<float64x2_t>& cos, Four<float64x2_t>& sin) {
  const TwoPhases a = phases_of_two(steps, at.position);
  const TwoPhases b = phases_of_two(steps + 2, at.position);
  const TwoPhases c = phases_of_two(steps + 4, at.position);
  const TwoPhases d = phases_of_two(steps + 6, at.position);
  const Four<uint64x2_t> high = {a.high, b.high, c.high, d.high};
  const Four<uint64x2_t> low = {a.low, b.low, c.low, d.low};
  const auto r = sincos_lanes<Polynomials>(FourDoubles(), high, low, at.tiny);
  cos = Mul(r.cos, Set(FourDoubles(), at.factor_cos));
  sin = Mul(r.sin, Set(FourDoubles(), at.factor_sin));
  return (r.tiny.a | r.tiny.b) | (r.tiny.c | r.tiny.d);
}

/// Eight values as float32; their distance from a midpoint is looked at.
HWY_INLINE void store_eight(const Four<float64x2_t>& values, float* to, Closest& closest) {
  closest.look(values.a, values.b);
  closest.look(values.c, values.d);
  vst1q_f32(to, to_float(values.a, values.b));
  vst1q_f32(to + 4, to_float(values.c, values.d));
}

/// As fill_proven, from the steps on: level 1 for as many pairs of a chunk as make eights; 0 when a rounding is not proven.
inline std::int64_t fill_eights(const job::RowSource& source, std::int64_t position, const RowBlock<float>& block) {
  const RowAt at(source, position, tiny_bound_at(position));
  const RowBlock<float> to = block;  // a copy: what lies behind the reference would be read again after every store
  const math::Step* steps = source.steps + to.first;
  const u64 doubt = math::doubt_with_amplitude(Short::doubt, source.amplitude);
  Closest closest(doubt);
  uint64x2_t is_tiny = vdupq_n_u64(0);
  std::int64_t i = 0;
  for (; i + 8 <= to.count; i += 8) {
    Four<float64x2_t> cos;
    Four<float64x2_t> sin;
    is_tiny |= sincos_of_eight<Short>(at, steps + i, cos, sin);
    store_eight(cos, to.cos + i, closest);
    store_eight(sin, to.sin + i, closest);
  }
  return closest.is_near(doubt) || vmaxvq_u32(vreinterpretq_u32_u64(is_tiny)) != 0 ? 0 : i;
}

/// Where the pairs of a run begin, in double, as many of kPhaseChunk as make eights.
struct Seeds {
  alignas(64) double cos[kPhaseChunk];
  alignas(64) double sin[kPhaseChunk];
};

HWY_INLINE void store_seeds(const Four<float64x2_t>& values, double* to) {
  vst1q_f64(to, values.a);
  vst1q_f64(to + 2, values.b);
  vst1q_f64(to + 4, values.c);
  vst1q_f64(to + 6, values.d);
}

inline void fill_seeds(const job::RowSource& source, std::int64_t position, std::int64_t pair, std::int64_t count, Seeds& seeds) {
  const RowAt at(source, position, 0.0);
  const math::Step* steps = source.steps + pair;
  for (std::int64_t i = 0; i < count; i += 8) {
    Four<float64x2_t> cos;
    Four<float64x2_t> sin;
    sincos_of_eight<Long>(at, steps + i, cos, sin);
    store_seeds(cos, seeds.cos + i);
    store_seeds(sin, seeds.sin + i);
  }
}

/// As seed, from Seeds.
HWY_INLINE Turning<DoubleVec> turning_of(const job::RowSource& source, std::int64_t pair, const Seeds& seeds, std::int64_t i) {
  const DoubleTag d;
  return {hn::Load(d, seeds.cos + i), hn::Load(d, seeds.sin + i), hn::LoadU(d, source.turn_cos + pair),
          hn::Mul(hn::LoadU(d, source.turn_sin + pair), hn::Set(d, source.sine_sign))};
}

/// store_proven for four pairs; `doubt` collects the bits in which the two ends differ.
HWY_INLINE void store_four(DoubleVec first, DoubleVec last, DoubleVec error, float* to, uint32x4_t& doubt) {
  const float32x4_t up = to_float(hn::Add(first, error).raw, hn::Add(last, error).raw);
  const float32x4_t down = to_float(hn::Sub(first, error).raw, hn::Sub(last, error).raw);
  vst1q_f32(to, up);
  doubt = vorrq_u32(doubt, veorq_u32(vreinterpretq_u32_f32(up), vreinterpretq_u32_f32(down)));
}

/// All rows of a group (see turn_rows); returns whether every rounding is proven.
HWY_INLINE bool turn_rows_at_once(Turning<DoubleVec> a, Turning<DoubleVec> b, DoubleVec error, const RowBlock<float>& first_row,
                                  std::int64_t rows) {
  uint32x4_t doubt = vdupq_n_u32(0);
  float* cos = first_row.cos;
  float* sin = first_row.sin;
  const std::int64_t stride = first_row.stride;
  HWY_UNROLL(1)
  for (std::int64_t r = 0; r < rows; ++r, cos += stride, sin += stride) {
    store_four(a.cos, b.cos, error, cos, doubt);
    store_four(a.sin, b.sin, error, sin, doubt);
    advance(a);
    advance(b);
  }
  return vmaxvq_u32(doubt) == 0;
}
