// SPDX-License-Identifier: Apache-2.0
// Tables of rows by distance in a tile, whose queries and keys follow each other: the rows of its runs of distances are brought, products
// with all of them are made by tensor cores, and a score finds its own by its run. On the way back gradients of scores are added up over
// each run, and products with rows and features give what those get. A table of values is met by the gradient of the outputs as one of
// queries is by those, with gradients of weights in the place of scores, and weights in the place of gradients of scores.
#pragma once

#include "cuda/attention/backward/tables.hpp"
#include "cuda/attention/mma/backward/runs.cuh"

namespace phasor::cuda::attention::mma::backward {

/// Whether the rows of a SkewedTile are queries or keys, the first distance that one of its rows meets, or 16 of them, and what meets the
/// table: queries, keys, or, where a table is added to values, the gradients of outputs.
template <class K, RowUse kUse>
struct Side {
  static constexpr bool kOfKeys = kUse == RowUse::key;
  using Tile = std::conditional_t<kOfKeys, typename K::ByKey, typename K::ByQuery>;
  static __device__ __forceinline__ int first_distance_of_row(int row) { return kOfKeys ? kKeys - 1 - row : row; }
  static __device__ __forceinline__ int first_distance(int row_tile) { return kOfKeys ? kKeys - 16 - 16 * row_tile : 16 * row_tile; }
  static __device__ __forceinline__ unsigned char* features(typename K::Room& room) {
    return kOfKeys ? room.k : kUse == RowUse::value ? room.out_gradient : K::kFeatured ? room.features() : room.q;
  }
  /// Warps that share 16 rows where they are multiplied with a table's.
  static constexpr int kShare = kWarps / (Tile::kRows / 16);
};

/// The runs that 16 rows meet, in blocks of 16 runs: column 0 of those rows is run 16 * first.
struct Blocks {
  int first;
  int count;
};
template <class K, RowUse kUse, class Map>
__device__ __forceinline__ Blocks blocks_of(const Map& map, int tile) {
  using S = Side<K, kUse>;
  const int distance = S::first_distance(tile);
  const int first = map.run(distance) / 16;
  return {first, map.run(distance + S::Tile::kOthers + 14) / 16 - first + 1};
}

/// A table in a tile: its rows and runs are there.
template <class K>
struct TableHere {
  const TableWork& table;
  const TermHere& term;
  const unsigned char* rows;
  Runs<K::kDistances, K::kRowWidth>& runs;
  __device__ __forceinline__ OfRuns<K> map() const { return {runs}; }
  /// Steps of 16 channels: features of their own may have far less than a row has room for.
  __device__ __forceinline__ int steps() const {
    return K::kFeatured ? static_cast<int>(table.table.shape[3] + 15) / 16 : K::kRowWidth / 16;
  }
  __device__ __forceinline__ bool is_shifted() const { return !K::kFeatured && table.shift.data != nullptr; }
};
template <class K>
__device__ __forceinline__ TableHere<K> table_here(const Step<K>& at, int t, int place) {
  return {at.work.terms[t].table, at.room.terms[t], at.room.rows[place], at.room.runs[place]};
}

/// room.skewed = products of 16 rows of features with the rows of their runs.
template <class K, RowUse kUse>
__device__ __forceinline__ void multiply_rows_of_table(const TableHere<K>& table, typename K::Room& room) {
  using S = Side<K, kUse>;
  const int lane = lane_here();
  const int tile = warp_here() / S::kShare;
  const Blocks blocks = blocks_of<K, kUse>(table.map(), tile);
  const std::uint32_t features = shared_address(S::features(room));
  const std::uint32_t rows = shared_address(table.rows);
  const int steps = table.steps();
  std::uint32_t left[K::kRowWidth / 16][4];
#pragma unroll
  for (int step = 0; step < K::kRowWidth / 16; ++step) {
    if (step < steps) left_operand<K::kRowWidth>(left[step], features, 16 * tile, step, lane);
  }
  auto* const to = reinterpret_cast<float*>(room.skewed) + (16 * tile + lane / 4) * S::Tile::kPitch + 2 * (lane & 3);
#pragma unroll 2
  for (int n = warp_here() % S::kShare; n < blocks.count; n += S::kShare) {
    const int first = 16 * (blocks.first + n) + (lane & 7) + ((lane >> 4) << 3);
    float d[2][4] = {};
#pragma unroll
    for (int step = 0; step < K::kRowWidth / 16; ++step) {
      if (step >= steps) break;
      std::uint32_t right[4];
      load_matrices(right, rows + piece_offset<K::kRowWidth>(first, 2 * step + (lane >> 3 & 1)));
      add_product<typename K::Element>(d[0], left[step], right[0], right[1]);
      add_product<typename K::Element>(d[1], left[step], right[2], right[3]);
    }
#pragma unroll
    for (int x = 0; x < 8; ++x) to[8 * (x >> 1 & 1) * S::Tile::kPitch + 16 * n + 8 * (x >> 2) + (x & 1)] = d[x >> 2][x & 3];
  }
}

/// body(s[n][2 h + x], n, h, x, its run) for a lane's numbers: of query 8 n + x and key 8 h from the lane's first on. Those of n, h = 0 and
/// of n + 1, h = 1 have one distance: its run is read once for both.
template <class K, int kColumns, class Body>
__device__ __forceinline__ void each_run_of_lane(const TableHere<K>& table, float (&s)[kColumns][4], const Body& body) {
  const std::uint8_t* const runs = table.runs.of_distance + query_of_lane<kColumns>() - key_of_lane() + kKeys - 1;
#pragma unroll
  for (int n = -1; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 2; ++x) {
      const int run = runs[8 * n + x];
      if (n >= 0) body(s[n][x], n, 0, x, run);
      if (n + 1 < kColumns) body(s[n + 1][2 + x], n + 1, 1, x, run);
    }
  }
}
/// s += what a table adds. Its rows are there, and nobody reads room.skewed any more.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void add_table_scores(const TableHere<K>& table, typename K::Room& room, float (&s)[kColumns][4]) {
  using S = Side<K, kUse>;
  constexpr int kTiles = S::kOfKeys ? 1 : kColumns / 2;
  const bool shifted = table.is_shifted();
  multiply_rows_of_table<K, kUse>(table, room);
  if (shifted) multiply_shift<K>(table.rows, table.runs.count, table.runs.shift, table.runs.shifts);
  __syncthreads();
  const int row = S::kOfKeys ? key_of_lane() : query_of_lane<kColumns>();
  const float* from[kTiles];  // of the lane's first row, of each 16 rows: where run 0 would be
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int first = blocks_of<K, kUse>(table.map(), S::kOfKeys ? key_tile_of_warp() : row / 16 + tile).first;
    from[tile] = reinterpret_cast<const float*>(room.skewed) + row * S::Tile::kPitch - 16 * first;
  }
  const auto product = [&](int n, int h, int x, int run) {
    return S::kOfKeys ? from[0][8 * h * S::Tile::kPitch + run] : from[n / 2 % kTiles][(8 * n + x) * S::Tile::kPitch + run];
  };
  const float scale = table.term.scale;
  if (shifted) {
    each_run_of_lane<K>(
        table, s, [&](float& y, int n, int h, int x, int run) { y = fmaf(scale, product(n, h, x, run) + table.runs.shifts[run], y); });
  } else {
    each_run_of_lane<K>(table, s, [&](float& y, int n, int h, int x, int run) { y = fmaf(scale, product(n, h, x, run), y); });
  }
}

