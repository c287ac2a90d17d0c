// SPDX-License-Identifier: Apache-2.0
// Which roundings of sincos.inl are proven, asked once for many on NEON. No guard and no namespace: included in the namespace of Highway's
// NEON target.

/// The smallest of near_midpoint's `dropped`, eight times as large: the bits of a double that float32 drops are in its low word.
struct Closest {
  uint32x4_t shift;
  uint32x4_t least;

  HWY_INLINE explicit Closest(u64 doubt) : shift(vdupq_n_u32(static_cast<u32>(doubt - (u64{1} << 28)))), least(vdupq_n_u32(~u32{0})) {}
  HWY_INLINE void look(float64x2_t first, float64x2_t last) {
    const uint32x4_t words = vuzp1q_u32(vreinterpretq_u32_f64(first), vreinterpretq_u32_f64(last));
    least = vminq_u32(least, vshlq_n_u32(vaddq_u32(words, shift), 3));
  }
  HWY_INLINE bool is_near(u64 doubt) const { return vminvq_u32(least) < 16 * doubt; }
};
