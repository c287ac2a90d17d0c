// SPDX-License-Identifier: Apache-2.0
// Four NEON registers of doubles as one: the vocabulary of math/sincos.inl for eight pairs. Written so, four chains of products lie side by
// side in the program, which keeps both vector pipes of a Neoverse-N1 busy; one after the other they do not fit into its window.

template <class R>
struct Four {
  R a;
  R b;
  R c;
  R d;
};
struct FourDoubles {};  // tags
struct FourWords {};
struct FourSignedWords {};

HWY_INLINE FourWords unsigned_tag(FourDoubles /*d*/) { return {}; }
HWY_INLINE FourSignedWords signed_tag(FourDoubles /*d*/) { return {}; }

HWY_INLINE Four<float64x2_t> Set(FourDoubles /*d*/, double value) {
  const float64x2_t all = vdupq_n_f64(value);
  return {all, all, all, all};
}
HWY_INLINE Four<uint64x2_t> Set(FourWords /*d*/, u64 value) {
  const uint64x2_t all = vdupq_n_u64(value);
  return {all, all, all, all};
}

template <class Terms, int i>
HWY_INLINE Four<float64x2_t> coefficient(FourDoubles /*d*/, const Four<float64x2_t>& z) {
  return {coefficient_twice<Terms, i>(z.a), coefficient_twice<Terms, i>(z.b), coefficient_twice<Terms, i>(z.c),
          coefficient_twice<Terms, i>(z.d)};
}

// Arithmetic and logic of whole registers by the compilers' own operators.
template <class R>
HWY_INLINE Four<R> Add(const Four<R>& x, const Four<R>& y) {
  return {x.a + y.a, x.b + y.b, x.c + y.c, x.d + y.d};
}
template <class R>
HWY_INLINE Four<R> Sub(const Four<R>& x, const Four<R>& y) {
  return {x.a - y.a, x.b - y.b, x.c - y.c, x.d - y.d};
}
template <class R>
HWY_INLINE Four<R> Mul(const Four<R>& x, const Four<R>& y) {
  return {x.a * y.a, x.b * y.b, x.c * y.c, x.d * y.d};
}
template <class R>
HWY_INLINE Four<R> And(const Four<R>& x, const Four<R>& y) {
  return {x.a & y.a, x.b & y.b, x.c & y.c, x.d & y.d};
}
template <class R>
HWY_INLINE Four<R> Or(const Four<R>& x, const Four<R>& y) {
  return {x.a | y.a, x.b | y.b, x.c | y.c, x.d | y.d};
}
template <class R>
HWY_INLINE Four<R> Xor(const Four<R>& x, const Four<R>& y) {
  return {x.a ^ y.a, x.b ^ y.b, x.c ^ y.c, x.d ^ y.d};
}
template <int kBits, class R>
HWY_INLINE Four<R> ShiftRight(const Four<R>& x) {
  return {x.a >> kBits, x.b >> kBits, x.c >> kBits, x.d >> kBits};
}

HWY_INLINE Four<float64x2_t> MulAdd(const Four<float64x2_t>& x, const Four<float64x2_t>& y, const Four<float64x2_t>& z) {
  return {vfmaq_f64(z.a, x.a, y.a), vfmaq_f64(z.b, x.b, y.b), vfmaq_f64(z.c, x.c, y.c), vfmaq_f64(z.d, x.d, y.d)};
}
HWY_INLINE Four<float64x2_t> Abs(const Four<float64x2_t>& x) { return {vabsq_f64(x.a), vabsq_f64(x.b), vabsq_f64(x.c), vabsq_f64(x.d)}; }
HWY_INLINE Four<uint64x2_t> Lt(const Four<float64x2_t>& x, const Four<float64x2_t>& y) {
  return {vcltq_f64(x.a, y.a), vcltq_f64(x.b, y.b), vcltq_f64(x.c, y.c), vcltq_f64(x.d, y.d)};
}
HWY_INLINE Four<uint64x2_t> TestBit(const Four<uint64x2_t>& x, const Four<uint64x2_t>& bit) {
  return {vtstq_u64(x.a, bit.a), vtstq_u64(x.b, bit.b), vtstq_u64(x.c, bit.c), vtstq_u64(x.d, bit.d)};
}
HWY_INLINE Four<float64x2_t> IfThenElse(const Four<uint64x2_t>& mask, const Four<float64x2_t>& yes, const Four<float64x2_t>& no) {
  return {vbslq_f64(mask.a, yes.a, no.a), vbslq_f64(mask.b, yes.b, no.b), vbslq_f64(mask.c, yes.c, no.c), vbslq_f64(mask.d, yes.d, no.d)};
}

HWY_INLINE Four<float64x2_t> BitCast(FourDoubles /*d*/, const Four<uint64x2_t>& x) {
  return {vreinterpretq_f64_u64(x.a), vreinterpretq_f64_u64(x.b), vreinterpretq_f64_u64(x.c), vreinterpretq_f64_u64(x.d)};
}
HWY_INLINE Four<uint64x2_t> BitCast(FourWords /*d*/, const Four<float64x2_t>& x) {
  return {vreinterpretq_u64_f64(x.a), vreinterpretq_u64_f64(x.b), vreinterpretq_u64_f64(x.c), vreinterpretq_u64_f64(x.d)};
}
HWY_INLINE Four<uint64x2_t> RebindMask(FourDoubles /*d*/, const Four<uint64x2_t>& mask) { return mask; }
HWY_INLINE float64x2_t to_double(uint64x2_t bits) { return vcvtq_f64_s64(vreinterpretq_s64_u64(bits)); }
HWY_INLINE Four<float64x2_t> to_double(FourDoubles /*d*/, const Four<uint64x2_t>& x) {
  return {to_double(x.a), to_double(x.b), to_double(x.c), to_double(x.d)};
}
