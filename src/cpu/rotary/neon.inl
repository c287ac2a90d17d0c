// SPDX-License-Identifier: Apache-2.0
// The loops of registers.inl for NEON, where a head is read and written in the same pairing: whole lines of memory, asked for ahead,
// pointers that stay in registers, and eight numbers of 16 bits at a time. Timed on Neoverse-N1; its two vector pipes also take each store.

#include "math/half_neon.inl"

/// How far ahead of what is being turned memory is asked for, in bytes.
constexpr std::int64_t kBytesAhead = 512;
constexpr std::int64_t kLineBytes = 64;

/// A pointer that g++ makes nothing of: it would otherwise keep the second half's distance, and every offset from it, in registers.
template <class P>
HWY_INLINE P* opaque(P* p) {
  asm("" : "+r"(p));
  return p;
}

template <class S>
HWY_INLINE void ask_ahead(const S* in) {
  hwy::Prefetch(reinterpret_cast<const std::byte*>(in) + kBytesAhead);
}

/// Keeps g++ from starting on the next registers before these are stored: loads, products and stores stay mixed.
template <class V>
HWY_INLINE void settle(V& a) {
  asm("" : "+w"(a.raw));
}

/// Pairs of one block. 3 in 1000 blocks have a tie (4 in 10 where the cosines are bfloat16: Variant::coarse).
constexpr std::int64_t kBlock = 32;

/// One row's cosines and sines, a value for each pair, for registers of pairs.
template <DType dtype, Variant variant, class T>
struct PairTurn {
  const T* cos[2];
  const T* sin[2];

  explicit HWY_INLINE PairTurn(const Row<T>& row) : cos{row.cos[0], row.cos[1]}, sin{row.sin[0], row.sin[1]} {}

  template <class V>
  HWY_INLINE Pair<V> turn(V x, V y, std::int64_t i) const {
    const hn::DFromV<V> d;
    const V cos_x = hn::LoadU(d, cos[0] + i);
    const V sin_x = hn::LoadU(d, sin[0] + i);
    const V cos_y = lanes_differ(variant) ? hn::LoadU(d, cos[1] + i) : cos_x;
    const V sin_y = lanes_differ(variant) ? hn::LoadU(d, sin[1] + i) : sin_x;
    return rotate<V>({x, y}, {cos_x, cos_y}, {sin_x, sin_y}, ProductOf<dtype, variant>());
  }
};

/// Turns kPairs pairs of a head at a time; kLine of them are a line of memory, of each half in half pairing.
template <DType dtype, Pairing pairing, Variant variant, class T>
struct Turn;

template <DType dtype, Variant variant, class T>
struct Turn<dtype, Pairing::half, variant, T> {
  using Storage = typename Element<dtype>::Storage;
  using V = hn::Vec<hn::ScalableTag<T>>;
  static constexpr std::int64_t kPairs = 16 / sizeof(Storage);
  static constexpr std::int64_t kLine = kLineBytes / sizeof(Storage);
  static constexpr bool kWatchesTies = dtype == DType::bf16 && variant == Variant::plain;
  static constexpr bool kByLines = dtype == DType::f32 || dtype == DType::f64;
  PairTurn<dtype, variant, T> by;
  const Storage* x_in;
  const Storage* y_in;
  Storage* x_out;
  Storage* y_out;

  HWY_INLINE Turn(const Row<T>& row, const Heads& heads, const Head<dtype>& head)
      : by(row),
        x_in(opaque(head.in + heads.first)),
        y_in(opaque(head.in + heads.first + heads.half)),
        x_out(opaque(head.out + heads.first)),
        y_out(opaque(head.out + heads.first + heads.half)) {}

  HWY_INLINE void ask(std::int64_t i) const {
    ask_ahead(x_in + i);
    ask_ahead(y_in + i);
  }

