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

using hn::Abs;
using hn::Add;
using hn::And;
using hn::BitCast;
using hn::Gt;
using hn::IfThenElse;
using hn::Lt;
using hn::Mul;
using hn::MulAdd;
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
