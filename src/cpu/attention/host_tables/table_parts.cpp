// SPDX-License-Identifier: Apache-2.0
// How a table is computed (once per tile of queries, or sliding along the keys), and the memory that takes.
#include "cpu/attention/host_tables/table_parts.hpp"

#include <algorithm>
#include <functional>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host_tables/slots.hpp"

namespace phasor::attend {
namespace {

// A tile of queries times so many columns, 200 KiB of float32, comes and goes in the second cache beside keys and values.
constexpr std::int64_t kMostWhole = 512;
// Where positions are given, tiles may be irregular: sliding then costs one product per score.
constexpr std::int64_t kMostWholeOfGiven = 4096;

/// Keys that a query sees, about.
std::int64_t seen_keys(const TermContext& context) {
  const job::VisibilityJob& see = context.asked->visibility;
  const std::int64_t span = context.max_distance - context.min_distance;  // of a sequence alone: queries + keys - 2
  std::int64_t seen = std::min(context.job->shape.keys, span / 2 + 1);
  if (see.causal) seen = seen / 2 + 1;
  if (see.left != INT64_MAX && (see.right != INT64_MAX || see.causal)) {
    const std::int64_t ahead = see.right != INT64_MAX && !see.causal ? see.right : 0;
    seen = std::min(seen, std::min(see.left, seen) + std::min(ahead, seen) + 1);
  }
  return seen;
}

/// Sliding makes a column for each key that a tile of queries sees, and those of the tile's own width beside.
TableWay way_of(const TableBand& band, const TermContext& context) {
  if (context.asked->query_positions.given || context.asked->key_positions.given) {
    return band.count <= kMostWholeOfGiven ? TableWay::whole : TableWay::sliding;
  }
  const std::int64_t sliding = seen_keys(context) + kQueryTile + kKeyTile;
  return band.count <= std::min(kMostWhole, sliding) ? TableWay::whole : TableWay::sliding;
}

constexpr std::int64_t kColumns = 16;  // the product's columns come in so many

/// Rows whose distance is a multiple of 512 bytes crowd into a few sets of the first cache.
std::int64_t spread(std::int64_t stride) {
  const std::int64_t rounded = (stride + kColumns - 1) / kColumns * kColumns;
  return rounded % 128 == 0 ? rounded + kColumns : rounded;
}

TableBuffers layout_of(const TableParts& table, const TableNeeds& needs, std::int64_t queries) {
  const std::int64_t rows = std::clamp<std::int64_t>(queries, 1, kQueryTile);
  const TableBand& band = table.band;
  const bool sliding = table.way == TableWay::sliding;
  TableBuffers out;
  out.stride = sliding ? 5 * kKeyTile : spread(band.count);  // sliding: four panels in a ring, and the first again behind the last
  const auto take = [&](bool wanted, std::int64_t size) {
    const std::int64_t at = out.size;
    if (wanted) out.size += (size + kColumns - 1) / kColumns * kColumns;
    return at;
  };
  const auto take_columns = [&](bool wanted) { return take(wanted, rows * out.stride + 2 * kTableMargin) + kTableMargin; };
  out.tags = take(true, kTableTags);
  out.features = take(needs.features, rows * table.padded_width);
  out.products = take_columns(needs.products);
  out.end_products = take(needs.products, 2 * kQueryTile);
  out.sums = take_columns(needs.sums);
  out.end_sums = take(needs.sums, rows * 2 * kTableLanes);
  out.pending = take(needs.sums, 3 * kQueryTile);
  out.result = take(needs.result && sliding, rows * table.padded_width);
  out.column_sums = take(needs.column_sums, sliding ? kKeyTile : band.count);
  return out;
}

TablePacking packing_of(const job::TableTermJob& term, const TableParts& table, const TermContext& context, double factor) {
  return {&term, &table.band, factor, table.way == TableWay::sliding ? kTableMargin : 0, *context.runner};
}

/// The rows of the packed table that distances reach. Beyond the ends of the band there are only its margins: cpu's start_of keeps within
/// them, and moves rows of scores towards the band alone.
RowRange rows_of(const TableParts& table, std::int64_t margin, const DistanceRange& range) {
  const std::int64_t last = margin + table.band.count - 1;  // of the band
  const std::int64_t low = std::clamp(-range.high - table.band.first + margin, std::int64_t{0}, last);
  const std::int64_t high = std::clamp(-range.low - table.band.first + margin, margin, last + margin);
  return {low, high + 1};
}

}  // namespace

Status make_parts(const job::TableTermJob& term, const TermContext& context, const TableNeeds& needs, Arena& arena, TableParts& out) {
  const AttentionJob& job = *context.job;
  if (Status status = make_table_band(term, context, arena, out.band); !status) return status;
  out.way = way_of(out.band, context);
  out.width = term.table.shape[3];
  out.padded_width = padded(out.width);
  const TablePacking packing = packing_of(term, out, context, needs.factor);
  out.row_count = packing.rows();
  if (needs.panels) out.panels = pack_table_panels(packing, job, arena);
  if (needs.rows) out.rows = pack_table_rows(packing, job, arena);
  if (context.gradient != nullptr && is_given(context.gradient->table)) {
    const TableSlots slots =
        take_table_slots(context, out.padded_width, [&](const DistanceRange& range) { return rows_of(out, packing.margin, range); }, arena);
    out.sums = slots.sums;
    out.slot_rows = slots.rows;
  }
  out.layout = layout_of(out, needs, job.shape.queries);
  return {};
}

void finish_parts(const job::TableTermJob& term, const TableParts& made, const TermContext& context, double factor) {
  if (made.sums == nullptr) return;
  const TablePacking packing = packing_of(term, made, context, factor);
  const auto row_of = [&](std::int64_t row) { return table_row_of(term, made.band, packing.column(row)); };
  add_table_totals({.slots = {made.sums, made.slot_rows},
                    .padded_width = made.padded_width,
                    .rows = made.row_count,
                    .row_of = std::ref(row_of),  // a copy might ask the heap
                    .repeats = made.band.rows != nullptr,
                    .factor = factor},
                   context);
}

TermCost cost_of_parts(const TableParts& table, const char* name) {
  const auto product = 2 * static_cast<double>(table.width);
  TermCost cost{.far_above = -table.band.first, .far_below = -(table.band.first + table.band.count - 1), .per_score = 1, .name = name};
  if (table.way == TableWay::sliding) {
    cost.per_score += product;
  } else {
    cost.per_query = product * static_cast<double>(table.band.count);
  }
  return cost;
}

}  // namespace phasor::attend
