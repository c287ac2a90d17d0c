// SPDX-License-Identifier: Apache-2.0
// MLA as models have it (latent/work.hpp says which calls these are): k of 512 latent channels and 64 that are turned, heads of 64 channels
// of q that are turned whole. A warp has a token, or a piece of it; its vectors stay in registers from load to store, and what is known is
// neither read nor asked. Written for any executor of a warp; tests run it on the host.
#pragma once

#include "cuda/prepare/plain/head.hpp"
#include "cuda/prepare/squads/make.hpp"

namespace phasor::cuda {

constexpr int kLatentLanes = 32;
constexpr int kLatentChannels = 512;  // those that are normed
constexpr int kTurnedChannels = 64;
constexpr int kTurnedPairs = kTurnedChannels / 2;  // a lane makes the sine of one
constexpr int kTurnedVectors = kTurnedChannels / 8;
constexpr int kTurnedHeads = kLatentLanes / kTurnedVectors;                  // that the lanes have at a time
constexpr int kLatentOfLane = kLatentChannels / 8 / kLatentLanes;            // vectors
constexpr int kLatentGroups = 4;                                             // of 128 channels, with a scale each
constexpr int kGroupLanes = kLatentLanes / (kLatentGroups / kLatentOfLane);  // lanes that have a group together

/// What a launch decides, and all that a warp reads of it: small, since a launch finds none of its parameter in a cache. Strides of tokens
/// and batch rows that are read in vectors, others in bytes.
struct PlainLatentShape {
  int tokens = 0;
  int turned_heads = 0;  // that of k, and behind it those of q
  int apart = 0;         // 1: the first piece is the latent alone
  bool norms = false;
  float epsilon = 0;
  SineSource sines;
  SlotSource slots;
  const std::byte* k_in = nullptr;
  const std::byte* q_in = nullptr;
  unsigned k_in_batch = 0;
  unsigned k_in_token = 0;
  unsigned q_in_batch = 0;
  unsigned q_in_token = 0;
  int q_in_head = 0;
  int q_out_head = 0;
  const std::byte* weight = nullptr;
  std::byte* latent_out = nullptr;
  std::byte* turned_out = nullptr;  // of k; as far from token to token
  std::byte* scales_out = nullptr;  // likewise; of e4m3
  int64_t k_out_block = 0;
  int64_t k_out_token = 0;
  float least_scale = 0;
  std::byte* q_out = nullptr;
  int64_t q_out_batch = 0;
  int64_t q_out_token = 0;
};

/// What a kernel knows before it runs. `rounds`: times that the lanes take heads that are turned. `codes`: the latent is stored as e4m3
/// with scales that are made.
template <DType dtype_, int rounds_, bool codes_>
struct PlainLatentKnows {
  static constexpr DType dtype = dtype_;
  static constexpr int rounds = rounds_;
  static constexpr bool codes = codes_;
  static constexpr bool few = rounds == 1;  // tokens: each waits for memory, so weights are asked for with the rest
};

/// What lanes tell each other.
struct alignas(16) PlainLatentMemory {
  Words row[kLatentChannels / 8];
  CosSin<float> values[kTurnedPairs];
};

/// The greater magnitudes of two words' numbers; of a NaN and a number the number.
template <DType dtype>
PHASOR_HD inline std::uint32_t greater_magnitudes(std::uint32_t a, std::uint32_t b) {
  a &= 0x7fff7fffU;
  b &= 0x7fff7fffU;
#ifdef __CUDA_ARCH__
  std::uint32_t most;
  if constexpr (dtype == DType::f16) {
    asm("max.f16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  } else {
    asm("max.bf16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
  }
  return most;
#else
  // Magnitudes are in the order of their bits, and NaNs behind all of them.
  const std::uint32_t infinity = dtype == DType::f16 ? 0x7c00U : 0x7f80U;
  const auto greater = [&](std::uint32_t x, std::uint32_t y) {
    if (x > infinity) return y;
    return y > infinity || x > y ? x : y;
  };
  return greater(a & 0xffffU, b & 0xffffU) | greater(a >> 16, b >> 16) << 16;
#endif
}

template <class Knows>
struct PlainLatentMaker {
  static constexpr DType dtype = Knows::dtype;
  struct State {
    Words latent[kLatentOfLane];
    Words weights[kLatentOfLane];  // few tokens
    Words turned[Knows::rounds];
    math::u64 slot;
    int64_t to;          // bytes from the first token's place in the cache to this one's, or -1: it has none
    std::uint32_t most;  // the largest magnitudes, of the lane's first vector in the low half and of its second
    std::uint32_t shown[1];
    AppliedScale own;  // the scale that the lane made, of one of its vectors
    float other[2];    // that of the other, as another lane made it, and its reciprocal
  };
  const PlainLatentShape& shape;
  SquadWorkAt work;
  SquadPlace place;
  int piece;
  PlainLatentMemory& memory;

  PHASOR_HD bool has_latent() const { return piece == 0; }
  PHASOR_HD int first_turned() const { return (piece - shape.apart) * (kTurnedHeads * Knows::rounds); }
  PHASOR_HD bool has_turned() const { return first_turned() >= 0; }
  PHASOR_HD const std::byte* token_in(const std::byte* in, unsigned in_batch, unsigned in_token) const {
    const math::u64 before =
        math::u64{static_cast<unsigned>(place.batch)} * in_batch + math::u64{static_cast<unsigned>(place.token)} * in_token;
    return in + before * sizeof(Words);
  }
  PHASOR_HD const std::byte* key_in() const { return token_in(shape.k_in, shape.k_in_batch, shape.k_in_token); }

  /// The head that a lane has in its first round, counted from that of k; the next one is kTurnedHeads on. It may be behind the last.
  PHASOR_HD int turned_head(int lane) const { return first_turned() + lane / kTurnedVectors; }

  static constexpr unsigned kRests = 1;
  static constexpr unsigned kDoubts = 2;
  /// Everything that is read is asked for; the sines are made while it comes.
  template <class Warp>
  PHASOR_HD unsigned begin(int lane, State& state, Warp& warp) const {
    Asked asked{};
    if (has_turned()) asked.step = work.steps[lane];
    warp.depend();
    if (has_turned()) asked.position = position_bits(shape.sines, 0, place.batch, place.token);
    load(lane, state);
    if (!has_turned()) return 0;
    CosSin<float> value;
    const bool doubt = sine_of(shape.sines, asked, value);
    memory.values[lane] = value;
    return (doubt ? kDoubts : 0U) | (math::is_identity(value.cos, value.sin) ? kRests : 0U);
  }
  /// Every vector has a value then: what was there before would be kept else, over a call, too.
  PHASOR_HD void load(int lane, State& state) const {
    const int byte = lane % kTurnedVectors * static_cast<int>(sizeof(Words));
    if constexpr (Knows::few) state.slot = asked_slot();
    unrolled<kLatentOfLane>([&](auto i) { state.latent[i] = state.weights[i] = {}; });
    unrolled<Knows::rounds>([&](auto i) { state.turned[i] = {}; });
    if (has_latent()) {
      const std::byte* const first = key_in() + lane * sizeof(Words);
      unrolled<kLatentOfLane>([&](auto i) { state.latent[i] = load_words<false>(first + i * kLatentLanes * sizeof(Words)); });
      if (Knows::few && shape.norms) load_weights(lane, state);
    }
    if (!has_turned()) return;
    const std::byte* const q = token_in(shape.q_in, shape.q_in_batch, shape.q_in_token) + byte;
    const int last = shape.turned_heads - 1;
    unrolled<Knows::rounds>([&](auto i) {
      // Behind the last head is the last again: a vector that was copied from another would wait for it.
      const int head = turned_head(lane) + i * kTurnedHeads;
      const std::byte* from = q + int64_t{(head < last ? head : last) - 1} * shape.q_in_head;
      if (i == 0 && head == 0) from = key_in() + (kLatentChannels * 2 + byte);
      state.turned[i] = load_words<false>(from);
    });
  }

  /// As it lies in memory: nothing is done to it before it is needed, which would wait for it.
  PHASOR_HD math::u64 asked_slot() const {
    const SlotSource& slots = shape.slots;
    if (slots.data == nullptr) return 0;
    const int64_t index = int64_t{place.batch} * slots.tokens + place.token;
    if (index >= slots.size) return ~math::u64{0};
    return slots.narrow ? static_cast<const math::u32*>(slots.data)[index] : static_cast<const math::u64*>(slots.data)[index];
  }
  PHASOR_HD int64_t found_place(math::u64 bits) const {
    const SlotSource& slots = shape.slots;
    if (slots.data == nullptr) {
      const job::TokenPlace at = job::place_of<true>(work.job().places, place.batch, place.token, work.job().turn.tokens);
      return at.block < 0 ? -1 : at.block * shape.k_out_block + at.token * shape.k_out_token;
    }
    const int64_t slot = slots.narrow ? int64_t{static_cast<std::int32_t>(bits)} : static_cast<int64_t>(bits);
    if (slot < 0) return -1;
    return (slot >> slots.shift) * shape.k_out_block + (slot & ((int64_t{1} << slots.shift) - 1)) * shape.k_out_token;
  }

  // ---- The latent ----

  /// Shows the others what is summed. Where there are fewer registers, the slot would be spilled before, and a spill waits for its load.
  PHASOR_HD void show(int lane, State& state) const {
    forget(lane);
    unrolled<kLatentOfLane>([&](auto i) {
      still_narrow(state.latent[i]);
      if (has_latent()) memory.row[lane + i * kLatentLanes] = state.latent[i];
    });
    if constexpr (!Knows::few) state.slot = asked_slot();
  }
  PHASOR_HD float channel(int c) const {
#ifdef __CUDA_ARCH__
    return Element<dtype>::widen(reinterpret_cast<const std::uint16_t*>(memory.row)[c]);
#else
    return Element<dtype>::widen(static_cast<std::uint16_t>(memory.row[c / 8].at[c % 8 / 2] >> 16 * (c & 1)));
#endif
  }
  /// The norm's partial sums, a lane each.
  PHASOR_HD float squares(int lane) const {
    float sum = 0;
    unrolled<kLatentChannels / math::kNormPartials>([&](auto i) {
      const float x = channel(lane + i * math::kNormPartials);
      sum += x * x;
    });
    return sum;
  }
  PHASOR_HD void load_weights(int lane, State& state) const {
    const std::byte* const first = shape.weight + lane * sizeof(Words);
    unrolled<kLatentOfLane>([&](auto i) { state.weights[i] = load_words<false>(first + i * kLatentLanes * sizeof(Words)); });
  }
  /// Rounded before the weights and behind them.
  PHASOR_HD void norm(int lane, float factor, State& state) const {
    if (!Knows::few) load_weights(lane, state);
    unrolled<kLatentOfLane>([&](auto v) {
      unrolled<4>([&](auto k) {
        std::uint32_t& word = state.latent[v].at[k];
        const TwoFloats<dtype> x(word);
        word = times_weights<dtype>(Element<dtype>::narrow(x.low * factor, x.high * factor), state.weights[v].at[k]);
      });
    });
  }
  PHASOR_HD void store(int lane, const State& state) const {
    if (state.to < 0) return;
    std::byte* const first = shape.latent_out + state.to + lane * sizeof(Words);
    unrolled<kLatentOfLane>([&](auto i) { store_words<false>(first + i * kLatentLanes * sizeof(Words), state.latent[i]); });
  }

  // ---- Its scales: a lane's first vector is of one of the first groups, its second of one of the last ----

  PHASOR_HD void find_largest(State& state) const {
    const auto of_vector = [](const Words& words) {
      return greater_magnitudes<dtype>(greater_magnitudes<dtype>(words.at[0], words.at[1]),
                                       greater_magnitudes<dtype>(words.at[2], words.at[3]));
    };
    const std::uint32_t first = of_vector(state.latent[0]);
    const std::uint32_t second = of_vector(state.latent[1]);
    state.most = greater_magnitudes<dtype>((first & 0xffffU) | second << 16, first >> 16 | (second & 0xffff0000U));
    state.shown[0] = state.most;
  }
  static PHASOR_HD void take_larger(State& state) {
    state.most = greater_magnitudes<dtype>(state.most, state.shown[0]);
    state.shown[0] = state.most;
  }
  /// Half of a group's lanes make the scale of their first vectors' group, half that of their second's.
  static PHASOR_HD bool makes_second(int lane) { return lane % kGroupLanes >= kGroupLanes / 2; }
  PHASOR_HD void make_scale(int lane, State& state) const {
    const TwoFloats<dtype> most(greater_magnitudes<dtype>(state.most, 0));  // NaNs are none
    const float scale = math::made_scale(makes_second(lane) ? most.high : most.low, job::largest_of(Storage::f8_e4m3), shape.least_scale);
    state.own = {scale, 1.0F / scale};
    state.other[0] = state.own.by;
    state.other[1] = state.own.reciprocal;
  }
  PHASOR_HD void store_codes(int lane, const State& state) const {
    if (state.to < 0) return;
    std::byte* const first = shape.latent_out + state.to + lane * (sizeof(Words) / 2);
    unrolled<kLatentOfLane>([&](auto v) {
      const bool made_it = makes_second(lane) == (v == 1);
      const float scale = made_it ? state.own.by : state.other[0];
      const float reciprocal = made_it ? state.own.reciprocal : state.other[1];
      Vector<std::uint32_t, 2> codes = {};
      asked_once(math::has_short_quotients(scale), [&](auto is_short) {
        const auto scaled = [&](float x) {
          if constexpr (decltype(is_short)::value) return math::small_quotient(x, scale, reciprocal);
          return math::any_small_quotient(x, scale);
        };
        unrolled<4>([&](auto k) {
          const TwoFloats<dtype> x(state.latent[v].at[k]);
          codes.at[k / 2] |= two_codes<Storage::f8_e4m3>(scaled(x.low), scaled(x.high)) << (k % 2 * 16);
        });
      });
      *reinterpret_cast<Vector<std::uint32_t, 2>*>(first + v * kLatentLanes * (sizeof(Words) / 2)) = codes;
      if (lane % kGroupLanes == 0) {
        const int group = lane / kGroupLanes + v * (kLatentGroups / kLatentOfLane);
        reinterpret_cast<float*>(shape.scales_out + state.to)[group] = scale;
      }
    });
  }

  // ---- What is turned ----

  template <bool rests>
  PHASOR_HD void turn_all(int lane, State& state) const {
    forget(lane);
    constexpr int kPairs = kTurnedPairs / kTurnedVectors;
    const auto by = values_at<float, kPairs>(memory.values + lane % kTurnedVectors * kPairs);
    const int byte = lane % kTurnedVectors * static_cast<int>(sizeof(Words));
    const int first = turned_head(lane);
    std::byte* const q =
        shape.q_out + (place.batch * shape.q_out_batch + place.token * shape.q_out_token + byte + int64_t{first - 1} * shape.q_out_head);
    unrolled<Knows::rounds>([&](auto i) {
      if (first + i * kTurnedHeads >= shape.turned_heads) return;
      Words& words = state.turned[i];
      still_narrow(words);
      unrolled<kPairs>([&](auto k) {
        if (rests && math::is_identity(by.at[k].cos, by.at[k].sin)) return;
        TwoFloats<dtype> x(words.at[k]);
        turn(x.low, x.high, by.at[k]);
        words.at[k] = Element<dtype>::narrow(x.low, x.high);
      });
      std::byte* out = q + i * kTurnedHeads * shape.q_out_head;
      if (i == 0 && first == 0) out = state.to < 0 ? nullptr : shape.turned_out + state.to + byte;
      if (i > 0 || out != nullptr) store_words<false>(out, words);
    });
  }
};

/// Stored by scales that are made of it.
template <class Knows, class Warp, class Held>
PHASOR_HD inline void store_by_scales(const PlainLatentMaker<Knows>& maker, Held& held, Warp& warp) {
  using State = typename PlainLatentMaker<Knows>::State;
  warp.each([&](int lane) { maker.find_largest(held.of(lane)); });
  unrolled<4>([&](auto step) {
    warp.template swap<(kGroupLanes / 2 >> step), 1>(held, [](State& state) { return state.shown; });
    warp.each([&](int lane) { maker.take_larger(held.of(lane)); });
  });
  warp.each([&](int lane) { maker.make_scale(lane, held.of(lane)); });
  warp.template swap<kGroupLanes / 2, 2>(held, [](State& state) { return state.other; });
  warp.each([&](int lane) { maker.store_codes(lane, held.of(lane)); });
}
/// Warp: as of prepare_latent; `depend()` waits for whoever wrote what is read; PerThread<S> is a lane's own S; `swap<apart, count>(held,
/// numbers)` makes of the first of numbers(state) those of the lane `apart` away.
template <class Knows, class Warp>
PHASOR_HD inline void prepare_plain_latent(const PlainLatentMaker<Knows>& maker, Warp& warp) {
  using Maker = PlainLatentMaker<Knows>;
  using State = typename Maker::State;
  typename Warp::template PerThread<State> held;
  const unsigned seen = warp.either([&](int lane) { return maker.begin(lane, held.of(lane), warp); });
  // Vectors are read once more then: kept over a call they would be spilled, and a spill waits for its load, in every call.
  if ((seen & Maker::kDoubts) != 0) {
    warp.again(maker.work, maker.place, maker.memory.values);
    warp.each([&](int lane) { maker.load(lane, held.of(lane)); });
  }
  Maker later = maker;
  forget(later.place.token);
  warp.each([&](int lane) { later.show(lane, held.of(lane)); });
  warp.wait();
  if (later.has_latent() && later.shape.norms) {
    const float sum = warp.sum([&](int lane) { return later.squares(lane); });
    const float factor = math::rms_factor(sum, kLatentChannels, later.shape.epsilon);
    warp.each([&](int lane) { later.norm(lane, factor, held.of(lane)); });
  }
  warp.each([&](int lane) { held.of(lane).to = later.found_place(held.of(lane).slot); });
  if (later.has_latent()) {
    if constexpr (Knows::codes) {
      store_by_scales(later, held, warp);
    } else {
      warp.each([&](int lane) { later.store(lane, held.of(lane)); });
    }
  }
  if (!later.has_turned()) return;
  asked_once(seen != 0,
             [&](auto rests) { warp.each([&](int lane) { later.template turn_all<decltype(rests)::value>(lane, held.of(lane)); }); });
}

}  // namespace phasor::cuda
