// SPDX-License-Identifier: Apache-2.0
// float32 to 8 bits, in lanes of 32 bits whose low 8 hold the number: OCP's e4m3 and e5m2, and int8. To nearest even; what is beyond the
// largest finite value becomes it (infinities too), a NaN stays one. No guard and no namespace: included once in phasor::math, once in each
// Highway target's namespace.

/// The numbers of a format of 8 bits, as bits of float32 and of the format.
struct E4M3 {
  static constexpr int kDropped = 20;                 // mantissa bits of float32 that it lacks
  static constexpr u32 kHalf = 0x7ffff;               // half an ulp of it, less one
  static constexpr u32 kBias = 0u - (120u << 23);     // 127 - 7 exponents lower: wraps, deliberately
  static constexpr u32 kLargest = 0x43e00000;         // 448
  static constexpr u32 kSmallestNormal = 0x3c800000;  // 2^-6
  static constexpr float kShift = 0x1p14F;            // added to it, the last bit of a float32 weighs 2^-9
};
struct E5M2 {
  static constexpr int kDropped = 21;
  static constexpr u32 kHalf = 0xfffff;
  static constexpr u32 kBias = 0u - (112u << 23);
  static constexpr u32 kLargest = 0x47600000;         // 57344
  static constexpr u32 kSmallestNormal = 0x38800000;  // 2^-14
  static constexpr float kShift = 0x1p7F;             // 2^-16
};

template <class Format, class D, class V>
PHASOR_HD inline auto narrow_f8(D d, V value) {
  const auto du = unsigned_tag(d);
  const auto bits = BitCast(du, value);
  const auto given = And(bits, Set(du, u32{0x7fffffff}));
  const auto sign = ShiftRight<24>(Xor(bits, given));
  const auto magnitude = IfThenElse(Gt(given, Set(du, u32{Format::kLargest})), Set(du, u32{Format::kLargest}), given);
  const auto odd = And(ShiftRight<Format::kDropped>(magnitude), Set(du, u32{1}));
  const auto normal = ShiftRight<Format::kDropped>(Add(magnitude, Add(odd, Set(du, u32{Format::kBias + Format::kHalf}))));
  const auto shift = Set(d, float{Format::kShift});
  const auto subnormal = Sub(BitCast(du, Add(BitCast(d, magnitude), shift)), BitCast(du, shift));
  const auto finite = IfThenElse(Gt(Set(du, u32{Format::kSmallestNormal}), magnitude), subnormal, normal);
  return Or(IfThenElse(Gt(given, Set(du, u32{0x7f800000})), Set(du, u32{0x7f}), finite), sign);
}

/// A NaN, which int8 does not have, becomes 0.
template <class D, class V>
PHASOR_HD inline auto narrow_i8(D d, V value) {
  const auto du = unsigned_tag(d);
  const auto largest = Set(d, 127.0F);
  const auto least = Set(d, -128.0F);
  const auto below = IfThenElse(Gt(value, largest), largest, value);
  const auto within = IfThenElse(Lt(below, least), least, below);
  const auto nan = Gt(And(BitCast(du, value), Set(du, u32{0x7fffffff})), Set(du, u32{0x7f800000}));
  // Added to 1.5 2^23, the last bit of a float32 weighs 1.
  const auto whole = And(BitCast(du, Add(within, Set(d, 0x1.8p23F))), Set(du, u32{0xff}));
  return IfThenElse(nan, Set(du, u32{0}), whole);
}
