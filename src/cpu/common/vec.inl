// SPDX-License-Identifier: Apache-2.0
// The words that attention kernels are written in: T is float or double, a Reg<T> has lanes<T> of them. Included once in each target's
// namespace, after cpu/common/lanes.inl where there are registers (PHASOR_LANES). One lane of plain C++ speaks the same words: it is the
// scalar target, and float64 where Highway has none.

#if PHASOR_LANES && HWY_HAVE_FLOAT64
template <class T>
constexpr bool in_registers = true;
#elif PHASOR_LANES
template <class T>
constexpr bool in_registers = std::is_same_v<T, float>;
#else
template <class T>
constexpr bool in_registers = false;
#endif

#if PHASOR_LANES
constexpr bool kFused = HWY_NATIVE_FMA != 0;

template <class T, bool registers = in_registers<T>>
struct RegOf {
  using Type = hn::Vec<hn::ScalableTag<T>>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));
};
#else
constexpr bool kFused = false;

template <class T, bool registers = false>
struct RegOf;
#endif

template <class T>
struct RegOf<T, false> {
  using Type = T;
  static constexpr int kLanes = 1;
};

template <class T>
using Reg = typename RegOf<T>::Type;
template <class T>
constexpr int lanes = RegOf<T>::kLanes;

// ---- One lane ----

template <class T>
concept Lane = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <Lane T>
HWY_INLINE T add(T a, T b) {
  return a + b;
}
template <Lane T>
HWY_INLINE T sub(T a, T b) {
  return a - b;
}
template <Lane T>
HWY_INLINE T mul(T a, T b) {
  return a * b;
}
template <Lane T>
HWY_INLINE T div(T a, T b) {
  return a / b;
}
template <Lane T>
HWY_INLINE T mul_add(T a, T b, T c) {
  return a * b + c;
}
template <Lane T>
HWY_INLINE T neg_mul_add(T a, T b, T c) {
  return c - a * b;
}
/// NaN where b is NaN.
template <Lane T>
HWY_INLINE T max(T a, T b) {
  return a > b ? a : b;
}
template <Lane T>
HWY_INLINE T min(T a, T b) {
  return a < b ? a : b;
}
template <Lane T>
HWY_INLINE T neg(T a) {
  return -a;
}
template <Lane T>
HWY_INLINE T absolute(T a) {
  return a < 0 ? -a : a;
}
template <Lane T>
HWY_INLINE bool less(T a, T b) {
  return a < b;
}
template <Lane T>
HWY_INLINE T if_then_else(bool mask, T yes, T no) {
  return mask ? yes : no;
}
template <Lane T>
HWY_INLINE T zero_if(bool mask, T otherwise) {
  return mask ? T{0} : otherwise;
}
template <Lane T>
HWY_INLINE T reduce_sum(T a) {
  return a;
}
template <Lane T>
HWY_INLINE T reduce_max(T a) {
  return a;
}
HWY_INLINE void store(float value, float* out) { *out = value; }
HWY_INLINE void store(double value, double* out) { *out = value; }
/// 2^n of a number whose last bits hold the biased n (math/exp.inl).
HWY_INLINE float power_of_last_bits(float biased) { return math::bit_cast<float>(math::bit_cast<math::u32>(biased) << 23); }
HWY_INLINE double power_of_last_bits(double biased) { return math::bit_cast<double>(math::bit_cast<math::u64>(biased) << 52); }

// ---- Registers ----

#if PHASOR_LANES

template <class V>
concept Register = std::is_same_v<V, hn::Vec<hn::ScalableTag<float>>> || std::is_same_v<V, hn::Vec<hn::ScalableTag<double>>>;
template <Register V>
using TagOf = hn::ScalableTag<hn::TFromV<V>>;

