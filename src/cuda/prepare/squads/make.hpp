// SPDX-License-Identifier: Apache-2.0
// The common prepare_attention at the speed of memory: a block has some heads of a token, a squad of threads each. Every thread asks for
// its vectors, makes a cosine and sine for all while they come, and then does every step of its head in registers. Written for any
// executor of a block; tests run it on the host.
#pragma once

#include "cuda/prepare/squads/store.hpp"

namespace phasor::cuda {

template <DType dtype, Pairing pairing, int vectors>
struct SquadMaker {
  using Head = SquadHead<dtype, vectors>;
  SquadWorkAt work;
  SquadPlace place;
  CosSin<float>* shared;

  PHASOR_HD void begin(int thread, Head& head) const {
    const SquadSpot spot = spot_of<dtype>(work.shape(), place, thread);
    if (spot.operand < 0) return;
    head.load(work.job().operands[spot.operand], place, spot);
  }
  /// True where a pair rests. `again(rows, place, pair)` makes what is in doubt by the definition.
  template <class Again>
  PHASOR_HD bool make_values(int thread, int threads, const Again& again) const {
    bool rests = false;
    const SineSource& sines = work.shape().sines;
    for (int pair = thread; pair < work.job().turn.pairs; pair += threads) {
      const unsigned axis = sines.many_axes ? work.axis_of_pair[pair] : 0U;
      CosSin<float> value;
      if (sine_of(sines, {work.steps[pair], position_bits(sines, axis, place.batch, place.token)}, value)) {
        value = again(work.rows, RowPlace{place.batch, place.token, 0, 0}, pair);
      }
      shared[pair] = value;
      rests = rests || math::is_identity(value.cos, value.sin);
    }
    return rests;
  }
  PHASOR_HD void add_squares(int thread, Head& head) const {
    const SquadSpot spot = spot_of<dtype>(work.shape(), place, thread);
    if (spot.operand >= 0) head.add_squares();
  }

  PHASOR_HD void change(int thread, Head& head, bool rests) const {
    const SquadSpot spot = spot_of<dtype>(work.shape(), place, thread);
    if (spot.operand < 0) return;
    const job::PrepareJob& job = work.job();
    const job::PrepareOperand& operand = job.operands[spot.operand];
    if (operand.copies) return;
    head.widen();
    if (operand.norm.kind != HeadNorm::Kind::none) {
      head.norm(operand.norm, spot, work.shape().weight_vectors[spot.operand], rounds_step(job, operand, operand.turns || operand.scales));
    }
    if (operand.turns) {
      head.template turn_by<pairing>(shared, operand, static_cast<int>(job.turn.pairs), spot.lane, rests,
                                     rounds_step(job, operand, operand.scales));
    }
    if (operand.scales) head.multiply(job::query_factor(job, place.batch, place.token), rounds_step(job, operand, false));
    if (work.shape().makes_scales) head.find_largest();
  }

  PHASOR_HD void store(int thread, Head& head) const {
    const SquadSpot spot = spot_of<dtype>(work.shape(), place, thread);
    if (spot.operand < 0) return;
    const job::PrepareJob& job = work.job();
    const job::PrepareOperand& operand = job.operands[spot.operand];
    const job::TokenPlace token =
        operand.placed ? job::place_of(job.places, place.batch, place.token, job.turn.tokens) : job::TokenPlace{place.batch, place.token};
    if (token.block < 0) return;
    const job::PrepareSink& sink = operand.sinks[0];
    const SinkPlace to = {sink, sink.data + token.block * sink.strides[0] + token.token * sink.strides[1] + spot.head * sink.strides[2],
                          work.shape().sink_shift[spot.operand], work.shape().by_vectors[spot.operand]};
    operand.copies ? copy_head(head, to, spot.lane) : store_head(head, to, token, spot);
  }
};

/// Block: `any(body)` runs body(thread) for every thread, waits, and says whether one returned true; `each(body)` runs without waiting;
/// `fold<count, squad>(held, numbers, op)` makes of every one of `count` numbers, numbers(state)[i], that of all threads of a squad;
/// PerThread<S> is a thread's own S; `again` is phase_value out of line.
template <DType dtype, Pairing pairing, int vectors, class Block>
PHASOR_HD inline void prepare_heads(const SquadWorkAt& work, const SquadPlace& place, CosSin<float>* shared, Block& block) {
  using Maker = SquadMaker<dtype, pairing, vectors>;
  using Head = typename Maker::Head;
  const Maker maker = {work, place, shared};
  typename Block::template PerThread<Head> held;
  const bool rests = block.any([&](int thread) {
    maker.begin(thread, held.of(thread));
    return maker.make_values(thread, block.threads(),
                             [](const Rows& rows, const RowPlace& at, int pair) { return Block::again(rows, at, pair); });
  });
  constexpr int kThreads = Squad<dtype>::kThreads;
  if (work.shape().norms) {
    block.each([&](int thread) { maker.add_squares(thread, held.of(thread)); });
    block.template fold<Head::kWidth, kThreads>(held, [](Head& head) { return head.sums; }, [](float a, float b) { return a + b; });
  }
  block.each([&](int thread) { maker.change(thread, held.of(thread), rests); });
  if (work.shape().makes_scales) {
    block.template fold<1, kThreads>(held, [](Head& head) { return &head.most; }, [](float a, float b) { return a > b ? a : b; });
  }
  block.each([&](int thread) { maker.store(thread, held.of(thread)); });
}

}  // namespace phasor::cuda
