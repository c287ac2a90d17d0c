// SPDX-License-Identifier: Apache-2.0
// Heads of one token, or of several in one go, turned by their rows: every dtype and pairing through the same formula, math::rotate.

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
  bool coarse;           // the values are bfloat16
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
  coarse,                // as plain, by values of bfloat16: results often lie halfway between two of them (NEON)
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

#if PHASOR_LANES && HWY_TARGET == HWY_NEON
constexpr bool kNeon = true;  // cpu/rotary/neon.inl has loops of its own
#else
constexpr bool kNeon = false;
#endif

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
  if (read == Pairing::half) return dtype == DType::bf16 && !kNeon ? RegisterLayout::even_odd : RegisterLayout::apart;
  if (dtype == DType::f32 || dtype == DType::f64 || (dtype == DType::f16 && kNativeFloat16)) return RegisterLayout::side_by_side;
#endif
  return RegisterLayout::apart;
}

/// What is left to do of a head: pairs [next, end). `end` is a std::integral_constant for the common widths, so that loops unroll.
template <class Count>
struct PairRange {
  std::int64_t next;
  Count end;
};

#if PHASOR_LANES
#include "cpu/rotary/registers.inl"
#endif

/// The pairs of a head that registers left over, or all of them. Apart from the loops, whose registers it would take.
template <DType dtype, Pairing read, Pairing write, Variant variant, class T>
HWY_NOINLINE void rotate_rest(const Row<T>& row, const Heads& heads, PairRange<std::int64_t> range, Head<dtype> head) {
#if PHASOR_LANES && HWY_TARGET == HWY_NEON
  // Its loops take eight pairs of 16 bits and leave up to seven.
  if (read == write && !row.identity_inside) {
    range.next = rotate_by_layout<dtype, read, write, variant>(hn::ScalableTag<T>(), row, heads, range, head);
  }
#endif
  for (std::int64_t i = range.next; i < range.end; ++i) rotate_one<dtype, read, write, variant>(row, heads, i, head);
}

/// As many of a head's pairs as fill registers; returns how many.
template <DType dtype, Pairing read, Pairing write, Variant variant, bool ahead, class Count, class T>
HWY_INLINE std::int64_t rotate_head([[maybe_unused]] const Row<T>& row, [[maybe_unused]] const Heads& heads, [[maybe_unused]] Count pairs,
                                    [[maybe_unused]] const Head<dtype>& head) {
  std::int64_t i = 0;
#if PHASOR_LANES
  constexpr Variant kTail = variant == Variant::streamed ? Variant::plain : variant;  // only whole registers are aligned
  constexpr std::size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  i = rotate_lanes<dtype, read, write, variant, ahead>(hn::ScalableTag<T>(), row, heads, PairRange<Count>{i, pairs}, head);
  if constexpr (kLanes > 8)
    i = rotate_lanes<dtype, read, write, kTail, ahead>(hn::CappedTag<T, 8>(), row, heads, PairRange<Count>{i, pairs}, head);
  if constexpr (kLanes > 4)
    i = rotate_lanes<dtype, read, write, kTail, ahead>(hn::CappedTag<T, 4>(), row, heads, PairRange<Count>{i, pairs}, head);
#endif
  return i;
}

/// Tokens that follow each other in a block of rows: how far apart what they need lies.
struct TokenSteps {
  std::int64_t count;
  std::int64_t in;  // bytes
  std::int64_t out;
  std::int64_t row;    // values of a row
  std::int64_t lanes;  // values of a row laid out for registers
};

/// What token `t` of them needs.
template <class T>
HWY_INLINE Row<T> row_of_token(const Row<T>& first, const TokenSteps& steps, std::int64_t t) {
  const std::int64_t by = t * steps.row;  // field by field: a copy would go through the stack
  const std::int64_t lanes = t * steps.lanes;
  return {{first.cos[0] + by, first.cos[1] + by},
          {first.sin[0] + by, first.sin[1] + by},
          first.cos_lanes + lanes,
          first.sin_lanes + lanes,
          first.identity_inside,
          first.turns_all,
          first.rounds_products,
          first.coarse};
}

