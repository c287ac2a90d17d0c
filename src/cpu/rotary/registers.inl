// SPDX-License-Identifier: Apache-2.0
// Pairs of a head turned in registers: loads that widen, the rotation, stores that narrow, for every dtype, pairing and register width.

/// Neighbouring channels, widened.
template <DType dtype, class D>
HWY_INLINE hn::Vec<D> load_channels(D d, const typename Element<dtype>::Storage* in) {
  if constexpr (dtype == DType::f32 || dtype == DType::f64) {
    return hn::LoadU(d, in);
  } else {
    const auto bits = hn::LoadU(hn::Rebind<std::uint16_t, D>(), in);
    if constexpr (dtype == DType::f16) return promote_f16(d, bits);
    if constexpr (dtype == DType::bf16) return widen_bf16(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
  }
}

template <Variant variant, class D, class V, class S>
HWY_INLINE void store(D d, V value, S* out) {
  // Highway 1.0.3 streams a part of a register as a whole one on WebAssembly.
  if constexpr (variant == Variant::streamed && hn::MaxLanes(D()) * sizeof(S) >= 16) {
    hn::Stream(value, d, out);
  } else {
    hn::StoreU(value, d, out);
  }
}

template <DType dtype, Variant variant, class D>
HWY_INLINE void store_channels(D d, hn::Vec<D> value, typename Element<dtype>::Storage* out) {
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (dtype == DType::f32 || dtype == DType::f64) store<variant>(d, value, out);
  if constexpr (dtype == DType::f16) store<variant>(d16, demote_f16(d, value), out);
  if constexpr (dtype == DType::bf16) {
    store<variant>(d16, hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), narrow_bf16(d, value))), out);
  }
}

/// Two bfloat16 in each 32-bit lane, and back. What is turned has no NaN with low bits set: tensors widen to none, tables are cleared of
/// them (table_value), and arithmetic makes none.
template <class D, class VU>
HWY_INLINE Pair<hn::Vec<D>> split_bf16(D d, VU both) {
  return {widen_bf16(d, both), hn::BitCast(d, hn::And(both, hn::Set(hn::RebindToUnsigned<D>(), 0xffff0000U)))};
}
template <class D>
HWY_INLINE auto join_bf16(D d, hn::Vec<D> low, hn::Vec<D> high) {
  const hn::RebindToUnsigned<D> du;
  return hn::Or(hn::ShiftRight<16>(round_bf16(d, low)), hn::And(round_bf16(d, high), hn::Set(du, 0xffff0000U)));
}

/// The 16-bit numbers of as many 32-bit lanes as `d` has.
template <class D>
using Pairs16 = hn::Repartition<std::uint16_t, hn::RebindToUnsigned<D>>;

/// Both channels of as many pairs as `d` has lanes, widened.
template <DType dtype, Pairing pairing, class D>
HWY_INLINE Pair<hn::Vec<D>> load_pairs(D d, const typename Element<dtype>::Storage* in, std::int64_t pair, std::int64_t half) {
  if constexpr (pairing == Pairing::half) {
    return {load_channels<dtype>(d, in + pair), load_channels<dtype>(d, in + pair + half)};
  } else if constexpr (dtype == DType::f32 || dtype == DType::f64) {
    hn::Vec<D> x;
    hn::Vec<D> y;
    hn::LoadInterleaved2(d, in + 2 * pair, x, y);
    return {x, y};
  } else {  // a pair is one 32-bit lane: no shuffle
    const auto both = hn::BitCast(hn::RebindToUnsigned<D>(), hn::LoadU(Pairs16<D>(), in + 2 * pair));
    if constexpr (dtype == DType::f16) return {widen_f16(d, both), widen_f16(d, hn::ShiftRight<16>(both))};
    return split_bf16(d, both);
  }
}

template <DType dtype, Pairing pairing, Variant variant, class D>
HWY_INLINE void store_pairs(D d, Pair<hn::Vec<D>> p, typename Element<dtype>::Storage* out, std::int64_t pair, std::int64_t half) {
  if constexpr (pairing == Pairing::half) {
    store_channels<dtype, variant>(d, p.x, out + pair);
    store_channels<dtype, variant>(d, p.y, out + pair + half);
  } else if constexpr (dtype == DType::f32 || dtype == DType::f64) {
    hn::StoreInterleaved2(p.x, p.y, d, out + 2 * pair);
  } else if constexpr (dtype == DType::f16) {
    const auto both = hn::Or(narrow_f16(d, p.x), hn::ShiftLeft<16>(narrow_f16(d, p.y)));
    store<variant>(Pairs16<D>(), hn::BitCast(Pairs16<D>(), both), out + 2 * pair);
  } else {
    store<variant>(Pairs16<D>(), hn::BitCast(Pairs16<D>(), join_bf16(d, p.x, p.y)), out + 2 * pair);
  }
}

/// Each of these does as many of the pairs left as fill registers of `d`, and returns where it stopped.

