// SPDX-License-Identifier: Apache-2.0
// Exact phases in NEON registers. No guard and no namespace: included in the namespace of Highway's NEON target.

/// The top 128 bits of two pairs' phases.
struct TwoPhases {
  uint64x2_t high;
  uint64x2_t low;
};

/// As math::phase128_of, at a position below 2^32 (in every lane of `position`): products of words of 32 bits, each with the carry of the
/// one before. A core multiplies 64 bits in three or four cycles, and two words in one.
HWY_INLINE TwoPhases phases_of_two(const math::Step* steps, uint32x4_t position) {
  const uint32x4_t first = vreinterpretq_u32_u64(vld1q_u64(steps[0].fraction + 1));
  const uint32x4_t second = vreinterpretq_u32_u64(vld1q_u64(steps[1].fraction + 1));
  const uint32x4_t lower = vzip1q_u32(first, second);  // word 0 of both, then word 1 of both
  const uint32x4_t upper = vzip2q_u32(first, second);
  const uint64x2_t word0 = vmull_u32(vget_low_u32(lower), vget_low_u32(position));
  const uint64x2_t word1 = vsraq_n_u64(vmull_high_u32(lower, position), word0, 32);
  const uint64x2_t word2 = vsraq_n_u64(vmull_u32(vget_low_u32(upper), vget_low_u32(position)), word1, 32);
  const uint64x2_t word3 = vsraq_n_u64(vmull_high_u32(upper, position), word2, 32);
  return {vsliq_n_u64(word2, word3, 32), vsliq_n_u64(word0, word1, 32)};
}
