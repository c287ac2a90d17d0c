// SPDX-License-Identifier: Apache-2.0
// A block of the backward: some sequences, some key heads with the heads that read them, and every so many tiles of queries. What others
// add to as well has a place per block or per part; all places are in one piece of memory.
#pragma once

#include "cuda/attention/tile.hpp"

namespace phasor::cuda::attention {

struct BackwardPlace {
  int64_t index;
  int64_t group;
  int64_t key_group;
  int64_t part;
};
PHASOR_HD inline int64_t backward_blocks(const AttentionWork& work) {
  return work.backward.groups * work.backward.key_groups * work.backward.parts;
}
PHASOR_HD inline BackwardPlace backward_place(const AttentionWork& work, int64_t index) {
  const BackwardWork& b = work.backward;
  return {index, index / b.parts / b.key_groups, index / b.parts % b.key_groups, index % b.parts};
}

/// Heads of queries that a block has.
PHASOR_HD inline int64_t heads_of_block(const AttentionWork& work) { return work.shape.heads / work.backward.key_groups; }

/// body(tile of so many queries, head) for every one that a block has, in the order of its sums.
template <class Body>
PHASOR_HD inline void each_query_tile(const AttentionWork& work, const BackwardPlace& place, int64_t size, const Body& body) {
  const int64_t groups = work.backward.groups;
  const int64_t heads = heads_of_block(work);
  for (int64_t s = place.group * work.sequences / groups; s < (place.group + 1) * work.sequences / groups; ++s) {
    const Sequence sequence = sequence_at(work, s);
    for (int64_t head = place.key_group * heads; head < (place.key_group + 1) * heads; ++head) {
      for (int64_t t = place.part; t < tiles_of(sequence.queries, size); t += work.backward.parts) {
        body(QueryTile{sequence, sequence.first_query + t * size, least(size, sequence.queries - t * size)}, head);
      }
    }
  }
}

/// What a call adds up; null: not wanted.
template <class T>
PHASOR_HD inline T* sums_at(const AttentionWork& work, int64_t at) {
  return at < 0 ? nullptr : static_cast<T*>(work.backward.sums) + at;
}
/// What a block adds up for itself.
template <class T>
PHASOR_HD inline T* slot_at(const AttentionWork& work, int64_t index, int64_t at) {
  return at < 0 ? nullptr : sums_at<T>(work, work.backward.slots + index * work.backward.slot_size + at);
}

// ---- Sums of a tensor (B or 1, rows, H or 1, width) in a slot: (batch rows, rows, heads or 1, width) ----

/// A tensor of every batch row: a group that is one sequence needs no more than its own.
PHASOR_HD inline int64_t slot_batches(const AttentionWork& work, const Extents& shape) {
  return work.backward.groups == work.sequences ? 1 : shape[0];
}
PHASOR_HD inline int64_t slot_heads(const AttentionWork& work, const Extents& shape) { return shape[2] == 1 ? 1 : heads_of_block(work); }
PHASOR_HD inline int64_t slot_extent(const AttentionWork& work, const Extents& shape) {
  return slot_batches(work, shape) * shape[1] * slot_heads(work, shape) * shape[3];
}
/// Of a row, counted from the slot's sums of the tensor.
PHASOR_HD inline int64_t slot_row(const AttentionWork& work, const Extents& shape, int64_t batch, int64_t row, int64_t head) {
  const int64_t b = slot_batches(work, shape) == 1 ? 0 : batch;
  const int64_t heads = slot_heads(work, shape);
  return ((b * shape[1] + row) * heads + head % heads) * shape[3];
}

// ---- Rows of sums of the call ----

/// Rows (B, T, heads, width) of one head; null data: not wanted.
template <class T>
struct SumRows {
  T* data;
  int row;  // from one token to the next
};
template <class T>
PHASOR_HD inline SumRows<T> query_sums(const AttentionWork& work, int64_t at, const ScoreTile& tile, int64_t width) {
  T* const sums = sums_at<T>(work, at);
  if (sums == nullptr) return {nullptr, 0};
  const int64_t token = tile.queries.sequence.batch * work.shape.queries + tile.queries.first;
  return {sums + (token * work.shape.heads + tile.head) * width, static_cast<int>(work.shape.heads * width)};
}
/// The row of a key in sums of keys, counted over all parts. The first part's are those of the call, (B, Tk); behind them every other part
/// has (B, keys of a chunk), where the next chunk's come when this one's are added to the call's.
PHASOR_HD inline int64_t key_row(const AttentionWork& work, int64_t part, int64_t batch, int64_t token) {
  const KeyChunk& chunk = work.backward.chunk;
  if (part == 0) return batch * work.shape.keys + token;
  return work.shape.batch * (work.shape.keys + (part - 1) * chunk.keys) + batch * chunk.keys + token - chunk.first;
}
/// Of all parts.
PHASOR_HD inline int64_t key_rows(const AttentionWork& work) {
  return work.shape.batch * (work.shape.keys + (work.backward.parts - 1) * work.backward.chunk.keys);
}
PHASOR_HD inline int64_t key_chunks(const AttentionWork& work) {
  const int64_t keys = work.backward.chunk.keys;
  return keys == 0 ? 1 : tiles_of(work.shape.keys, keys);
}
template <class T>
PHASOR_HD inline SumRows<T> chunk_sums(const AttentionWork& work, int64_t at, const BackwardPlace& place, const ScoreTile& tile,
                                       int64_t width) {
  T* const sums = sums_at<T>(work, at);
  if (sums == nullptr) return {nullptr, 0};
  const int64_t row = key_row(work, place.part, tile.queries.sequence.batch, tile.first_key);
  return {sums + (row * work.shape.key_heads + tile.key_head) * width, static_cast<int>(work.shape.key_heads * width)};
}
/// The same where a launch has all keys, tile by tile: the general kernel had 40 registers more with a branch here.
template <class T>
PHASOR_HD inline SumRows<T> key_sums(const AttentionWork& work, int64_t at, const BackwardPlace& place, const ScoreTile& tile,
                                     int64_t width) {
  T* const sums = sums_at<T>(work, at);
  if (sums == nullptr) return {nullptr, 0};
  const int64_t token = (place.part * work.shape.batch + tile.queries.sequence.batch) * work.shape.keys + tile.first_key;
  return {sums + (token * work.shape.key_heads + tile.key_head) * width, static_cast<int>(work.shape.key_heads * width)};
}

/// A tile of queries of one head, of a block of the backward; and with one of keys.
template <class T>
struct BackwardRows {
  const AttentionWork& work;
  const BackwardPlace& place;
  const QueryTile& queries;
  int64_t head;
  Room<T>& room;
};
template <class T>
struct BackwardTile {
  const AttentionWork& work;
  const BackwardPlace& place;
  const ScoreTile& tile;
  Room<T>& room;
};

/// factor (column sums of a (m, k)) . b (k, n): what a shift of all queries gets.
template <class T>
struct ColumnProduct {
  Matrix<const T> a;
  const T* b;
  Extent extent;
  T factor;
};
/// to += that.
template <class T, class Block>
PHASOR_HD inline void add_column_product(Block& block, const ColumnProduct<T>& of, Room<T>& room, T* to) {
  const Extent& extent = of.extent;
  block.each([&](int thread, int threads) {
    for (int k = thread; k < extent.k; k += threads) {
      T sum = 0;
      for (int i = 0; i < extent.m; ++i) sum += of.a.data[i * of.a.row + k * of.a.column];
      room.part[k] = sum;
    }
  });
  block.each([&](int thread, int threads) {
    for (int c = thread; c < extent.n; c += threads) {
      T sum = 0;
      for (int k = 0; k < extent.k; ++k) {
        if (room.part[k] != 0) sum += room.part[k] * of.b[k * kRow + c];
      }
      to[c] += of.factor * sum;
    }
  });
}

/// add(i, the sum of value(i, j) over the keys) for every query of the tile, in one order whatever the threads.
template <class T, class Block, class Value, class Add>
PHASOR_HD inline void sum_rows(Block& block, const ScoreTile& tile, Room<T>& room, const Value& value, const Add& add) {
  constexpr int kKeys = kTile / kShare;
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kShare; n += threads) {
      const int i = n / kShare;
      T sum = 0;
      for (int j = n % kShare * kKeys; j < (n % kShare + 1) * kKeys; ++j) {
        if (i < tile.queries.count && j < tile.keys) sum += value(i, j);
      }
      room.part[n] = sum;
    }
  });
  block.each([&](int thread, int threads) {
    for (int i = thread; i < tile.queries.count; i += threads) {
      T sum = 0;
      for (int s = 0; s < kShare; ++s) sum += room.part[i * kShare + s];
      add(i, sum);
    }
  });
}

}  // namespace phasor::cuda::attention
