// SPDX-License-Identifier: Apache-2.0
// The steps of job::OneByOne by registers: the same operations in the same order, and the rest of a span one by one.

#if HWY_TARGET == HWY_NEON
#include "math/half_neon.inl"
#endif

template <DType dtype, class D, class V>
HWY_INLINE V rounded_register(D d, V value) {
#if HWY_TARGET == HWY_NEON
  if constexpr (dtype == DType::bf16) {
    const uint32x4_t bits = vreinterpretq_u32_f32(value.raw);
    return V(vreinterpretq_f32_u32(vandq_u32(vaddq_u32(bits, bf16_rounding(bits)), vdupq_n_u32(0xffff0000))));
  }
#endif
  if constexpr (dtype == DType::bf16) return rounded_bf16(d, value);  // of bfloat16 tensors: no NaN among them has low bits set
  if constexpr (dtype == DType::f16) return promote_f16(d, demote_f16(d, value));
  return value;
}

/// body with the dtype as a constant: loops must not ask for it.
template <class Body>
HWY_INLINE void with_dtype(DType dtype, const Body& body) {
  if (dtype == DType::bf16) return body(std::integral_constant<DType, DType::bf16>());
  if (dtype == DType::f16) return body(std::integral_constant<DType, DType::f16>());
  body(std::integral_constant<DType, DType::f32>());
}
/// f32 where nothing is rounded.
inline DType rounding_of(bool rounds, DType dtype) { return rounds ? dtype : DType::f32; }

/// A pair of registers turned by one angle, identities left as they are.
template <DType rounding, class V>
HWY_INLINE Pair<V> turn_registers(bool identities, Pair<V> p, V cos, V sin) {
  const hn::DFromV<V> d;
  Pair<V> turned = rotate<V>(p, {cos, cos}, {sin, sin});
  turned = {rounded_register<rounding>(d, turned.x), rounded_register<rounding>(d, turned.y)};
  if (!identities) return turned;
  const auto same = hn::And(hn::Eq(cos, hn::Set(d, 1.0F)), hn::Eq(sin, hn::Zero(d)));
  return {hn::IfThenElse(same, p.x, turned.x), hn::IfThenElse(same, p.y, turned.y)};
}

