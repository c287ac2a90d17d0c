// SPDX-License-Identifier: Apache-2.0
// What a block works in, and what it does with tiles there: rows of tensors brought, products added. Bodies run on host and device; a
// block is an executor whose each(body) is body(thread, threads) by every thread, with a barrier behind it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "cuda/attention/place.hpp"
#include "job/element.hpp"

/// A function that a kernel calls: it is long, and of many schemes.
#ifdef __CUDACC__
#define PHASOR_OUT_OF_LINE __noinline__
#else
#define PHASOR_OUT_OF_LINE
#endif

namespace phasor::cuda::attention {

/// One more than a power of two: rows begin in different banks.
constexpr int kRow = kChunk + 1;
constexpr int kScoreRow = kTile + 1;
/// Threads that share a row of a tile.
constexpr int kShare = kThreads / kTile;

/// Channels of a value that a block sums at a time.
template <class T>
constexpr int kValues = sizeof(T) == 8 ? 64 : 128;

/// What a CoPE keeps from tile to tile, by query.
template <class T>
struct CopeRoom {
  T carry[kTile];
  T by_counts[kTile];  // gradients, on the way back
};

/// A block's memory. T: float or double.
template <class T>
struct Room {
  T a[kTile * kRow];  // rows of queries
  T b[kTile * kRow];  // rows of keys, values or tables
  T scores[kTile * kScoreRow];
  T other[kTile * kScoreRow];
  T window[kTile * (kWindow + 1)];
  T sums[kTile * (kValues<T> + 1)];
  std::int32_t rows[kTile * kTile];  // of the table that is being looked at; -1: none
  int64_t query_positions[kTile];
  int64_t key_positions[kTile];
  T part[2 * kTile * kShare];  // of threads that share a row: maxima, sums
  T max[kTile];
  T sum[kTile];
  T factor[kTile];
  std::int32_t ends[2 * kThreads];  // of rows, by thread, and of all
  std::int32_t row_ends[2];
  CopeRoom<T> copes[kMostTerms];  // last: a block has as many as its call has CoPEs
};

/// Of a block of this call: with room for CoPEs that it has not, fewer blocks would share a multiprocessor.
template <class T>
std::size_t room_bytes(const AttentionWork& work) {
  const auto copes =
      std::count_if(work.terms, work.terms + work.term_count, [](const TermWork& term) { return term.use == TermUse::cope; });
  return sizeof(Room<T>) - static_cast<std::size_t>(kMostTerms - copes) * sizeof(CopeRoom<T>);
}

/// Rows of one head of a tensor: (first + row, channel + c).
struct RowsOf {
  ConstTensorView view;
  int64_t batch;
  int64_t head;
  int64_t first;
  int64_t count;
};
PHASOR_HD inline int64_t shared_or(const ConstTensorView& view, int axis, int64_t n) { return view.shape[axis] == 1 ? 0 : n; }

/// An element in arithmetic, without a way through float64 where that is not asked for.
template <class T>
PHASOR_HD inline T number_at(const ConstTensorView& v, int64_t index) {
  if constexpr (sizeof(T) == 8) {
    return job::load_element(v.data, v.dtype, index);
  } else {
    if (v.dtype == DType::f32) return static_cast<const float*>(v.data)[index];
    if (v.dtype == DType::f64) return static_cast<float>(static_cast<const double*>(v.data)[index]);
    const math::u32 bits = static_cast<const std::uint16_t*>(v.data)[index];
    return v.dtype == DType::f16 ? math::widen_f16(math::One<float>(), bits) : math::widen_bf16(math::One<float>(), bits);
  }
}
template <class T>
PHASOR_HD inline T element_at(const ConstTensorView& v, int64_t batch, int64_t token, int64_t head, int64_t channel) {
  return number_at<T>(
      v, shared_or(v, 0, batch) * v.strides[0] + token * v.strides[1] + shared_or(v, 2, head) * v.strides[2] + channel * v.strides[3]);
}

/// Brings kTile rows of channels channel to channel + kChunk - 1, zeros where there is nothing; `shift` (1, 1, H or 1, width) is added.
template <class T, class Block>
PHASOR_HD inline void bring(Block& block, const RowsOf& rows, int64_t channel, T* to, const ConstTensorView& shift = {},
                            int64_t shift_head = 0) {
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kChunk; n += threads) {
      const int row = n / kChunk;
      const int64_t c = channel + n % kChunk;
      T x = 0;
      if (row < rows.count && c < rows.view.shape[3]) {
        x = element_at<T>(rows.view, rows.batch, rows.first + row, rows.head, c);
        if (shift.data != nullptr) x += element_at<T>(shift, 0, 0, shift_head, c);
      }
      to[row * kRow + n % kChunk] = x;
    }
  });
}

