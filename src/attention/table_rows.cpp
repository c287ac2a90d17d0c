// SPDX-License-Identifier: Apache-2.0
// Which row of a table a distance reads, and tables packed in that order.
#include "attention/table_rows.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "attention/call.hpp"
#include "attention/term_tensors.hpp"
#include "job/check.hpp"
#include "job/element.hpp"

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
std::int64_t saturation(const Bias& bias, std::int64_t sign) {
  const std::int64_t end = bias.row(sign * kFarthest);
  std::int64_t known = kFarthest;  // reads `end`
  std::int64_t other = bias.rows();
  if (bias.row(sign * other) == end) {
    known = other;
    while (known > 0 && bias.row(sign * (known - 1)) == end) --known;
    return known;
  }
  while (known - other > 1) {
    const std::int64_t middle = other + (known - other) / 2;
    (bias.row(sign * middle) == end ? known : other) = middle;
  }
  return known;
}

Ends ends_of(const ClipRows& clip) {
  const std::int64_t beyond = clip.outside == OutsideRows::zero ? 1 : 0;  // a column of zeros
  return {-clip.left - beyond, clip.right + beyond};
}
Ends ends_of(const Bias& bias) { return {-saturation(bias, 1), saturation(bias, -1)}; }

Status check_rows(const ClipRows& clip, const TermContext& context, std::int64_t rows) {
  if (clip.outside > OutsideRows::zero) return job::error(context.where, "rows.outside is unknown, wanted clamp or zero");
  if (clip.left < 0 || clip.right < 0) {
    return job::error(context.where, "rows has left {} and right {}, wanted none below 0", clip.left, clip.right);
  }
  if (clip.left < rows && clip.right < rows && clip.left + 1 + clip.right == rows) return {};
  return job::error(context.where, "table has {} rows, wanted left + 1 + right with left {} and right {}", rows, clip.left, clip.right);
}
Status check_rows(const Bias& bias, const TermContext& context, std::int64_t rows) {
  const BiasSpec& spec = bias.spec();
  if (!std::holds_alternative<T5Buckets>(spec) && !std::holds_alternative<DebertaBuckets>(spec) &&
      !std::holds_alternative<ShawClip>(spec)) {
    return job::error(context.where, "rows is a bias without buckets of distances, wanted T5Buckets, DebertaBuckets or ShawClip");
  }
  if (rows == bias.rows()) return {};
  return job::error(context.where, "table has {} rows, wanted {} as its buckets have", rows, bias.rows());
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

/// Rows that a task of the runner packs or sums; a multiple of kKeyTile.
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

job::PackedTable pack_table(const TablePacking& packing, const Order& order, const job::AttentionJob& job, Arena& arena) {
  const Extents& shape = packing.term->table.shape;
  job::PackedTable out{
      .size = order.rows * order.columns, .batch_stride = shape[0] == 1 ? 0 : shape[2], .head_stride = shape[2] == 1 ? 0 : 1};
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

/// Of one table: (b, h) of the gradient.
struct SumTask {
  const TablePacking* packing;
  const void* sums;
  const TermContext* context;
  std::int64_t b;
  std::int64_t h;
};

/// Row x of the sums of every slot that belongs to the table, in order, added to `out`.
template <class T>
void sum_slots(const SumTask& task, std::int64_t x, std::span<double> out) {
  const job::AttentionJob& job = *task.context->job;
  const Extents& shape = task.context->gradient->table.shape;
  const std::int64_t places = job::padded(shape[3]);
  const std::int64_t slots = slots_of(job);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::int64_t sequence = slot / job.shape.heads / job.backward.parts;
    if (shape[2] != 1 && slot % job.shape.heads != task.h) continue;
    if (shape[0] != 1 && job.sequences[static_cast<std::size_t>(sequence)].batch != task.b) continue;
    const T* const row = static_cast<const T*>(task.sums) + (slot * task.packing->rows() + x) * places;
    for (std::size_t c = 0; c < out.size(); ++c) out[c] += static_cast<double>(row[c]);
  }
}

template <class Element>
void add_values(std::span<const double> values, double factor, Element* out, std::int64_t stride) {
  for (const double value : values) {
    *out = static_cast<Element>(static_cast<double>(*out) + factor * value);
    out += stride;
  }
}

/// A column, the margins that are its copies included, to the caller's table.
void add_column(const SumTask& task, std::int64_t column, std::span<double> row) {
  const TablePacking& packing = *task.packing;
  const TensorView& gradient = task.context->gradient->table;
  const std::int64_t to = table_row_of(*packing.term, *packing.band, column);
  if (to < 0) return;
  const std::int64_t last = packing.band->count - 1;
  const std::int64_t first = column == 0 ? 0 : column + packing.margin;
  const std::int64_t end = column == last ? packing.rows() : column + packing.margin + 1;
  std::fill(row.begin(), row.end(), 0.0);
  for (std::int64_t x = first; x < end; ++x) {
    with_arithmetic(task.context->job->arithmetic, [&]<class T>(T) { sum_slots<T>(task, x, row); });
  }
  const std::int64_t at = task.b * gradient.strides[0] + to * gradient.strides[1] + task.h * gradient.strides[2];
  if (gradient.dtype == DType::f64) {
    add_values(row, packing.factor, static_cast<double*>(gradient.data) + at, gradient.strides[3]);
  } else {
    add_values(row, packing.factor, static_cast<float*>(gradient.data) + at, gradient.strides[3]);
  }
}

}  // namespace