template <Register V>
HWY_INLINE V add(V a, V b) {
  return hn::Add(a, b);
}
template <Register V>
HWY_INLINE V sub(V a, V b) {
  return hn::Sub(a, b);
}
template <Register V>
HWY_INLINE V mul(V a, V b) {
  return hn::Mul(a, b);
}
template <Register V>
HWY_INLINE V div(V a, V b) {
  return hn::Div(a, b);
}
/// a b + c, fused where the machine can (kFused).
template <Register V>
HWY_INLINE V mul_add(V a, V b, V c) {
  return hn::MulAdd(a, b, c);
}
/// c - a b
template <Register V>
HWY_INLINE V neg_mul_add(V a, V b, V c) {
  return hn::NegMulAdd(a, b, c);
}
/// NaN where b is NaN: on NEON Highway would give the number.
template <Register V>
HWY_INLINE V max(V a, V b) {
#if HWY_TARGET == HWY_NEON
  if constexpr (std::is_same_v<hn::TFromV<V>, float>) return V(vmaxq_f32(a.raw, b.raw));
  if constexpr (std::is_same_v<hn::TFromV<V>, double>) return V(vmaxq_f64(a.raw, b.raw));
#else
  return hn::Max(a, b);
#endif
}
template <Register V>
HWY_INLINE V min(V a, V b) {
  return hn::Min(a, b);
}
template <Register V>
HWY_INLINE V neg(V a) {
  return hn::Neg(a);
}
template <Register V>
HWY_INLINE V absolute(V a) {
  return hn::Abs(a);
}
template <Register V>
HWY_INLINE auto less(V a, V b) {
  return hn::Lt(a, b);
}
template <class M, Register V>
HWY_INLINE V if_then_else(M mask, V yes, V no) {
  return hn::IfThenElse(mask, yes, no);
}
template <class M, Register V>
HWY_INLINE V zero_if(M mask, V otherwise) {
  return hn::IfThenZeroElse(mask, otherwise);
}
template <Register V>
HWY_INLINE auto reduce_sum(V a) {
  return hn::GetLane(hn::SumOfLanes(TagOf<V>(), a));
}
template <Register V>
HWY_INLINE auto reduce_max(V a) {
  return hn::GetLane(hn::MaxOfLanes(TagOf<V>(), a));
}
template <Register V>
HWY_INLINE void store(V value, hn::TFromV<V>* out) {
  hn::StoreU(value, TagOf<V>(), out);
}
template <Register V>
HWY_INLINE V power_of_last_bits(V biased) {
  const hn::RebindToUnsigned<TagOf<V>> du;
  return hn::BitCast(TagOf<V>(), hn::ShiftLeft < sizeof(hn::TFromV<V>) == 4 ? 23 : 52 > (hn::BitCast(du, biased)));
}

#endif  // PHASOR_LANES

// ---- Both ----

template <class T>
HWY_INLINE Reg<T> load(const T* in) {
#if PHASOR_LANES
  if constexpr (in_registers<T>) return hn::LoadU(hn::ScalableTag<T>(), in);
#endif
  if constexpr (!in_registers<T>) return *in;
}

template <class T>
HWY_INLINE Reg<T> set(T value) {
#if PHASOR_LANES
  if constexpr (in_registers<T>) return hn::Set(hn::ScalableTag<T>(), value);
#endif
  if constexpr (!in_registers<T>) return value;
}

template <class T>
HWY_INLINE Reg<T> zero() {
  return set(T{0});
}

/// first, first + 1, ...
template <class T>
HWY_INLINE Reg<T> iota(T first) {
#if PHASOR_LANES
  if constexpr (in_registers<T>) return hn::Iota(hn::ScalableTag<T>(), first);
#endif
  if constexpr (!in_registers<T>) return first;
}

/// What numbers the places of a T: as wide as it.
template <class T>
using PlaceOf = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// Lane i: values[places[i] - places[0]]. places rise by 0 or 1; lanes<T> values are loaded.
template <class T>
HWY_INLINE Reg<T> load_rising(const T* values, const PlaceOf<T>* places) {
#if PHASOR_LANES
  if constexpr (in_registers<T>) {
    const hn::ScalableTag<T> d;
    const hn::ScalableTag<PlaceOf<T>> di;
    const auto steps = hn::Sub(hn::LoadU(di, places), hn::Set(di, places[0]));
    return hn::TableLookupLanes(hn::LoadU(d, values), hn::IndicesFromVec(d, steps));
  }
#endif
  if constexpr (!in_registers<T>) return static_cast<void>(places), *values;
}

// ---- Four registers, each to one number: a shuffle for two of them, where one at a time takes four ----

#if PHASOR_LANES

struct SumOf {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
struct MaximumOf {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

/// One block of 128 bits from several, by `op`.
template <class Op, class D>
HWY_INLINE auto fold_blocks(Op op, D /*d*/, hn::Vec<D> a) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return a;
  } else {
    const hn::Half<D> half;
    return fold_blocks(op, half, op(hn::LowerHalf(half, a), hn::UpperHalf(half, a)));
  }
}

template <class Op>
HWY_INLINE void reduce_four(Op op, const Reg<float> (&x)[4], float* out) {
  const hn::ScalableTag<float> d;
  const hn::RepartitionToWide<hn::RebindToUnsigned<hn::ScalableTag<float>>> pairs;
  const auto low = hn::BitCast(pairs, op(hn::InterleaveLower(d, x[0], x[1]), hn::InterleaveUpper(d, x[0], x[1])));
  const auto high = hn::BitCast(pairs, op(hn::InterleaveLower(d, x[2], x[3]), hn::InterleaveUpper(d, x[2], x[3])));
  const auto even = hn::BitCast(d, hn::InterleaveLower(pairs, low, high));
  const auto odd = hn::BitCast(d, hn::InterleaveUpper(pairs, low, high));
  hn::StoreU(fold_blocks(op, d, op(even, odd)), hn::CappedTag<float, 4>(), out);
}

#endif  // PHASOR_LANES

