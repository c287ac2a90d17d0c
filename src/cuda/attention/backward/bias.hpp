// SPDX-License-Identifier: Apache-2.0
// Gradients of biases: sums of ds along diagonals, or by rows of a table and by numbers of a head where positions are the caller's; of
// gates; and of a bias given in full.
#pragma once

#include "cuda/attention/backward/items.hpp"
#include "cuda/attention/backward/perceptron.hpp"
#include "cuda/attention/backward/tables.hpp"
#include "cuda/attention/bias.hpp"
#include "plan/bias/gradient_terms.hpp"

namespace phasor::cuda::attention {

/// How the parameters of a bias are summed: by distance; by rows of a table; a number or two of each head; all of them, at every score.
enum class BiasWay : std::uint8_t { distances, rows, numbers, perceptron };
PHASOR_HD inline BiasWay way_of(const BiasWork& term) {
  using Scheme = plan::BiasSource::Scheme;
  if (term.distances > 0) return BiasWay::distances;
  if (term.bias.scheme == Scheme::table) return BiasWay::rows;
  return term.bias.scheme == Scheme::alibi || term.bias.scheme == Scheme::kerple ? BiasWay::numbers : BiasWay::perceptron;
}
/// The sums of a slot, as a tensor of all heads: (1, 1, H, distances or rows), (1, numbers, H, 1); of parameters that heads share (1, 1, 1,
/// parameters).
PHASOR_HD inline Extents bias_sums(const AttentionWork& work, const BiasWork& term) {
  const int64_t heads = work.shape.heads;
  const BiasWay way = way_of(term);
  if (way == BiasWay::distances) return {1, 1, heads, term.distances};
  if (way == BiasWay::rows) return {1, 1, heads, term.bias.rows};
  if (way == BiasWay::perceptron) return {1, 1, 1, term.parameter_count};
  return {1, term.bias.scheme == plan::BiasSource::Scheme::kerple ? 2 : 1, heads, 1};
}

template <class T>
PHASOR_HD inline T gated_gradient(const BackwardTile<T>& at, const BiasWork& term, int i, int j) {
  return gate_at<T>(term, at.tile.queries.sequence.batch, at.tile.queries.first + i, at.tile.head) * at.room.scores[i * kScoreRow + j];
}

/// A thread has a distance. Positions are those of tokens: they follow each other.
template <class T, class Block>
PHASOR_HD inline void take_diagonals(Block& block, const BackwardTile<T>& at, const BiasWork& term, T* to) {
  const ScoreTile& tile = at.tile;
  const bool by_key = bias_distance(term.bias, 1, 0) == 0;
  const auto queries = static_cast<int>(tile.queries.count);
  const auto keys = static_cast<int>(tile.keys);
  block.each([&](int thread, int threads) {
    for (int n = thread; n < (by_key ? keys : queries + keys - 1); n += threads) {
      T sum = 0;
      if (by_key) {
        for (int i = 0; i < queries; ++i) sum += gated_gradient(at, term, i, n);
        to[bias_distance(term.bias, 0, at.room.key_positions[n]) - term.first_distance] += sum;
        continue;
      }
      const int behind = n - (keys - 1);  // i - j
      for (int i = behind > 0 ? behind : 0; i < queries && i - behind < keys; ++i) sum += gated_gradient(at, term, i, i - behind);
      to[at.room.query_positions[0] - at.room.key_positions[0] + behind - term.first_distance] += sum;
    }
  });
}

template <class T, class Block>
PHASOR_HD inline void take_bias_rows(Block& block, const BackwardTile<T>& at, const BiasWork& term, T* to) {
  Room<T>& room = at.room;
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kTile; n += threads) {
      const bool is_there = n / kTile < at.tile.queries.count && n % kTile < at.tile.keys;
      const int64_t distance = bias_distance(term.bias, room.query_positions[n / kTile], room.key_positions[n % kTile]);
      room.rows[n] = static_cast<std::int32_t>(is_there ? plan::row_of(term.bias.row, distance) : -1);
    }
  });
  each_window(block, room, [&](const RowWindow& window) {
    gather_rows<false>(block, at.tile, window, room, [&](int i, int j) { return gated_gradient(at, term, i, j); });
    send_numbers(block, at, window, to, 1);
  });
}

