// SPDX-License-Identifier: Apache-2.0
// The common norm: of whole heads, each by itself, then turned whole and stored in the tensor's dtype. A head is read twice, for its sum
// and for its values, which then stay in registers until they are stored. The operations and roundings of the steps, in their order.

struct WholeHeads : HeadSpans {
  static constexpr std::int64_t kStep = 2 * kLanes;

  /// Whether heads of an operand are such, with this row.
  static bool can(const job::PrepareJob& job, const job::PrepareOperand& operand, const job::PreparedRow& row) {
    const job::PrepareNorm& norm = operand.norm;
    const job::PrepareSink& sink = operand.sinks[0];
    const std::int64_t dim = operand.head_dim;
    if (norm.kind == HeadNorm::Kind::none || norm.over_all_heads || norm.width != dim || dim % math::kNormPartials != 0) return false;
    if (operand.scales || operand.rounds_last || operand.sink_count != 1) return false;
    if (sink.inner != dim || sink.strides[4] != bytes_of(sink.storage)) return false;
    return !operand.turns || turns_whole(job, dim, row);
  }

  static void make(const job::PrepareJob& job, const job::PreparedToken& token, const job::PreparedHeads& heads) {
    const job::PrepareOperand& operand = heads.operand;
    const job::TokenPlace place = operand.placed ? token.place : job::TokenPlace{token.batch, token.token};
    if (place.block < 0) return;
    const DType dtype = job.turn.dtype;
    with_dtype(dtype, [&](auto of) {
      with_dtype(rounding_of(operand.norm.casts_before_weight, dtype), [&](auto before) {
        with_dtype(rounding_of(!job.kept && operand.turns, dtype), [&](auto between) {
          if constexpr ((before.value == of.value || before.value == DType::f32) &&
                        (between.value == of.value || between.value == DType::f32)) {
            make_heads_as<of.value, before.value, between.value>(job, token, heads, place);
          }
        });
      });
    });
  }

 private:
  static bool turns_whole(const job::PrepareJob& job, std::int64_t dim, const job::PreparedRow& row) {
    const job::RotateJob& turn = job.turn;
    const bool differ = row.cos[0] != row.cos[1] || row.sin[0] != row.sin[1];
    return !job.rotation_first && 2 * turn.pairs == dim && turn.segments == 1 && turn.read == Pairing::half &&
           turn.write == Pairing::half && turn.pairs % kStep == 0 && !turn.rounds_products && !differ;
  }

  // Two registers of channels next to each other.
  template <DType dtype>
  static HWY_INLINE Pair<V> load_two(const std::byte* in, std::int64_t c) {
#if HWY_TARGET == HWY_NEON
    if constexpr (dtype != DType::f32) {
      const Eight eight = widen_eight<dtype>(reinterpret_cast<const std::uint16_t*>(in) + c);
      return {eight.first, eight.last};
    }
#endif
    return {widen_register<dtype>(in, c), widen_register<dtype>(in, c + kLanes)};
  }
  template <DType dtype>
  static HWY_INLINE void store_two(Pair<V> value, std::byte* out, std::int64_t c) {
    const D d;
    [[maybe_unused]] auto* const words = reinterpret_cast<std::uint16_t*>(out) + c;
    if constexpr (dtype == DType::f32) {
      hn::StoreU(value.x, d, reinterpret_cast<float*>(out) + c);
      hn::StoreU(value.y, d, reinterpret_cast<float*>(out) + c + kLanes);
    } else {
#if HWY_TARGET == HWY_NEON
      narrow_eight<dtype>({value.x, value.y}, words);
#else
      narrow_one<dtype>(value.x, words);
      narrow_one<dtype>(value.y, words + kLanes);
#endif
    }
  }
  /// Of a bfloat16 tensor: no NaN has low bits set.
  template <DType dtype>
  static HWY_INLINE void narrow_one(V value, std::uint16_t* to) {
    const D d;
    if constexpr (dtype == DType::f16) {
      hn::StoreU(demote_f16(d, value), D16(), to);
    } else {
      hn::StoreU(hn::DemoteTo(D16(), hn::BitCast(hn::RebindToSigned<D>(), hn::ShiftRight<16>(round_bf16(d, value)))), D16(), to);
    }
  }

