// SPDX-License-Identifier: Apache-2.0
// Tensors of terms on the host side: checks that allow any strides, packing to the type of arithmetic, sums of slots to the caller.
#pragma once

#include <array>
#include <cstdint>

#include "cpu/attention/host/arena.hpp"
#include "cpu/attention/host_tables/ranges.hpp"
#include "job/attention/attention.hpp"
#include "job/check.hpp"
#include "phasor/attention.hpp"
#include "phasor/result.hpp"

namespace phasor::attend {

inline bool is_given(const ConstTensorView& v) { return v.data != nullptr; }
/// Or has extents without elements, which need no memory: then its shape counts, as does that of its gradient.
inline bool is_named(const ConstTensorView& v) { return is_given(v) || (v.shape != Extents{} && job::is_empty(v)); }

/// What a term's tensor must be: extents, and on which axes it may be 1 instead, shared.
struct TensorShape {
  const char* name;
  Extents extents;
  std::array<bool, 4> may_share{false, false, false, false};
};
Status check_tensor(const char* where, const ConstTensorView& v, const TensorShape& wanted);
/// Where a gradient goes, if it is given: shaped as what it is by, f32 or f64, each element once.
Status check_gradient(const char* where, const TensorView& v, const ConstTensorView& by, const char* name);

/// Row (b, t, h) of a tensor; an axis of 1 is shared.
struct RowIndex {
  std::int64_t b = 0;
  std::int64_t t = 0;
  std::int64_t h = 0;
};
double element_at(const ConstTensorView& v, const RowIndex& row, std::int64_t channel);
void add_to_element(const TensorView& v, const RowIndex& row, std::int64_t channel, double x);

/// body(T()) with the type of arithmetic.
template <class Body>
void with_arithmetic(DType arithmetic, const Body& body) {
  if (arithmetic == DType::f64) {
    body(double{});
  } else {
    body(float{});
  }
}
inline std::int64_t bytes_of_arithmetic(const job::AttentionJob& job) { return bytes_of(job.arithmetic); }

/// Heads that a packed table has: 1 where it is shared.
inline std::int64_t heads_of(const ConstTensorView& v) { return v.shape[2]; }

/// (heads of v, rows, padded) T of a (1, rows, heads, width) tensor times `factor`; what pads is 0. Null while measuring.
struct Packing {
  std::int64_t padded;  // numbers of a row
  double factor = 1;
};
void* pack_rows(const ConstTensorView& v, const Packing& packing, const job::AttentionJob& job, Arena& arena);
/// Its transpose: (heads of v, padded_width of the job, padded) T, column r row r.
void* pack_columns(const ConstTensorView& v, const Packing& packing, const job::AttentionJob& job, Arena& arena);

/// `count` T of zeros for each slot of the backward's sums; null while measuring.
void* take_sums(std::int64_t count, const job::AttentionJob& job, Arena& arena);
/// The sum over slots, in their order, of element `index` of their sums, of one head.
double sum_of_slots(const void* sums, std::int64_t count, const job::AttentionJob& job, std::int64_t head, std::int64_t index);

/// The least and the greatest position of a side, as the spec says, without the job's arrays: they are not there while measuring.
PositionRange query_range(const AttentionSpec& spec, const job::AttentionShape& shape);
PositionRange key_range(const AttentionSpec& spec, const job::AttentionShape& shape);

}  // namespace phasor::attend
