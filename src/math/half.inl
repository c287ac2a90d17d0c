// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16 from and to float32, in lanes of 32 bits whose low 16 hold the number. Exact widening; narrowing to nearest even,
// with subnormals, infinities and NaN. No guard and no namespace: included once in phasor::math, once in each Highway target's namespace.

template <class D, class VU>
PHASOR_HD inline auto widen_bf16(D d, VU bits) {
  return BitCast(d, ShiftLeft<16>(bits));
}

/// The nearest bfloat16 in the high 16 bits of each lane; the low ones are left over. Not for a NaN with low bits set: a carry could end
/// its being one.
template <class D, class V>
PHASOR_HD inline auto round_bf16(D d, V value) {
  const auto du = unsigned_tag(d);
  const auto bits = BitCast(du, value);
  const auto odd = And(ShiftRight<16>(bits), Set(du, u32{1}));
  return Add(bits, Add(odd, Set(du, u32{0x7fff})));
}

template <class D, class V>
PHASOR_HD inline auto narrow_bf16(D d, V value) {
  const auto du = unsigned_tag(d);
  const auto bits = BitCast(du, value);
  const auto quiet = Or(ShiftRight<16>(bits), Set(du, u32{0x40}));
  const auto nan = Gt(And(bits, Set(du, u32{0x7fffffff})), Set(du, u32{0x7f800000}));
  return IfThenElse(nan, quiet, ShiftRight<16>(round_bf16(d, value)));
}

template <class D, class VU>
PHASOR_HD inline auto widen_f16(D d, VU bits) {
  const auto du = unsigned_tag(d);
  const auto magnitude = ShiftLeft<13>(And(bits, Set(du, u32{0x7fff})));
  const auto sign = ShiftLeft<16>(And(bits, Set(du, u32{0x8000})));
  // The bits read as a float32 are 2^-112 of the number, subnormals included: the product is exact.
  const auto finite = BitCast(du, Mul(BitCast(d, magnitude), Set(d, 0x1p112F)));
  const auto special = Gt(magnitude, Set(du, u32{0x7bff} << 13));
  return BitCast(d, Or(IfThenElse(special, Or(magnitude, Set(du, u32{0x7f800000})), finite), sign));
}

template <class D, class V>
PHASOR_HD inline auto narrow_f16(D d, V value) {
  const auto du = unsigned_tag(d);
  const auto bits = BitCast(du, value);
  const auto magnitude = And(bits, Set(du, u32{0x7fffffff}));
  const auto sign = ShiftRight<16>(Xor(bits, magnitude));
  const auto odd = And(ShiftRight<13>(magnitude), Set(du, u32{1}));
  // 127 - 15 exponents lower, half an ulp up (less one when even): wraps, deliberately.
  const auto normal = ShiftRight<13>(Add(magnitude, Add(odd, Set(du, u32{0xc8000fff}))));
  // Added to 1/2, the last bit of a float32 weighs 2^-24: the sum rounds to f16's subnormals.
  const auto subnormal = Sub(BitCast(du, Add(BitCast(d, magnitude), Set(d, 0.5F))), Set(du, u32{0x3f000000}));
  const auto small = Gt(Set(du, u32{0x38800000}), magnitude);
  const auto large = Gt(magnitude, Set(du, u32{0x477fffff}));
  const auto nan = Gt(magnitude, Set(du, u32{0x7f800000}));
  const auto infinite = IfThenElse(nan, Or(ShiftRight<13>(magnitude), Set(du, u32{0x200})), Set(du, u32{0x7c00}));
  const auto finite = IfThenElse(small, subnormal, normal);
  return Or(And(IfThenElse(large, infinite, finite), Set(du, u32{0x7fff})), sign);
}

/// The nearest bfloat16 or float16 as a float32 again. rounded_bf16 as round_bf16: not for a NaN with low bits set.
template <class D, class V>
PHASOR_HD inline auto rounded_bf16(D d, V value) {
  return BitCast(d, And(round_bf16(d, value), Set(unsigned_tag(d), u32{0xffff0000})));
}
template <class D, class V>
PHASOR_HD inline auto rounded_f16(D d, V value) {
  return widen_f16(d, narrow_f16(d, value));
}
