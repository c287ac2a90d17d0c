// SPDX-License-Identifier: Apache-2.0
// A table added to values, on the host side.
#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host_tables/table_parts.hpp"
#include "cpu/attention/host_tables/table_rows.hpp"
#include "job/check.hpp"

namespace phasor::attend {

Status make_value_table(const job::TableTermJob& term, const TermContext& context, Arena& arena, TermJob& out) {
  const bool backward = context.gradient != nullptr;
  ValueTableJob made;
  const TableNeeds needs{.panels = backward, .rows = !backward, .products = backward, .sums = true, .result = !backward};
  if (Status status = make_parts(term, context, needs, arena, made.table); !status) return status;
  out = made;
  return {};
}

std::int64_t scratch_of(const ValueTableJob& term, const AttentionJob& /*job*/, bool /*backward*/) { return term.table.layout.size; }

void finish_term(const job::TableTermJob& term, const ValueTableJob& made, const TermContext& context) {
  finish_parts(term, made.table, context, 1);
}

TermCost cost_of(const ValueTableJob& term, const AttentionJob& /*job*/) { return cost_of_parts(term.table, "value table"); }

}  // namespace phasor::attend