/// What a score adds to number `which` of its head.
template <class T>
PHASOR_HD inline T number_gradient(const BiasWork& term, int64_t head, int64_t distance, int64_t which, T g) {
  if (g == 0) return 0;
  if (term.bias.scheme == plan::BiasSource::Scheme::alibi) return static_cast<T>(plan::alibi_gradient(term.bias, distance, g));
  if (distance == 0) return 0;
  const plan::KerpleGradient by = plan::kerple_gradient(term.bias, head, distance, g);
  return static_cast<T>(which == 0 ? by.r1 : by.r2);
}
template <class T, class Block>
PHASOR_HD inline void take_numbers(Block& block, const BackwardTile<T>& at, const BiasWork& term, const Extents& shape, T* to) {
  Room<T>& room = at.room;
  for (int64_t which = 0; which < shape[1]; ++which) {
    const auto value = [&](int i, int j) {
      const int64_t distance = bias_distance(term.bias, room.query_positions[i], room.key_positions[j]);
      return number_gradient(term, term.first_head + at.tile.head, distance, which, gated_gradient(at, term, i, j));
    };
    sum_rows(block, at.tile, room, value, [&](int i, T sum) { room.window[i] = sum; });
    block.each([&](int thread, int) {
      if (thread != 0) return;
      T sum = 0;
      for (int i = 0; i < at.tile.queries.count; ++i) sum += room.window[i];
      to[slot_row(at.work, shape, 0, which, at.tile.head)] += sum;
    });
  }
}

template <class T, class Block>
PHASOR_HD PHASOR_OUT_OF_LINE inline void take_bias(Block& block, const BackwardTile<T>& at, const TermWork& term) {
  const BiasWork& bias = term.bias;
  T* const to = slot_at<T>(at.work, at.place.index, term.sums.slot);
  if (to != nullptr) {
    const Extents shape = bias_sums(at.work, bias);
    T* const of_head = to + slot_row(at.work, shape, 0, 0, at.tile.head);
    const BiasWay way = way_of(bias);
    if (way == BiasWay::distances) take_diagonals(block, at, bias, of_head);
    if (way == BiasWay::rows) take_bias_rows(block, at, bias, of_head);
    if (way == BiasWay::numbers) take_numbers(block, at, bias, shape, to);
    if (way == BiasWay::perceptron) {
      take_perceptron(block, at, bias, reinterpret_cast<double*>(slot_at<T>(at.work, at.place.index, term.sums.memory)), of_head);
    }
  }
  const SumRows<T> gates = query_sums<T>(at.work, term.sums.features, at.tile, 1);
  if (gates.data == nullptr) return;
  const Room<T>& room = at.room;
  const auto value = [&](int i, int j) {
    const T ds = room.scores[i * kScoreRow + j];
    return ds == 0 ? T{0} : ds * bias_at<T>(bias, at.tile.head, room.query_positions[i], room.key_positions[j]);
  };
  sum_rows(block, at.tile, at.room, value, [&](int i, T sum) { gates.data[i * gates.row] += sum; });
}

// ---- Given in full ----

/// Where an element's gradient goes: to the caller's tensor, which has one block for each, or, of queries that share it, to sums of the
/// part, (parts, B or 1, 1, H or 1, Tk or 1).
template <class T>
PHASOR_HD inline void add_dense(const BackwardTile<T>& at, const TermWork& term, int64_t query, int64_t key, T x) {
  const TensorView& to = term.dense_gradient;
  const Extents& s = to.shape;
  const ElementAt e = {
      {s[0] == 1 ? 0 : at.tile.queries.sequence.batch, s[1] == 1 ? 0 : query, s[2] == 1 ? 0 : at.tile.head, s[3] == 1 ? 0 : key}};
  if (term.sums.features < 0) return add_to(to, e, x);
  sums_at<T>(at.work, term.sums.features)[((at.place.part * s[0] + e.index[0]) * s[2] + e.index[2]) * s[3] + e.index[3]] += x;
}

template <class T, class Block>
PHASOR_HD inline void take_dense(Block& block, const BackwardTile<T>& at, const TermWork& term) {
  const Extents& s = term.dense_gradient.shape;
  if (term.dense_gradient.data == nullptr) return;
  Room<T>& room = at.room;
  const int64_t query = at.tile.queries.first;
  const int64_t key = at.tile.first_key;
  const auto ds = [&](int i, int j) { return room.scores[i * kScoreRow + j]; };
  const bool every_query = s[1] == at.work.shape.queries && at.work.shape.queries > 1;
  const bool every_key = s[3] == at.work.shape.keys && at.work.shape.keys > 1;
  if (every_query && every_key) {
    each_score(block, at.tile, [&](int i, int j) { add_dense(at, term, query + i, key + j, ds(i, j)); });
    return;
  }
  if (every_key) {
    block.each([&](int thread, int threads) {
      for (int j = thread; j < at.tile.keys; j += threads) {
        T sum = 0;
        for (int i = 0; i < at.tile.queries.count; ++i) sum += ds(i, j);
        add_dense(at, term, query, key + j, sum);
      }
    });
    return;
  }
  sum_rows(block, at.tile, room, ds, [&](int i, T sum) {
    if (every_query) {
      add_dense(at, term, query + i, key, sum);
    } else {
      room.window[i] = sum;
    }
  });
  block.each([&](int thread, int) {
    if (thread != 0 || every_query) return;
    T sum = 0;
    for (int i = 0; i < at.tile.queries.count; ++i) sum += room.window[i];
    add_dense(at, term, query, key, sum);
  });
}

}  // namespace phasor::cuda::attention
