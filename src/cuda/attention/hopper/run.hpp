// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper (sm_90a): what it is asked, whether it takes it, and how it is put on a stream.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "job/attention/terms.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda::hopper {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// A table of which each distance has one row, which queries or keys meet.
struct ByDistance {
  ConstTensorView table = {};  // (1, rows, heads or 1, D), of the inputs' dtype; no data: none
  job::RowMap map = {};        // which row; its lists are memory of the device. -1: nothing is added
  double scale = 1;
  std::int64_t far_left = 0;   // one row, or none, for all r >= far_left
  std::int64_t far_right = 0;  // one row, or none, for all r <= -far_right
};

/// Plain contents, one bias by distance or one table of either side at most, or two tables by distance that meet queries and keys. Query i
/// stands at i + Tk - Tq, key j at j; the distance r is query - key. All memory is of the device, but for this struct.
struct Forward {
  ConstTensorView q;  // (B, Tq, H, D)
  ConstTensorView k;  // (B, Tk, Hk, D)
  ConstTensorView v;  // (B, Tk, Hk, Dv)
  TensorView out;     // (B, Tq, H, Dv), of the inputs' dtype
  float* lse = nullptr;
  std::array<std::int64_t, 3> lse_strides{};  // batch row, token, head; in elements
  double scale = 1;
  double softcap = 0;  // 0: none
  bool causal = false;
  std::int64_t left = kNoLimit;   // r <= left is seen
  std::int64_t right = kNoLimit;  // -r <= right
  /// Added to the scaled score: diagonal[head * diagonal_stride + r - first_distance], r clamped to the `distances` that there are. Null:
  /// nothing is added.
  const float* diagonal = nullptr;
  std::int64_t diagonal_stride = 0;
  std::int64_t first_distance = 0;
  std::int64_t distances = 0;
  std::int64_t far_left = kNoLimit;   // one value for all r >= far_left
  std::int64_t far_right = kNoLimit;  // one value for all r <= -far_right
  /// The bias does not rise with the distance from 0 on, so tiles of keys may be left out whose weights add up to less than 2^-24 of the
  /// row's sum, whatever the keys are. Of causal calls.
  bool skip = false;
  /// Added to the score: table_scale (q + table_shift) . table[clamp(-r, -table_left, table_right) + table_left]. No data: nothing.
  /// Products with it are rounded to float16 (2^-11 of each), and those beyond 65504 become that.
  ConstTensorView table = {};     // (1, rows, H or 1, D), of the inputs' dtype
  ConstTensorView features = {};  // (B, Tq, H, D), in the place of q there, with a D of their own; no data: q; without shifts
  std::int64_t table_left = 0;
  std::int64_t table_right = 0;
  /// Added to values: value_table[clamp(-r, -table_left, table_right) + table_left] to v where it is weighted; beside `table` or alone.
  /// (1, rows, H or 1, Dv), of the inputs' dtype; no data: nothing. Weights of distances between the ends are rounded to float16 and, as
  /// others are, to the inputs' dtype.
  ConstTensorView value_table = {};
  bool zero_outside = false;  // beyond the table's rows nothing is added
  double table_scale = 1;
  /// (1, 1, H or 1, D), of any dtype; no data: 0. Neither is rounded into q.
  ConstTensorView table_shift = {};
  ConstTensorView content_shift = {};  // scale content_shift . k is added, too; with a table alone
  /// Added to the score: scale q . row(r) of the one, scale k . row(r) of the other. Each product is rounded to float16 where tiles of keys
  /// are near (2^-11 of each, and of their sum), and those beyond 65504 become that.
  ByDistance of_queries = {};
  ByDistance of_keys = {};
};

/// The compute capability that it is for.
constexpr int kComputeMajor = 9;

/// Whether `run` can do it on a device of this compute capability. Shapes are sound: `attention` has checked them.
bool takes(const Forward& forward, int compute_major);
/// Of a call that is taken.
std::int64_t workspace_bytes(const Forward& forward);
/// Puts it on a stream: neither allocates nor waits, may be captured. The workspace may have any alignment; whatever it holds is
/// overwritten, and nothing of it is kept. A value of v in a row that a query does not see must be finite nevertheless.
Status run(const char* where, const Forward& forward, void* workspace, void* stream);

}  // namespace phasor::cuda::hopper