Status check_table(const TableTerm& term, const TermContext& context, std::int64_t width) {
  const job::AttentionShape& s = context.job->shape;
  const TensorShape wanted{"table", {s.batch, term.table.shape[1], s.heads, width}, {true, false, true, false}};
  if (!is_given(term.table)) return job::error(context.where, "there is no table, wanted (B or 1, rows, H or 1, {})", width);
  if (Status status = check_tensor(context.where, term.table, wanted); !status) return status;
  Status rows = std::visit([&](const auto& map) { return check_rows(map, context, term.table.shape[1]); }, term.rows);
  if (!rows || context.gradient == nullptr) return rows;
  return check_gradient(context.where, context.gradient->table, term.table, "table");
}

Status make_band(const TableTerm& term, const TermContext& context, Arena& arena, job::TableBand& out) {
  const Ends ends = std::visit([](const auto& map) { return ends_of(map); }, term.rows);
  const std::int64_t first = std::clamp(-context.max_distance, ends.low, ends.high);
  const std::int64_t last = std::clamp(-context.min_distance, first, std::max(first, ends.high));
  if (last - first >= kMostColumns) {
    return job::error(context.where, "the table tells {} distances apart, wanted at most 2^30", last - first + 1);
  }
  const auto* const bias = std::get_if<Bias>(&term.rows);
  out = {.first = first, .count = last - first + 1};
  if (bias == nullptr) return {};
  auto* const rows = arena.take<std::int32_t>(out.count);
  out.rows = rows;
  for (std::int64_t column = 0; rows != nullptr && column < out.count; ++column) {
    rows[column] = static_cast<std::int32_t>(bias->row(-(first + column)));
  }
  return {};
}

std::int64_t table_row_of(const TableTerm& term, const job::TableBand& band, std::int64_t column) {
  if (band.rows != nullptr) return band.rows[column];
  const auto& clip = std::get<ClipRows>(term.rows);
  const std::int64_t ahead = band.first + column;  // key - query
  if (clip.outside == OutsideRows::zero && (ahead < -clip.left || ahead > clip.right)) return -1;
  return std::clamp(ahead, -clip.left, clip.right) + clip.left;
}

job::PackedTable pack_table_rows(const TablePacking& packing, const job::AttentionJob& job, Arena& arena) {
  const std::int64_t places = job::padded(packing.term->table.shape[3]);
  const std::int64_t rows = packing.rows();
  return pack_table(packing, {.rows = rows, .columns = places, .column = 1, .row = places, .block_rows = rows, .block = 0}, job, arena);
}

job::PackedTable pack_table_panels(const TablePacking& packing, const job::AttentionJob& job, Arena& arena) {
  const std::int64_t width = packing.term->table.shape[3];
  const std::int64_t panels = (packing.rows() + job::kKeyTile - 1) / job::kKeyTile;
  const Order order{.rows = panels * job::kKeyTile,
                    .columns = width,
                    .column = job::kKeyTile,
                    .row = 1,
                    .block_rows = job::kKeyTile,
                    .block = width * job::kKeyTile};
  return pack_table(packing, order, job, arena);
}

void add_table_sums(const TablePacking& packing, const void* sums, const TermContext& context) {
  const Extents& shape = context.gradient->table.shape;
  const std::int64_t columns = packing.band->count;
  const std::int64_t chunk = packing.band->rows != nullptr ? columns : kChunkRows;  // columns of a bucket add to one row
  const std::int64_t chunks = (columns + chunk - 1) / chunk;
  const std::int64_t tasks = shape[0] * shape[2] * chunks;
  const auto width = static_cast<std::size_t>(shape[3]);
  std::vector<double> sums_of_rows(static_cast<std::size_t>(tasks) * width);  // a row a task, made here: threads are to throw nothing
  run_each(context.spec->runner, tasks, [&](std::int64_t task) {
    const std::int64_t table = task / chunks;
    const std::int64_t first = task % chunks * chunk;
    const SumTask part{&packing, sums, &context, table / shape[2], table % shape[2]};
    const std::span<double> row = std::span(sums_of_rows).subspan(static_cast<std::size_t>(task) * width, width);
    for (std::int64_t c = first; c < std::min(first + chunk, columns); ++c) add_column(part, c, row);
  });
}

}  // namespace phasor::attend
