// SPDX-License-Identifier: Apache-2.0
// The common rotation at the speed of memory: a team of threads (a warp, or a block) turns some pairs of some heads of one token. Each
// thread asks for its vectors, makes one cosine and sine while they come, and turns them. What is rare (a rounding in doubt, a pair that
// rests, lanes that differ) is done again from the start, out of line. Written for any executor of a team; tests run it on the host.
#pragma once

#include <cstdint>

#include "cuda/teams/eight_bytes.hpp"
#include "cuda/teams/tuning.hpp"
#include "cuda/teams/values.hpp"

namespace phasor::cuda {

/// A thread's two vectors of one head.
struct TwoVectors {
  Words first;
  Words second;
};

/// Part 0 or 1 of a thread's pairs of one head.
template <DType dtype, Pairing pairing, int part, class T, int count>
PHASOR_HD inline void turn_part(TwoVectors& held, const PartValues<T, count>& values) {
  EightBytes<dtype> x;
  EightBytes<dtype> y;
  if constexpr (pairing == Pairing::half) {
    x.read(held.first.at[2 * part], held.first.at[2 * part + 1]);
    y.read(held.second.at[2 * part], held.second.at[2 * part + 1]);
    unrolled<count>([&](auto i) { turn(x.at[i], y.at[i], values.at[i]); });
    x.write(held.first.at[2 * part], held.first.at[2 * part + 1]);
    y.write(held.second.at[2 * part], held.second.at[2 * part + 1]);
  } else {
    Words& words = part == 0 ? held.first : held.second;
    x.read(words.at[0], words.at[1]);
    y.read(words.at[2], words.at[3]);
    if constexpr (count == 1) {
      turn(x.at[0], y.at[0], values.at[0]);
    } else {
      unrolled<count / 2>([&](auto i) {
        turn(x.at[2 * i], x.at[2 * i + 1], values.at[i]);
        turn(y.at[2 * i], y.at[2 * i + 1], values.at[count / 2 + i]);
      });
    }
    x.write(words.at[0], words.at[1]);
    y.write(words.at[2], words.at[3]);
  }
}

/// The steps of a team, between which it waits.
template <class Knows, Pairing pairing>
struct TeamTurner {
  static constexpr DType dtype = Knows::dtype;
  using T = typename Element<dtype>::Value;
  static constexpr int kPart = Knows::width / 2;
  static constexpr int kEach = Knows::tuning.each;
  static constexpr bool kStreams = Knows::tuning.streams;
  static constexpr bool kParts = Knows::tuning.parts;
  using Shared = CosSin<T>*;
  struct Held {
    TwoVectors heads[kEach];
  };
  TeamWorkAt work;
  TeamPlace place;
  Shared shared;

  /// From a thread's head to its i-th after that.
  PHASOR_HD int apart(int i) const { return i * (Knows::plain ? Knows::rows : work.shape().rows); }
  PHASOR_HD bool has(const Spot& spot, int i) const { return spot.works && place.first_head + spot.row + apart(i) < place.end_head; }

