// SPDX-License-Identifier: Apache-2.0
// Heads of one token turned by one row: every dtype and pairing through the same formula, math::rotate.

/// One row, made ready for a token's heads. Lane 1 has arrays of its own only where the lanes differ.
template <class T>
struct Row {
  const T* cos[2];
  const T* sin[2];
  // The same laid out for registers. Side by side (see RegisterLayout): cos and -sin, +sin as the channels lie. Even and odd: the values of
  // even pairs, and kBlockValues further on those of odd pairs.
  const T* cos_lanes;
  const T* sin_lanes;
  bool identity_inside;  // some pair is left bit for bit: go pair by pair
  bool turns_all;        // no pair is left bit for bit (numerics profiles)
  bool rounds_products;  // each product is rounded to the tensor's dtype
};

/// Heads of one operand at one token. `in` and `out` point at the first rotated channel of head 0.
struct Heads {
  const std::byte* in;
  std::byte* out;
  std::int64_t count;
  std::int64_t in_stride;  // bytes
  std::int64_t out_stride;
  std::int64_t half;   // R/2: where the second channel of a pair lies in half pairing
  std::int64_t first;  // first pair of the row
  bool stream;         // write past the caches: out of place, large, and every register aligned
};

/// Storage and arithmetic types of a dtype.
template <DType dtype>
struct Element;
template <>
struct Element<DType::f32> {
  using Storage = float;
  using Value = float;
  static float widen(float x) { return x; }
  static float narrow(float x) { return x; }
};
template <>
struct Element<DType::f64> {
  using Storage = double;
  using Value = double;
  static double widen(double x) { return x; }
  static double narrow(double x) { return x; }
};
template <>
struct Element<DType::f16> {
  using Storage = std::uint16_t;
  using Value = float;
  static float widen(std::uint16_t x) { return math::widen_f16(math::One<float>(), math::u32{x}); }
  static std::uint16_t narrow(float x) { return static_cast<std::uint16_t>(math::narrow_f16(math::One<float>(), x)); }
};
template <>
struct Element<DType::bf16> {
  using Storage = std::uint16_t;
  using Value = float;
  static float widen(std::uint16_t x) { return math::widen_bf16(math::One<float>(), math::u32{x}); }
  static std::uint16_t narrow(float x) { return static_cast<std::uint16_t>(math::narrow_bf16(math::One<float>(), x)); }
};

/// One head: its first rotated channel where it is read and where it is written.
template <DType dtype>
struct Head {
  const typename Element<dtype>::Storage* in;
  typename Element<dtype>::Storage* out;
};

/// Indices of a pair's two channels.
template <Pairing pairing>
inline math::Pair<std::int64_t> channels(std::int64_t pair, std::int64_t half) {
  if constexpr (pairing == Pairing::half) return {pair, pair + half};
  return {2 * pair, 2 * pair + 1};
}

/// Variants of a kernel that are compiled apart.
enum class Variant : std::uint8_t {
  plain,
  lanes_differ,          // the two lanes of a pair have cosines and sines of their own
  streamed,              // as plain, stores past the caches
  rounded,               // as plain, products rounded to the dtype
  rounded_lanes_differ,  // as lanes_differ, products rounded to the dtype
};
constexpr bool lanes_differ(Variant variant) { return variant == Variant::lanes_differ || variant == Variant::rounded_lanes_differ; }
constexpr bool rounds(Variant variant) { return variant == Variant::rounded || variant == Variant::rounded_lanes_differ; }

/// What a variant does to each product (math/rotate.inl).
template <DType dtype, Variant variant>
using ProductOf = std::conditional_t<rounds(variant), RoundProduct<dtype>, KeepProduct>;

/// Pair `i` of the row by plain C++: tails, the scalar target, and pairs that must be left alone.
template <DType dtype, Pairing read, Pairing write, Variant variant, class T>
inline void rotate_one(const Row<T>& row, const Heads& heads, std::int64_t i, const Head<dtype>& head) {
  using E = Element<dtype>;
  const math::Pair<std::int64_t> from = channels<read>(heads.first + i, heads.half);
  const math::Pair<std::int64_t> to = channels<write>(heads.first + i, heads.half);
  const auto x = head.in[from.x];
  const auto y = head.in[from.y];
  if (!row.turns_all && math::is_identity(row.cos[0][i], row.sin[0][i]) && math::is_identity(row.cos[1][i], row.sin[1][i])) {
    head.out[to.x] = x;
    head.out[to.y] = y;
    return;
  }
  const math::Pair<T> turned = math::rotate<T>({E::widen(x), E::widen(y)}, {row.cos[0][i], row.cos[1][i]}, {row.sin[0][i], row.sin[1][i]},
                                               ProductOf<dtype, variant>());
  head.out[to.x] = E::narrow(turned.x);
  head.out[to.y] = E::narrow(turned.y);
}

/// How the two channels of a pair meet in registers.
enum class RegisterLayout : std::uint8_t {
  apart,         // x in one register, y in another
  side_by_side,  // interleaved pairs as they lie, and a copy with neighbours swapped
  even_odd,      // bfloat16 in half pairing: a 32-bit lane holds two pairs' channels, split by a shift and a mask, without a shuffle
};