// ---- Back: sums over runs ----

/// Where the number of a key and a query is.
template <class K>
__device__ __forceinline__ unsigned char* number_of(unsigned char* numbers, int key, int query) {
  return numbers + key / 16 * K::kGradientTile + key % 16 * K::kGradientPitch + query * 2;
}
/// Numbers of scores by keys and queries, in 16 bits.
template <class K, int kColumns>
__device__ __forceinline__ void share(const float (&x)[kColumns][4], unsigned char* to) {
  unsigned char* const own = number_of<K>(to, key_of_lane(), query_of_lane<kColumns>());
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<std::uint32_t*>(own + 8 * h * K::kGradientPitch + 16 * n) = pack<typename K::Element>(x[n][2 * h], x[n][2 * h + 1]);
    }
  }
}

/// Lanes that share a row of a tile, each with some of its numbers in the order of distances: lane = part * kRows + row.
template <class K, RowUse kUse>
struct RowParts {
  using S = Side<K, kUse>;
  static constexpr int kParts = kBackwardThreads / S::Tile::kRows;
  static constexpr int kRows = 32 / kParts;  // of a warp
  static constexpr int kShare = S::Tile::kOthers / kParts;
  static constexpr int kTogether = 8;
  static_assert(16 % kRows == 0 && kShare % kTogether == 0 && kShare <= 32);
};

