// SPDX-License-Identifier: Apache-2.0
// Keys that move in place at the speed of memory: a block of threads turns every head of some tokens, which a paged cache has anywhere.
// It looks up where they lie and how far they move; then each thread asks for its vectors, makes its cosines and sines while they come, and
// turns them. What is rare (a rounding in doubt, a pair that rests) is done again from the start, out of line. Written for any executor of
// a block; tests run it on the host.
#pragma once

#include <cstdint>

#include "cuda/moves/values.hpp"
#include "cuda/rotary/rotate.hpp"
#include "cuda/teams/turn.hpp"

namespace phasor::cuda {

/// The steps of a block, between which it waits.
template <DType dtype, Pairing pairing>
struct Mover {
  using Knows = MoveKnows<dtype>;
  using T = typename Element<dtype>::Value;
  static constexpr int kPart = Knows::width / 2;
  static constexpr bool kStreams = false;  // a cache is read again soon
  struct Held {
    TwoVectors heads[kMovesAhead];
    std::byte* at[kMovesAhead];  // null: nobody's
    MovePair own;
    bool makes;  // whether the thread has a pair
  };
  MoveAt at;
  MoveRoom<T>* room;

  PHASOR_HD int rows() const { return at.count * at.shape().heads; }
  PHASOR_HD Spot spot(int thread) const { return spot_of<Knows>(at.shape().cut, at.whole(), thread); }
  /// From a head's first byte to a thread's first vector, and from that to the second.
  PHASOR_HD int first(const Spot& spot) const { return first_vector<Knows, pairing>(at.shape().cut, at.whole(), spot.vector); }
  PHASOR_HD int second() const { return second_vector<dtype, pairing>(at.shape().cut, at.whole()); }
  PHASOR_HD const CosSin<T>* values_of(int row) const { return room->values + moved_head(at.shape(), row).token * at.shape().cut.pairs; }
  /// First byte of a row, or null where its token is nowhere.
  PHASOR_HD std::byte* head_of(int row) const {
    const MovedHead moved = moved_head(at.shape(), row);
    const int64_t byte = room->tokens[moved.token].byte;
    return byte == kNowhere ? nullptr : at.shape().keys + byte + moved.head * at.shape().strides[2];
  }

  PHASOR_HD TwoVectors load(const std::byte* from) const { return {load_words<kStreams>(from), load_words<kStreams>(from + second())}; }
  PHASOR_HD void turn_and_store(std::byte* to, int row, const Spot& spot, TwoVectors& held) const {
    const CosSin<T>* const values = values_of(row);
    const auto by_first = values_at<T, kPart>(values + first_of_part<Knows, pairing>(at.whole(), spot.vector, 0));
    const auto by_second = values_at<T, kPart>(values + first_of_part<Knows, pairing>(at.whole(), spot.vector, 1));
    turn_part<dtype, pairing, 0>(held, by_first);
    turn_part<dtype, pairing, 1>(held, by_second);
    store_words<kStreams>(to, held.first);
    store_words<kStreams>(to + second(), held.second);
  }

  PHASOR_HD void look_up(int thread) const {
    if (thread < at.count) look_up_token(at, thread, room->tokens[thread]);
  }
  PHASOR_HD void ask(int thread, Held& held) const {
    const Spot own = spot(thread);
    unrolled<kMovesAhead>([&](auto i) {
      const int row = own.row + i * at.shape().cut.rows;
      held.at[i] = own.works && row < rows() ? head_of(row) : nullptr;
    });
    const int skip = first(own);
    unrolled<kMovesAhead>([&](auto i) {
      if (held.at[i] == nullptr) return;
      held.at[i] += skip;
      held.heads[i] = load(held.at[i]);
    });
  }
  PHASOR_HD void finish(int thread, Held& held) const {
    forget(thread);
    const Spot own = spot(thread);
    if (!own.works) return;
    const int step = at.shape().cut.rows;
    unrolled<kMovesAhead>([&](auto i) {
      if (held.at[i] == nullptr) return;
      still_narrow(held.heads[i].first);
      still_narrow(held.heads[i].second);
      turn_and_store(held.at[i], own.row + i * step, own, held.heads[i]);
    });
    for (int row = own.row + kMovesAhead * step; row < rows(); row += step) {
      std::byte* const head = head_of(row);
      if (head == nullptr) continue;
      TwoVectors vectors = load(head + first(own));
      turn_and_store(head + first(own), row, own, vectors);
    }
  }

  /// The same with pairs that rest left bit for bit, neighbouring pairs at a time.
  PHASOR_HD void finish_carefully(int thread) const {
    using E = Element<dtype>;
    constexpr int kWidth = Knows::width;
    const TeamShape& cut = at.shape().cut;
    const Spot own = spot(thread);
    if (!own.works) return;
    const int pair = own.vector * kWidth;
    const int segment = segment_of(cut, pair);
    const int half = static_cast<int>(at.work->rotate.segment_pairs);
    for (int row = own.row; row < rows(); row += cut.rows) {
      std::byte* const head = head_of(row);
      if (head == nullptr) continue;
      std::byte* const part = head + cut.first_byte + 2 * segment * static_cast<int>(bytes_of(dtype));
      const CosSin<T>* const values = values_of(row) + pair;
      Pairs<dtype, kWidth> pairs = load_pairs<dtype, pairing, kWidth>(part, pair - segment, half);
      unrolled<kWidth>([&](auto i) {
        const CosSin<T> by = values[i];
        if (math::is_identity(by.cos, by.sin)) return;
        T x = E::widen(pairs.x[i]);
        T y = E::widen(pairs.y[i]);
        turn(x, y, by);
        pairs.x[i] = E::narrow(x);
        pairs.y[i] = E::narrow(y);
      });
      store_pairs<dtype, pairing, kWidth>(part, pair - segment, half, pairs);
    }
  }
};

/// Values in doubt by the definition, pairs that rest left alone.
template <DType dtype, Pairing pairing, class Block>
PHASOR_HD inline void move_carefully(const Mover<dtype, pairing>& mover, Block& block) {
  block.any([&](int thread) {
    MovePair own;
    if (pair_of_thread(mover.at, thread, own)) make_values<true, Block>(mover.at, own, *mover.room);
    return false;
  });
  block.last([&](int thread) { mover.finish_carefully(thread); });
}

/// Block: `any(body)` runs body(thread) for every thread, waits, and says whether one returned true; `each(body)` runs and waits,
/// `last(body)` does not wait; PerThread<S> is a thread's own S; any_row<T> is pair_row<T>, wait_for_earlier() that of kernels, and
/// `carefully` is move_carefully, out of line.
template <DType dtype, Pairing pairing, class Block>
PHASOR_HD inline void move_tokens(const Mover<dtype, pairing>& mover, Block& block) {
  using Held = typename Mover<dtype, pairing>::Held;
  typename Block::template PerThread<Held> held;
  block.last([&](int thread) {  // steps are in the parameter, and on their way while the block waits
    Held& mine = held.of(thread);
    mine.makes = pair_of_thread(mover.at, thread, mine.own);
  });
  block.wait_for_earlier();
  block.each([&](int thread) { mover.look_up(thread); });
  const bool again = block.any([&](int thread) {
    Held& mine = held.of(thread);
    mover.ask(thread, mine);
    return mine.makes && make_values<false, Block>(mover.at, mine.own, *mover.room);
  });
  if (again) {
    block.template carefully<dtype, pairing>(mover);
  } else {
    block.last([&](int thread) { mover.finish(thread, held.of(thread)); });
  }
}

}  // namespace phasor::cuda