template <DType dtype, Pairing read, Pairing write>
constexpr RegisterLayout register_layout() {
#if PHASOR_LANES
  if (read != write) return RegisterLayout::apart;
  if (read == Pairing::half) return dtype == DType::bf16 ? RegisterLayout::even_odd : RegisterLayout::apart;
  if (dtype == DType::f32 || dtype == DType::f64 || (dtype == DType::f16 && kNativeFloat16)) return RegisterLayout::side_by_side;
#endif
  return RegisterLayout::apart;
}

#if PHASOR_LANES

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

/// What is left to do of a head: pairs [next, end). `end` is a std::integral_constant for the common widths, so that loops unroll.
template <class Count>
struct PairRange {
  std::int64_t next;
  Count end;
};

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

template <DType dtype, Pairing read, Pairing write, Variant variant, class D, class T, class Count>
HWY_INLINE std::int64_t rotate_lanes(D d, const Row<T>& row, const Heads& heads, PairRange<Count> range, const Head<dtype>& head) {
  constexpr RegisterLayout kLayout = register_layout<dtype, read, write>();
  if constexpr (kLayout == RegisterLayout::side_by_side) return rotate_side_by_side<dtype, variant>(d, row, heads, range, head);
  if constexpr (kLayout == RegisterLayout::even_odd && !lanes_differ(variant)) return rotate_even_odd<variant>(d, row, heads, range, head);
  return rotate_apart<dtype, read, write, variant>(d, row, heads, range, head);
}

#endif  // PHASOR_LANES

template <DType dtype, Pairing read, Pairing write, Variant variant, class Count, class T>
inline void rotate_head(const Row<T>& row, const Heads& heads, Count pairs, const Head<dtype>& head) {
  std::int64_t i = 0;
#if PHASOR_LANES
  if (!row.identity_inside) {
    constexpr Variant kTail = variant == Variant::streamed ? Variant::plain : variant;  // only whole registers are aligned
    constexpr std::size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
    i = rotate_lanes<dtype, read, write, variant>(hn::ScalableTag<T>(), row, heads, PairRange<Count>{i, pairs}, head);
    if constexpr (kLanes > 8)
      i = rotate_lanes<dtype, read, write, kTail>(hn::CappedTag<T, 8>(), row, heads, PairRange<Count>{i, pairs}, head);
    if constexpr (kLanes > 4)
      i = rotate_lanes<dtype, read, write, kTail>(hn::CappedTag<T, 4>(), row, heads, PairRange<Count>{i, pairs}, head);
  }
#endif
  for (; i < pairs; ++i) rotate_one<dtype, read, write, variant>(row, heads, i, head);
}

template <DType dtype, Pairing read, Pairing write, Variant variant, class Count, class T>
void rotate_heads_of(const Row<T>& row, const Heads& heads, Count pairs) {
  using Storage = typename Element<dtype>::Storage;
  const std::byte* in = heads.in;
  std::byte* out = heads.out;
  for (std::int64_t h = 0; h < heads.count; ++h, in += heads.in_stride, out += heads.out_stride) {
    const Head<dtype> head = {reinterpret_cast<const Storage*>(in), reinterpret_cast<Storage*>(out)};
    if constexpr (read != write) {
      if (in == out) {  // each channel moves elsewhere: read the whole head before writing it
        Storage buffer[job::kMaxWidthInPlaceAcrossPairings];
        std::memcpy(buffer, in, static_cast<std::size_t>(2 * heads.half) * sizeof(Storage));
        rotate_head<dtype, read, write, variant>(row, heads, pairs, Head<dtype>{buffer, head.out});
        continue;
      }
    }
    rotate_head<dtype, read, write, variant>(row, heads, pairs, head);
  }
}

/// Turns the run-time pair count into a constant for the widths that models have.
template <DType dtype, Pairing read, Pairing write, class T>
void rotate_heads(const Row<T>& row, const Heads& heads, std::int64_t pairs) {
  const bool differ = row.cos[0] != row.cos[1];
  if constexpr (dtype == DType::f16 || dtype == DType::bf16) {
    if (row.rounds_products) {
      return differ ? rotate_heads_of<dtype, read, write, Variant::rounded_lanes_differ>(row, heads, pairs)
                    : rotate_heads_of<dtype, read, write, Variant::rounded>(row, heads, pairs);
    }
  }
  if (differ) return rotate_heads_of<dtype, read, write, Variant::lanes_differ>(row, heads, pairs);
  if constexpr (read == write) {
    if (heads.stream) return rotate_heads_of<dtype, read, write, Variant::streamed>(row, heads, pairs);
  }
  if constexpr (read == write && dtype != DType::f64) {
    const auto fixed = [&row, &heads](auto count) { rotate_heads_of<dtype, read, write, Variant::plain>(row, heads, count); };
    switch (pairs) {
      case 32:
        return fixed(std::integral_constant<std::int64_t, 32>());
      case 40:
        return fixed(std::integral_constant<std::int64_t, 40>());
      case 48:
        return fixed(std::integral_constant<std::int64_t, 48>());
      case 64:
        return fixed(std::integral_constant<std::int64_t, 64>());
      case 96:
        return fixed(std::integral_constant<std::int64_t, 96>());
      case 128:
        return fixed(std::integral_constant<std::int64_t, 128>());
      default:
        break;
    }
  }
  rotate_heads_of<dtype, read, write, Variant::plain>(row, heads, pairs);
}