/// out[i] = the sum of x[i]
template <class T>
HWY_INLINE void reduce_four_sums(const Reg<T> (&x)[4], T* out) {
#if PHASOR_LANES
  if constexpr (std::is_same_v<T, float>) return reduce_four(SumOf(), x, out);
#endif
  for (int i = 0; i < 4; ++i) out[i] = reduce_sum(x[i]);
}
template <class T>
HWY_INLINE void reduce_four_maxima(const Reg<T> (&x)[4], T* out) {
#if PHASOR_LANES
  if constexpr (std::is_same_v<T, float>) return reduce_four(MaximumOf(), x, out);
#endif
  for (int i = 0; i < 4; ++i) out[i] = reduce_max(x[i]);
}

/// A constant, of which `spread` holds one copy per lane. On NEON it is loaded here and now: a sum of products overwrites what it is added
/// to, and a copy by a load leaves the units that multiply alone; and what is loaded where it is used takes no register before.
template <class T>
HWY_INLINE Reg<T> spread_constant(const T (&spread)[lanes<T>]) {
#if PHASOR_LANES && HWY_TARGET == HWY_NEON
  Reg<T> value;
  asm volatile("ldr %q0, %1" : "=w"(value.raw) : "m"(spread));  // volatile: not kept and copied
  return value;
#else
  return set(spread[0]);
#endif
}

/// Registers that a long chain of operations is done for side by side: as many as hide its latency where the compiler does not see to it.
#if PHASOR_LANES && HWY_TARGET == HWY_NEON
constexpr int kTogether = 8;
#else
constexpr int kTogether = 1;
#endif

/// Says that the number is made now, and in the register where it is: g++'s scheduler, which would hoist loads until registers run out,
/// moves nothing across, and its allocator does not move the number to another register. For hand-ordered code on NEON.
template <class V>
HWY_INLINE void make_now([[maybe_unused]] V& value) {
#if PHASOR_LANES && HWY_TARGET == HWY_NEON
  asm volatile("" : "+w"(value.raw));
#endif
}

// ---- Storage: what a dtype lies in memory as, and what it is computed in ----

template <DType dtype>
using Stored = std::conditional_t<dtype == DType::f64, double, std::conditional_t<dtype == DType::f32, float, std::uint16_t>>;
template <DType dtype>
using Computed = std::conditional_t<dtype == DType::f64, double, float>;

template <DType dtype>
HWY_INLINE Computed<dtype> widen_one(Stored<dtype> x) {
  if constexpr (dtype == DType::f16) return math::widen_f16(math::One<float>(), math::u32{x});
  if constexpr (dtype == DType::bf16) return math::widen_bf16(math::One<float>(), math::u32{x});
  if constexpr (dtype == DType::f32 || dtype == DType::f64) return x;
}
template <DType dtype>
HWY_INLINE Stored<dtype> narrow_one(Computed<dtype> x) {
  if constexpr (dtype == DType::f16) return static_cast<std::uint16_t>(math::narrow_f16(math::One<float>(), x));
  if constexpr (dtype == DType::bf16) return static_cast<std::uint16_t>(math::narrow_bf16(math::One<float>(), x));
  if constexpr (dtype == DType::f32 || dtype == DType::f64) return x;
}

/// lanes<Computed<dtype>> neighbours, widened.
template <DType dtype>
HWY_INLINE Reg<Computed<dtype>> load_widened(const Stored<dtype>* in) {
#if PHASOR_LANES
  if constexpr (dtype == DType::f16 || dtype == DType::bf16) {
    const hn::ScalableTag<float> d;
    const auto bits = hn::LoadU(hn::Rebind<std::uint16_t, hn::ScalableTag<float>>(), in);
    if constexpr (dtype == DType::f16) return promote_f16(d, bits);
    if constexpr (dtype == DType::bf16) return widen_bf16(d, hn::PromoteTo(hn::RebindToUnsigned<hn::ScalableTag<float>>(), bits));
  }
#else
  if constexpr (dtype == DType::f16 || dtype == DType::bf16) return widen_one<dtype>(*in);
#endif
  if constexpr (dtype == DType::f32 || dtype == DType::f64) return load(in);
}

/// The same written, to nearest even.
template <DType dtype>
HWY_INLINE void store_narrowed(Reg<Computed<dtype>> value, Stored<dtype>* out) {
#if PHASOR_LANES
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint16_t, hn::ScalableTag<float>> d16;
  if constexpr (dtype == DType::f16) hn::StoreU(demote_f16(d, value), d16, out);
  if constexpr (dtype == DType::bf16) {
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<hn::ScalableTag<float>>(), narrow_bf16(d, value))), d16, out);
  }
#else
  if constexpr (dtype == DType::f16 || dtype == DType::bf16) *out = narrow_one<dtype>(value);
#endif
  if constexpr (dtype == DType::f32 || dtype == DType::f64) store(value, out);
}

#include "math/exp.inl"
