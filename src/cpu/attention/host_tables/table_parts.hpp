// SPDX-License-Identifier: Apache-2.0
// What the query and the value side of tables make ready alike: band, way, packed copies, sums, layout of scratch.
#pragma once

#include "cpu/attention/host_tables/table_rows.hpp"
#include "cpu/attention/job/table_rows.hpp"

namespace phasor::attend {

/// Which copies and buffers a side needs.
struct TableNeeds {
  double factor = 1;  // on the packed table
  bool panels = false;
  bool rows = false;
  // Buffers in scratch.
  bool features = false;
  bool products = false;
  bool sums = false;
  bool result = false;  // where it slides
  bool column_sums = false;
};
/// The table is checked; out.width is its width.
Status make_parts(const job::TableTermJob& term, const TermContext& context, const TableNeeds& needs, Arena& arena, TableParts& out);

/// After the backward: the table's gradient to the caller, `factor` times.
void finish_parts(const job::TableTermJob& term, const TableParts& made, const TermContext& context, double factor);

/// Operations, forward: products of `kinds` kinds (1).
TermCost cost_of_parts(const TableParts& table, const char* name);

}  // namespace phasor::attend