  HWY_INLINE void operator()(std::int64_t i) const {
    if constexpr (dtype == DType::f16 || dtype == DType::bf16) {
      const Eight x = widen_eight<dtype>(x_in + i);
      const Eight y = widen_eight<dtype>(y_in + i);
      const Pair<Float4> first = by.turn(x.first, y.first, i);
      const Pair<Float4> last = by.turn(x.last, y.last, i + 4);
      narrow_eight<dtype>({first.x, last.x}, x_out + i);
      narrow_eight<dtype>({first.y, last.y}, y_out + i);
    } else {
      const hn::ScalableTag<T> d;
      Pair<V> p = by.turn(hn::LoadU(d, x_in + i), hn::LoadU(d, y_in + i), i);
      settle(p.x);
      settle(p.y);
      hn::StoreU(p.x, d, x_out + i);
      hn::StoreU(p.y, d, y_out + i);
    }
  }

  /// As many as make a line of each half, stored one line after the other: in DRAM lines that grow by turns cost a fifth more.
  HWY_INLINE void turn_line(std::int64_t i) const {
    constexpr std::int64_t kRegisters = kLine / kPairs;
    const hn::ScalableTag<T> d;
    V x[kRegisters];  // not Pairs: a constructor that nobody wrote is compiled for the machine's least
    V y[kRegisters];
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < kRegisters; ++g) {
      const std::int64_t at = i + g * kPairs;
      const Pair<V> p = by.turn(hn::LoadU(d, x_in + at), hn::LoadU(d, y_in + at), at);
      x[g] = p.x;
      y[g] = p.y;
      settle(x[g]);
      settle(y[g]);
    }
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < kRegisters; ++g) hn::StoreU(x[g], d, x_out + i + g * kPairs);
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < kRegisters; ++g) hn::StoreU(y[g], d, y_out + i + g * kPairs);
  }

  /// kBlock pairs of bfloat16 without ties; with one, nothing is written.
  HWY_INLINE bool turn_untied(std::int64_t i) const {
    uint16x8_t x_turned[kBlock / 8];
    uint16x8_t y_turned[kBlock / 8];
    int16x8_t least = vdupq_n_s16(0);
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < kBlock / 8; ++g) {
      const Eight x = widen_eight<dtype>(x_in + i + 8 * g);
      const Eight y = widen_eight<dtype>(y_in + i + 8 * g);
      const Pair<Float4> first = by.turn(x.first, y.first, i + 8 * g);
      const Pair<Float4> last = by.turn(x.last, y.last, i + 8 * g + 4);
      x_turned[g] = narrow_untied({first.x, last.x}, least);
      y_turned[g] = narrow_untied({first.y, last.y}, least);
      asm("" : "+w"(x_turned[g]), "+w"(y_turned[g]));  // as settle
    }
    if (HWY_UNLIKELY(has_tie(least))) return false;
    HWY_UNROLL(4)
    for (std::int64_t g = 0; g < kBlock / 8; ++g) {
      vst1q_u16(x_out + i + 8 * g, x_turned[g]);
      vst1q_u16(y_out + i + 8 * g, y_turned[g]);
    }
    return true;
  }
};

/// bfloat16 is split into the channels of pairs; all else stays as it lies, beside a copy with neighbours swapped.
template <DType dtype, Variant variant, class T>
struct Turn<dtype, Pairing::interleaved, variant, T> {
  using Storage = typename Element<dtype>::Storage;
  static constexpr std::int64_t kPairs = 8 / sizeof(Storage);
  static constexpr std::int64_t kLine = kLineBytes / 2 / sizeof(Storage);
  static constexpr bool kWatchesTies = dtype == DType::bf16 && variant == Variant::plain;
  static constexpr bool kByLines = false;
  PairTurn<dtype, variant, T> by;
  const T* cos_lanes;
  const T* sin_lanes;
  const Storage* in;
  Storage* out;

  HWY_INLINE Turn(const Row<T>& row, const Heads& heads, const Head<dtype>& head)
      : by(row),
        cos_lanes(row.cos_lanes),
        sin_lanes(row.sin_lanes),
        in(opaque(head.in + 2 * heads.first)),
        out(opaque(head.out + 2 * heads.first)) {}

