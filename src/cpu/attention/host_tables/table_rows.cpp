// SPDX-License-Identifier: Apache-2.0
// Which row of a table a distance reads, and tables packed in that order.
#include "cpu/attention/host_tables/table_rows.hpp"

#include <algorithm>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/term_tensors.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "plan/bias/buckets.hpp"

namespace phasor::attend {
namespace {

constexpr std::int64_t kFarthest = std::int64_t{1} << 61;
constexpr std::int64_t kMostColumns = std::int64_t{1} << 30;

/// By key - query: up to `low` every distance reads one row, from `high` on, too.
struct Ends {
  std::int64_t low;
  std::int64_t high;
};

/// From which magnitude on every distance of a sign reads the same row. Up to `exact` rows may come and go; beyond, buckets only rise or
/// only fall, so that the last row, once reached, stays.
std::int64_t saturation(const job::TableTermJob& term, std::int64_t sign) {
  const auto row = [&](std::int64_t distance) { return plan::row_of(term.rows.buckets, sign * distance); };
  const std::int64_t end = row(kFarthest);
  std::int64_t known = kFarthest;  // reads `end`
  std::int64_t other = term.row_count;
  if (row(other) == end) {
    known = other;
    while (known > 0 && row(known - 1) == end) --known;
    return known;
  }
  while (known - other > 1) {
    const std::int64_t middle = other + (known - other) / 2;
    (row(middle) == end ? known : other) = middle;
  }
  return known;
}

Ends ends_of(const job::TableTermJob& term) {
  if (term.rows.has_buckets) return {-saturation(term, 1), saturation(term, -1)};
  const std::int64_t beyond = term.rows.zero_outside ? 1 : 0;  // a column of zeros
  return {-term.rows.left - beyond, term.rows.right + beyond};
}

/// One row, read by `stride`.
struct SourceRow {
  const void* data;
  DType dtype;
  std::int64_t offset;
  std::int64_t stride;
  std::int64_t width;
};
template <class T>
void copy_row(const SourceRow& row, double factor, T* out, std::int64_t out_stride) {
  job::with_element(row.dtype, [&](auto tag) {
    using Element = typename decltype(tag)::type;
    const Element* const in = static_cast<const Element*>(row.data) + row.offset;
    for (std::int64_t c = 0; c < row.width; ++c) out[c * out_stride] = static_cast<T>(factor * job::number_of(in[c * row.stride]));
  });
}

/// How a packed table lies: columns of a row are `column` apart, rows `row`, blocks of `block_rows` rows `block`. What is more than the
/// table has is zero.
struct Order {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t column;
  std::int64_t row;
  std::int64_t block_rows;
  std::int64_t block;
};

/// Rows that a task of the runner packs; a multiple of kKeyTile.
constexpr std::int64_t kChunkRows = 1024;

/// Rows [first, end) of one table, b H + h of those that are apart.
struct PackTask {
  const TablePacking* packing;
  Order order;
  std::int64_t table;
  std::int64_t first;
  std::int64_t end;
};
template <class T>
void pack_rows_of_table(const PackTask& task, T* out) {
  const TablePacking& packing = *task.packing;
  const ConstTensorView& table = packing.term->table;
  const std::int64_t first = task.table / table.shape[2] * table.strides[0] + task.table % table.shape[2] * table.strides[2];
  for (std::int64_t x = task.first; x < task.end; ++x) {
    const std::int64_t row = x < packing.rows() ? table_row_of(*packing.term, *packing.band, packing.column(x)) : -1;
    T* const to = out + x / task.order.block_rows * task.order.block + x % task.order.block_rows * task.order.row;
    const SourceRow from{table.data, table.dtype, first + row * table.strides[1], table.strides[3], table.shape[3]};
    for (std::int64_t c = row < 0 ? 0 : table.shape[3]; c < task.order.columns; ++c) to[c * task.order.column] = 0;
    if (row >= 0) copy_row(from, packing.factor, to, task.order.column);
  }
}

PackedTable pack_table(const TablePacking& packing, const Order& order, const AttentionJob& job, Arena& arena) {
  const Extents& shape = packing.term->table.shape;
  PackedTable out{.size = order.rows * order.columns, .batch_stride = shape[0] == 1 ? 0 : shape[2], .head_stride = shape[2] == 1 ? 0 : 1};
  const std::int64_t tables = shape[0] * shape[2];
  out.data = arena.take_bytes(tables * out.size * bytes_of(job.arithmetic));
  if (out.data == nullptr) return out;
  const std::int64_t chunks = (order.rows + kChunkRows - 1) / kChunkRows;
  run_each(packing.runner, tables * chunks, [&](std::int64_t task) {
    const std::int64_t first = task % chunks * kChunkRows;
    const PackTask rows{&packing, order, task / chunks, first, std::min(first + kChunkRows, order.rows)};
    with_arithmetic(job.arithmetic, [&]<class T>(T) { pack_rows_of_table(rows, static_cast<T*>(out.data) + rows.table * out.size); });
  });
  return out;
}

}  // namespace

Status make_table_band(const job::TableTermJob& term, const TermContext& context, Arena& arena, TableBand& out) {
  const Ends ends = ends_of(term);
  const std::int64_t first = std::clamp(-context.max_distance, ends.low, ends.high);
  const std::int64_t last = std::clamp(-context.min_distance, first, std::max(first, ends.high));
  if (last - first >= kMostColumns) {
    return job::error(context.where, "the table tells {} distances apart, wanted at most 2^30", last - first + 1);
  }
  out = {.first = first, .count = last - first + 1};
  if (!term.rows.has_buckets) return {};
  auto* const rows = arena.take<std::int32_t>(out.count);
  out.rows = rows;
  for (std::int64_t column = 0; rows != nullptr && column < out.count; ++column) {
    rows[column] = static_cast<std::int32_t>(plan::row_of(term.rows.buckets, -(first + column)));
  }
  return {};
}

std::int64_t most_columns(const job::TableTermJob& term) {
  if (!term.rows.has_buckets) return std::min(term.table.shape[1], kMostColumns) + 2;  // and a column of zeros at either end
  const Ends ends = ends_of(term);
  return ends.high - ends.low + 1;
}

std::int64_t table_row_of(const job::TableTermJob& term, const TableBand& band, std::int64_t column) {
  if (band.rows != nullptr) return band.rows[column];
  const job::RowMap& clip = term.rows;
  const std::int64_t ahead = band.first + column;  // key - query
  if (clip.zero_outside && (ahead < -clip.left || ahead > clip.right)) return -1;
  return std::clamp(ahead, -clip.left, clip.right) + clip.left;
}

PackedTable pack_table_rows(const TablePacking& packing, const AttentionJob& job, Arena& arena) {
  const std::int64_t padded_width = padded(packing.term->table.shape[3]);
  const std::int64_t rows = packing.rows();
  return pack_table(packing, {.rows = rows, .columns = padded_width, .column = 1, .row = padded_width, .block_rows = rows, .block = 0}, job,
                    arena);
}

PackedTable pack_table_panels(const TablePacking& packing, const AttentionJob& job, Arena& arena) {
  const std::int64_t width = packing.term->table.shape[3];
  const std::int64_t panels = (packing.rows() + kKeyTile - 1) / kKeyTile;
  const Order order{
      .rows = panels * kKeyTile, .columns = width, .column = kKeyTile, .row = 1, .block_rows = kKeyTile, .block = width * kKeyTile};
  return pack_table(packing, order, job, arena);
}

}  // namespace phasor::attend
