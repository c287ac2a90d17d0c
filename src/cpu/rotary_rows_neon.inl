// SPDX-License-Identifier: Apache-2.0
// Rows on NEON at positions below 2^32, four pairs at a time: phases made in registers, and the doubts of a row or of a whole run collected
// and asked for once, since an answer from a vector register takes long.

#include "math/phase_neon.inl"

HWY_INLINE bool is_word(std::int64_t position) { return static_cast<u64>(position) <= 0xffffffff; }
HWY_INLINE bool is_word(double /*position*/) { return false; }

/// The float32 nearest to each of four doubles. Spelt out: g++ 12 copies the first half before it adds the second.
HWY_INLINE float32x4_t to_float(DoubleVec first, DoubleVec last) {
  float32x4_t both;
  asm("fcvtn %0.2s, %1.2d" : "=w"(both) : "w"(first.raw));
  asm("fcvtn2 %0.4s, %1.2d" : "+w"(both) : "w"(last.raw));
  return both;
}

/// Level 1 for two pairs, the amplitude and the sign applied.
template <class Polynomials>
HWY_INLINE auto sincos_of_two(const job::RowSource& source, const math::Step* steps, uint32x4_t position, double tiny) {
  using VU = hn::Vec<hn::RebindToUnsigned<DoubleTag>>;
  const DoubleTag d;
  const TwoPhases phases = phases_of_two(steps, position);
  auto r = sincos_lanes<Polynomials>(d, VU(phases.high), VU(phases.low), tiny);
  r.cos = hn::Mul(r.cos, hn::Set(d, source.amplitude));
  r.sin = hn::Mul(r.sin, hn::Set(d, source.amplitude * source.sine_sign));
  return r;
}

/// The smallest of near_midpoint's `dropped`, eight times as large: the bits of a double that float32 drops are in its low word.
struct Closest {
  uint32x4_t shift;
  uint32x4_t least;

  HWY_INLINE explicit Closest(u64 doubt) : shift(vdupq_n_u32(static_cast<u32>(doubt - (u64{1} << 28)))), least(vdupq_n_u32(~u32{0})) {}
  HWY_INLINE void look(DoubleVec first, DoubleVec last) {
    const uint32x4_t words = vuzp1q_u32(vreinterpretq_u32_f64(first.raw), vreinterpretq_u32_f64(last.raw));
    least = vminq_u32(least, vshlq_n_u32(vaddq_u32(words, shift), 3));
  }
  HWY_INLINE bool is_near(u64 doubt) const { return vminvq_u32(least) < 16 * doubt; }
};

/// As fill_proven, from the steps on: level 1 for as many pairs of a chunk as make fours; 0 when a rounding is not proven.
inline std::int64_t fill_fours(const job::RowSource& source, std::int64_t position, const RowBlock<float>& block) {
  const DoubleTag d;
  const math::Step* steps = source.steps + block.first;
  const uint32x4_t at = vdupq_n_u32(static_cast<u32>(position));
  const double tiny = tiny_bound_at(position);
  const u64 doubt = math::doubt_with_amplitude(Short::doubt, source.amplitude);
  Closest closest(doubt);
  auto is_tiny = hn::MaskFromVec(hn::Zero(d));
  std::int64_t i = 0;
  for (; i + 4 <= block.count; i += 4) {
    const auto a = sincos_of_two<Short>(source, steps + i, at, tiny);
    const auto b = sincos_of_two<Short>(source, steps + i + 2, at, tiny);
    is_tiny = hn::Or(is_tiny, hn::Or(a.tiny, b.tiny));
    closest.look(a.cos, b.cos);
    closest.look(a.sin, b.sin);
    vst1q_f32(block.cos + i, to_float(a.cos, b.cos));
    vst1q_f32(block.sin + i, to_float(a.sin, b.sin));
  }
  return closest.is_near(doubt) || !hn::AllFalse(d, is_tiny) ? 0 : i;
}

/// Where the pairs of a run begin, in double, as many of kPhaseChunk as make fours.
struct Seeds {
  alignas(64) double cos[kPhaseChunk];
  alignas(64) double sin[kPhaseChunk];
};

inline void fill_seeds(const job::RowSource& source, std::int64_t position, std::int64_t pair, std::int64_t count, Seeds& seeds) {
  const DoubleTag d;
  const uint32x4_t at = vdupq_n_u32(static_cast<u32>(position));
  for (std::int64_t i = 0; i < count; i += 4) {  // two at a time: one chain of products leaves the pipes idle
    const auto a = sincos_of_two<Long>(source, source.steps + pair + i, at, 0.0);
    const auto b = sincos_of_two<Long>(source, source.steps + pair + i + 2, at, 0.0);
    hn::Store(a.cos, d, seeds.cos + i);
    hn::Store(b.cos, d, seeds.cos + i + 2);
    hn::Store(a.sin, d, seeds.sin + i);
    hn::Store(b.sin, d, seeds.sin + i + 2);
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
  const float32x4_t up = to_float(hn::Add(first, error), hn::Add(last, error));
  const float32x4_t down = to_float(hn::Sub(first, error), hn::Sub(last, error));
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
