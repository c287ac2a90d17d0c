// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16 from and to float32 on NEON, eight numbers at a time: the bits of half.inl, but for NaN with low bits set, and ties
// where a function says so. No guard and no namespace: included in the namespace of Highway's NEON target.

using Float4 = hn::Vec<hn::Full128<float>>;

/// Eight numbers of 16 bits in float32: the first four and the last four.
struct Eight {
  Float4 first;
  Float4 last;
};

/// Zips go through both vector pipes; shifts, which widen_bf16 has, only through one.
template <DType dtype>
HWY_INLINE Eight widen_eight(const std::uint16_t* in) {
  const uint16x8_t bits = vld1q_u16(in);
  if constexpr (dtype == DType::f16) {
    const float16x8_t half = vreinterpretq_f16_u16(bits);
    return {Float4(vcvt_f32_f16(vget_low_f16(half))), Float4(vcvt_high_f32_f16(half))};
  } else {
    const uint16x8_t zero = vdupq_n_u16(0);
    return {Float4(vreinterpretq_f32_u16(vzip1q_u16(zero, bits))), Float4(vreinterpretq_f32_u16(vzip2q_u16(zero, bits)))};
  }
}

/// What round_bf16 adds, without its shift: 0x7fff, and one more where the last bit kept is set.
HWY_INLINE uint32x4_t bf16_rounding(uint32x4_t bits) { return vsubq_u32(vdupq_n_u32(0x7fff), vtstq_u32(bits, vdupq_n_u32(0x10000))); }

template <DType dtype>
HWY_INLINE void narrow_eight(Eight value, std::uint16_t* out) {
  if constexpr (dtype == DType::f16) {
    vst1q_u16(out, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(value.first.raw), value.last.raw)));
  } else {
    const uint32x4_t first = vreinterpretq_u32_f32(value.first.raw);
    const uint32x4_t last = vreinterpretq_u32_f32(value.last.raw);
    vst1q_u16(out, vaddhn_high_u32(vaddhn_u32(first, bf16_rounding(first)), last, bf16_rounding(last)));
  }
}

/// Halfway between two bfloat16 are values whose low 16 bits are 0x8000, the least of all as signed numbers: `least` finds out whether
/// there was one among many. All others are rounded by one addition, without a look at the last bit kept.
HWY_INLINE void watch_ties(uint16x8_t low_halves, int16x8_t& least) { least = vminq_s16(least, vreinterpretq_s16_u16(low_halves)); }
HWY_INLINE bool has_tie(int16x8_t least) { return vminvq_s16(least) == std::numeric_limits<std::int16_t>::min(); }

/// Eight numbers as bfloat16, ties away from zero.
HWY_INLINE uint16x8_t narrow_untied(Eight value, int16x8_t& least) {
  const uint16x8_t first = vreinterpretq_u16_f32(value.first.raw);
  const uint16x8_t last = vreinterpretq_u16_f32(value.last.raw);
  watch_ties(vuzp1q_u16(first, last), least);
  const uint32x4_t half = vdupq_n_u32(0x8000);
  return vaddhn_high_u32(vaddhn_u32(vreinterpretq_u32_u16(first), half), vreinterpretq_u32_u16(last), half);
}

/// Four bfloat16 pairs that lie as x, y, x, y, ...: first channels, second channels, and back, a transposition each way.
HWY_INLINE Pair<Float4> split_four(const std::uint16_t* in) {
  const uint16x8_t zero = vdupq_n_u16(0);
  const uint16x8_t bits = vld1q_u16(in);
  return {Float4(vreinterpretq_f32_u16(vtrn1q_u16(zero, bits))), Float4(vreinterpretq_f32_u16(vtrn2q_u16(zero, bits)))};
}
HWY_INLINE void join_four(Pair<Float4> p, std::uint16_t* out) {
  const uint32x4_t x = vreinterpretq_u32_f32(p.x.raw);
  const uint32x4_t y = vreinterpretq_u32_f32(p.y.raw);
  const uint16x8_t rounded_x = vreinterpretq_u16_u32(vaddq_u32(x, bf16_rounding(x)));
  const uint16x8_t rounded_y = vreinterpretq_u16_u32(vaddq_u32(y, bf16_rounding(y)));
  vst1q_u16(out, vtrn2q_u16(rounded_x, rounded_y));
}

/// The same, ties away from zero.
HWY_INLINE uint16x8_t join_untied(Pair<Float4> p, int16x8_t& least) {
  const uint16x8_t x = vreinterpretq_u16_f32(p.x.raw);
  const uint16x8_t y = vreinterpretq_u16_f32(p.y.raw);
  watch_ties(vtrn1q_u16(x, y), least);
  const uint32x4_t half = vdupq_n_u32(0x8000);
  const uint32x4_t rounded_x = vaddq_u32(vreinterpretq_u32_u16(x), half);
  const uint32x4_t rounded_y = vaddq_u32(vreinterpretq_u32_u16(y), half);
  return vtrn2q_u16(vreinterpretq_u16_u32(rounded_x), vreinterpretq_u16_u32(rounded_y));
}
