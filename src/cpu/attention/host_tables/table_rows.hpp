// SPDX-License-Identifier: Apache-2.0
// Tables whose row a distance chooses, on the host side: which rows, packed by distance, and sums of their gradients.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/job/table_rows.hpp"
#include "job/memory/arena.hpp"
#include "phasor/attention.hpp"
#include "phasor/result.hpp"

namespace phasor::attend {

/// The columns that the distances of the call need: no more than the map tells apart, and no more than there are distances.
Status make_table_band(const job::TableTermJob& term, const TermContext& context, Arena& arena, TableBand& out);

/// Columns that the map of distances tells apart, whatever the call's.
std::int64_t most_columns(const job::TableTermJob& term);

/// The row of the caller's table that a column reads; -1: zeros (distances outside).
std::int64_t table_row_of(const job::TableTermJob& term, const TableBand& band, std::int64_t column);

/// A packed table has `margin` copies of its first row before it and of its last one after it, all times `factor`.
struct TablePacking {
  const job::TableTermJob* term;
  const TableBand* band;
  double factor = 1;
  std::int64_t margin = 0;
  Runner runner = {};

  std::int64_t rows() const { return band->count + 2 * margin; }
  /// Of row x, margins included.
  std::int64_t column(std::int64_t x) const { return std::clamp<std::int64_t>(x - margin, 0, band->count - 1); }
};
/// (rows, padded(width)) T a table; what pads is zero.
PackedTable pack_table_rows(const TablePacking& packing, const AttentionJob& job, Arena& arena);
/// (panels, width, kKeyTile) T a table: column x of panel p is row p kKeyTile + x; what lies beyond the rows is zero.
PackedTable pack_table_panels(const TablePacking& packing, const AttentionJob& job, Arena& arena);

/// The other sides of make_term: cpu/attention/host_tables/key_table.cpp, cpu/attention/host_tables/value_table.cpp.
Status make_key_table(const job::TableTermJob& term, const TermContext& context, Arena& arena, TermJob& out);
Status make_value_table(const job::TableTermJob& term, const TermContext& context, Arena& arena, TermJob& out);

}  // namespace phasor::attend
