// SPDX-License-Identifier: Apache-2.0
// The steps of job::OneByOne by registers: the same operations in the same order, and the rest of a span one by one.

template <class D, class V>
HWY_INLINE auto rounded_register(D d, V value, DType dtype) {
  if (dtype == DType::bf16) return widen_bf16(d, narrow_bf16(d, value));
  return dtype == DType::f16 ? promote_f16(d, demote_f16(d, value)) : value;
}

/// What happens to each product of a rotation.
struct RegisterProduct {
  DType dtype;
  bool rounds;
  template <class V>
  HWY_INLINE V operator()(V product) const {
    return rounds ? rounded_register(hn::DFromV<V>(), product, dtype) : product;
  }
};

/// A pair of registers turned, identities left as they are.
template <class V>
HWY_INLINE Pair<V> turn_registers(const job::RotateJob& turn, Pair<V> p, Pair<V> cos, Pair<V> sin, bool rounds) {
  const hn::DFromV<V> d;
  Pair<V> turned = rotate<V>(p, cos, sin, RegisterProduct{turn.dtype, turn.rounds_products});
  if (rounds) turned = {rounded_register(d, turned.x, turn.dtype), rounded_register(d, turned.y, turn.dtype)};
  if (turn.turns_all) return turned;
  const V one = hn::Set(d, 1.0F);
  const auto first = hn::And(hn::Eq(cos.x, one), hn::Eq(sin.x, hn::Zero(d)));
  const auto second = hn::And(hn::Eq(cos.y, one), hn::Eq(sin.y, hn::Zero(d)));
  const auto same = hn::And(first, second);
  return {hn::IfThenElse(same, p.x, turned.x), hn::IfThenElse(same, p.y, turned.y)};
}

struct HeadSpans {
  using D = hn::ScalableTag<float>;
  using D16 = hn::Rebind<std::uint16_t, D>;
  using D8 = hn::Rebind<std::uint8_t, D>;
  using V = hn::Vec<D>;
  using Lane = job::TeamLane;
  static constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

  static V widen_register(DType dtype, const std::byte* in, std::int64_t c) {
    const D d;
    if (dtype == DType::f32) return hn::LoadU(d, reinterpret_cast<const float*>(in) + c);
    const auto bits = hn::LoadU(D16(), reinterpret_cast<const std::uint16_t*>(in) + c);
    return dtype == DType::f16 ? promote_f16(d, bits) : widen_bf16(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
  }
  static void widen(const Lane& /*lane*/, DType dtype, const std::byte* in, std::int64_t count, float* x) {
    std::int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) hn::StoreU(widen_register(dtype, in, c), D(), x + c);
    for (; c < count; ++c) x[c] = job::widened(dtype, in, c);
  }
  static void weights(const Lane& lane, const job::PrepareNorm& norm, std::int64_t head, float* weight) {
    job::OneByOne::weights(lane, norm, head, weight);
  }

  static void add_squares(const Lane& lane, const float* x, std::int64_t count, std::int64_t first, float* sums) {
    constexpr std::int64_t kPartials = math::kNormPartials;
    constexpr int kRegisters = static_cast<int>(kPartials / kLanes);
    if (first % kPartials != 0) return job::OneByOne::add_squares(lane, x, count, first, sums);
    const D d;
    V sum[kRegisters];
    for (int r = 0; r < kRegisters; ++r) sum[r] = hn::LoadU(d, sums + r * kLanes);
    std::int64_t c = 0;
    for (; c + kPartials <= count; c += kPartials) {
      for (int r = 0; r < kRegisters; ++r) {
        const V v = hn::LoadU(d, x + c + r * kLanes);
        sum[r] = hn::Add(sum[r], hn::Mul(v, v));
      }
    }
    for (int r = 0; r < kRegisters; ++r) hn::StoreU(sum[r], d, sums + r * kLanes);
    for (; c < count; ++c) sums[c % kPartials] += x[c] * x[c];
  }