struct HeadSpans {
  using D = hn::ScalableTag<float>;
  using D16 = hn::Rebind<std::uint16_t, D>;
  using D8 = hn::Rebind<std::uint8_t, D>;
  using V = hn::Vec<D>;
  using Lane = job::TeamLane;
  static constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(D()));

  template <DType dtype>
  static HWY_INLINE V widen_register(const std::byte* in, std::int64_t c) {
    const D d;
    if constexpr (dtype == DType::f32) {
      return hn::LoadU(d, reinterpret_cast<const float*>(in) + c);
    } else {
      const auto bits = hn::LoadU(D16(), reinterpret_cast<const std::uint16_t*>(in) + c);
      if constexpr (dtype == DType::f16) return promote_f16(d, bits);
      if constexpr (dtype == DType::bf16) return widen_bf16(d, hn::PromoteTo(hn::RebindToUnsigned<D>(), bits));
    }
  }
  static void widen(const Lane& /*lane*/, DType dtype, const std::byte* in, std::int64_t count, float* x) {
    std::int64_t c = 0;
    with_dtype(dtype, [&](auto of) {
#if HWY_TARGET == HWY_NEON
      if constexpr (of.value != DType::f32) {
        for (; c + 8 <= count; c += 8) {
          const Eight eight = widen_eight<of.value>(reinterpret_cast<const std::uint16_t*>(in) + c);
          hn::StoreU(eight.first, D(), x + c);
          hn::StoreU(eight.last, D(), x + c + 4);
        }
      }
#endif
      for (; c + kLanes <= count; c += kLanes) hn::StoreU(widen_register<of.value>(in, c), D(), x + c);
    });
    for (; c < count; ++c) x[c] = job::widened(dtype, in, c);
  }
  /// In place there is nothing to do.
  static void move(const Lane& lane, const job::PrepareSink& sink, const std::byte* in, std::byte* to) {
    const std::int64_t size = bytes_of(sink.storage);
    if (sink.strides[4] != size || sink.inner != sink.count) return job::OneByOne::move(lane, sink, in, to);
    if (to != in) std::memcpy(to, in, static_cast<std::size_t>(sink.count * size));
  }
  static void weights(const Lane& /*lane*/, const job::PrepareNorm& norm, std::int64_t head, float* weight) {
    const D d;
    const std::byte* const in = norm.weight + head * norm.weight_head_stride;
    const V nan = hn::BitCast(d, hn::Set(hn::RebindToUnsigned<D>(), 0x7fc00000U));
    std::int64_t c = 0;
    with_dtype(norm.weight_dtype, [&](auto of) {
      for (; c + kLanes <= norm.width; c += kLanes) {
        const V read = widen_register<of.value>(in, c);
        const V applied = norm.one_plus ? hn::Add(hn::Set(d, 1.0F), read) : read;
        hn::StoreU(hn::IfThenElse(hn::Eq(applied, applied), applied, nan), d, weight + c);
      }
    });
    for (; c < norm.width; ++c) weight[c] = math::applied_weight(job::widened(norm.weight_dtype, in, c), norm.one_plus);
  }

  static void add_squares(const Lane& lane, const float* x, std::int64_t count, std::int64_t first, float* sums) {
    constexpr std::int64_t kPartials = math::kNormPartials;
    constexpr int kRegisters = static_cast<int>(kPartials / kLanes);
    if (first % kPartials != 0) return job::OneByOne::add_squares(lane, x, count, first, sums);
    std::int64_t c = 0;
    // By numbers that the compiler knows: the sums are to stay in registers.
    [&]<int... r>(std::integer_sequence<int, r...>) {
      const D d;
      V sum[] = {hn::LoadU(d, sums + r * kLanes)...};
      for (; c + kPartials <= count; c += kPartials) {
        ((sum[r] = hn::Add(sum[r], hn::Mul(hn::LoadU(d, x + c + r * kLanes), hn::LoadU(d, x + c + r * kLanes)))), ...);
      }
      (hn::StoreU(sum[r], d, sums + r * kLanes), ...);
    }(std::make_integer_sequence<int, kRegisters>());
    for (; c < count; ++c) sums[c % kPartials] += x[c] * x[c];
  }

  /// The tree of math::fold_partials, registers first.
  static float fold(float* sums) {
    const D d;
    constexpr int kRegisters = static_cast<int>(math::kNormPartials / kLanes);
    V sum[kRegisters];
    for (int r = 0; r < kRegisters; ++r) sum[r] = hn::LoadU(d, sums + r * kLanes);
    for (int half = kRegisters / 2; half > 0; half /= 2) {
      for (int r = 0; r < half; ++r) sum[r] = hn::Add(sum[r], sum[r + half]);
    }
    hn::StoreU(sum[0], d, sums);
    return math::fold_partials(sums, static_cast<int>(kLanes));
  }

  template <DType before, DType after>
  static HWY_INLINE std::int64_t scale_registers(const job::NormScale& by, std::int64_t count, float* x) {
    const D d;
    const V factor = hn::Set(d, by.factor);
    std::int64_t c = 0;
    if (by.weight == nullptr) {
      for (; c + kLanes <= count; c += kLanes) {
        const V value = rounded_register<before>(d, hn::Mul(hn::LoadU(d, x + c), factor));
        hn::StoreU(rounded_register<after>(d, value), d, x + c);
      }
    } else {
      for (; c + kLanes <= count; c += kLanes) {
        const V value = rounded_register<before>(d, hn::Mul(hn::LoadU(d, x + c), factor));
        hn::StoreU(rounded_register<after>(d, hn::Mul(value, hn::LoadU(d, by.weight + c))), d, x + c);
      }
    }
    return c;
  }
  static void scale_by_norm(const Lane& /*lane*/, const job::NormScale& by, std::int64_t count, float* x) {
    std::int64_t c = 0;
    with_dtype(rounding_of(by.rounds_before, by.dtype), [&](auto before) {
      with_dtype(rounding_of(by.rounds, by.dtype), [&](auto after) { c = scale_registers<before.value, after.value>(by, count, x); });
    });
    const job::NormScale rest = {by.factor, by.weight == nullptr ? nullptr : by.weight + c, by.rounds_before, by.rounds, by.dtype};
    job::OneByOne::scale_by_norm({0, 1}, rest, count - c, x + c);
  }

  /// A segment of `half` pairs, both lanes of each by one angle.
  template <DType rounding>
  static HWY_INLINE std::int64_t turn_segment(const job::RotateJob& turn, const job::PreparedRow& row, std::int64_t base,
                                              const job::TurnedSpan& span) {
    const D d;
    const std::int64_t half = turn.pairs / turn.segments;
    const bool identities = !turn.turns_all && row.identities;
    const float* const in = span.x + 2 * base;
    float* const out = span.y + 2 * base;
    std::int64_t i = 0;
    for (; turn.read == Pairing::half && i + kLanes <= half; i += kLanes) {
      const Pair<V> p = turn_registers<rounding, V>(identities, {hn::LoadU(d, in + i), hn::LoadU(d, in + half + i)},
                                                    hn::LoadU(d, row.cos[0] + base + i), hn::LoadU(d, row.sin[0] + base + i));
      hn::StoreU(p.x, d, out + i);
      hn::StoreU(p.y, d, out + half + i);
    }
    for (; i + kLanes <= half; i += kLanes) {
      Pair<V> p = {hn::Zero(d), hn::Zero(d)};
      hn::LoadInterleaved2(d, in + 2 * i, p.x, p.y);
      p = turn_registers<rounding, V>(identities, p, hn::LoadU(d, row.cos[0] + base + i), hn::LoadU(d, row.sin[0] + base + i));
      hn::StoreInterleaved2(p.x, p.y, d, out + 2 * i);
    }
    return i;
  }
  static void turn(const Lane& lane, const job::RotateJob& turn, const job::PreparedRow& row, const job::TurnedSpan& span) {
    const bool differ = row.cos[0] != row.cos[1] || row.sin[0] != row.sin[1];
    if (turn.read != turn.write || turn.rounds_products || differ) return job::OneByOne::turn(lane, turn, row, span);
    const std::int64_t half = turn.pairs / turn.segments;
    with_dtype(rounding_of(span.rounds, turn.dtype), [&](auto rounding) {
      for (std::int64_t base = 0; base < turn.pairs; base += half) {
        for (std::int64_t i = turn_segment<rounding.value>(turn, row, base, span); i < half; ++i) {
          job::OneByOne::turn_pair(turn, row, base + i, span);
        }
      }
    });
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

  /// narrow(register, channel) for whole registers, scaled before.
  template <class Narrow>
  static HWY_INLINE std::int64_t narrow_to(const job::StoreRange& range, const float* x, std::int64_t count, const Narrow& narrow) {
    const D d;
    const V scale = hn::Set(d, range.scale);
    std::int64_t c = 0;
    if (!range.scales) {
      for (; c + kLanes <= count; c += kLanes) narrow(hn::LoadU(d, x + c), c);
    } else if (range.multiplies) {
      for (; c + kLanes <= count; c += kLanes) narrow(hn::Mul(hn::LoadU(d, x + c), scale), c);
    } else {
      for (; c + kLanes <= count; c += kLanes) narrow(hn::Div(hn::LoadU(d, x + c), scale), c);
    }
    return c;
  }
  template <class Bits>
  static HWY_INLINE void store_bytes(Bits bits, std::uint8_t* to) {
    hn::StoreU(hn::DemoteTo(D8(), hn::BitCast(hn::RebindToSigned<D>(), bits)), D8(), to);
  }
  /// Values of a bfloat16 tensor, whose NaN may be rounded.
  static HWY_INLINE std::int64_t narrow_bf16_tensor(const float* x, std::int64_t count, std::uint16_t* to) {
    const D d;
    std::int64_t c = 0;
#if HWY_TARGET == HWY_NEON
    for (; c + 8 <= count; c += 8) narrow_eight<DType::bf16>({hn::LoadU(d, x + c), hn::LoadU(d, x + c + 4)}, to + c);
#endif
    for (; c + kLanes <= count; c += kLanes) {
      const auto bits = hn::ShiftRight<16>(round_bf16(d, hn::LoadU(d, x + c)));
      hn::StoreU(hn::DemoteTo(D16(), hn::BitCast(hn::RebindToSigned<D>(), bits)), D16(), to + c);
    }
    return c;
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
    } else if (storage == Storage::bf16 && range.bf16_nan) {
      c = narrow_bf16_tensor(x, count, words);
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
      job::store_bits(storage, to + c * bytes_of(storage), job::stored_bits(storage, value));
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
