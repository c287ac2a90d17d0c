// SPDX-License-Identifier: Apache-2.0
// Gradients by q and k as contents have them, and by the shift of queries.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/scores.hpp"

namespace phasor::cuda::attention {

/// Where the gradients of a content go.
template <class T>
struct ContentTargets {
  SumRows<T> q;
  SumRows<T> k;
  T* shift;
};

/// xPos: each product has the factor of its distance and channel.
template <class T, class Block>
PHASOR_HD inline void send_decayed(Block& block, const BackwardTile<T>& at, int64_t channel, const ContentTargets<T>& to) {
  const Room<T>& room = at.room;
  const AttentionWork& work = at.work;
  const T scale = static_cast<T>(work.scale);
  const auto wide = static_cast<int>(least(kChunk, work.shape.width - channel));
  const auto factor = [&](int i, int j, double log) {
    const auto distance = static_cast<double>(room.query_positions[i] - room.key_positions[j]);
    return static_cast<T>(plan::decay_factor(log, distance)) * room.other[i * kScoreRow + j];
  };
  block.each([&](int thread, int threads) {
    for (int n = thread; to.q.data != nullptr && n < at.tile.queries.count * wide; n += threads) {
      const int i = n / wide;
      const int c = n % wide;
      const double log = log_zeta(work.decay, channel + c);
      T sum = 0;
      for (int j = 0; j < at.tile.keys; ++j) {
        if (room.other[i * kScoreRow + j] != 0) sum += factor(i, j, log) * room.b[j * kRow + c];
      }
      to.q.data[i * to.q.row + channel + c] += scale * sum;
    }
    for (int n = thread; to.k.data != nullptr && n < at.tile.keys * wide; n += threads) {
      const int j = n / wide;
      const int c = n % wide;
      const double log = log_zeta(work.decay, channel + c);
      T sum = 0;
      for (int i = 0; i < at.tile.queries.count; ++i) {
        if (room.other[i * kScoreRow + j] != 0) sum += factor(i, j, log) * room.a[i * kRow + c];
      }
      to.k.data[j * to.k.row + channel + c] += scale * sum;
    }
  });
}

/// From what room.other has of the scores' gradient.
template <class T, class Block>
PHASOR_HD inline void send_content(Block& block, const BackwardTile<T>& at, const Content& content, const ContentTargets<T>& to) {
  const AttentionWork& work = at.work;
  Room<T>& room = at.room;
  const T scale = static_cast<T>(work.scale);
  const auto queries = static_cast<int>(at.tile.queries.count);
  const auto keys = static_cast<int>(at.tile.keys);
  for (int64_t c = 0; c < work.shape.width; c += kChunk) {
    const auto wide = static_cast<int>(least(kChunk, work.shape.width - c));
    if (to.k.data != nullptr) bring(block, query_rows(content.q, at.tile), c, room.a, work.content_shift, at.tile.head);
    if (to.q.data != nullptr || to.shift != nullptr) bring(block, key_rows(content.k, at.tile), c, room.b);
    if (work.decay.present) {
      send_decayed(block, at, c, to);
      continue;
    }
    if (to.q.data != nullptr)
      add_product<Left::weights, T>(block, {room.other, kScoreRow, 1}, {room.b, kRow, 1}, {to.q.data + c, to.q.row, 1},
                                    {queries, wide, keys}, scale);
    if (to.k.data != nullptr)
      add_product<Left::weights, T>(block, {room.other, 1, kScoreRow}, {room.a, kRow, 1}, {to.k.data + c, to.k.row, 1},
                                    {keys, wide, queries}, scale);
    if (to.shift != nullptr)
      add_column_product<T>(block, {{room.other, kScoreRow, 1}, room.b, {queries, wide, keys}, scale}, room, to.shift + c);
  }
}

/// Every content's gradient, from room.scores: ds.
template <class T, class Block>
PHASOR_HD inline void take_contents(Block& block, const BackwardTile<T>& at) {
  const AttentionWork& work = at.work;
  Room<T>& room = at.room;
  for (int content = 0; content < work.content_count; ++content) {
    ContentTargets<T> to = {query_sums<T>(work, work.backward.q[content], at.tile, work.shape.width),
                            key_sums<T>(work, work.backward.k[content], at.place, at.tile, work.shape.width),
                            slot_at<T>(work, at.place.index, work.backward.content_shift)};
    if (to.shift != nullptr) to.shift += slot_row(work, work.content_shift.shape, 0, 0, at.tile.head);
    if (to.q.data == nullptr && to.k.data == nullptr && to.shift == nullptr) continue;
    each_score(block, at.tile, [&](int i, int j) {
      const bool takes = content_at(work, room.query_positions[i], room.key_positions[j]) == content;
      room.other[i * kScoreRow + j] = takes ? room.scores[i * kScoreRow + j] : T{0};
    });
    send_content(block, at, work.contents[content], to);
  }
}

}  // namespace phasor::cuda::attention