  static void scale_by_norm(const Lane& /*lane*/, const job::NormScale& by, std::int64_t count, float* x) {
    const D d;
    const V factor = hn::Set(d, by.factor);
    std::int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) {
      V value = hn::Mul(hn::LoadU(d, x + c), factor);
      if (by.rounds_before) value = rounded_register(d, value, by.dtype);
      if (by.weight != nullptr) value = hn::Mul(value, hn::LoadU(d, by.weight + c));
      if (by.rounds) value = rounded_register(d, value, by.dtype);
      hn::StoreU(value, d, x + c);
    }
    const job::NormScale rest = {by.factor, by.weight == nullptr ? nullptr : by.weight + c, by.rounds_before, by.rounds, by.dtype};
    job::OneByOne::scale_by_norm({0, 1}, rest, count - c, x + c);
  }

  static void turn(const Lane& lane, const job::RotateJob& turn, const job::PreparedRow& row, const job::TurnedSpan& span) {
    if (turn.read != turn.write) return job::OneByOne::turn(lane, turn, row, span);
    const D d;
    const std::int64_t half = turn.pairs / turn.segments;
    for (std::int64_t base = 0; base < turn.pairs; base += half) {
      const float* const in = span.x + 2 * base;
      float* const out = span.y + 2 * base;
      std::int64_t i = 0;
      for (; i + kLanes <= half; i += kLanes) {
        const Pair<V> cos = {hn::LoadU(d, row.cos[0] + base + i), hn::LoadU(d, row.cos[1] + base + i)};
        const Pair<V> sin = {hn::LoadU(d, row.sin[0] + base + i), hn::LoadU(d, row.sin[1] + base + i)};
        if (turn.read == Pairing::half) {
          const Pair<V> p = turn_registers<V>(turn, {hn::LoadU(d, in + i), hn::LoadU(d, in + half + i)}, cos, sin, span.rounds);
          hn::StoreU(p.x, d, out + i);
          hn::StoreU(p.y, d, out + half + i);
        } else {
          Pair<V> p = {hn::Zero(d), hn::Zero(d)};
          hn::LoadInterleaved2(d, in + 2 * i, p.x, p.y);
          p = turn_registers<V>(turn, p, cos, sin, span.rounds);
          hn::StoreInterleaved2(p.x, p.y, d, out + 2 * i);
        }
      }
      for (; i < half; ++i) job::OneByOne::turn_pair(turn, row, base + i, span);
    }
  }

  static void copy(const Lane& /*lane*/, const float* x, std::int64_t count, float* y) { std::copy_n(x, count, y); }

  static float largest(const Lane& /*lane*/, const float* x, std::int64_t count) {
    const D d;
    V most = hn::Zero(d);
    std::int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) {
      const V magnitude = hn::Abs(hn::LoadU(d, x + c));
      most = hn::IfThenElse(hn::Gt(magnitude, most), magnitude, most);  // not Max: a NaN is no largest one
    }
    float lanes[kLanes];
    hn::StoreU(most, d, lanes);
    const float of_rest = job::OneByOne::largest({0, 1}, x + c, count - c);
    return std::max(of_rest, *std::max_element(lanes, lanes + kLanes));
  }

  static V scaled_register(const job::StoreRange& range, V value) {
    if (!range.scales) return value;
    const V scale = hn::Set(D(), range.scale);
    return range.multiplies ? hn::Mul(value, scale) : hn::Div(value, scale);
  }
  template <class Narrow>
  static std::int64_t narrow_to(const job::StoreRange& range, const float* x, std::int64_t count, const Narrow& narrow) {
    std::int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) narrow(scaled_register(range, hn::LoadU(D(), x + c)), c);
    return c;
  }
  template <class Bits>
  static void store_bytes(Bits bits, std::uint8_t* to) {
    hn::StoreU(hn::DemoteTo(D8(), hn::BitCast(hn::RebindToSigned<D>(), bits)), D8(), to);
  }
  /// Channels next to each other.
  static void store_together(Storage storage, const job::StoreRange& range, const float* x, std::int64_t count, std::byte* to) {
    const D d;
    auto* const words = reinterpret_cast<std::uint16_t*>(to);
    auto* const bytes = reinterpret_cast<std::uint8_t*>(to);
    std::int64_t c = 0;
    if (storage == Storage::f32) {
      c = narrow_to(range, x, count, [&](V v, std::int64_t i) { hn::StoreU(v, d, reinterpret_cast<float*>(to) + i); });
    } else if (storage == Storage::f16) {
      c = narrow_to(range, x, count, [&](V v, std::int64_t i) { hn::StoreU(demote_f16(d, v), D16(), words + i); });
    } else if (storage == Storage::bf16) {
      c = narrow_to(range, x, count, [&](V v, std::int64_t i) {
        hn::StoreU(hn::DemoteTo(D16(), hn::BitCast(hn::RebindToSigned<D>(), narrow_bf16(d, v))), D16(), words + i);
      });
    } else if (storage == Storage::f8_e4m3) {
      c = narrow_to(range, x, count, [&](V v, std::int64_t i) { store_bytes(narrow_f8<E4M3>(d, v), bytes + i); });
    } else if (storage == Storage::f8_e5m2) {
      c = narrow_to(range, x, count, [&](V v, std::int64_t i) { store_bytes(narrow_f8<E5M2>(d, v), bytes + i); });
    } else {
      c = narrow_to(range, x, count, [&](V v, std::int64_t i) { store_bytes(narrow_i8(d, v), bytes + i); });
    }
    for (; c < count; ++c) {
      const float value = range.scales ? math::scaled(x[c], range.scale, range.multiplies) : x[c];
      job::store_as(storage, to + c * bytes_of(storage), value);
    }
  }

  template <class T>
  static void scatter(const std::byte* from, std::int64_t count, std::byte* to, std::int64_t stride) {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  }
  static void store_apart(const job::PrepareSink& sink, const job::StoreRange& range, const float* x, std::int64_t count, std::byte* to) {
    alignas(64) std::byte staged[256 * sizeof(float)];
    const std::int64_t size = bytes_of(sink.storage);
    for (std::int64_t c = 0; c < count; c += 256) {
      const std::int64_t n = std::min<std::int64_t>(256, count - c);
      store_together(sink.storage, range, x + c, n, staged);
      std::byte* const at = to + c * sink.strides[4];
      size == 4   ? scatter<float>(staged, n, at, sink.strides[4])
      : size == 2 ? scatter<std::uint16_t>(staged, n, at, sink.strides[4])
                  : scatter<std::uint8_t>(staged, n, at, sink.strides[4]);
    }
  }
  static void store(const Lane& /*lane*/, const job::PrepareSink& sink, const job::StoreRange& range, const float* x) {
    const bool together = sink.strides[4] == bytes_of(sink.storage);
    for (std::int64_t done = 0; done < range.count;) {
      const std::int64_t c = range.first + done;
      const std::int64_t count = std::min(range.count - done, sink.inner - c % sink.inner);
      std::byte* const to = range.to + c / sink.inner * sink.strides[3] + c % sink.inner * sink.strides[4];
      together ? store_together(sink.storage, range, x + done, count, to) : store_apart(sink, range, x + done, count, to);
      done += count;
    }
  }
};
