// SPDX-License-Identifier: Apache-2.0
// The parts that attention kernels are made of, as plain data: matrix products, packing, rows of softmax. And the parts of each target by
// themselves, for the tests.
#pragma once

#include <cstdint>

#include "cpu/attention/job/attention.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cpu {

using attend::kKeyTile;
using attend::kPadding;
using attend::padded;

/// C (m, n) = A (m, k) B (k, n), or added to C. Rows of B and C are contiguous, A is read by any two strides: a transposed A is but
/// strides. n is a multiple of 16.
template <class T>
struct Gemm {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  const T* a;
  std::int64_t a_row;
  std::int64_t a_k;
  const T* b;
  std::int64_t b_row;
  T* c;
  std::int64_t c_row;
  bool add = false;           // to what C holds
  const T* factor = nullptr;  // (m): with `add`, C's rows are first multiplied by it; null: 1
  const T* next = nullptr;    // what a later product reads: its lines are brought nearer meanwhile
  std::int64_t next_count = 0;
};

/// Rows of somebody's tensor, the last axis contiguous.
struct StoredRows {
  void* data;
  DType dtype;
  std::int64_t stride;  // elements from one row to the next
  std::int64_t rows;
  std::int64_t width;
};
struct ConstStoredRows {
  const void* data;
  DType dtype;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t ahead = 0;  // elements from a row to one that will be read later: packing brings that one nearer
};

/// Rows in the type they are computed in.
template <class T>
struct PackedRows {
  T* data;
  std::int64_t stride;
  std::int64_t rows;  // what pads them, to multiples of kPadding, is zeros, and so are rows beyond the tensor's
};

/// Something to be added to a tile of scores, by where it lies: kKeyTile numbers for row i from data + i step on, and for rows from `wrap`
/// on from wrapped + i step on.
template <class T>
struct AddedRows {
  const T* data = nullptr;
  std::int64_t step = 0;
  std::int64_t wrap = INT64_MAX;
  const T* wrapped = nullptr;

  const T* row(std::int64_t i) const { return (i < wrap ? data : wrapped) + i * step; }
};

/// A tile of scores and what its rows have seen so far. Arrays per row are padded to multiples of kPadding.
template <class T>
struct SoftmaxRows {
  std::int64_t rows;
  T* scores;                // (rows, kKeyTile); -infinity: not seen. Becomes e^(score - maximum)
  T* maximum;               // (rows): of all tiles so far; -infinity: nothing seen
  T* sum;                   // (rows): of the exponentials so far
  T* factor;                // (rows): what older sums and outputs were multiplied by
  AddedRows<T> added = {};  // to the scores, before anything else
};

template <class T>
struct AttentionParts {
  void (*gemm)(const Gemm<T>& job);
  void (*exponential)(const T* x, T* y, std::int64_t count);  // count: a multiple of kPadding
  void (*hyperbolic_tangent)(const T* x, T* y, std::int64_t count);
  void (*pack)(const ConstStoredRows& in, const PackedRows<T>& out, T factor);
  void (*pack_transposed)(const ConstStoredRows& in, const PackedRows<T>& out);
  void (*transpose)(const PackedRows<const T>& in, std::int64_t columns, const PackedRows<T>& out);
  void (*unpack)(const PackedRows<const T>& in, const T* factor, const StoredRows& out);
  bool (*update_softmax)(const SoftmaxRows<T>& tile);
  void (*probabilities)(std::int64_t rows, const T* lse, T* scores);
};
struct AttentionPartsOfTarget {
  AttentionParts<float> f32;
  AttentionParts<double> f64;
};
/// Every target of this build, in the order of rotary_kernels(), which knows its name and whether this machine runs it.
struct AttentionPartsTable {
  const AttentionPartsOfTarget* entries;
  int count;
};
AttentionPartsTable attention_parts();

}  // namespace phasor::cpu
