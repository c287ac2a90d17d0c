// SPDX-License-Identifier: Apache-2.0
// Scores by way of shared memory: a thread has the same scores of a tile in every pass, and adds to them what terms say of their query and
// key. Products with rows of tables are made by tensor cores, some rows at a time, where a tile reads rows that lie close together.
#pragma once

#include "cuda/attention/mma/rows.cuh"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/attention/scores.hpp"

namespace phasor::cuda::attention::mma {

/// A block's memory besides its rows. Rows of scores are eight longer than a power of two: what lanes store together goes to different
/// banks.
template <int kQueries, int kKeys>
struct TermRoom {
  static constexpr int kScores = kKeys + 8;
  static constexpr int kMostRows = kQueries > kKeys ? kQueries : kKeys;
  float scores[kQueries * kScores];
  float window[kMostRows * kScores];    // products of queries or keys with kKeys rows of a table
  std::int32_t rows[kQueries * kKeys];  // of the table that is being looked at, -1: none; then 1 for weights that are kept, else 0
  int64_t query_positions[kQueries];
  int64_t key_positions[kKeys];
  float shift[256];   // a vector that is added to features
  float sums[kKeys];  // its product with rows
  math::PhiloxKey dropout_keys[kQueries];
  std::int32_t row_ends[2];  // the first row that a tile reads, and the last
};

/// Rows that change with the queries alone.
template <int kQueries, int kKeys>
__device__ inline void begin_room(const AttentionWork& work, const QueryTile& tile, int64_t head, TermRoom<kQueries, kKeys>& room) {
  const Sequence& s = tile.sequence;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kBlockThreads) {
    const int64_t position = i < tile.count ? query_position(work, s, tile.first + i) : 0;
    room.query_positions[i] = position;
    if (work.dropout.present) room.dropout_keys[i] = dropout_key_of(work, head, s.index, position);
  }
}

/// body(i, j, its place in room.scores) for this thread's scores, kTogether at a time: loads of short bodies are on their way together.
template <int kQueries, int kKeys, int kTogether = 1, class Body>
__device__ __forceinline__ void each_score_of_thread(const ScoreTile& tile, const Body& body) {
#pragma unroll kTogether
  for (int n = static_cast<int>(threadIdx.x); n < kQueries * kKeys; n += kBlockThreads) {
    const int i = n / kKeys;
    const int j = n % kKeys;
    if (i < tile.queries.count && j < tile.keys) body(i, j, i * TermRoom<kQueries, kKeys>::kScores + j);
  }
}

// ---- Registers to memory, and back. `row`: of the warp's first ----

template <int kPitch, int kColumns>
__device__ __forceinline__ void registers_to(float* to, const float (&s)[kColumns][4], int row, float scale = 1) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<float2*>(to + (row + lane / 4 + 8 * h) * kPitch + 8 * n + 2 * (lane & 3)) = {s[n][2 * h] * scale,
                                                                                                     s[n][2 * h + 1] * scale};
    }
  }
}
template <int kPitch, int kColumns>
__device__ __forceinline__ void registers_from(const float* from, float (&s)[kColumns][4], int row) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float2 x = *reinterpret_cast<const float2*>(from + (row + lane / 4 + 8 * h) * kPitch + 8 * n + 2 * (lane & 3));
      s[n][2 * h] = x.x;
      s[n][2 * h + 1] = x.y;
    }
  }
}

// ---- Vectors that are added to features ----

/// Zeros beyond its width.
template <int kWidth, int kQueries, int kKeys>
__device__ inline void bring_shift(const ConstTensorView& shift, int64_t head, TermRoom<kQueries, kKeys>& room) {
  for (int c = static_cast<int>(threadIdx.x); c < kWidth; c += kBlockThreads) {
    room.shift[c] = c < shift.shape[3] ? element_at<float>(shift, 0, 0, head, c) : 0;
  }
}
/// room.sums = room.shift . each row; all threads see room.shift already.
template <class Element, int kWidth, int kQueries, int kKeys>
__device__ inline void multiply_shift(const unsigned char* rows, int width, TermRoom<kQueries, kKeys>& room) {
  for (int row = static_cast<int>(threadIdx.x); row < kKeys; row += kBlockThreads) {
    room.sums[row] = shift_product<Element, kWidth>(room.shift, rows, row, (width + 7) / 8);
  }
}

// ---- Tables ----

