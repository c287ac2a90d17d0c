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
    if (turns) asked.position = position_bits(sines, axis, place.batch, place.token);
    load(thread, state);
    if constexpr (Knows::few) {
      state.slot = asked_slot();
    } else if (thread == block.threads() - 1) {
      show_places();
    }
    return turns ? make_value(thread, asked) : 0U;
  }
  /// Where the token goes.
  PHASOR_HD void show_places() const {
    const job::TokenPlace placed = found_place();
    for (int o = 0; o < job::kPrepareOperands; ++o) shared.out[o] = out_of(work.shape().operands[o], placed);
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

/// Rows of neighbouring tokens by the definition.
template <class Block>
PHASOR_HD inline void make_plain_rows_again(const SquadWorkAt& work, const SquadPlace& first, int count, PlainShared* rows, Block& block) {
  block.each([&](int thread) {
    for (int n = thread; n < count * kPlainPairs; n += block.threads()) {
      const int row = n / kPlainPairs;
      const auto positions = positions_of<int64_t>(work.rows->positions, first.batch, first.token + row);
      const CosSin<float> value = phase_value<float>(work.rows, positions, n % kPlainPairs, {});
      rows[row].cos[value_at(n % kPlainPairs)] = value.cos;
      rows[row].sin[value_at(n % kPlainPairs)] = value.sin;
    }
  });
}

/// Block: as of prepare_heads, and `in_warps_of(has, body)` runs body() in the warps in which
/// has(thread) of some thread, at least; `depend()` waits for whoever wrote what is read; `swap<apart, count>(held, numbers)` makes of the
/// first of numbers(state) those of the thread `apart` away.
/// What follows when a token's values are there.
template <class Knows, class Held, class Block>
PHASOR_HD inline void finish_plain(const PlainMaker<Knows>& maker, Held& held, unsigned seen, Block& block) {
  using Maker = PlainMaker<Knows>;
  using State = typename Maker::State;
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
  // Values have none, and some warps have only values. Where tokens are few, asking takes longer.
  if constexpr (Knows::norms && Knows::few) norm();
  if constexpr (Knows::norms && !Knows::few) block.in_warps_of([&](int thread) { return maker.has_norm(thread); }, norm);
  asked_once(seen != 0,
             [&](auto rests) { block.each([&](int thread) { maker.template finish<decltype(rests)::value>(thread, held.of(thread)); }); });
}

template <class Knows, class Block>
PHASOR_HD inline void prepare_plain(const PlainMaker<Knows>& maker, Block& block) {
  using Maker = PlainMaker<Knows>;
  using State = typename Maker::State;
  typename Block::template PerThread<State> held;
  const unsigned seen = block.either([&](int thread) { return maker.begin(thread, held.of(thread), block); });
  // Vectors are read once more then: kept over a call they would be spilled, and a spill waits for its load, in every call.
  if ((seen & Maker::kDoubts) != 0) {
    block.plain_again(maker.work, maker.place, 1, &maker.shared);
    block.wait();
    block.each([&](int thread) { maker.load(thread, held.of(thread)); });
  }
  finish_plain(maker, held, seen, block);
}

/// Some neighbouring tokens of a row, whose values a block makes together, a pair of one of them each thread: so every warp makes sines
/// where two of six would, and the others wait less.
template <class Knows>
struct PlainWalker {
  using Maker = PlainMaker<Knows>;
  SquadWorkAt work;
  SquadPlace first;
  int count;
  PlainShared* rows;

  PHASOR_HD Maker maker(int i) const { return {work, {first.batch, first.token + i, first.first_head}, rows[i]}; }
  /// Pages take three reads one after the other to be found: a lane of the last warp finds that of a token.
  PHASOR_HD unsigned begin(int thread, int threads, typename Maker::State& state) const {
    const int set = static_cast<int>(static_cast<unsigned>(thread) / kPlainPairs);
    const int pair = static_cast<int>(static_cast<unsigned>(thread) % kPlainPairs);
    const bool turns = first.first_head < work.shape().turning_heads && set < count;
    const SineSource& sines = work.shape().sines;
    Asked asked{};
    if (turns) asked.step = work.steps[pair];
    const unsigned axis = turns && sines.many_axes ? work.axis_of_pair[pair] : 0U;
    if (turns) asked.position = position_bits(sines, axis, first.batch, first.token + set);
    maker(0).load(thread, state);
    if (const int finds = threads - 1 - thread; finds < count) maker(finds).show_places();
    return turns ? maker(set).make_value(pair, asked) : 0U;
  }
};
template <class Knows, class Block>
PHASOR_HD inline void prepare_together(const PlainWalker<Knows>& walker, Block& block) {
  using Maker = PlainMaker<Knows>;
  typename Block::template PerThread<typename Maker::State> held;
  const unsigned seen = block.either([&](int thread) { return walker.begin(thread, block.threads(), held.of(thread)); });
  if ((seen & Maker::kDoubts) != 0) {
    block.plain_again(walker.work, walker.first, walker.count, walker.rows);
    block.wait();
    block.each([&](int thread) { walker.maker(0).load(thread, held.of(thread)); });
  }
  for (int i = 0;;) {
    finish_plain(walker.maker(i), held, seen, block);
    if (++i >= walker.count) return;
    block.each([&](int thread) { walker.maker(i).load(thread, held.of(thread)); });
  }
}
/// The first.token-th tokens that are together of a batch row, and every step-th after those.
template <class Knows, class Block>
PHASOR_HD inline void walk_plain(const SquadWorkAt& work, const SquadPlace& first, int step, PlainWalk& shared, Block& block) {
  const int64_t tokens = work.job().turn.tokens;
  const int together = tokens_together(block.threads());
  block.depend();
  int turn = 0;
  for (int64_t from = int64_t{first.token} * together; from < tokens; from += int64_t{step} * together) {
    const int count = tokens - from < together ? static_cast<int>(tokens - from) : together;
    const SquadPlace here = {first.batch, static_cast<int>(from), first.first_head};
    prepare_together<Knows>({work, here, count, shared.rows[turn]}, block);
    turn = 1 - turn;
  }
}

}  // namespace phasor::cuda