  PHASOR_HD Asked ask(int thread) const { return thread < place.pairs ? asked_of<Knows>(work, place, place.first_pair + thread) : Asked{}; }
  PHASOR_HD void load(int thread, Held& held) const {
    const TeamShape& shape = work.shape();
    const Spot spot = spot_of<Knows>(shape, place, thread);
    const auto heads = heads_read(shape, place, place.first_head + spot.row, first_vector<Knows, pairing>(shape, place, spot.vector));
    const int second = second_vector<dtype, pairing>(shape, place);
    unrolled<kEach>([&](auto i) {
      if (!has(spot, i)) return;
      const std::byte* const head = heads.at(apart(i), i * shape.in_rows);
      held.heads[i].first = load_words<kStreams>(head);
      held.heads[i].second = load_words<kStreams>(head + second);
    });
  }
  /// True where the team must do its work again. A slice has no more pairs than a team has threads.
  PHASOR_HD bool make(int thread, const Asked& asked) const {
    if (thread >= place.pairs) return false;
    CosSin<T> value{};
    const bool again = make_value<Knows>(work, place, place.first_pair + thread, asked, value);
    shared[thread] = value;
    return again;
  }
  PHASOR_HD void finish(int thread, Held& held) const {
    forget(thread);
    const TeamShape& shape = work.shape();
    const Spot spot = spot_of<Knows>(shape, place, thread);
    if (!spot.works) return;
    const auto heads = heads_written(shape, place, place.first_head + spot.row, first_vector<Knows, pairing>(shape, place, spot.vector));
    const int second = second_vector<dtype, pairing>(shape, place);
    const auto store = [&](int i) {
      std::byte* const head = heads.at(apart(i), i * shape.out_rows);
      store_words<kStreams>(head, held.heads[i].first);
      store_words<kStreams>(head + second, held.heads[i].second);
    };
    const auto values = [&](int part) { return values_at<T, kPart>(shared + first_of_part<Knows, pairing>(place, spot.vector, part)); };
    if constexpr (kParts) {
      unrolled<2>([&](auto part) {
        const auto by = values(part);
        unrolled<kEach>([&](auto i) {
          if (part == 0) still_narrow(held.heads[i].first);
          if (part == 0) still_narrow(held.heads[i].second);
          turn_part<dtype, pairing, part>(held.heads[i], by);
        });
      });
      unrolled<kEach>([&](auto i) {
        if (has(spot, i)) store(i);
      });
    } else {
      const auto by_first = values(0);
      const auto by_second = values(1);
      unrolled<kEach>([&](auto i) {
        if (!has(spot, i)) return;
        still_narrow(held.heads[i].first, by_first.at[0].cos);
        still_narrow(held.heads[i].second, by_first.at[0].cos);
        turn_part<dtype, pairing, 0>(held.heads[i], by_first);
        turn_part<dtype, pairing, 1>(held.heads[i], by_second);
        store(i);
      });
    }
  }
};

// ---- Again, from the start ----

/// One pair of one head by the definition. `shared` has lane 0 of the slice's pairs, then lane 1.
template <DType dtype, Pairing pairing>
PHASOR_HD inline void turn_again(const TeamWorkAt& work, const TeamPlace& place, const CosSin<typename Element<dtype>::Value>* shared,
                                 int item) {
  using E = Element<dtype>;
  using Storage = typename E::Storage;
  const int in_slice = item % place.pairs;
  const int head = place.first_head + item / place.pairs;
  const int pair = place.first_pair + in_slice;
  const TeamShape& shape = work.shape();
  const auto* const in = reinterpret_cast<const Storage*>(heads_read(shape, place, head, shape.first_byte).at(0, 0));
  auto* const out = reinterpret_cast<Storage*>(heads_written(shape, place, head, shape.first_byte).at(0, 0));
  const int64_t x = pairing == Pairing::half ? pair + segment_of(work.shape(), pair) : 2 * pair;
  const int64_t y = pairing == Pairing::half ? x + work.work->rotate.segment_pairs : x + 1;
  const auto& first = shared[in_slice];
  const auto& second = shared[shape.slice_pairs + in_slice];
  const bool rests = math::is_identity(first.cos, first.sin) && math::is_identity(second.cos, second.sin);
  if (rests && in == out) return;
  const Storage is[2] = {in[x], in[y]};
  if (rests) {
    out[x] = is[0];
    out[y] = is[1];
    return;
  }
  const auto turned = math::rotate<typename E::Value>({E::widen(is[0]), E::widen(is[1])}, {first.cos, second.cos}, {first.sin, second.sin});
  out[x] = E::narrow(turned.x);
  out[y] = E::narrow(turned.y);
}

/// The row by the definition. True where a pair rests or its lanes differ: those pairs are turned one by one.
template <class T, class Team>
PHASOR_HD inline bool make_row_again(const TeamWorkAt& work, const TeamPlace& place, CosSin<T>* shared, Team& team) {
  const int threads = team.threads();
  return team.any([&](int thread) {
    bool odd = false;
    for (int i = thread; i < place.pairs; i += threads) {
      const PairRow<T> row = common_row<T>(work, place, place.first_pair + i);
      shared[i] = row.lane[0];
      shared[work.shape().slice_pairs + i] = row.lane[1];
      odd = odd || math::is_identity(row.lane[0].cos, row.lane[0].sin) || !same_bits(row.lane[0].cos, row.lane[1].cos) ||
            !same_bits(row.lane[0].sin, row.lane[1].sin);
    }
    return odd;
  });
}
/// What was in doubt is made anew; then the slice is turned by vectors, which are read once more, or pair by pair: that waits for memory at
/// every step, and one token of it takes longer than a thousand others.
template <class Knows, Pairing pairing, class Team>
PHASOR_HD inline void turn_slice_again(const TeamWorkAt& work, const TeamPlace& place, typename TeamTurner<Knows, pairing>::Shared shared,
                                       Team& team) {
  using Turner = TeamTurner<Knows, pairing>;
  if (!make_row_again(work, place, shared, team)) {
    const Turner turner = {work, place, shared};
    typename Team::template PerThread<typename Turner::Held> held;
    team.last([&](int thread) { turner.load(thread, held.of(thread)); });
    team.last([&](int thread) { turner.finish(thread, held.of(thread)); });
    return;
  }
  team.last([&](int thread) {
    const int items = (place.end_head - place.first_head) * place.pairs;
    for (int item = thread; item < items; item += team.threads()) turn_again<Knows::dtype, pairing>(work, place, shared, item);
  });
}

// ---- A team's work ----

/// Channels that are not rotated, out of place: those of a group are copied by its first slice.
template <DType dtype>
PHASOR_HD inline void copy_rest_of_heads(const TeamWorkAt& work, const TeamPlace& place, int thread, int threads) {
  using Storage = typename Element<dtype>::Storage;
  const job::RotateJob& job = work.job();
  const int rest = static_cast<int>(job.head_dim - 2 * job.pairs);
  const int items = (place.end_head - place.first_head) * rest;
  for (int item = thread; item < items; item += threads) {
    const int head = place.first_head + item / rest;
    const job::Operand& operand = job.operands[head < work.shape().first_heads ? 0 : 1];
    if (operand.in == operand.out) continue;
    const int64_t at = item % rest < job.offset ? item % rest : item % rest + 2 * job.pairs;
    reinterpret_cast<Storage*>(heads_written(work.shape(), place, head, 0).at(0, 0))[at] =
        reinterpret_cast<const Storage*>(heads_read(work.shape(), place, head, 0).at(0, 0))[at];
  }
}

/// Team: `any(body)` runs body(thread) for every thread, waits, and says whether one returned true; `each(body)` runs and waits,
/// `last(body)` does not wait; `threads()` are its own; PerThread<S> is a thread's own S; `again` is turn_slice_again out of line.
template <class Knows, Pairing pairing, class Team>
PHASOR_HD inline void turn_slice(const TeamWorkAt& work, const TeamPlace& place, typename TeamTurner<Knows, pairing>::Shared shared,
                                 Team& team) {
  using Turner = TeamTurner<Knows, pairing>;
  constexpr bool kAsksFirst = Knows::tuning.asks_first;
  const Turner turner = {work, place, shared};
  typename Team::template PerThread<typename Turner::Held> held;
  const bool again = team.any([&](int thread) {
    Asked asked{};
    if constexpr (kAsksFirst) asked = turner.ask(thread);
    turner.load(thread, held.of(thread));
    if constexpr (!kAsksFirst) asked = turner.ask(thread);
    return turner.make(thread, asked);
  });
  if (again) {
    team.template again<Knows, pairing>(work, place, shared);
  } else {
    team.last([&](int thread) { turner.finish(thread, held.of(thread)); });
  }
  if (Knows::plain || !work.shape().copies_rest || place.first_pair != 0) return;
  team.last([&](int thread) { copy_rest_of_heads<Knows::dtype>(work, place, thread, team.threads()); });
}

}  // namespace phasor::cuda