/// Fills room.rows; the window that holds them all, count 0: there is none.
template <int kQueries, int kKeys>
__device__ inline RowWindow find_window(const TableWork& term, const ScoreTile& tile, TermRoom<kQueries, kKeys>& room) {
  if (threadIdx.x == 0) {
    room.row_ends[0] = INT32_MAX;
    room.row_ends[1] = -1;
  }
  __syncthreads();
  std::int32_t low = INT32_MAX;
  std::int32_t high = -1;
  each_score_of_thread<kQueries, kKeys>(tile, [&](int i, int j, int) {
    const int64_t found = row_at(term, pair_of(tile, room.query_positions, room.key_positions, i, j));
    const std::int32_t row = found >= 0 && found < term.table.shape[1] ? static_cast<std::int32_t>(found) : -1;
    room.rows[i * kKeys + j] = row;
    if (row < 0) return;
    low = min(low, row);
    high = max(high, row);
  });
  atomicMin(&room.row_ends[0], low);
  atomicMax(&room.row_ends[1], high);
  __syncthreads();
  low = room.row_ends[0];
  high = room.row_ends[1];
  __syncthreads();  // the next table's ends may come now
  return high < 0 ? RowWindow{0, 0} : RowWindow{low, int64_t{high} - low + 1};
}

/// kKeys rows of a table from `first` on, zeros beyond `count`; element by element where they do not lie as copies want it.
template <int kKeys, int kWidth>
__device__ inline void stage_rows(const TableWork& term, const ScoreTile& tile, int64_t first, int64_t count, const SharedRows& at) {
  const ConstTensorView& table = term.table;
  const HeadRows rows = head_rows(table, tile.queries.sequence.batch, tile.head, first, least(count, kKeys));
  const bool whole = table.strides[3] == 1 && table.shape[3] % 8 == 0 && table.strides[1] % 8 == 0 &&
                     reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0;
  if (whole) {
    bring_rows<kKeys, kWidth>(at.values, rows);
    copies_commit();
    copies_wait<0>();
    return;
  }
  for (int n = static_cast<int>(threadIdx.x); n < kKeys * kWidth; n += kBlockThreads) {
    const int row = n / kWidth;
    const int c = n % kWidth;
    const bool is_there = row < rows.count && c < rows.width;
    *reinterpret_cast<std::uint16_t*>(at.value_bytes + piece_offset<kWidth>(row, c / 8) + 2 * (c % 8)) =
        is_there ? rows.data[row * rows.stride + c * table.strides[3]] : std::uint16_t{0};
  }
}

/// The left operand from rows of features in the device's memory, of any strides; zeros where there is nothing.
__device__ inline void left_from_memory(std::uint32_t (&a)[4], const RowsOf& rows, int row, int step) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const ConstTensorView& v = rows.view;
#pragma unroll
  for (int x = 0; x < 4; ++x) {
    const int64_t of = row + lane / 4 + 8 * (x & 1);
    const int64_t c = 16 * step + 2 * (lane & 3) + 8 * (x >> 1);
    const int64_t at = shared_or(v, 0, rows.batch) * v.strides[0] + (rows.first + of) * v.strides[1] +
                       shared_or(v, 2, rows.head) * v.strides[2] + c * v.strides[3];
    const auto* const data = static_cast<const std::uint16_t*>(v.data);
    std::uint32_t pair = 0;
    if (of < rows.count && c < v.shape[3]) pair = data[at];
    if (of < rows.count && c + 1 < v.shape[3]) pair |= std::uint32_t{data[at + v.strides[3]]} << 16;
    a[x] = pair;
  }
}

/// The warp's 16 rows of own features times the rows staged.
template <class Element, int kWidth, int kColumns>
__device__ __forceinline__ void multiply_features(float (&d)[kColumns / 8][4], const RowsOf& features, int row, std::uint32_t staged) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  for (int step = 0; step * 16 < features.view.shape[3]; ++step) {
    std::uint32_t left[4];
    left_from_memory(left, features, row, step);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t right[4];
      load_matrices(right, staged + piece_offset<kWidth>(16 * n + (lane & 7) + ((lane >> 4) << 3), 2 * step + (lane >> 3 & 1)));
      add_product<Element>(d[2 * n], left, right[0], right[1]);
      add_product<Element>(d[2 * n + 1], left, right[2], right[3]);
    }
  }
}