/// Every head of some tokens, none of whose rows leaves a pair alone. Nothing else is stored in between, not even a register that the
/// compiler has no room for: on Neoverse-N1 one push to the stack ends a run of whole lines that are written without being read first.
/// So what a token needs is worked out anew from what lies behind the references, and kept in registers for its heads.
template <DType dtype, Pairing pairing, Variant variant, bool ahead, class Count, class T>
// clang-format off
#if PHASOR_LANES && HWY_TARGET == HWY_NEON
HWY_NOINLINE  // beside other loops in one function this one would not get all registers
#endif
void rotate_tokens_of(const Row<T>& first_row, const Heads& first_heads, const TokenSteps& steps, Count pairs) {
  // clang-format on
  using Storage = typename Element<dtype>::Storage;
  for (std::int64_t t = 0; t < steps.count; ++t) {
    const Row<T> row = row_of_token(first_row, steps, t);
    const Heads heads = first_heads;
    const std::byte* in = heads.in + t * steps.in;
    std::byte* out = heads.out + t * steps.out;
    for (std::int64_t h = 0; h < heads.count; ++h, in += heads.in_stride, out += heads.out_stride) {
      const Head<dtype> head = {reinterpret_cast<const Storage*>(in), reinterpret_cast<Storage*>(out)};
      const std::int64_t i = rotate_head<dtype, pairing, pairing, variant, ahead>(row, heads, pairs, head);
      if (i < pairs) {
        rotate_rest<dtype, pairing, pairing, variant>(row_of_token(first_row, steps, t), first_heads, {i, pairs}, head);
      }
    }
  }
}

/// Turns the run-time pair count into a constant for the widths that models have: loops unroll by it, and registers suffice. NEON has the
/// commonest only; its loops do not unroll further.
template <DType dtype, Pairing pairing, Variant variant, bool ahead, class T>
void rotate_tokens_by_count(const Row<T>& row, const Heads& heads, const TokenSteps& steps, std::int64_t pairs) {
  if constexpr (dtype != DType::f64) {
    const auto fixed = [&](auto count) { rotate_tokens_of<dtype, pairing, variant, ahead>(row, heads, steps, count); };
    if (pairs == 64) return fixed(std::integral_constant<std::int64_t, 64>());
    if constexpr (!kNeon) {
      switch (pairs) {
        case 32:
          return fixed(std::integral_constant<std::int64_t, 32>());
        case 40:
          return fixed(std::integral_constant<std::int64_t, 40>());
        case 48:
          return fixed(std::integral_constant<std::int64_t, 48>());
        case 96:
          return fixed(std::integral_constant<std::int64_t, 96>());
        case 128:
          return fixed(std::integral_constant<std::int64_t, 128>());
        default:
          break;
      }
    }
  }
  rotate_tokens_of<dtype, pairing, variant, ahead>(row, heads, steps, pairs);
}

template <DType dtype, Pairing pairing, class T>
void rotate_tokens(const Row<T>& row, const Heads& heads, const TokenSteps& steps, std::int64_t pairs) {
  constexpr bool kAhead = kNeon;
  if constexpr (kNeon && dtype == DType::bf16) {
    if (row.coarse) return rotate_tokens_by_count<dtype, pairing, Variant::coarse, kAhead>(row, heads, steps, pairs);
  }
  if (steps.count > 1) return rotate_tokens_by_count<dtype, pairing, Variant::plain, kAhead>(row, heads, steps, pairs);
  rotate_tokens_by_count<dtype, pairing, Variant::plain, false>(row, heads, steps, pairs);
}

/// Every head of a token, whatever its row.
template <DType dtype, Pairing read, Pairing write, Variant variant, class T>
void rotate_heads_of(const Row<T>& row, const Heads& heads, std::int64_t pairs) {
  using Storage = typename Element<dtype>::Storage;
  const std::byte* in = heads.in;
  std::byte* out = heads.out;
  const std::int64_t count = heads.count;
  for (std::int64_t h = 0; h < count; ++h, in += heads.in_stride, out += heads.out_stride) {
    Head<dtype> head = {reinterpret_cast<const Storage*>(in), reinterpret_cast<Storage*>(out)};
    Storage buffer[read == write ? 1 : job::kMaxWidthInPlaceAcrossPairings];
    if (read != write && in == out) {  // each channel moves elsewhere: read the whole head before writing it
      std::memcpy(buffer, in, static_cast<std::size_t>(2 * heads.half) * sizeof(Storage));
      head.in = buffer;
    }
    const std::int64_t i = row.identity_inside ? 0 : rotate_head<dtype, read, write, variant, false>(row, heads, pairs, head);
    if (i < pairs) rotate_rest<dtype, read, write, variant>(row, heads, {i, pairs}, head);
  }
}

/// One token.
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
    if (!row.identity_inside) return rotate_tokens<dtype, read>(row, heads, {1, 0, 0, 0, 0}, pairs);
  }
  rotate_heads_of<dtype, read, write, Variant::plain>(row, heads, pairs);
}
