// SPDX-License-Identifier: Apache-2.0
// What most models ask of prepare_attention (plain/work.hpp says which calls these are), at the speed of memory: a block has some heads of
// a token, eight threads each. What is known is neither read nor asked. Written for any executor of a block; tests run it on the host.
#pragma once

#include "cuda/prepare/plain/sums.hpp"
#include "cuda/prepare/squads/make.hpp"

namespace phasor::cuda {

template <class Knows>
struct PlainMaker {
  static constexpr DType dtype = Knows::dtype;
  static constexpr int kEach = Knows::each;
  using Head = PlainHead<dtype>;
  struct State {
    Head heads[kEach];
    TwoVectors weights;  // few tokens
    PlainSums<dtype, kEach> sums;
    float factors[kEach];
    math::u64 slot;  // few tokens
  };
  /// A thread's heads are neighbours, of one operand.
  struct Spot {
    int operand;  // -1: nobody's
    int head;     // the first
  };
  SquadWorkAt work;
  SquadPlace place;
  PlainShared& shared;
  const job::TokenPlace* found = nullptr;     // of a token of a walk
  const math::u64* known_position = nullptr;  // likewise, but of its first ones

  PHASOR_HD static int lane(int thread) { return thread % kPlainLanes; }
  PHASOR_HD Spot spot_of(int thread) const {
    const SquadShape& shape = work.shape();
    const int in_block = static_cast<int>(static_cast<unsigned>(thread) / kPlainLanes) * kEach;
    const int head = place.first_head + in_block;
    if (in_block >= shape.group_heads || head >= shape.ends[2]) return {-1, 0};
    const int operand = (head >= shape.ends[0] ? 1 : 0) + (head >= shape.ends[1] ? 1 : 0);
    return {operand, operand == 0 ? head : head - shape.ends[operand - 1]};
  }
  PHASOR_HD const SquadOperand& operand(const Spot& spot) const { return work.shape().operands[spot.operand]; }

  /// What is in the parameter is read before `depend`, which waits for whoever wrote the rest.
  template <class Block>
  PHASOR_HD unsigned begin(int thread, State& state, Block& block) const {
    const bool turns = place.first_head < work.shape().turning_heads && thread < kPlainPairs;
    Asked asked{};
    if (turns) asked.step = work.steps[thread];
    block.depend();
    const SineSource& sines = work.shape().sines;
    const unsigned axis = turns && sines.many_axes ? work.axis_of_pair[thread] : 0U;
    if (turns)
      asked.position = Knows::walks && known_position != nullptr ? *known_position : position_bits(sines, axis, place.batch, place.token);
    load(thread, state);
    if constexpr (Knows::few) {
      state.slot = asked_slot();
    } else if (thread == block.threads() - 1) {
      const job::TokenPlace placed = Knows::walks ? *found : found_place();
      for (int o = 0; o < job::kPrepareOperands; ++o) shared.out[o] = out_of(work.shape().operands[o], placed);
    }
    return turns ? make_value(thread, asked) : 0U;
  }
  PHASOR_HD void load(int thread, State& state) const {
    const Spot spot = spot_of(thread);
    if (spot.operand < 0) return clear(state);
    const SquadOperand& of = operand(spot);
    const math::u64 before =
        math::u64{static_cast<unsigned>(place.batch)} * of.in_batch + math::u64{static_cast<unsigned>(place.token)} * of.in_token;
    const std::byte* const first =
        of.in + before * sizeof(Words) + (spot.head * of.in_head + lane(thread) * static_cast<int>(sizeof(Words)));
    unrolled<kEach>([&](auto i) { state.heads[i].words = two_vectors(first + i * of.in_head); });
    if constexpr (Knows::holds_weights) {
      state.weights = {};
      if (of.weight != nullptr) state.weights = two_vectors(of.weight + lane(thread) * sizeof(Words));
    }
  }
  /// What is not loaded is nothing: else what was there before would be kept for it.
  static PHASOR_HD void clear(State& state) {
    unrolled<kEach>([&](auto i) { state.heads[i].words = {}; });
    state.weights = {};
  }
  static constexpr unsigned kRests = 1;
  static constexpr unsigned kDoubts = 2;
  PHASOR_HD unsigned make_value(int pair, const Asked& asked) const {
    CosSin<float> value;
    const bool doubt = sine_of(work.shape().sines, asked, value);
    shared.cos[value_at(pair)] = value.cos;
    shared.sin[value_at(pair)] = value.sin;
    return (doubt ? kDoubts : 0U) | (math::is_identity(value.cos, value.sin) ? kRests : 0U);
  }

