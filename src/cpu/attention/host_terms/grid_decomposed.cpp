// SPDX-License-Identifier: Apache-2.0
// Rows for the two offsets of an image that meet queries (SAM, MViTv2), on the host side.
#include <algorithm>
#include <cmath>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/host_terms/grid.hpp"
#include "job/check.hpp"
#include "plan/attention.hpp"

namespace phasor::attend {
namespace {

/// One axis of the term.
struct Axis {
  const ConstTensorView* table;
  const TensorView* gradient;  // null: forward
  std::int64_t queries;
  std::int64_t keys;
};
Axis axis_y(const DecomposedTerm& term, const TermContext& context) {
  return {&term.rows_h, context.gradient != nullptr ? &context.gradient->table : nullptr, term.query_grid.height, term.key_grid.height};
}
Axis axis_x(const DecomposedTerm& term, const TermContext& context) {
  return {&term.rows_w, context.gradient != nullptr ? &context.gradient->second : nullptr, term.query_grid.width, term.key_grid.width};
}

std::int64_t table_rows(const Axis& axis) { return 2 * std::max(axis.queries, axis.keys) - 1; }

/// Positions are numbers of the grids' tokens.
Status check(const DecomposedTerm& term, const TermContext& context) {
  const AttentionShape& s = context.job->shape;
  const std::int64_t queries = term.query_grid.height * term.query_grid.width;
  const std::int64_t keys = term.key_grid.height * term.key_grid.width;
  if (Status status = check_tokens(context.where, "query", query_range(*context.asked, s), queries); !status) return status;
  return check_tokens(context.where, "key", key_range(*context.asked, s), keys);
}

AxisJob make_axis(const Axis& axis, const DecomposedTerm& term, const TermContext& context, Arena& arena) {
  const AttentionJob& job = *context.job;
  AxisJob made;
  made.queries = axis.queries;
  made.keys = axis.keys;
  made.rows = table_rows(axis);
  made.padded_rows = padded(made.rows);
  made.shares_heads = heads_of(*axis.table) == 1;
  made.columns = pack_columns(*axis.table, {.padded = made.padded_rows, .factor = term.scale}, job, arena);
  std::int32_t* const row_of = arena.take<std::int32_t>(axis.queries * axis.keys);
  for (std::int64_t n = 0; row_of != nullptr && n < axis.queries * axis.keys; ++n) {
    row_of[n] = static_cast<std::int32_t>(plan::grid_axis_row(n / axis.keys, n % axis.keys, axis.queries, axis.keys));
  }
  made.row_of = row_of;
  if (context.gradient != nullptr) {
    const std::int64_t width = job.shape.padded_width;
    made.packed = pack_rows(*axis.table, {.padded = width, .factor = term.scale}, job, arena);
    if (is_given(*axis.gradient)) made.sums = take_sums(made.rows * width, job, arena);
  }
  return made;
}

void finish_axis(const Axis& axis, const AxisJob& made, double scale, const AttentionJob& job) {
  if (made.sums == nullptr) return;
  const std::int64_t width = job.shape.padded_width;
  for (std::int64_t h = 0; h < job.shape.heads; ++h) {
    for (std::int64_t row = 0; row < made.rows; ++row) {
      for (std::int64_t c = 0; c < job.shape.width; ++c) {
        add_to_element(*axis.gradient, {0, row, h}, c, scale * sum_of_slots(made.sums, made.rows * width, job, h, row * width + c));
      }
    }
  }
}

}  // namespace

Status make_term(const DecomposedTerm& term, const TermContext& context, Arena& arena, TermJob& out) {
  if (Status status = check(term, context); !status) return status;
  out = DecomposedJob{.y = make_axis(axis_y(term, context), term, context, arena),
                      .x = make_axis(axis_x(term, context), term, context, arena)};
  return {};
}

std::int64_t scratch_of(const DecomposedJob& term, const AttentionJob& /*job*/, bool backward) { return layout_of(term, backward).size; }

void finish_term(const DecomposedTerm& term, const DecomposedJob& made, const TermContext& context) {
  finish_axis(axis_y(term, context), made.y, term.scale, *context.job);
  finish_axis(axis_x(term, context), made.x, term.scale, *context.job);
}

TermCost cost_of(const DecomposedJob& term, const AttentionJob& job) {
  return {.per_score = 2, .per_query = 2 * static_cast<double>(job.shape.width * (term.y.rows + term.x.rows)), .name = "decomposed"};
}

}  // namespace phasor::attend
