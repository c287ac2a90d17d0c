// SPDX-License-Identifier: Apache-2.0
// The general forward: a block has a tile of queries of one head, some channels of their values, and all keys or a part of them.
#pragma once

#include "cuda/attention/scores.hpp"

namespace phasor::cuda::attention {

/// Which work a block of the forward has.
struct ForwardPlace {
  int64_t tile;
  int64_t head;
  int64_t split;
  KeySpan channels;
};
template <class T>
PHASOR_HD inline int64_t value_parts(const AttentionWork& work) {
  return most(1, (work.shape.value_width + kValues<T> - 1) / kValues<T>);
}
template <class T>
PHASOR_HD inline int64_t forward_blocks(const AttentionWork& work) {
  return most_query_tiles(work) * work.shape.heads * value_parts<T>(work) * work.partial.splits;
}
template <class T>
PHASOR_HD inline ForwardPlace forward_place(const AttentionWork& work, int64_t index) {
  const int64_t splits = work.partial.splits;
  const int64_t parts = value_parts<T>(work);
  const int64_t first = index / splits % parts * kValues<T>;
  const int64_t rest = index / splits / parts;
  return {rest / work.shape.heads, rest % work.shape.heads, index % splits, {first, least(work.shape.value_width, first + kValues<T>)}};
}

/// The keys of a split: whole tiles of `size`.
PHASOR_HD inline KeySpan keys_of_split(const AttentionWork& work, const Sequence& s, int64_t split, int64_t size = kTile) {
  const int64_t tiles = (tiles_of(s.keys, size) + work.partial.splits - 1) / work.partial.splits * size;
  return {s.first_key + split * tiles, least(s.first_key + s.keys, s.first_key + (split + 1) * tiles)};
}

/// body(tile of scores) for every tile of keys that some query may see, from the last to the first; positions are there.
template <class T, class Block, class Body>
PHASOR_HD inline void each_key_tile(Block& block, const AttentionWork& work, const QueryTile& queries, int64_t head, const KeySpan& keys,
                                    Room<T>& room, const Body& body) {
  const KeySpan seen = seen_keys(work, queries);
  const int64_t begin = queries.sequence.first_key;
  const int64_t first = most(seen.first, keys.first);
  const int64_t end = least(seen.end, keys.end);
  for (int64_t k = tiles_of(end - begin) - 1; k >= 0 && begin + (k + 1) * kTile > first && first < end; --k) {
    const int64_t at = begin + k * kTile;
    const ScoreTile tile = {queries, head, key_head_of(work, head), at, least(kTile, keys.end - at)};
    bring_positions(block, work, tile, room);
    body(tile);
  }
}

/// Scores become weights relative to the new maximum; room.factor is what older sums are multiplied by.
template <class T, class Block>
PHASOR_HD inline void update_softmax(Block& block, Room<T>& room) {
  T* const maxima = room.part;
  T* const sums = room.part + kTile * kShare;
  constexpr int kKeys = kTile / kShare;
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kShare; n += threads) {
      const T* const row = room.scores + n / kShare * kScoreRow + n % kShare * kKeys;
      T high = room.max[n / kShare];
      for (int j = 0; j < kKeys; ++j) high = row[j] > high ? row[j] : high;
      maxima[n] = high;
    }
  });
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kShare; n += threads) {
      T* const row = room.scores + n / kShare * kScoreRow + n % kShare * kKeys;
      T high = maxima[n / kShare * kShare];
      for (int s = 1; s < kShare; ++s) high = maxima[n / kShare * kShare + s] > high ? maxima[n / kShare * kShare + s] : high;
      T sum = 0;
      for (int j = 0; j < kKeys; ++j) {
        row[j] = row[j] == -infinity<T>() ? T{0} : plan::exponential(row[j] - high);
        sum += row[j];
      }
      sums[n] = sum;
    }
  });
  block.each([&](int thread, int threads) {
    for (int i = thread; i < kTile; i += threads) {
      T high = room.max[i];
      T sum = 0;
      for (int s = 0; s < kShare; ++s) {
        high = maxima[i * kShare + s] > high ? maxima[i * kShare + s] : high;
        sum += sums[i * kShare + s];
      }
      room.factor[i] = room.max[i] == -infinity<T>() ? T{0} : plan::exponential(room.max[i] - high);
      room.sum[i] = room.sum[i] * room.factor[i] + sum;
      room.max[i] = high;
    }
  });
}