/// Eight of a row's numbers from place `first` on, in the order of distances.
template <class K, RowUse kUse>
__device__ __forceinline__ void load_eight(typename K::Room& room, int row, int first, float (&x)[8]) {
  using Element = typename K::Element;
  if constexpr (Side<K, kUse>::kOfKeys) {
    const uint4 eight = *reinterpret_cast<const uint4*>(number_of<K>(room.gradients(), row, first));
    const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] = widened<Element>(static_cast<std::uint16_t>(pairs[e / 2] >> 16 * (e & 1)));
  } else {
    const unsigned char* const from = number_of<K>(room.gradients(), kKeys - 1 - first, row);
#pragma unroll
    for (int e = 0; e < 8; ++e) x[e] = widened<Element>(*reinterpret_cast<const std::uint16_t*>(from - e * K::kGradientPitch));
  }
}

/// room.by_runs() = sums over runs of what is in room.gradients(), zeros where a row does not meet a run. Barriers on both sides. A lane
/// adds up its part of a row; a run that goes on in the next lane's part is ended there.
template <class K, RowUse kUse, class Map>
__device__ PHASOR_OUT_OF_LINE void add_up_runs(typename K::Room& room, const Map& map) {
  using S = Side<K, kUse>;
  using Parts = RowParts<K, kUse>;
  const int part = lane_here() / Parts::kRows;
  const int row = warp_here() * Parts::kRows + lane_here() % Parts::kRows;
  const Blocks blocks = blocks_of<K, kUse>(map, row / 16);
  unsigned char* const to = room.by_runs() + row * 2 * S::Tile::kNarrowPitch;
  const auto store = [&](int run, float sum) {
    *reinterpret_cast<std::uint16_t*>(to + 2 * (run - 16 * blocks.first)) = static_cast<std::uint16_t>(pack<typename K::Element>(sum, 0));
  };
  __syncthreads();  // nobody reads what is there any more, and all numbers are there
  for (int n = part; n < 2 * blocks.count; n += Parts::kParts) *reinterpret_cast<uint4*>(to + 16 * n) = uint4{0, 0, 0, 0};
  __syncwarp();
  const int distance = S::first_distance_of_row(row) + part * Parts::kShare;
  const std::uint64_t begins = map.begins(distance);
  const int first_run = map.run(distance);
  int run = first_run;
  float first_sum = 0;
  float sum = 0;
#pragma unroll 1
  for (int first = 0; first < Parts::kShare; first += Parts::kTogether) {
    float x[Parts::kTogether];
    load_eight<K, kUse>(room, row, part * Parts::kShare + first, x);
    const std::uint32_t bits = static_cast<std::uint32_t>(begins >> first) & (first == 0 ? 0xfeU : 0xffU);
    if (bits == 0) {
      sum += ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
      continue;
    }
#pragma unroll
    for (int e = 0; e < Parts::kTogether; ++e) {
      if ((bits >> e & 1U) != 0) {
        if (run == first_run) first_sum = sum;
        store(run, sum);
        sum = 0;
        ++run;
      }
      sum += x[e];
    }
  }
#pragma unroll
  for (int p = 1; p < Parts::kParts; ++p) {
    const float before = __shfl_up_sync(~0U, sum, Parts::kRows);
    if (part != p || (begins & 1U) != 0) continue;
    if (run == first_run) {
      sum += before;
    } else {
      store(first_run, before + first_sum);
    }
  }
  if (part == Parts::kParts - 1 || (begins >> Parts::kShare & 1U) != 0) store(run, sum);
  __syncthreads();
}

// ---- Back: what features and rows get ----

