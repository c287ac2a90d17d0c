// SPDX-License-Identifier: Apache-2.0
// Heads of one token turned by one row: every dtype and pairing through the same formula, math::rotate.

/// One row, made ready for a token's heads. Lane 1 has arrays of its own only where the lanes differ.
template <class T>
struct Row {
  const T* cos[2];
  const T* sin[2];
  // For f32 and f64 read and written interleaved: cos and -sin/+sin as the channels lie.
  const T* cos_lanes;
  const T* sin_lanes;
  bool identity_inside;  // some pair is left bit for bit: go pair by pair
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

/// Pair `i` of the row by plain C++: tails, the scalar target, and pairs that must be left alone.
template <DType dtype, Pairing read, Pairing write, class T>
inline void rotate_one(const Row<T>& row, const Heads& heads, std::int64_t i, const Head<dtype>& head) {
  using E = Element<dtype>;
  const math::Pair<std::int64_t> from = channels<read>(heads.first + i, heads.half);
  const math::Pair<std::int64_t> to = channels<write>(heads.first + i, heads.half);
  const auto x = head.in[from.x];
  const auto y = head.in[from.y];
  if (math::is_identity(row.cos[0][i], row.sin[0][i]) && math::is_identity(row.cos[1][i], row.sin[1][i])) {
    head.out[to.x] = x;
    head.out[to.y] = y;
    return;
  }
  const math::Pair<T> turned = math::rotate<T>({E::widen(x), E::widen(y)}, {row.cos[0][i], row.cos[1][i]}, {row.sin[0][i], row.sin[1][i]});
  head.out[to.x] = E::narrow(turned.x);
  head.out[to.y] = E::narrow(turned.y);
}

/// Whether a rotation keeps the channels of interleaved pairs side by side in registers: then rows are spread to match (spread_lanes).
/// bfloat16 does not: there a pair is one 32-bit lane, split without a shuffle.
template <DType dtype, Pairing read, Pairing write>
constexpr bool rotates_side_by_side() {
#if PHASOR_LANES
  return read == Pairing::interleaved && write == Pairing::interleaved &&
         (dtype == DType::f32 || dtype == DType::f64 || (dtype == DType::f16 && kNativeFloat16));
#else
  return false;
#endif
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

template <DType dtype, class D>
HWY_INLINE void store_channels(D d, hn::Vec<D> value, typename Element<dtype>::Storage* out) {
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (dtype == DType::f32 || dtype == DType::f64) hn::StoreU(value, d, out);
  if constexpr (dtype == DType::f16) hn::StoreU(demote_f16(d, value), d16, out);
  if constexpr (dtype == DType::bf16) {
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), narrow_bf16(d, value))), d16, out);
  }
}

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
    const hn::RebindToUnsigned<D> du;
    const auto both = hn::BitCast(du, hn::LoadU(hn::Repartition<std::uint16_t, decltype(du)>(), in + 2 * pair));
    const auto second = hn::ShiftRight<16>(both);
    if constexpr (dtype == DType::f16) return {widen_f16(d, both), widen_f16(d, second)};
    return {widen_bf16(d, both), widen_bf16(d, second)};
  }
}

template <DType dtype, Pairing pairing, class D>
HWY_INLINE void store_pairs(D d, Pair<hn::Vec<D>> p, typename Element<dtype>::Storage* out, std::int64_t pair, std::int64_t half) {
  if constexpr (pairing == Pairing::half) {
    store_channels<dtype>(d, p.x, out + pair);
    store_channels<dtype>(d, p.y, out + pair + half);
  } else if constexpr (dtype == DType::f32 || dtype == DType::f64) {
    hn::StoreInterleaved2(p.x, p.y, d, out + 2 * pair);
  } else {
    const hn::Repartition<std::uint16_t, hn::RebindToUnsigned<D>> d16;
    const auto both = [](auto x, auto y) HWY_ATTR { return hn::Or(x, hn::ShiftLeft<16>(y)); };
    if constexpr (dtype == DType::f16) hn::StoreU(hn::BitCast(d16, both(narrow_f16(d, p.x), narrow_f16(d, p.y))), d16, out + 2 * pair);
    if constexpr (dtype == DType::bf16) hn::StoreU(hn::BitCast(d16, both(narrow_bf16(d, p.x), narrow_bf16(d, p.y))), d16, out + 2 * pair);
  }
}

/// What is left to do of a head: pairs [next, end). `end` is a std::integral_constant for the common widths, so that loops unroll.
template <class Count>
struct PairRange {
  std::int64_t next;
  Count end;
};