  HWY_INLINE void ask(std::int64_t i) const { ask_ahead(in + 2 * i); }

  template <class V>
  HWY_INLINE V turn_channels(V v, std::int64_t channel) const {
    const hn::DFromV<V> d;
    return rotate_swapped(v, hn::Reverse2(d, v), hn::LoadU(d, cos_lanes + channel), hn::LoadU(d, sin_lanes + channel),
                          ProductOf<dtype, variant>());
  }

  HWY_INLINE void operator()(std::int64_t i) const {
    if constexpr (dtype == DType::bf16) {
      const Pair<Float4> p = split_four(in + 2 * i);
      join_four(by.turn(p.x, p.y, i), out + 2 * i);
    } else if constexpr (dtype == DType::f16) {
      const Eight v = widen_eight<dtype>(in + 2 * i);
      narrow_eight<dtype>({turn_channels(v.first, 2 * i), turn_channels(v.last, 2 * i + 4)}, out + 2 * i);
    } else {
      const hn::ScalableTag<T> d;
      auto turned = turn_channels(hn::LoadU(d, in + 2 * i), 2 * i);
      settle(turned);
      hn::StoreU(turned, d, out + 2 * i);
    }
  }

  /// As in half pairing.
  HWY_INLINE bool turn_untied(std::int64_t i) const {
    uint16x8_t turned[kBlock / 4];
    int16x8_t least = vdupq_n_s16(0);
    HWY_UNROLL(8)
    for (std::int64_t g = 0; g < kBlock / 4; ++g) {
      const Pair<Float4> p = split_four(in + 2 * i + 8 * g);
      turned[g] = join_untied(by.turn(p.x, p.y, i + 4 * g), least);
      asm("" : "+w"(turned[g]));  // as settle
    }
    if (HWY_UNLIKELY(has_tie(least))) return false;
    HWY_UNROLL(8)
    for (std::int64_t g = 0; g < kBlock / 4; ++g) vst1q_u16(out + 2 * i + 8 * g, turned[g]);
    return true;
  }
};

/// Pairs among which there is a tie. A call, so that the loop keeps its registers.
template <class AnyTurn>
HWY_NOINLINE void rotate_tied(AnyTurn turn, std::int64_t i) {
  for (std::int64_t j = 0; j < kBlock; j += AnyTurn::kPairs) turn(i + j);
}

/// As many pairs as fill registers, 32 of them (two to eight lines of memory) without a branch; returns where it stopped.
template <bool ahead, class AnyTurn, class Count>
HWY_INLINE std::int64_t rotate_lines(const AnyTurn& turn, PairRange<Count> range) {
  std::int64_t i = range.next;
  const std::int64_t end = range.end;
  HWY_UNROLL(1)
  for (; i + kBlock <= end; i += kBlock) {
    if constexpr (AnyTurn::kWatchesTies) {
      HWY_UNROLL(8)
      for (std::int64_t j = 0; ahead && j < kBlock; j += AnyTurn::kLine) turn.ask(i + j);
      if (!turn.turn_untied(i)) rotate_tied(turn, i);
      continue;
    }
    HWY_UNROLL(8)
    for (std::int64_t line = 0; line < kBlock; line += AnyTurn::kLine) {
      if (ahead) turn.ask(i + line);  // eight at once cost a head 4 ns in DRAM
      if constexpr (ahead && AnyTurn::kByLines) {
        turn.turn_line(i + line);
      } else {
        HWY_UNROLL(4)
        for (std::int64_t j = 0; j < AnyTurn::kLine; j += AnyTurn::kPairs) turn(i + line + j);
      }
    }
  }
  HWY_UNROLL(1)
  for (; i + AnyTurn::kPairs <= end; i += AnyTurn::kPairs) turn(i);
  return i;
}
