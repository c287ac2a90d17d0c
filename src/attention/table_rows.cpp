// SPDX-License-Identifier: Apache-2.0
// Which row of a table a distance reads, and tables packed in that order.
#include "attention/table_rows.hpp"

#include <algorithm>
#include <vector>

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

/// How a packed table lies: columns of a row are `column` apart, rows `row`, blocks of `block_rows` rows `block`.
struct Order {
  std::int64_t column;
  std::int64_t row;
  std::int64_t block_rows;
  std::int64_t block;
  std::int64_t size;
};

struct PackTask {
  const TablePacking* packing;
  const job::PackedTable* out;
  Order order;
  DType arithmetic;
};

/// One table: task b H + h of those that are apart.
template <class T>
void pack_one(const PackTask& task, std::int64_t index) {
  const TablePacking& packing = *task.packing;
  const ConstTensorView& table = packing.term->table;
  const std::int64_t b = index / table.shape[2];
  const std::int64_t h = index % table.shape[2];
  T* const out = static_cast<T*>(task.out->data) + index * task.out->size;
  std::fill_n(out, task.out->size, T{0});
  for (std::int64_t x = 0; x < packing.rows(); ++x) {
    const std::int64_t row = table_row_of(*packing.term, *packing.band, packing.packed_row(x));
    if (row < 0) continue;
    const std::int64_t offset = b * table.strides[0] + row * table.strides[1] + h * table.strides[2];
    T* const to = out + x / task.order.block_rows * task.order.block + x % task.order.block_rows * task.order.row;
    copy_row(SourceRow{table.data, table.dtype, offset, table.strides[3], table.shape[3]}, packing.factor, to, task.order.column);
  }
}

job::PackedTable pack_table(const TablePacking& packing, const Order& order, const job::AttentionJob& job, Arena& arena) {
  const Extents& shape = packing.term->table.shape;
  job::PackedTable out{.size = order.size, .batch_stride = shape[0] == 1 ? 0 : shape[2], .head_stride = shape[2] == 1 ? 0 : 1};
  out.data = arena.take_bytes(shape[0] * shape[2] * order.size * bytes_of(job.arithmetic));
  if (out.data == nullptr) return out;
  const PackTask task{&packing, &out, order, job.arithmetic};
  for (std::int64_t index = 0; index < shape[0] * shape[2]; ++index) {
    with_arithmetic(job.arithmetic, [&]<class T>(T) { pack_one<T>(task, index); });
  }
  return out;
}

/// The row of slots' sums that begins at `sums` in each, over the slots of one table, in order.
struct SlotRow {
  const void* sums;
  std::int64_t offset;
  std::int64_t slot_size;
  std::int64_t b;  // below 0: of every batch row
  std::int64_t h;  // below 0: of every head
};
template <class T>
void sum_slots(const SlotRow& at, const job::AttentionJob& job, std::vector<double>& out) {
  std::fill(out.begin(), out.end(), 0.0);
  const std::int64_t slots = slots_of(job);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::int64_t sequence = slot / job.shape.heads / job.backward.parts;
    if (at.h >= 0 && slot % job.shape.heads != at.h) continue;
    if (at.b >= 0 && job.sequences[static_cast<std::size_t>(sequence)].batch != at.b) continue;
    const T* const row = static_cast<const T*>(at.sums) + slot * at.slot_size + at.offset;
    for (std::size_t c = 0; c < out.size(); ++c) out[c] += static_cast<double>(row[c]);
  }
}

}  // namespace

Status check_table(const TableTerm& term, const TermContext& context, std::int64_t width) {
  const job::AttentionShape& s = context.job->shape;
  const TensorShape wanted{"table", {s.batch, term.table.shape[1], s.heads, width}, {true, false, true, false}};
  if (!is_given(term.table)) return job::error(context.where, "there is no table, wanted (B or 1, rows, H or 1, {})", width);
  if (Status status = check_tensor(context.where, term.table, wanted); !status) return status;
  const Status rows = std::visit([&](const auto& map) { return check_rows(map, context, term.table.shape[1]); }, term.rows);
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
  out = {.first = first, .count = last - first + 1, .packed_rows = last - first + 1, .bucketed = bias != nullptr};
  if (bias == nullptr) return {};
  out.packed_rows = bias->rows();
  auto* const rows = arena.take<std::int32_t>(out.count);
  out.rows = rows;
  for (std::int64_t column = 0; rows != nullptr && column < out.count; ++column) {
    rows[column] = static_cast<std::int32_t>(bias->row(-(first + column)));
  }
  return {};
}

std::int64_t table_row_of(const TableTerm& term, const job::TableBand& band, std::int64_t packed_row) {
  const auto* const clip = std::get_if<ClipRows>(&term.rows);
  if (clip == nullptr) return packed_row;
  const std::int64_t ahead = band.first + packed_row;  // key - query
  if (clip->outside == OutsideRows::zero && (ahead < -clip->left || ahead > clip->right)) return -1;
  return std::clamp(ahead, -clip->left, clip->right) + clip->left;
}

job::PackedTable pack_table_rows(const TablePacking& packing, const job::AttentionJob& job, Arena& arena) {
  const std::int64_t places = job::padded(packing.term->table.shape[3]);
  const std::int64_t rows = packing.rows();
  return pack_table(packing, {.column = 1, .row = places, .block_rows = rows, .block = 0, .size = rows * places}, job, arena);
}

job::PackedTable pack_table_panels(const TablePacking& packing, const job::AttentionJob& job, Arena& arena) {
  const std::int64_t block = packing.term->table.shape[3] * job::kKeyTile;
  const std::int64_t panels = (packing.rows() + job::kKeyTile - 1) / job::kKeyTile;
  const Order order{.column = job::kKeyTile, .row = 1, .block_rows = job::kKeyTile, .block = block, .size = panels * block};
  return pack_table(packing, order, job, arena);
}

void add_table_sums(const TablePacking& packing, const void* sums, const TermContext& context) {
  const TensorView& gradient = context.gradient->table;
  const Extents& shape = gradient.shape;
  const std::int64_t places = job::padded(shape[3]);
  std::vector<double> row(static_cast<std::size_t>(shape[3]));
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t h = 0; h < shape[2]; ++h) {
      for (std::int64_t x = 0; x < packing.rows(); ++x) {
        const std::int64_t to = table_row_of(*packing.term, *packing.band, packing.packed_row(x));
        if (to < 0) continue;
        const SlotRow from{sums, x * places, packing.rows() * places, shape[0] == 1 ? -1 : b, shape[2] == 1 ? -1 : h};
        with_arithmetic(context.job->arithmetic, [&]<class T>(T) { sum_slots<T>(from, *context.job, row); });
        for (std::int64_t c = 0; c < shape[3]; ++c) {
          add_to_element(gradient, {b, to, h}, c, packing.factor * row[static_cast<std::size_t>(c)]);
        }
      }
    }
  }
}

}  // namespace phasor::attend
