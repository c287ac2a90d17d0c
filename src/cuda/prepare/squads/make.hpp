// SPDX-License-Identifier: Apache-2.0
// The common prepare_attention at the speed of memory: a block has some heads of a token, a squad of threads each. Every thread asks for
// its vectors, makes a cosine and sine for all while they come, and then does every step of its head in registers. Written for any
// executor of a block; tests run it on the host.
#pragma once

#include "cuda/prepare/squads/store.hpp"

namespace phasor::cuda {

template <DType dtype, Pairing pairing, int vectors, bool norms>
struct SquadMaker {
  using Head = SquadHead<dtype, vectors, norms>;
  SquadWorkAt work;
  SquadPlace place;
  SquadShared& shared;

  PHASOR_HD const SquadOperand& operand(const Head& head) const { return work.shape().operands[head.spot.operand]; }

  PHASOR_HD void begin(int thread, Head& head) const {
    head.spot = spot_of<dtype>(work.shape(), place, thread);
    head.clear();
    if (head.spot.operand >= 0) head.load(operand(head), place);
  }
  /// What is of the token, by one thread: the others would wait as long for it.
  PHASOR_HD void make_token(int thread, int threads) const {
    if (thread != threads - 1) return;
    const job::PrepareJob& job = work.job();
    shared.place = job::place_of(job.places, place.batch, place.token, job.turn.tokens);
    shared.query = job::query_factor(job, place.batch, place.token);
  }
  /// Whether a pair rests, and whether a value is in doubt.
  static constexpr unsigned kRests = 1;
  static constexpr unsigned kDoubts = 2;
  PHASOR_HD unsigned make_values(int thread, int threads) const {
    // Tables are read out of line, as rows that are in doubt are: here they would take registers from all others.
    if (work.shape().by_tables) return kDoubts;
    unsigned seen = 0;
    const SineSource& sines = work.shape().sines;
    for (int pair = thread; pair < work.shape().pairs; pair += threads) {
      const unsigned axis = sines.many_axes ? work.axis_of_pair[pair] : 0U;
      CosSin<float> value;
      const bool doubt = sine_of(sines, {work.steps[pair], position_bits(sines, axis, place.batch, place.token)}, value);
      shared.values[pair] = value;
      seen |= (doubt ? kDoubts : 0U) | (math::is_identity(value.cos, value.sin) ? kRests : 0U);
    }
    return seen;
  }
  /// A head that nothing happens to goes at once: vectors that were kept longer would be spilled.
  PHASOR_HD void change(Head& head, bool rests) const {
    if (head.spot.operand < 0) return;
    const SquadOperand& of = operand(head);
    if (of.copies) {
      if (token_of(of).block >= 0) copy_head(head, sink_of(head));
      return;
    }
    head.widen();
    if constexpr (norms) {
      if (of.norm != HeadNorm::Kind::none) head.norm(of);
    }
    if (of.turns) {
      asked_once(rests, [&](auto rest) {
        head.template turn_by<pairing, decltype(rest)::value>(shared.values, head.spot.lane, of.first_rotated, work.shape().pairs);
      });
      if (of.rounds_turn) head.round_all();
    }
    if (of.queries) head.multiply(shared.query);
    if (of.rounds_query) head.round_all();
    if (work.shape().makes_scales) head.find_largest();
  }

  PHASOR_HD void store(Head& head) const {
    if (head.spot.operand < 0) return;
    const SquadOperand& of = operand(head);
    const job::TokenPlace token = token_of(of);
    if (of.copies || token.block < 0) return;
    if (of.scales != CacheScales::Kind::none) {
      const float scale = scale_of(work.job().operands[head.spot.operand].sinks[0], token, head.spot, head.most);
      scale_values(head.x, of, {scale, 1.0F / scale}, false);
    }
    store_head(head, sink_of(head));
  }

  PHASOR_HD job::TokenPlace token_of(const SquadOperand& of) const {
    return of.placed ? shared.place : job::TokenPlace{place.batch, place.token};
  }

 private:
  PHASOR_HD SinkPlace sink_of(const Head& head) const {
    const SquadOperand& of = operand(head);
    const job::TokenPlace token = token_of(of);
    return {of, of.out + token.block * of.out_block + token.token * of.out_token + int64_t{head.spot.head} * of.out_head};
  }
};

/// The row by the definition, or from given tables.
template <class Block>
PHASOR_HD inline void make_row_again(const SquadWorkAt& work, const SquadPlace& place, CosSin<float>* values, Block& block) {
  block.each([&](int thread) {
    for (int pair = thread; pair < work.shape().pairs; pair += block.threads()) {
      if (work.shape().by_tables) {
        values[pair] = table_lane<float>(work.rows, {place.batch, place.token}, pair, 0);
        continue;
      }
      const auto positions = positions_of<int64_t>(work.rows->positions, place.batch, place.token);
      values[pair] = phase_value<float>(work.rows, positions, pair, {});
    }
  });
}

/// Block: `each(body)` runs body(thread) for every thread; `either(body)` does, waits for all, and gives the two bits that one of
/// them returned; `wait()`; `fold<count, squad>(held, numbers, op)` makes of each of `count` numbers, numbers(state)[i], that of all
/// threads of a squad; PerThread<S> is a thread's own S; `again` is make_row_again out of line.
template <DType dtype, Pairing pairing, int vectors, bool norms, class Block>
PHASOR_HD inline void prepare_heads(const SquadWorkAt& work, const SquadPlace& place, SquadShared& shared, Block& block) {
  using Maker = SquadMaker<dtype, pairing, vectors, norms>;
  using Head = typename Maker::Head;
  const Maker maker = {work, place, shared};
  typename Block::template PerThread<Head> held;
  const unsigned seen = block.either([&](int thread) {
    maker.begin(thread, held.of(thread));
    maker.make_token(thread, block.threads());
    return maker.make_values(thread, block.threads());
  });
  // Vectors are read once more then: kept over a call they would be spilled, and a spill waits for its load, in every call.
  if ((seen & Maker::kDoubts) != 0) {
    block.again(work, place, shared);
    block.wait();
    block.each([&](int thread) { maker.begin(thread, held.of(thread)); });
  }
  constexpr int kThreads = Squad<dtype>::kThreads;
  if constexpr (norms) {
    block.each([&](int thread) { held.of(thread).add_squares(); });
    block.template fold<Head::kWidth, kThreads>(held, [](Head& head) { return head.sums; }, [](float a, float b) { return a + b; });
  }
  block.each([&](int thread) { maker.change(held.of(thread), seen != 0); });
  if (work.shape().makes_scales) {
    block.template fold<1, kThreads>(held, [](Head& head) { return &head.most; }, [](float a, float b) { return a > b ? a : b; });
  }
  block.each([&](int thread) { maker.store(held.of(thread)); });
}

}  // namespace phasor::cuda
