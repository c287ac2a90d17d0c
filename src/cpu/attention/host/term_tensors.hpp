// SPDX-License-Identifier: Apache-2.0
// Tensors of terms on the host side: packing to the type of arithmetic, sums of slots to the caller.
#pragma once

#include <array>
#include <cstdint>

#include "cpu/attention/host_tables/ranges.hpp"
#include "cpu/attention/job/attention.hpp"
#include "job/attention/call.hpp"
#include "job/attention/job.hpp"
#include "job/memory/arena.hpp"
#include "phasor/attention.hpp"
#include "phasor/result.hpp"

namespace phasor::attend {

using job::is_given;
using job::is_named;
using job::is_wanted;

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
inline std::int64_t bytes_of_arithmetic(const AttentionJob& job) { return bytes_of(job.arithmetic); }

/// Heads that a packed table has: 1 where it is shared.
inline std::int64_t heads_of(const ConstTensorView& v) { return v.shape[2]; }

/// (heads of v, rows, padded) T of a (1, rows, heads, width) tensor times `factor`; what pads is 0. Null without memory.
struct Packing {
  std::int64_t padded;  // numbers of a row
  double factor = 1;
};
void* pack_rows(const ConstTensorView& v, const Packing& packing, const AttentionJob& job, Arena& arena);
/// Its transpose: (heads of v, padded_width of the job, padded) T, column r row r.
void* pack_columns(const ConstTensorView& v, const Packing& packing, const AttentionJob& job, Arena& arena);

/// `count` T of zeros for each slot of the backward's sums; null without memory.
void* take_sums(std::int64_t count, const AttentionJob& job, Arena& arena);
/// The sum over slots, in their order, of element `index` of their sums, of one head.
double sum_of_slots(const void* sums, std::int64_t count, const AttentionJob& job, std::int64_t head, std::int64_t index);

/// The least and the greatest position of a side, as the spec says, without the job's arrays: they may have no memory.
PositionRange query_range(const job::AttentionJob& asked, const AttentionShape& shape);
PositionRange key_range(const job::AttentionJob& asked, const AttentionShape& shape);

}  // namespace phasor::attend