  /// The 32 sums of squares, and their tree.
  template <DType dtype>
  static HWY_INLINE float sum_of_squares(const std::byte* in, std::int64_t count) {
    constexpr int kRegisters = static_cast<int>(math::kNormPartials / kLanes);
    alignas(64) float sums[math::kNormPartials];
    // By numbers that the compiler knows: the sums are to stay in registers.
    [&]<int... r>(std::integer_sequence<int, r...>) {
      const D d;
      V sum[] = {(void(r), hn::Zero(d))..., (void(r), hn::Zero(d))...};
      for (std::int64_t c = 0; c < count; c += math::kNormPartials) (add_two<dtype>(in, c + r * kStep, sum[2 * r], sum[2 * r + 1]), ...);
      (hn::StoreU(sum[2 * r], d, sums + r * kStep), ...);
      (hn::StoreU(sum[2 * r + 1], d, sums + r * kStep + kLanes), ...);
    }(std::make_integer_sequence<int, kRegisters / 2>());
    return fold(sums);
  }
  template <DType dtype>
  static HWY_INLINE void add_two(const std::byte* in, std::int64_t c, V& first, V& last) {
    const Pair<V> x = load_two<dtype>(in, c);
    first = hn::Add(first, hn::Mul(x.x, x.x));
    last = hn::Add(last, hn::Mul(x.y, x.y));
  }

  template <DType dtype, DType before, DType between>
  static HWY_INLINE Pair<V> normed_two(const std::byte* in, std::int64_t c, V factor, const float* weight) {
    const D d;
    const Pair<V> x = load_two<dtype>(in, c);
    const V first = hn::Mul(rounded_register<before>(d, hn::Mul(x.x, factor)), hn::LoadU(d, weight + c));
    const V last = hn::Mul(rounded_register<before>(d, hn::Mul(x.y, factor)), hn::LoadU(d, weight + c + kLanes));
    return {rounded_register<between>(d, first), rounded_register<between>(d, last)};
  }

  struct Head {
    const std::byte* in;
    std::byte* out;
    float factor;
    const float* weight;
  };
  template <DType dtype, DType before, DType between>
  static HWY_INLINE void turn_head(const job::PrepareJob& job, const job::PreparedRow& row, const Head& head) {
    const D d;
    const std::int64_t half = job.turn.pairs;
    const bool identities = !job.turn.turns_all && row.identities;
    const V factor = hn::Set(d, head.factor);
    for (std::int64_t i = 0; i < half; i += kStep) {
      const Pair<V> x = normed_two<dtype, before, between>(head.in, i, factor, head.weight);
      const Pair<V> y = normed_two<dtype, before, between>(head.in, half + i, factor, head.weight);
      const Pair<V> first =
          turn_registers<DType::f32, V>(identities, {x.x, y.x}, hn::LoadU(d, row.cos[0] + i), hn::LoadU(d, row.sin[0] + i));
      const Pair<V> last = turn_registers<DType::f32, V>(identities, {x.y, y.y}, hn::LoadU(d, row.cos[0] + i + kLanes),
                                                         hn::LoadU(d, row.sin[0] + i + kLanes));
      store_two<dtype>({first.x, last.x}, head.out, i);
      store_two<dtype>({first.y, last.y}, head.out, half + i);
    }
  }

  template <DType dtype, DType before, DType between>
  static void make_heads_as(const job::PrepareJob& job, const job::PreparedToken& token, const job::PreparedHeads& heads,
                            const job::TokenPlace& place) {
    const job::PrepareOperand& operand = heads.operand;
    const job::PrepareNorm& norm = operand.norm;
    const job::PrepareSink& sink = operand.sinks[0];
    alignas(64) float weight[job::kMaxPreparedChannels];
    if (norm.weight == nullptr) std::fill_n(weight, operand.head_dim, 1.0F);  // x times 1 is x
    if (norm.weight != nullptr && norm.weight_head_stride == 0) weights({0, 1}, norm, 0, weight);
    for (std::int64_t h = heads.first; h < operand.heads; h += heads.step) {
      if (norm.weight != nullptr && norm.weight_head_stride != 0) weights({0, 1}, norm, h, weight);
      const std::byte* const in =
          operand.in + token.batch * operand.in_strides[0] + token.token * operand.in_strides[1] + h * operand.in_strides[2];
      std::byte* const out = sink.data + place.block * sink.strides[0] + place.token * sink.strides[1] + h * sink.strides[2];
      const float factor = job::norm_factor(norm, sum_of_squares<dtype>(in, operand.head_dim), operand.head_dim);
      if (operand.turns) {
        turn_head<dtype, before, between>(job, token.row, {in, out, factor, weight});
        continue;
      }
      const V by = hn::Set(D(), factor);
      for (std::int64_t c = 0; c < operand.head_dim; c += kStep) {
        store_two<dtype>(normed_two<dtype, before, DType::f32>(in, c, by, weight), out, c);
      }
    }
  }
};