/// room.window = products of the tile's queries or keys with the rows staged.
template <class Element, int kWidth, int kQueries, int kKeys>
__device__ inline void multiply_window(const TableWork& term, const ScoreTile& tile, const SharedRows& at,
                                       TermRoom<kQueries, kKeys>& room) {
  const int row = static_cast<int>(threadIdx.x) / 32 * 16;
  const bool of_keys = term.use == RowUse::key;
  if (of_keys && row >= kKeys) return;
  float d[1][kKeys / 8][4] = {};
  if (term.own_features) {
    multiply_features<Element, kWidth, kKeys>(d[0], feature_rows(term, tile), row, at.values);
  } else {
    multiply_rows<Element, kWidth, kKeys, 1>(d, of_keys ? at.k : at.q, row, at.values);
  }
  registers_to<TermRoom<kQueries, kKeys>::kScores>(room.window, d[0], row);
}

/// room.scores += the products of a tile with the rows of a window, kKeys rows at a time.
template <class Element, int kWidth, int kQueries, int kKeys>
__device__ inline void add_window(const TableWork& term, const ScoreTile& tile, const RowWindow& window, const SharedRows& at,
                                  TermRoom<kQueries, kKeys>& room) {
  const auto scale = static_cast<float>(term.scale);
  const bool of_keys = term.use == RowUse::key;
  const bool shifted = term.shift.data != nullptr;
  if (shifted) bring_shift<kWidth>(term.shift, tile.head, room);
  for (int64_t part = 0; part < window.count; part += kKeys) {
    stage_rows<kKeys, kWidth>(term, tile, window.first + part, window.count - part, at);
    __syncthreads();
    multiply_window<Element, kWidth>(term, tile, at, room);
    if (shifted) multiply_shift<Element, kWidth>(at.value_bytes, static_cast<int>(term.table.shape[3]), room);
    __syncthreads();
    const auto first = static_cast<std::int32_t>(window.first + part);
    each_score_of_thread<kQueries, kKeys, 4>(tile, [&](int i, int j, int place) {
      const std::int32_t row = room.rows[i * kKeys + j] - first;
      if (row < 0 || row >= kKeys) return;
      const float x = room.window[(of_keys ? j : i) * TermRoom<kQueries, kKeys>::kScores + row];
      room.scores[place] = fmaf(scale, shifted ? x + room.sums[row] : x, room.scores[place]);
    });
  }
}

template <class Element, int kWidth, int kQueries, int kKeys>
__device__ inline void add_table_term(const TableWork& term, const ScoreTile& tile, const SharedRows& at, TermRoom<kQueries, kKeys>& room) {
  const RowWindow window = find_window(term, tile, room);
  if (window.count == 0) return;
  if (term.use != RowUse::number && window.count <= kQueries + kKeys) {
    add_window<Element, kWidth>(term, tile, window, at, room);
    return;
  }
  const auto scale = static_cast<float>(term.scale);
  each_score_of_thread<kQueries, kKeys>(tile, [&](int i, int j, int place) {
    const int row = room.rows[i * kKeys + j];
    if (row < 0) return;
    const float x = term.use == RowUse::number ? element_at<float>(term.table, tile.queries.sequence.batch, row, tile.head, 0)
                                               : row_product<float>(term, tile, term.use == RowUse::key ? j : i, row);
    room.scores[place] = fmaf(scale, x, room.scores[place]);
  });
}

// ---- All of it ----

template <class Element, int kWidth, int kQueries, int kKeys>
__device__ inline void add_shared_term(const TermWork& term, const ScoreTile& tile, const SharedRows& at, TermRoom<kQueries, kKeys>& room) {
  const int64_t batch = tile.queries.sequence.batch;
  if (term.use == TermUse::bias) {
    each_score_of_thread<kQueries, kKeys>(tile, [&](int i, int j, int place) {
      const float gate = gate_at<float>(term.bias, batch, tile.queries.first + i, tile.head);
      const int64_t query = room.query_positions[i];
      const int64_t key = room.key_positions[j];
      const float value = term.bias.diagonal == nullptr ? static_cast<float>(short_formula(term.bias, tile.head, query, key))
                                                        : diagonal_at<float>(term.bias, tile.head, query, key);
      room.scores[place] = fmaf(gate, value, room.scores[place]);
    });
  } else if (term.use == TermUse::dense) {
    const ConstTensorView& dense = term.dense;
    const int64_t of_query = dense.shape[1] == 1 ? 0 : dense.strides[1];
    const int64_t of_key = dense.shape[3] == 1 ? 0 : dense.strides[3];
    const int64_t first = shared_or(dense, 0, batch) * dense.strides[0] + shared_or(dense, 2, tile.head) * dense.strides[2] +
                          tile.queries.first * of_query + tile.first_key * of_key;
    each_score_of_thread<kQueries, kKeys, 4>(
        tile, [&](int i, int j, int place) { room.scores[place] += number_at<float>(dense, first + i * of_query + j * of_key); });
  } else if (term.table.use != RowUse::value) {
    add_table_term<Element, kWidth>(term.table, tile, at, room);
  }
}