template <class T, class Block>
PHASOR_HD inline void begin_rows(Block& block, const AttentionWork& work, Room<T>& room) {
  begin_copes(block, work, room);
  block.each([&](int thread, int threads) {
    for (int i = thread; i < kTile; i += threads) {
      room.max[i] = -infinity<T>();
      room.sum[i] = 0;
    }
    for (int n = thread; n < kTile * (kValues<T> + 1); n += threads) room.sums[n] = 0;
  });
}

template <class T, class Block>
PHASOR_HD inline void drop_weights(Block& block, const AttentionWork& work, const ScoreTile& tile, Room<T>& room) {
  if (!work.dropout.present) return;
  each_score(block, tile,
             [&](int i, int j) { room.scores[i * kScoreRow + j] *= kept<T>(work, tile, room.query_positions[i], room.key_positions[j]); });
}

/// room.sums += weights times values, and what tables add to those.
template <class T, class Block>
PHASOR_HD inline void add_values(Block& block, const AttentionWork& work, const ScoreTile& tile, const KeySpan& channels, Room<T>& room) {
  constexpr int kSumRow = kValues<T> + 1;
  for (int64_t c = channels.first; c < channels.end; c += kChunk) {
    bring(block, key_rows(work.v, tile), c, room.b);
    const int wide = static_cast<int>(least(kChunk, channels.end - c));
    add_product<Left::weights, T>(block, {room.scores, kScoreRow, 1}, {room.b, kRow, 1}, {room.sums + (c - channels.first), kSumRow, 1},
                                  {kTile, wide, kTile});
  }
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.use == RowUse::value) add_value_rows(block, term.table, tile, channels, room);
  }
}

// ---- The end of a row ----

/// What a softmax over keys becomes with the sink of its head: lse, and what sums are multiplied by.
template <class T>
struct RowEnd {
  T lse;
  T factor;
};
/// e^(logit - top), also where both are infinite.
template <class T>
PHASOR_HD inline T weight_under(T logit, T top) {
  return logit == top ? T{1} : plan::exponential(logit - top);
}
template <class T>
PHASOR_HD inline RowEnd<T> end_of_row(const AttentionWork& work, int64_t head, T max, T sum) {
  const T sink = work.sinks.data == nullptr ? -infinity<T>() : element_at<T>(work.sinks, 0, 0, head, 0);
  if (sink == -infinity<T>()) return sum == 0 ? RowEnd<T>{-infinity<T>(), T{0}} : RowEnd<T>{max + plan::logarithm(sum), 1 / sum};
  const T of_keys = sum == 0 ? -infinity<T>() : max;
  const T top = of_keys < sink ? sink : of_keys;
  const T factor = weight_under(of_keys, top);
  const T all = sum * factor + weight_under(sink, top);
  return {top + plan::logarithm(all), factor / all};
}

/// Of a tensor (B, T, H, D).
PHASOR_HD inline int64_t place_in(const TensorView& v, int64_t batch, int64_t token, int64_t head) {
  return batch * v.strides[0] + token * v.strides[1] + head * v.strides[2];
}

template <class T, class Block>
PHASOR_HD inline void store_rows(Block& block, const AttentionWork& work, const QueryTile& tile, const ForwardPlace& place,
                                 const Room<T>& room) {
  const TensorView& out = work.outputs.out;
  const TensorView& lse = work.outputs.lse;
  const int64_t batch = tile.sequence.batch;
  const int64_t wide = place.channels.end - place.channels.first;
  block.each([&](int thread, int threads) {
    for (int64_t n = thread; n < tile.count * wide; n += threads) {
      const int64_t i = n / wide;
      const RowEnd<T> end = end_of_row(work, place.head, room.max[i], room.sum[i]);
      const T x = room.sums[i * (kValues<T> + 1) + n % wide] * end.factor;
      const int64_t c = place.channels.first + n % wide;
      job::store_element(out.data, out.dtype, place_in(out, batch, tile.first + i, place.head) + c * out.strides[3], x);
    }
    if (lse.data == nullptr || place.channels.first != 0) return;
    for (int64_t i = thread; i < tile.count; i += threads) {
      const RowEnd<T> end = end_of_row(work, place.head, room.max[i], room.sum[i]);
      job::store_element(lse.data, lse.dtype, place_in(lse, batch, tile.first + i, place.head), end.lse);
    }
  });
}