/// As many of the pairs left as fill registers of `d`; returns where it stopped.
template <DType dtype, Pairing read, Pairing write, bool lanes_differ, class D, class T, class Count>
HWY_INLINE std::int64_t rotate_lanes(D d, const Row<T>& row, const Heads& heads, PairRange<Count> range, const Head<dtype>& head) {
  const auto [in, out] = head;
  const std::int64_t pairs = range.end;
  std::int64_t i = range.next;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if constexpr (rotates_side_by_side<dtype, read, write>()) {
    // Swap neighbours, two products and a sum: 1.6 to 1.8 times as fast as loads that separate the pair (Neoverse-N1).
    for (; 2 * i + lanes <= 2 * pairs; i += lanes / 2) {
      const auto v = load_channels<dtype>(d, in + 2 * (heads.first + i));
      const auto turned = rotate_swapped(v, hn::Reverse2(d, v), hn::LoadU(d, row.cos_lanes + 2 * i), hn::LoadU(d, row.sin_lanes + 2 * i));
      store_channels<dtype>(d, turned, out + 2 * (heads.first + i));
    }
  } else {
    for (; i + lanes <= pairs; i += lanes) {
      const auto cos_x = hn::LoadU(d, row.cos[0] + i);
      const auto sin_x = hn::LoadU(d, row.sin[0] + i);
      const auto cos_y = lanes_differ ? hn::LoadU(d, row.cos[1] + i) : cos_x;
      const auto sin_y = lanes_differ ? hn::LoadU(d, row.sin[1] + i) : sin_x;
      const Pair<hn::Vec<D>> p = load_pairs<dtype, read>(d, in, heads.first + i, heads.half);
      store_pairs<dtype, write>(d, rotate<hn::Vec<D>>(p, {cos_x, cos_y}, {sin_x, sin_y}), out, heads.first + i, heads.half);
    }
  }
  return i;
}

#endif  // PHASOR_LANES

template <DType dtype, Pairing read, Pairing write, bool lanes_differ, class Count, class T>
inline void rotate_head(const Row<T>& row, const Heads& heads, Count pairs, const Head<dtype>& head) {
  std::int64_t i = 0;
#if PHASOR_LANES
  if (!row.identity_inside) {
    i = rotate_lanes<dtype, read, write, lanes_differ>(hn::ScalableTag<T>(), row, heads, PairRange<Count>{i, pairs}, head);
    if constexpr (hn::MaxLanes(hn::ScalableTag<T>()) > 8) {
      i = rotate_lanes<dtype, read, write, lanes_differ>(hn::CappedTag<T, 8>(), row, heads, PairRange<Count>{i, pairs}, head);
    }
    if constexpr (hn::MaxLanes(hn::ScalableTag<T>()) > 4) {
      i = rotate_lanes<dtype, read, write, lanes_differ>(hn::CappedTag<T, 4>(), row, heads, PairRange<Count>{i, pairs}, head);
    }
  }
#endif
  for (; i < pairs; ++i) rotate_one<dtype, read, write>(row, heads, i, head);
}

template <DType dtype, Pairing read, Pairing write, bool lanes_differ, class Count, class T>
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
        rotate_head<dtype, read, write, lanes_differ>(row, heads, pairs, Head<dtype>{buffer, head.out});
        continue;
      }
    }
    rotate_head<dtype, read, write, lanes_differ>(row, heads, pairs, head);
  }
}

/// Turns the run-time pair count into a constant for the widths that models have.
template <DType dtype, Pairing read, Pairing write, class T>
void rotate_heads(const Row<T>& row, const Heads& heads, std::int64_t pairs) {
  if (row.cos[0] != row.cos[1]) return rotate_heads_of<dtype, read, write, true>(row, heads, pairs);
  if constexpr (read == write && dtype != DType::f64) {
    switch (pairs) {
      case 32:
        return rotate_heads_of<dtype, read, write, false>(row, heads, std::integral_constant<std::int64_t, 32>());
      case 40:
        return rotate_heads_of<dtype, read, write, false>(row, heads, std::integral_constant<std::int64_t, 40>());
      case 48:
        return rotate_heads_of<dtype, read, write, false>(row, heads, std::integral_constant<std::int64_t, 48>());
      case 64:
        return rotate_heads_of<dtype, read, write, false>(row, heads, std::integral_constant<std::int64_t, 64>());
      case 96:
        return rotate_heads_of<dtype, read, write, false>(row, heads, std::integral_constant<std::int64_t, 96>());
      case 128:
        return rotate_heads_of<dtype, read, write, false>(row, heads, std::integral_constant<std::int64_t, 128>());
      default:
        break;
    }
  }
  rotate_heads_of<dtype, read, write, false>(row, heads, pairs);
}