template <DType dtype, Variant variant, class D, class T, class Count>
HWY_INLINE std::int64_t rotate_side_by_side(D d, const Row<T>& row, const Heads& heads, PairRange<Count> range, const Head<dtype>& head) {
  // Two products and a sum: 1.6 to 1.8 times as fast as loads that separate the pair (Neoverse-N1).
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = range.next;
  for (; 2 * i + lanes <= 2 * range.end; i += lanes / 2) {
    const auto v = load_channels<dtype>(d, head.in + 2 * (heads.first + i));
    const auto turned = rotate_swapped(v, hn::Reverse2(d, v), hn::LoadU(d, row.cos_lanes + 2 * i), hn::LoadU(d, row.sin_lanes + 2 * i),
                                       ProductOf<dtype, variant>());
    store_channels<dtype, variant>(d, turned, head.out + 2 * (heads.first + i));
  }
  return i;
}

template <Variant variant, class D, class Count>
HWY_INLINE std::int64_t rotate_even_odd(D d, const Row<float>& row, const Heads& heads, PairRange<Count> range,
                                        const Head<DType::bf16>& head) {
  using V = hn::Vec<D>;
  using Product = ProductOf<DType::bf16, variant>;
  const hn::RebindToUnsigned<D> du;
  const Pairs16<D> d16;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = range.next;
  for (; i + 2 * lanes <= range.end; i += 2 * lanes) {
    const auto* x_in = head.in + heads.first + i;
    const Pair<V> x = split_bf16(d, hn::BitCast(du, hn::LoadU(d16, x_in)));
    const Pair<V> y = split_bf16(d, hn::BitCast(du, hn::LoadU(d16, x_in + heads.half)));
    const V cos_even = hn::LoadU(d, row.cos_lanes + i / 2);
    const V sin_even = hn::LoadU(d, row.sin_lanes + i / 2);
    const V cos_odd = hn::LoadU(d, row.cos_lanes + kBlockValues + i / 2);
    const V sin_odd = hn::LoadU(d, row.sin_lanes + kBlockValues + i / 2);
    const Pair<V> even = rotate<V>({x.x, y.x}, {cos_even, cos_even}, {sin_even, sin_even}, Product());
    const Pair<V> odd = rotate<V>({x.y, y.y}, {cos_odd, cos_odd}, {sin_odd, sin_odd}, Product());
    auto* x_out = head.out + heads.first + i;
    store<variant>(d16, hn::BitCast(d16, join_bf16(d, even.x, odd.x)), x_out);
    store<variant>(d16, hn::BitCast(d16, join_bf16(d, even.y, odd.y)), x_out + heads.half);
  }
  return i;
}

template <DType dtype, Pairing read, Pairing write, Variant variant, class D, class T, class Count>
HWY_INLINE std::int64_t rotate_apart(D d, const Row<T>& row, const Heads& heads, PairRange<Count> range, const Head<dtype>& head) {
  constexpr bool kDiffer = lanes_differ(variant);
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = range.next;
  for (; i + lanes <= range.end; i += lanes) {
    const auto cos_x = hn::LoadU(d, row.cos[0] + i);
    const auto sin_x = hn::LoadU(d, row.sin[0] + i);
    const auto cos_y = kDiffer ? hn::LoadU(d, row.cos[1] + i) : cos_x;
    const auto sin_y = kDiffer ? hn::LoadU(d, row.sin[1] + i) : sin_x;
    const Pair<hn::Vec<D>> p = load_pairs<dtype, read>(d, head.in, heads.first + i, heads.half);
    const Pair<hn::Vec<D>> turned = rotate<hn::Vec<D>>(p, {cos_x, cos_y}, {sin_x, sin_y}, ProductOf<dtype, variant>());
    store_pairs<dtype, write, variant>(d, turned, head.out, heads.first + i, heads.half);
  }
  return i;
}

#if HWY_TARGET == HWY_NEON
#include "cpu/rotary/neon.inl"
#endif

/// The same, the way that dtype and pairings ask for.
template <DType dtype, Pairing read, Pairing write, Variant variant, class D, class T, class Count>
HWY_INLINE std::int64_t rotate_by_layout(D d, const Row<T>& row, const Heads& heads, PairRange<Count> range, const Head<dtype>& head) {
  constexpr RegisterLayout kLayout = register_layout<dtype, read, write>();
  if constexpr (kLayout == RegisterLayout::side_by_side) return rotate_side_by_side<dtype, variant>(d, row, heads, range, head);
  if constexpr (kLayout == RegisterLayout::even_odd && !lanes_differ(variant)) return rotate_even_odd<variant>(d, row, heads, range, head);
  return rotate_apart<dtype, read, write, variant>(d, row, heads, range, head);
}

/// `ahead`: more of the same memory follows, so that it pays to ask for it (NEON).
template <DType dtype, Pairing read, Pairing write, Variant variant, bool ahead, class D, class T, class Count>
HWY_INLINE std::int64_t rotate_lanes(D d, const Row<T>& row, const Heads& heads, PairRange<Count> range, const Head<dtype>& head) {
#if HWY_TARGET == HWY_NEON
  if constexpr (read == write) return rotate_lines<ahead>(Turn<dtype, read, variant, T>(row, heads, head), range);
#endif
  return rotate_by_layout<dtype, read, write, variant>(d, row, heads, range, head);
}
