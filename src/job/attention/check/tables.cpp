// SPDX-License-Identifier: Apache-2.0
// Terms whose table has a row for each distance: the table, its map of distances, what meets it, gradients.
#include "job/attention/check.hpp"
#include "job/attention/shape.hpp"
#include "spec/scheme/rules.hpp"

namespace phasor::job {
namespace {

Status check_rows(const ClipRows& clip, const char* where, std::int64_t rows) {
  if (Status s = spec::check_clip(where, clip); !s) return s;
  if (clip.left < rows && clip.right < rows && clip.left + 1 + clip.right == rows) return {};
  return error(where, "table has {} rows, wanted left + 1 + right with left {} and right {}", rows, clip.left, clip.right);
}
Status check_rows(const Bias& bias, const char* where, std::int64_t rows) {
  if (Status s = spec::check_bucket_rows(where, bias.spec()); !s || rows == bias.rows()) return s;
  return error(where, "table has {} rows, wanted {} as its buckets have", rows, bias.rows());
}

/// The table is (B or 1, rows, H or 1, width), with as many rows as the term's map of distances has; so is its gradient, if wanted.
Status check_table(const TableTerm& term, const TermCall& of, std::int64_t width) {
  const AttentionShape s = shape_of(*of.call->inputs);
  const TensorShape wanted{"table", {s.batch, term.table.shape[1], s.heads, width}, {true, false, true, false}};
  if (!is_given(term.table)) return error(of.where, "there is no table, wanted (B or 1, rows, H or 1, {})", width);
  if (Status status = check_tensor(of.where, term.table, wanted); !status) return status;
  Status rows = std::visit([&](const auto& map) { return check_rows(map, of.where, term.table.shape[1]); }, term.rows);
  if (!rows || of.gradient == nullptr) return rows;
  return check_gradient(of.where, of.gradient->table, term.table, "table");
}

std::int64_t width_of(const TableTerm& term, const TermCall& of) {
  return is_given(term.features) ? term.features.shape[3] : of.call->inputs->q.shape[3];
}

Status check_query_side(const TableTerm& term, const TermCall& of) {
  const AttentionShape s = shape_of(*of.call->inputs);
  const std::int64_t width = width_of(term, of);
  if (Status status = check_table(term, of, width); !status) return status;
  if (is_named(term.features)) {
    const TensorShape wanted{"features", {s.batch, s.queries, s.heads, width}, {true, false, true, false}};
    if (Status status = check_tensor(of.where, term.features, wanted); !status) return status;
  }
  if (is_named(term.shift)) {
    const TensorShape wanted{"shift", {1, 1, s.heads, width}, {false, false, true, false}};
    if (Status status = check_tensor(of.where, term.shift, wanted); !status) return status;
  }
  if (term.scale) {
    if (Status status = spec::check_finite(of.where, "scale", *term.scale); !status) return status;
  }
  if (of.gradient == nullptr) return {};
  if (Status status = check_gradient(of.where, of.gradient->features, term.features, "features"); !status) return status;
  return check_gradient(of.where, of.gradient->shift, term.shift, "shift");
}

Status check_key_side(const TableTerm& term, const TermCall& of) {
  const AttentionShape s = shape_of(*of.call->inputs);
  const std::int64_t width = width_of(term, of);
  if (is_named(term.features)) {
    const TensorShape wanted{"features", {s.batch, s.keys, s.key_heads, width}, {true, false, true, false}};
    if (Status status = check_tensor(of.where, term.features, wanted); !status) return status;
  }
  if (is_given(term.shift)) return error(of.where, "there is a shift, wanted none on the key side");
  if (Status status = spec::check_finite(of.where, "scale", term.scale.value_or(scale_of(*of.call))); !status) return status;
  if (Status status = check_table(term, of, width); !status) return status;
  return of.gradient == nullptr ? Status() : check_gradient(of.where, of.gradient->features, term.features, "features");
}

Status check_value_side(const TableTerm& term, const TermCall& of) {
  if (is_given(term.features) || is_given(term.shift) || term.scale) {
    return error(of.where, "a table on the value side has features, a shift or a scale, wanted none of them");
  }
  return check_table(term, of, of.call->inputs->v.shape[3]);
}

}  // namespace

Status check_term(const TableTerm& term, const TermCall& of) {
  switch (term.side) {
    case TableSide::query:
      return check_query_side(term, of);
    case TableSide::key:
      return check_key_side(term, of);
    case TableSide::value:
      return check_value_side(term, of);
  }
  return spec::check_side(of.where, term.side);
}

}  // namespace phasor::job