/// A matrix in a block's memory: element (i, j) at i * row + j * column.
template <class T>
struct Matrix {
  T* data;
  int row;
  int column;
};

/// The extents of a product: (m, k) times (k, n).
struct Extent {
  int m;
  int n;
  int k;
};
/// What `a` holds: numbers, or weights, of which a 0 stands for what nobody sees: it adds nothing, be the other NaN.
enum class Left : std::uint8_t { numbers, weights };

/// to += factor a b, all of it in memory of the block or the device.
template <Left left_holds, class T, class Block>
PHASOR_HD inline void add_product(Block& block, const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& to, Extent extent,
                                  T factor = 1) {
  const int m = extent.m;
  const int n = extent.n;
  const int k = extent.k;
  constexpr int kRows = 2;
  constexpr int kColumns = 4;
  const int wide = (n + kColumns - 1) / kColumns;
  const int high = (m + kRows - 1) / kRows;
  block.each([&](int thread, int threads) {
    for (int item = thread; item < wide * high; item += threads) {
      const int i = item / wide;
      const int j = item % wide;
      T sum[kRows][kColumns] = {};
      for (int l = 0; l < k; ++l) {
        T left[kRows];
        T right[kColumns];
        for (int r = 0; r < kRows; ++r) left[r] = i + r * high < m ? a.data[(i + r * high) * a.row + l * a.column] : T{0};
        for (int c = 0; c < kColumns; ++c) right[c] = j + c * wide < n ? b.data[l * b.row + (j + c * wide) * b.column] : T{0};
        for (int r = 0; r < kRows; ++r) {
          for (int c = 0; c < kColumns; ++c) {
            if (left_holds == Left::numbers || left[r] != 0) sum[r][c] += left[r] * right[c];
          }
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int c = 0; c < kColumns; ++c) {
          if (i + r * high < m && j + c * wide < n) to.data[(i + r * high) * to.row + (j + c * wide) * to.column] += factor * sum[r][c];
        }
      }
    }
  });
}

template <class T, class Block>
PHASOR_HD inline void fill(Block& block, T* to, int count, T value) {
  block.each([&](int thread, int threads) {
    for (int n = thread; n < count; n += threads) to[n] = value;
  });
}

/// A tile of scores: queries of a tile and head, keys of a tile.
struct ScoreTile {
  QueryTile queries;
  int64_t head;
  int64_t key_head;
  int64_t first_key;
  int64_t keys;
};
PHASOR_HD inline Pair pair_of(const ScoreTile& tile, const int64_t* query_positions, const int64_t* key_positions, int i, int j) {
  return {tile.queries.sequence.batch, tile.queries.first + i, tile.first_key + j, query_positions[i], key_positions[j]};
}

/// body(i, j) for every score of the tile, the threads side by side.
template <class Block, class Body>
PHASOR_HD inline void each_score(Block& block, const ScoreTile& tile, const Body& body) {
  block.each([&](int thread, int threads) {
    for (int n = thread; n < kTile * kTile; n += threads) {
      if (n / kTile < tile.queries.count && n % kTile < tile.keys) body(n / kTile, n % kTile);
    }
  });
}

}  // namespace phasor::cuda::attention
