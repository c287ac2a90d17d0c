// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper (sm_90a): what it is asked, whether it takes it, and how it is put on a stream.
#pragma once

#include "cuda/attention/hopper/run.hpp"
#include "job/attention/terms.hpp"

namespace phasor::cuda::hopper {

/// Added to the score: scale x . row, x being the query or the key. No data: nothing. In tiles of queries and blocks of keys that are near,
/// products are rounded to float16, and so is the sum of both sides', and what is beyond 65504 becomes that; far ones have float32.
struct DistanceTable {
  ConstTensorView rows = {};  // (1, rows, H or 1, D), of the inputs' dtype
  job::RowMap map = {};       // which one a distance reads; its lists are the device's
  double scale = 1;
  std::int64_t left = kNoLimit;     // one row for all r >= left
  std::int64_t right = kNoLimit;    // one row for all -r >= right
  float* gradient = nullptr;        // (rows, H or 1, D), written
  std::int64_t gradient_pitch = 0;  // between its rows, in numbers; 0: they follow each other
  bool adds = false;                // to what the gradient is: a later part of a call
};

/// Added to queries, (1, 1, H or 1, D), of any dtype; no data: nothing. The sum is rounded to the inputs' dtype, as that of a model that
/// adds it itself is, where it meets keys and in the gradient of rows; scores have products with rows of what was not rounded.
struct QueryShift {
  ConstTensorView vector = {};
  float* gradient = nullptr;  // (H or 1, D), written
  bool adds = false;          // to what the gradient is: a later part of a call
};
constexpr int kOfContent = 0, kOfRows = 1;

/// Gradients of what `forward` computes, whose own out and lse are not looked at. A gradient without data is not wanted. All memory is of
/// the device, but for this struct.
struct Backward {
  Forward forward;                            // with `tables` below, none of its own, and no diagonal
  ConstTensorView out;                        // (B, Tq, H, Dv), what the forward gave
  ConstTensorView out_gradient;               // the same shape; both of the inputs' dtype
  const float* lse = nullptr;                 // what the forward gave
  std::array<std::int64_t, 3> lse_strides{};  // batch row, token, head; in elements
  const float* lse_gradient = nullptr;        // null: zeros
  std::array<std::int64_t, 3> lse_gradient_strides{};
  TensorView q;  // of the inputs' dtype and shape
  TensorView k;
  TensorView v;
  /// (H, distances) of forward.diagonal's distances, written: of one head also where heads share the bias. What distances beyond the ends,
  /// or beyond far_left and far_right, have is in the sums of those.
  float* diagonal = nullptr;
  /// (rows, H or 1, D) of forward.table, written.
  float* table = nullptr;
  /// On the side of queries, and of keys.
  DistanceTable tables[2] = {};
  /// Beside those: what queries have more where they meet keys, and where they meet rows.
  QueryShift shifts[2] = {};
  /// The same bits in every run, whatever else is in the batch; else blocks add to dq in any order.
  bool deterministic = true;
};

/// Whether `run` can do it on a device of this compute capability.
bool takes(const Backward& backward, int compute_major);
/// Of a call that is taken.
std::int64_t workspace_bytes(const Backward& backward);
/// As `run` of the forward. Values and gradients of outputs in rows that see nothing, or that nobody sees, and rows of a table that nobody
/// reads, must be finite nevertheless.
Status run(const char* where, const Backward& backward, void* workspace, void* stream);

}  // namespace phasor::cuda::hopper
