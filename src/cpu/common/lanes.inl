// SPDX-License-Identifier: Apache-2.0
// The formulas of src/math for the registers of one target, and the few operations Highway lacks or does otherwise on some of them.
namespace hn = hwy::HWY_NAMESPACE;
using math::i64;
using math::u32;
using math::u64;

template <class D>
HWY_INLINE hn::RebindToUnsigned<D> unsigned_tag(D /*d*/) {
  return {};
}
template <class D>
HWY_INLINE hn::RebindToSigned<D> signed_tag(D /*d*/) {
  return {};
}

/// The nearest double of each signed 64-bit lane.
template <class D, class VU>
HWY_INLINE hn::Vec<D> to_double(D d, VU bits) {
#if HWY_TARGET == HWY_WASM
  // Highway has no such conversion here: high and low halves as doubles with a known exponent, one rounding in the last sum.
  const hn::RebindToUnsigned<D> du;
  const auto low = hn::Or(hn::And(bits, hn::Set(du, u64{0xffffffff})), hn::Set(du, u64{0x4330000000000000}));  // 2^52 + low
  const auto high = hn::Xor(hn::ShiftRight<32>(bits), hn::Set(du, u64{0x4530000080000000}));                   // 2^84 + 2^63 + high 2^32
  const auto top = hn::Sub(hn::BitCast(d, high), hn::Set(d, 0x1p84 + 0x1p63 + 0x1p52));
  return hn::Add(top, hn::BitCast(d, low));
#else
  return hn::ConvertTo(d, hn::BitCast(hn::RebindToSigned<D>(), bits));
#endif
}

#if HWY_TARGET == HWY_NEON
/// Each coefficient twice: a register of two doubles.
template <class Terms>
struct TermsTwice {
  double value[2 * Terms::count];
  constexpr TermsTwice() : value() {
    for (int i = 0; i < 2 * Terms::count; ++i) value[i] = Terms::at(i / 2);
  }
};
template <class Terms>
alignas(64) inline constexpr TermsTwice<Terms> kTermsTwice;

/// Coefficient `i` of a polynomial in `z`, in both doubles. NEON's multiply-add overwrites its summand: a constant kept in a register would
/// be copied first, which takes as long as the product. Loads go beside it, so each use is one; it seems to need `z`, or g++ would take it
/// out of the loop.
template <class Terms, int i>
HWY_INLINE float64x2_t coefficient_twice(float64x2_t z) {
  float64x2_t value;
  asm("ldr %q0, %1" : "=w"(value) : "m"(reinterpret_cast<const float64x2_t&>(kTermsTwice<Terms>.value[2 * i])), "w"(z));
  return value;
}
/// Coefficient `i` of a polynomial in `z`.
template <class Terms, int i, class D>
HWY_INLINE hn::Vec<D> coefficient(D /*d*/, hn::Vec<D> z) {
  return hn::Vec<D>(coefficient_twice<Terms, i>(z.raw));
}
#else
/// Coefficient `i` of a polynomial in `z`.
template <class Terms, int i, class D>
HWY_INLINE hn::Vec<D> coefficient(D d, hn::Vec<D> /*z*/) {
  return hn::Set(d, Terms::at(i));
}
#endif

using hn::Abs;
using hn::Add;
using hn::And;
using hn::BitCast;
using hn::Gt;
using hn::IfThenElse;
using hn::Lt;
using hn::Mul;
using hn::MulAdd;
using hn::NegMulAdd;
using hn::Or;
using hn::RebindMask;
using hn::Set;
using hn::ShiftLeft;
using hn::ShiftRight;
using hn::Sub;
using hn::TestBit;
using hn::Xor;

#include "math/half.inl"
#include "math/rotate.inl"
#include "math/sincos.inl"

// float16 by the machine's own instructions where it has them: exact one way, to nearest even the other, as math/half.inl. (Highway's
// DemoteTo is not used: it truncates on some targets.)
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr bool kNativeFloat16 = true;

template <class D, class V16>
HWY_INLINE hn::Vec<D> promote_f16(D d, V16 bits) {
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
}

template <class D>
HWY_INLINE auto demote_f16(D /*d*/, hn::Vec<D> value) {
  using V16 = hn::Vec<hn::Rebind<std::uint16_t, D>>;
#if HWY_TARGET == HWY_NEON
  return V16(vreinterpret_u16_f16(vcvt_f16_f32(value.raw)));
#else
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  if constexpr (hn::MaxLanes(D()) == 4) return V16{_mm_cvtps_ph(value.raw, kNearest)};
  if constexpr (hn::MaxLanes(D()) == 8) return V16{_mm256_cvtps_ph(value.raw, kNearest)};
#if HWY_TARGET == HWY_AVX3
  if constexpr (hn::MaxLanes(D()) == 16) return V16{_mm512_cvtps_ph(value.raw, kNearest)};
#endif
#endif
}
#else
constexpr bool kNativeFloat16 = false;

template <class D, class V16>
HWY_INLINE hn::Vec<D> promote_f16(D d, V16 bits) {
  return widen_f16(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
}

template <class D>
HWY_INLINE auto demote_f16(D d, hn::Vec<D> value) {
  return hn::DemoteTo(hn::Rebind<std::uint16_t, D>(), hn::BitCast(hn::RebindToSigned<D>(), narrow_f16(d, value)));
}
#endif