/// Whether a tile's scores need nothing more but for padding: every query sees every key, and there are no cap and no dropout. The same for
/// all threads.
__device__ inline bool is_ended_but_padding(const AttentionWork& work, const ScoreTile& tile, int keys) {
  const Sequence& s = tile.queries.sequence;
  if (work.has_positions[0] || work.has_positions[1]) return false;
  if (work.softcap != 0 || work.dropout.present || tile.keys < keys) return false;
  const Bands bands = bands_of(work, s);
  const auto position = static_cast<int>(query_position(work, s, tile.queries.first));
  const auto key = static_cast<int>(tile.first_key - s.first_key);
  const Band low = bands.at(position);
  const Band high = bands.at(position + static_cast<int>(tile.queries.count) - 1);
  return low.count > 0 && low.first + low.count >= key + keys && high.first <= key;
}

__device__ inline bool is_ended(const AttentionWork& work, const ScoreTile& tile, int keys) {
  return work.see.key_mask.data == nullptr && is_ended_but_padding(work, tile, keys);
}

/// Soft cap, and -infinity for what is not seen, the rest of the tile included; with dropout, which weights are kept.
template <int kQueries, int kKeys>
__device__ inline void end_scores(const AttentionWork& work, const ScoreTile& tile, TermRoom<kQueries, kKeys>& room) {
  const Sequence& s = tile.queries.sequence;
  const auto cap = static_cast<float>(work.softcap);
  for (int n = static_cast<int>(threadIdx.x); n < kQueries * kKeys; n += kBlockThreads) {
    const int i = n / kKeys;
    const int j = n % kKeys;
    float& score = room.scores[i * TermRoom<kQueries, kKeys>::kScores + j];
    const bool seen =
        i < tile.queries.count && j < tile.keys && sees(work, pair_of(tile, room.query_positions, room.key_positions, i, j), s);
    if (!seen) score = -INFINITY;
    if (seen && cap != 0) score = capped(score, cap);
    if (work.dropout.present) room.rows[n] = seen && is_kept(work.dropout, room.dropout_keys[i], room.key_positions[j]) ? 1 : 0;
  }
}

/// From q . k in registers to scores there. A barrier is behind the products already, so that positions of the tile before are not read.
template <class Element, int kWidth, int kQueries, int kKeys>
__device__ inline void make_shared_scores(const AttentionWork& work, const ScoreTile& tile, const SharedRows& at,
                                          TermRoom<kQueries, kKeys>& room, float (&s)[kKeys / 8][4]) {
  constexpr int kPitch = TermRoom<kQueries, kKeys>::kScores;
  const int row = static_cast<int>(threadIdx.x) / 32 * 16;
  const bool shifted = work.content_shift.data != nullptr;
  for (int j = static_cast<int>(threadIdx.x); j < kKeys; j += kBlockThreads) {
    room.key_positions[j] = j < tile.keys ? key_position(work, tile.queries.sequence, tile.first_key + j) : 0;
  }
  if (shifted) {
    bring_shift<kWidth>(work.content_shift, tile.head, room);
    __syncthreads();
    multiply_shift<Element, kWidth>(at.k_bytes, static_cast<int>(work.shape.width), room);
  }
  const auto scale = static_cast<float>(work.scale);
  registers_to<kPitch>(room.scores, s, row, scale);
  __syncthreads();
  if (shifted) {
    each_score_of_thread<kQueries, kKeys, 4>(
        tile, [&](int, int j, int place) { room.scores[place] = fmaf(scale, room.sums[j], room.scores[place]); });
  }
  for (int t = 0; t < work.term_count; ++t) add_shared_term<Element, kWidth>(work.terms[t], tile, at, room);
  if (!is_ended(work, tile, kKeys)) end_scores(work, tile, room);
  __syncthreads();
  registers_from<kPitch>(room.scores, s, row);
}

/// What is not kept becomes 0. What is kept grows at the end of the row: all by one factor.
template <int kQueries, int kKeys>
__device__ inline void drop_own_weights(const TermRoom<kQueries, kKeys>& room, float (&p)[kKeys / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      if (room.rows[(row + 8 * (x >> 1)) * kKeys + 8 * n + 2 * (lane & 3) + (x & 1)] == 0) p[n][x] = 0;
    }
  }
}

}  // namespace phasor::cuda::attention::mma