  // The token's place. With few tokens every thread asks for the slot, as it lies in memory: nothing is done to it before it is needed,
  // which would wait for it. Else a thread finds the place while others make sines; where there are fewer registers, a slot was spilled.
  PHASOR_HD math::u64 asked_slot() const {
    const SlotSource& slots = work.shape().slots;
    if (slots.data == nullptr) return 0;
    const int64_t index = int64_t{place.batch} * slots.tokens + place.token;
    if (index >= slots.size) return ~math::u64{0};
    return slots.narrow ? static_cast<const math::u32*>(slots.data)[index] : static_cast<const math::u64*>(slots.data)[index];
  }
  PHASOR_HD job::TokenPlace found_place() const {
    return job::place_of(work.job().places, place.batch, place.token, work.job().turn.tokens);
  }
  PHASOR_HD job::TokenPlace place_of(math::u64 bits) const {
    const SlotSource& slots = work.shape().slots;
    if (slots.data == nullptr) return found_place();
    const int64_t slot = slots.narrow ? int64_t{static_cast<std::int32_t>(bits)} : static_cast<int64_t>(bits);
    if (slot < 0) return {-1, 0};
    return {slot >> slots.shift, slot & ((int64_t{1} << slots.shift) - 1)};
  }

  PHASOR_HD std::byte* out_of(const SquadOperand& of, const job::TokenPlace& placed) const {
    const job::TokenPlace token = of.placed ? placed : job::TokenPlace{place.batch, place.token};
    return token.block < 0 ? nullptr : of.out + token.block * of.out_block + token.token * of.out_token;
  }

  PHASOR_HD bool has_norm(int thread) const {
    const Spot spot = spot_of(thread);
    return spot.operand >= 0 && operand(spot).norm != HeadNorm::Kind::none;
  }
  /// Each lane the factor of a head whose sum it has.
  PHASOR_HD void make_factor(int thread, State& state) const {
    const Spot spot = spot_of(thread);
    const float epsilon = spot.operand < 0 ? 1 : operand(spot).epsilon;
    state.factors[0] = state.sums.numbers[0] = math::rms_factor(state.sums.sum(), kPlainChannels, epsilon);
  }
  PHASOR_HD void norm(int thread, State& state) const {
    forget(thread);
    const Spot spot = spot_of(thread);
    if (spot.operand < 0) return;
    const SquadOperand& of = operand(spot);
    if (of.norm == HeadNorm::Kind::none) return;
    if constexpr (!Knows::holds_weights) state.weights = two_vectors(of.weight + lane(thread) * sizeof(Words));
    if constexpr (kEach == 2) {
      const bool upper = has_bit(lane(thread), 4);
      const float own = state.factors[0];
      const float other = state.sums.numbers[0];
      state.factors[0] = kept(upper, own, other);
      state.factors[1] = kept(upper, other, own);
    }
    unrolled<kEach>([&](auto i) { state.heads[i].norm(state.factors[i], state.weights); });
  }

  template <bool rests>
  PHASOR_HD void finish(int thread, State& state) const {
    forget(thread);  // where a head is, is found anew: kept over the sines it would be spilled
    const Spot spot = spot_of(thread);
    if (spot.operand < 0) return;
    const SquadOperand& of = operand(spot);
    std::byte* const out = Knows::few ? out_of(of, place_of(state.slot)) : shared.out[spot.operand];
    if (out == nullptr) return;
    if (of.turns) {
      const PlainValues values(shared, lane(thread));
      unrolled<kEach>([&](auto i) {
        still_narrow(state.heads[i].words.first);
        still_narrow(state.heads[i].words.second);
        state.heads[i].template turn_by<rests>(values);
      });
    }
    const SinkPlace to = {of, out + int64_t{spot.head} * of.out_head};
    store(of, to.at(lane(thread) * kPlainWidth), state);
  }