/// d += sums by runs of 16 rows x the table's rows, channels from 16 `first` on.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void add_feature_gradients(const TableHere<K>& table, typename K::Room& room, int tile, int first,
                                                      float (&d)[kColumns][4]) {
  using S = Side<K, kUse>;
  const Blocks blocks = blocks_of<K, kUse>(table.map(), tile);
#pragma unroll 1
  for (int n = 0; n < blocks.count; ++n) {
    std::uint32_t left[4];
    left_from(left, room.by_runs(), 2 * S::Tile::kNarrowPitch, 16 * tile, 16 * n);
    add_rows<typename K::Element, K::kRowWidth>(d, left, table.rows, 16 * (blocks.first + n), first);
  }
}

/// body(sums of 16 runs by 16 rows, the first of those rows), for all rows that meet such runs.
template <class K, RowUse kUse, class Map, class Body>
__device__ __forceinline__ void each_row_tile(const Map& map, typename K::Room& room, int block, const Body& body) {
  using S = Side<K, kUse>;
#pragma unroll
  for (int tile = 0; tile < S::Tile::kRows / 16; ++tile) {
    const Blocks blocks = blocks_of<K, kUse>(map, tile);
    if (block < blocks.first || block >= blocks.first + blocks.count) continue;
    std::uint32_t left[4];
    left_transposed(left, room.by_runs(), 2 * S::Tile::kNarrowPitch, 16 * (block - blocks.first), 16 * tile);
    body(left, 16 * tile);
  }
}
/// Sums over rows: of runs g and g + 8 of a lane, in every column.
template <class K>
__device__ __forceinline__ void add_row_sums(float (&sums)[4], const std::uint32_t (&left)[4]) {
  const std::uint32_t ones = pack<typename K::Element>(1, 1);
  add_product<typename K::Element>(sums, left, ones, ones);
}

/// Gradients of 16 runs' rows: by features, and what a shift of those adds. Times the term's scale.
template <class K, RowUse kUse, int kColumns>
__device__ __forceinline__ void row_gradients(const TableHere<K>& table, typename K::Room& room, int block, int channel,
                                              float (&d)[kColumns][4]) {
  const bool shifted = table.is_shifted();
  float sums[4] = {};
  each_row_tile<K, kUse>(table.map(), room, block, [&](const std::uint32_t(&left)[4], int row) {
    add_rows<typename K::Element, K::kRowWidth>(d, left, Side<K, kUse>::features(room), row, channel / 16);
    if (shifted) add_row_sums<K>(sums, left);
  });
  const float scale = table.term.scale;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float shift = shifted ? table.runs.shift[channel + 8 * n + 2 * (lane_here() & 3) + (x & 1)] : 0;
      d[n][x] = scale * fmaf(sums[x & 2], shift, d[n][x]);
    }
  }
}

/// Adds to the table's gradient. Sums by runs are there.
template <class K, RowUse kUse>
__device__ __forceinline__ void add_table_gradient(const TableHere<K>& table, typename K::Room& room) {
  constexpr int kWide = K::kFeatured ? 16 : 32;
  const int parts = K::kFeatured ? table.steps() : K::kRowWidth / kWide;
  if (table.term.slot == nullptr) return;
  const int count = table.runs.count;
  const auto width = static_cast<int>(table.table.table.shape[3]);
#pragma unroll 1
  for (int unit = warp_here(); unit < (count + 15) / 16 * parts; unit += kWarps) {
    const int block = unit / parts;
    const int channel = unit % parts * kWide;
    float d[kWide / 8][4] = {};
    row_gradients<K, kUse>(table, room, block, channel, d);
    const int own = channel + 2 * (lane_here() & 3);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int run = 16 * block + lane_here() / 4 + 8 * h;
      const std::int32_t row = run < count ? table.runs.rows[run] : -1;
      if (row < 0) continue;
      float* const to = table.term.slot + int64_t{row} * table.term.pitch + own;
#pragma unroll
      for (int n = 0; n < kWide / 8; ++n) {
        if (own + 8 * n < width) add_two(to + 8 * n, d[n][2 * h], d[n][2 * h + 1]);
      }
    }
  }
}

}  // namespace phasor::cuda::attention::mma::backward
