// SPDX-License-Identifier: Apache-2.0
// A block of a bias written by tiles: queries and keys that follow each other have few distances, so a block of threads makes the value of
// each once, holds it, and writes vectors. Tiles whose positions do not follow each other are written place by place.
#pragma once

#include "cuda/bias/fill.hpp"
#include "cuda/rotary/element.hpp"

namespace phasor::cuda {

constexpr int kTileThreads = 256;
constexpr int kTileQueries = 64;
constexpr int kTileKeys = 1024;
/// Distances of a tile, and what vectors of the last may read behind them.
constexpr int kTileDistances = kTileQueries + kTileKeys + 16;

/// Values of one head by key - query + kTileQueries - 1, as they are stored, and the same again from its second value on, ...: as many
/// copies as a vector has elements, so that one of them has any vector aligned.
struct TileRoom {
  alignas(16) std::byte values[kTileDistances * kVectorBytes];
  bool is_even[kTileThreads];
};

/// Long sums are shared by heads, and perceptrons are made by blocks of their own.
inline bool takes_tiles(const BiasWork& work) { return !work.is_diagonal && !takes_all_heads(work) && !plan::has_perceptron(work.bias); }
/// Whether every row of keys is aligned.
inline bool takes_vectors(const BiasWork& work) {
  const int64_t size = bytes_of(work.out.dtype);
  bool whole = reinterpret_cast<std::uintptr_t>(work.out.data) % kVectorBytes == 0;
  for (std::size_t axis = 0; axis < 3; ++axis) whole = whole && work.out.strides[axis] * size % kVectorBytes == 0;
  return whole;
}

/// Where a tile is.
struct Tile {
  int64_t batch;
  int64_t head;
  int64_t query;
  int64_t key;
  int queries;
  int keys;
};
PHASOR_HD inline int64_t tiles_of(int64_t count, int tile) { return (count + tile - 1) / tile; }
PHASOR_HD inline int64_t tile_count(const BiasWork& work) {
  const Extents& shape = work.out.shape;
  return shape[0] * shape[1] * tiles_of(shape[2], kTileQueries) * tiles_of(shape[3], kTileKeys);
}
PHASOR_HD inline Tile tile_at(const BiasWork& work, int64_t index) {
  const Extents& shape = work.out.shape;
  const int64_t across = tiles_of(shape[3], kTileKeys);
  const int64_t down = tiles_of(shape[2], kTileQueries);
  Tile tile{};
  tile.key = index % across * kTileKeys;
  tile.query = index / across % down * kTileQueries;
  tile.head = index / across / down % shape[1];
  tile.batch = index / across / down / shape[1];
  const int64_t queries = shape[2] - tile.query;
  const int64_t keys = shape[3] - tile.key;
  tile.queries = queries < kTileQueries ? static_cast<int>(queries) : kTileQueries;
  tile.keys = keys < kTileKeys ? static_cast<int>(keys) : kTileKeys;
  return tile;
}

/// Positions [first, first + count) of a batch row.
struct PositionSpan {
  const job::PositionSource& positions;
  int64_t batch;
  int64_t first;
  int count;
};
/// Whether they follow each other, as far as one thread looks.
PHASOR_HD inline bool follow(const PositionSpan& span, int thread, int threads) {
  if (span.positions.data == nullptr) return true;
  const int64_t begin = whole_position(span.positions, 0, span.batch, span.first);
  bool even = true;
  for (int i = thread; i < span.count; i += threads) {
    even = even && static_cast<math::u64>(whole_position(span.positions, 0, span.batch, span.first + i)) ==
                       static_cast<math::u64>(begin) + static_cast<math::u64>(i);
  }
  return even;
}

template <DType dtype, int width, class Long>
struct TileFiller {
  using Storage = typename Element<dtype>::Storage;
  using Lanes = Vector<Storage, width>;
  const BiasWork& work;
  Tile tile;
  int rows;  // queries whose distances differ: all, or one
  Storage* values;

  PHASOR_HD double value(int query, int key) const {
    const int64_t distance = query_at(work, tile.batch, tile.query + query) - whole_position(work.keys, 0, tile.batch, tile.key + key);
    return bias_value<Long>(work.bias, work.first_head + tile.head, distance);
  }
  /// The values of every distance, `width` copies.
  PHASOR_HD void make(int thread, int threads) const {
    for (int n = thread; n < rows + tile.keys - 1; n += threads) {
      const bool of_first_key = n < rows;  // a place that has it
      const auto bits = stored<Storage>(of_first_key ? value(rows - 1 - n, 0) : value(0, n - rows + 1), dtype);
      unrolled<width>([&](auto copy) {
        if (n >= copy) values[copy * kTileDistances + n - copy] = bits;
      });
    }
  }
  PHASOR_HD Storage* row_of(int query) const {
    return static_cast<Storage*>(work.out.data) + tile.batch * work.out.strides[0] + tile.head * work.out.strides[1] +
           (tile.query + query) * work.out.strides[2] + tile.key;
  }
  PHASOR_HD void write(int thread, int threads) const {
    const int across = (tile.keys + width - 1) / width;
    for (int n = thread; n < tile.queries * across; n += threads) {
      const int query = n / across;
      const int key = (n - query * across) * width;
      const int from = (rows == 1 ? 0 : rows - 1 - query) + key;
      Storage* const to = row_of(query) + key;
      const Storage* const held = values + from % width * kTileDistances + from / width * width;
      if (key + width <= tile.keys) {
        *reinterpret_cast<Lanes*>(to) = *reinterpret_cast<const Lanes*>(held);
      } else {
        for (int i = 0; key + i < tile.keys; ++i) to[i] = held[i];
      }
    }
  }
  PHASOR_HD void write_places(int thread, int threads) const {
    for (int n = thread; n < tile.queries * tile.keys; n += threads) {
      const int query = n / tile.keys;
      const int key = n - query * tile.keys;
      row_of(query)[key] = stored<Storage>(value(query, key), dtype);
    }
  }
};

template <DType dtype, int width, class Long, class Block>
PHASOR_HD inline void fill_tile(const BiasWork& work, int64_t index, TileRoom& room, Block& block) {
  using Filler = TileFiller<dtype, width, Long>;
  const Tile tile = tile_at(work, index);
  const Filler filler = {work, tile, is_by_key(work) ? 1 : tile.queries, reinterpret_cast<typename Filler::Storage*>(room.values)};
  block.each([&](int thread, int threads) {
    room.is_even[thread] = follow({work.queries, tile.batch, tile.query, filler.rows}, thread, threads) &&
                           follow({work.keys, tile.batch, tile.key, tile.keys}, thread, threads);
    filler.make(thread, threads);  // of no use where positions do not follow each other, but most do
  });
  bool even = true;
  if (work.queries.data != nullptr || work.keys.data != nullptr) {
    for (int thread = 0; thread < kTileThreads; ++thread) even = even && room.is_even[thread];
  }
  block.each([&](int thread, int threads) { even ? filler.write(thread, threads) : filler.write_places(thread, threads); });
}

}  // namespace phasor::cuda