 private:
  PHASOR_HD static void store(const SquadOperand& of, std::byte* to, const State& state) {
    const auto put = [&](const auto& put_head) { unrolled<kEach>([&](auto i) { put_head(state.heads[i], to + i * of.out_head); }); };
    if (!Knows::codes || of.storage != Storage::f8_e4m3) {
      return put([&](const Head& head, std::byte* at) { head.store(at, of.out_half); });
    }
    const auto put_scaled = [&](const auto& scaled) {
      put([&](const Head& head, std::byte* at) { head.store_codes(at, of.out_half, scaled); });
    };
    if (of.scales == CacheScales::Kind::none) return put_scaled([](float x) { return x; });
    if (of.multiplies) return put_scaled([&](float x) { return x * of.scale; });
    if (!math::has_short_quotients(of.scale)) return put_scaled([&](float x) { return x / of.scale; });
    const float reciprocal = 1.0F / of.scale;
    put_scaled([&](float x) { return math::short_quotient(x, of.scale, reciprocal); });
  }
};

/// The row by the definition.
template <class Block>
PHASOR_HD inline void make_plain_row_again(const SquadWorkAt& work, const SquadPlace& place, PlainShared& shared, Block& block) {
  block.each([&](int thread) {
    for (int pair = thread; pair < kPlainPairs; pair += block.threads()) {
      const auto positions = positions_of<int64_t>(work.rows->positions, place.batch, place.token);
      const CosSin<float> value = phase_value<float>(work.rows, positions, pair, {});
      shared.cos[value_at(pair)] = value.cos;
      shared.sin[value_at(pair)] = value.sin;
    }
  });
}

/// Block: as of prepare_heads, and `wait_in_warp()` waits for the thread's warp; `in_warps_of(has, body)` runs body() in the warps in which
/// has(thread) of some thread, at least; `depend()` waits for whoever wrote what is read; `swap<apart, count>(held, numbers)` makes of the
/// first of numbers(state) those of the thread `apart` away.
template <class Knows, class Block>
PHASOR_HD inline void prepare_plain(const PlainMaker<Knows>& maker, Block& block) {
  using Maker = PlainMaker<Knows>;
  using State = typename Maker::State;
  typename Block::template PerThread<State> held;
  const unsigned seen = block.either([&](int thread) { return maker.begin(thread, held.of(thread), block); });
  // Vectors are read once more then: kept over a call they would be spilled, and a spill waits for its load, in every call.
  if ((seen & Maker::kDoubts) != 0) {
    block.plain_again(maker.work, maker.place, maker.shared);
    block.wait();
    block.each([&](int thread) { maker.load(thread, held.of(thread)); });
  }
  const auto norm = [&] {
    using Sums = PlainSums<Knows::dtype, Knows::each>;
    block.each([&](int thread) { held.of(thread).sums.offer(Maker::lane(thread), held.of(thread).heads); });
    block.template swap<4, 4 * Knows::each>(held, [](State& state) { return state.sums.words; });
    block.each([&](int thread) { held.of(thread).sums.square(Maker::lane(thread), held.of(thread).heads); });
    Sums::fold(block, held, [](State& state) -> Sums& { return state.sums; });
    block.each([&](int thread) { maker.make_factor(thread, held.of(thread)); });
    if constexpr (Knows::each == 2) block.template swap<4, 1>(held, [](State& state) { return state.sums.numbers; });
    block.each([&](int thread) { maker.norm(thread, held.of(thread)); });
  };
  // Values have none, and some warps have only values.
  if constexpr (Knows::norms) block.in_warps_of([&](int thread) { return maker.has_norm(thread); }, norm);
  asked_once(seen != 0,
             [&](auto rests) { block.each([&](int thread) { maker.template finish<decltype(rests)::value>(thread, held.of(thread)); }); });
}

/// What is of a walk's next tokens, a lane of the last warp each: pages take three reads one after the other to be found.
PHASOR_HD inline void find_next(const SquadWorkAt& work, const SquadPlace& place, int lane, PlainWalk& shared) {
  const SineSource& sines = work.shape().sines;
  shared.places[lane] = job::place_of(work.job().places, place.batch, place.token, work.job().turn.tokens);
  if (!sines.many_axes) shared.positions[lane] = position_bits(sines, 0, place.batch, place.token);
}
/// Tokens first.token, first.token + step, ... of a batch row. The last warp finds their places, which its last thread alone asks for,
/// while the others begin the first; the positions are for all, who have met at a barrier when they need those of the second.
template <class Knows, class Block>
PHASOR_HD inline void walk_plain(const SquadWorkAt& work, const SquadPlace& first, int step, PlainWalk& shared, Block& block) {
  const auto tokens = static_cast<int>(work.job().turn.tokens);
  const bool knows_positions = !work.shape().sines.many_axes;
  block.depend();
  for (int64_t from = first.token; from < tokens; from += int64_t{kWalkPlaces} * step) {
    block.each([&](int thread) {
      const int lane = thread - (block.threads() - kWalkPlaces);
      const int64_t token = from + int64_t{lane} * step;
      if (lane >= 0 && token < tokens) find_next(work, {first.batch, static_cast<int>(token), 0}, lane, shared);
    });
    block.wait_in_warp();
    for (int i = 0; i < kWalkPlaces && from + int64_t{i} * step < tokens; ++i) {
      const SquadPlace here = {first.batch, static_cast<int>(from + int64_t{i} * step), first.first_head};
      const math::u64* const position = knows_positions && i > 0 ? shared.positions + i : nullptr;
      prepare_plain<Knows>({work, here, shared.rows[i % 2], shared.places + i, position}, block);
    }
  }
}

}  // namespace phasor::cuda
