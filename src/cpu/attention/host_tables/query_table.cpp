// SPDX-License-Identifier: Apache-2.0
// A query-side table (Shaw, DeBERTa c2p), on the host side; and which side a table is for.
#include <algorithm>
#include <cmath>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host_tables/table_parts.hpp"
#include "cpu/attention/host_tables/table_rows.hpp"
#include "job/check.hpp"

namespace phasor::attend {

namespace {

/// (H, padded_width) T, shared or not.
void* pack_shift(const ConstTensorView& shift, const AttentionJob& job, std::int64_t padded_width, Arena& arena) {
  const std::int64_t heads = job.shape.heads;
  void* const memory = arena.take_bytes(heads * padded_width * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    T* const out = static_cast<T*>(memory);
    std::fill_n(out, heads * padded_width, T{0});
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t c = 0; c < shift.shape[3]; ++c) out[h * padded_width + c] = static_cast<T>(element_at(shift, {0, 0, h}, c));
    }
  });
  return memory;
}

ConstTensorView with_shared_strides(ConstTensorView v) {
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (v.shape[axis] == 1) v.strides[axis] = 0;
  }
  return v;
}

std::int64_t feature_sum_count(const AttentionJob& job, std::int64_t padded_width) {
  return job.backward.parts * job.shape.batch * job.shape.heads * job.shape.queries * padded_width;
}

void* take_zeros(std::int64_t count, const AttentionJob& job, Arena& arena) {
  void* const memory = arena.take_bytes(count * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T zero) { std::fill_n(static_cast<T*>(memory), count, zero); });
  return memory;
}

Status make_query_table(const job::TableTermJob& term, const TermContext& context, Arena& arena, TermJob& out) {
  const AttentionJob& job = *context.job;
  const bool backward = context.gradient != nullptr;
  const bool wants_shift = backward && is_given(context.gradient->shift);
  QueryTableJob made{.features = with_shared_strides(term.features)};
  const TableNeeds needs{.factor = term.scale,
                         .panels = true,
                         .rows = backward,
                         .features = is_given(term.features) || is_given(term.shift),
                         .products = true,
                         .sums = backward,
                         .column_sums = wants_shift};
  if (Status status = make_parts(term, context, needs, arena, made.table); !status) return status;
  const std::int64_t padded_width = made.table.padded_width;
  if (is_given(term.shift)) made.shift = pack_shift(term.shift, job, padded_width, arena);
  if (wants_shift) made.shift_sums = take_sums(padded_width, job, arena);
  if (backward && is_given(context.gradient->features)) made.feature_sums = take_zeros(feature_sum_count(job, padded_width), job, arena);
  out = made;
  return {};
}

/// Over all heads where they share it, and over slots.
void finish_shift(const QueryTableJob& made, const TermContext& context) {
  const TensorView& gradient = context.gradient->shift;
  const AttentionJob& job = *context.job;
  for (std::int64_t c = 0; c < gradient.shape[3]; ++c) {
    for (std::int64_t h = 0; h < gradient.shape[2]; ++h) {
      double sum = 0;
      const std::int64_t end = gradient.shape[2] == 1 ? job.shape.heads : h + 1;
      for (std::int64_t head = h; head < end; ++head) sum += sum_of_slots(made.shift_sums, made.table.padded_width, job, head, c);
      add_to_element(gradient, {0, 0, h}, c, sum);
    }
  }
}

/// The sum of a feature's parts, batch rows and heads.
template <class T>
double feature_sum(const QueryTableJob& made, const TermContext& context, const RowIndex& row, std::int64_t channel) {
  const AttentionShape& s = context.job->shape;
  const Extents& shape = context.gradient->features.shape;
  const std::int64_t batch_end = shape[0] == 1 ? s.batch : row.b + 1;
  const std::int64_t head_end = shape[2] == 1 ? s.heads : row.h + 1;
  double sum = 0;
  for (std::int64_t part = 0; part < context.job->backward.parts; ++part) {
    for (std::int64_t b = row.b; b < batch_end; ++b) {
      for (std::int64_t h = row.h; h < head_end; ++h) {
        const std::int64_t at = ((part * s.batch + b) * s.heads + h) * s.queries + row.t;
        sum += static_cast<double>(static_cast<const T*>(made.feature_sums)[at * made.table.padded_width + channel]);
      }
    }
  }
  return sum;
}

void finish_features(const QueryTableJob& made, const TermContext& context) {
  const TensorView& gradient = context.gradient->features;
  const Extents& shape = gradient.shape;
  with_arithmetic(context.job->arithmetic, [&]<class T>(T) {
    for (std::int64_t n = 0; n < shape[0] * shape[1] * shape[2]; ++n) {
      const RowIndex row{n / (shape[1] * shape[2]), n / shape[2] % shape[1], n % shape[2]};
      for (std::int64_t c = 0; c < shape[3]; ++c) add_to_element(gradient, row, c, feature_sum<T>(made, context, row, c));
    }
  });
}

}  // namespace

Status make_term(const job::TableTermJob& term, const TermContext& context, Arena& arena, TermJob& out) {
  switch (term.side) {
    case TableSide::query:
      return make_query_table(term, context, arena, out);
    case TableSide::key:
      return make_key_table(term, context, arena, out);
    case TableSide::value:
      return make_value_table(term, context, arena, out);
  }
  return job::error(context.where, "side is unknown, wanted query, key or value");
}

std::int64_t scratch_of(const QueryTableJob& term, const AttentionJob& /*job*/, bool /*backward*/) { return term.table.layout.size; }

void finish_term(const job::TableTermJob& term, const QueryTableJob& made, const TermContext& context) {
  finish_parts(term, made.table, context, term.scale);
  if (made.shift_sums != nullptr) finish_shift(made, context);
  if (made.feature_sums != nullptr) finish_features(made, context);
}

TermCost cost_of(const QueryTableJob& term, const AttentionJob& /*job*/) { return cost_of_parts(term.table, "query table"); }

}  // namespace phasor::attend