/// The row of a query and head among (B, Tq, H).
PHASOR_HD inline int64_t row_number(const AttentionWork& work, int64_t batch, int64_t token, int64_t head) {
  return (batch * work.shape.queries + token) * work.shape.heads + head;
}

template <class T, class Block>
PHASOR_HD inline void store_partial(Block& block, const AttentionWork& work, const QueryTile& tile, const ForwardPlace& place,
                                    const Room<T>& room) {
  const PartialWork& to = work.partial;
  const int64_t rows = work.shape.batch * work.shape.queries * work.shape.heads;
  const int64_t wide = place.channels.end - place.channels.first;
  block.each([&](int thread, int threads) {
    for (int64_t n = thread; n < tile.count * wide; n += threads) {
      const int64_t row = place.split * rows + row_number(work, tile.sequence.batch, tile.first + n / wide, place.head);
      static_cast<T*>(to.out)[row * work.shape.value_width + place.channels.first + n % wide] =
          room.sums[n / wide * (kValues<T> + 1) + n % wide];
    }
    for (int64_t i = thread; place.channels.first == 0 && i < tile.count; i += threads) {
      const int64_t row = place.split * rows + row_number(work, tile.sequence.batch, tile.first + i, place.head);
      static_cast<T*>(to.max)[row] = room.max[i];
      static_cast<T*>(to.sum)[row] = room.sum[i];
    }
  });
}

template <class T, class Block>
PHASOR_HD inline void forward_block(const AttentionWork& work, int64_t index, Room<T>& room, Block& block) {
  const ForwardPlace place = forward_place<T>(work, index);
  const QueryTile queries = query_tile_at(work, place.tile);
  if (queries.count == 0) return;
  begin_rows(block, work, room);
  each_key_tile(block, work, queries, place.head, keys_of_split(work, queries.sequence, place.split), room, [&](const ScoreTile& tile) {
    make_scores(block, work, tile, room);
    update_softmax(block, room);
    block.each([&](int thread, int threads) {
      for (int n = thread; n < kTile * (kValues<T> + 1); n += threads) room.sums[n] *= room.factor[n / (kValues<T> + 1)];
    });
    drop_weights(block, work, tile, room);
    add_values(block, work, tile, place.channels, room);
  });
  if (work.partial.splits == 1) {
    store_rows(block, work, queries, place, room);
  } else {
    store_partial(block, work, queries, place, room);
  }
}

/// Channel and row of item n: the splits of a row, made one; the first channel's brings lse, too.
template <class T>
PHASOR_HD inline void merge_splits(const AttentionWork& work, int64_t n) {
  const PartialWork& from = work.partial;
  const int64_t width = most(1, work.shape.value_width);
  const int64_t rows = work.shape.batch * work.shape.queries * work.shape.heads;
  const int64_t row = n / width;
  const int64_t channel = n % width;
  T high = -infinity<T>();
  for (int64_t s = 0; s < from.splits; ++s) {
    const T max = static_cast<const T*>(from.max)[s * rows + row];
    high = max > high ? max : high;
  }
  T sum = 0;
  T x = 0;
  for (int64_t s = 0; s < from.splits; ++s) {
    const T max = static_cast<const T*>(from.max)[s * rows + row];
    const T part = static_cast<const T*>(from.sum)[s * rows + row];
    const T factor = max == -infinity<T>() && part == 0 ? T{0} : plan::exponential(max - high);  // a part of NaN alone has no maximum
    sum += part * factor;
    if (channel < work.shape.value_width && factor != 0)
      x += static_cast<const T*>(from.out)[(s * rows + row) * work.shape.value_width + channel] * factor;
  }
  const int64_t head = row % work.shape.heads;
  const int64_t token = row / work.shape.heads % work.shape.queries;
  const int64_t batch = row / work.shape.heads / work.shape.queries;
  const RowEnd<T> end = end_of_row(work, head, high, sum);
  const TensorView& out = work.outputs.out;
  const TensorView& lse = work.outputs.lse;
  if (channel < work.shape.value_width) {
    job::store_element(out.data, out.dtype, place_in(out, batch, token, head) + channel * out.strides[3], x * end.factor);
  }
  if (channel == 0 && lse.data != nullptr) job::store_element(lse.data, lse.dtype, place_in(lse, batch, token, head), end.lse);
}

}  // namespace phasor::cuda::attention
