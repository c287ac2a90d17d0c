// SPDX-License-Identifier: Apache-2.0
// Sums of gradients of terms, on the host side. They are kept in slots, one for each (group of sequences, part of its keys, head), which
// are added up in order: the same bits for any runner. A slot of a table by distance has only the rows that its sequences reach, and
// sequences share a slot where even that would be out of proportion to their tokens: memory grows with tokens, not with sequences times
// rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "cpu/attention/host/prepare.hpp"
#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/host_tables/ranges.hpp"
#include "cpu/attention/job/attention.hpp"
#include "job/memory/arena.hpp"

namespace phasor::attend {

/// Those that a query may see, or the nearest to them where there are none.
DistanceRange seen_distances(const TermContext& context);
/// Between the queries of a group and a part of its keys, seen or not.
DistanceRange distances_of(const AttentionJob& job, const SequenceGroup& group, std::int64_t part, std::int64_t parts);

/// Fills out.groups: by the call alone, never by the runner. Layout and parts are known.
void make_groups(const Call& call, Prepared& out);
std::int64_t slots_of(const AttentionJob& job);

/// Rows of a packed table from `first` to `end` - 1.
struct RowRange {
  std::int64_t first;
  std::int64_t end;
};
/// Memory for the sums of a table by distance, cleared (null without memory); `padded_width` numbers per row.
struct TableSlots {
  void* sums;
  const SlotRows* rows;
};
/// rows_of: the rows that distances reach, if there are any.
using RowsOfDistances = std::function<RowRange(const DistanceRange&)>;
TableSlots take_table_slots(const TermContext& context, std::int64_t padded_width, const RowsOfDistances& rows_of, Arena& arena);

/// What the slots of a table hold, and where each row of the packed table belongs.
struct TableTotals {
  TableSlots slots;
  std::int64_t padded_width;
  std::int64_t rows;                                 // of the packed table
  std::function<std::int64_t(std::int64_t)> row_of;  // the row of the caller's table; -1: none. Neighbours may have the same one
  bool repeats;                                      // rows that are no neighbours may have the same one, too
  double factor;
};
/// Adds them to the caller's gradient of the table, slot by slot in order.
void add_table_totals(const TableTotals& totals, const TermContext& context);

}  // namespace phasor::attend
