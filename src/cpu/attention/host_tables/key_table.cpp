// SPDX-License-Identifier: Apache-2.0
// A key-side table (DeBERTa p2c), on the host side.
#include <algorithm>
#include <functional>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/host_tables/key_features.hpp"
#include "cpu/attention/host_tables/slots.hpp"
#include "cpu/attention/host_tables/table_rows.hpp"
#include "cpu/common/runner.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "plan/bias/buckets.hpp"

namespace phasor::attend {
namespace {

/// The row of the caller's table at a place; -1: zeros.
std::int64_t row_at_place(const job::TableTermJob& term, const TableBand& band, std::int64_t place) {
  const std::int64_t column = std::clamp<std::int64_t>(band.count - 1 - (place - kKeyWindow), 0, band.count - 1);
  return term.rows.has_buckets ? plan::row_of(term.rows.buckets, -(band.first + column)) : table_row_of(term, band, column);
}

/// Places and lines: one line per row where rows rise one by one with the distance, else one line per place.
void lay_out_lines(const job::TableTermJob& term, KeyTableJob& made) {
  made.places = made.band.count + 2 * kKeyWindow;
  made.ranked = term.rows.has_buckets;
  std::int64_t rows = 1;
  for (std::int64_t place = 1; made.ranked && place < made.places; ++place) {
    const std::int64_t step = row_at_place(term, made.band, place) - row_at_place(term, made.band, place - 1);
    made.ranked = step == 0 || step == 1;
    rows += step;
  }
  made.lines = made.ranked ? rows : made.places;
  made.last_line = made.lines - 1;
  // An odd number of strips: rows of columns then begin in different sets of the cache.
  made.line_stride = (made.lines + kKeyStrip) / kKeyStrip * kKeyStrip + kKeyStrip;
  if (made.line_stride / kKeyStrip % 2 == 0) made.line_stride += kKeyStrip;
}
std::int64_t row_of_line(const job::TableTermJob& term, const KeyTableJob& made, std::int64_t line) {
  return made.ranked ? row_at_place(term, made.band, 0) + line : row_at_place(term, made.band, line);
}

void make_ranks(const job::TableTermJob& term, const AttentionJob& job, Arena& arena, KeyTableJob& made) {
  if (!made.ranked) return;
  const std::int64_t count = made.places + kKeyStrip;
  void* const memory = arena.take_bytes(count * bytes_of(job.arithmetic));
  made.ranks = memory;
  for (std::int64_t place = 0; memory != nullptr && place < count; ++place) {
    const std::int64_t rank = row_at_place(term, made.band, std::min(place, made.places - 1)) - row_at_place(term, made.band, 0);
    if (job.arithmetic == DType::f64) {
      static_cast<std::int64_t*>(memory)[place] = rank;
    } else {
      static_cast<std::int32_t*>(memory)[place] = static_cast<std::int32_t>(rank);
    }
  }
}

/// How a packed table lies: (lines, channels) or the other way round.
struct TableOrder {
  std::int64_t size;
  std::int64_t line_stride;
  std::int64_t channel_stride;
};
PackedTable pack_by_distance(const job::TableTermJob& term, const TermContext& context, const KeyTableJob& made, const TableOrder& order,
                             Arena& arena) {
  const ConstTensorView& table = term.table;
  const Extents& shape = table.shape;
  PackedTable out{.size = order.size, .batch_stride = shape[0] == 1 ? 0 : shape[2], .head_stride = shape[2] == 1 ? 0 : 1};
  out.data = arena.take_bytes(shape[0] * shape[2] * order.size * bytes_of(context.job->arithmetic));
  if (out.data == nullptr) return out;
  with_arithmetic(context.job->arithmetic, [&]<class T>(T zero) {
    std::fill_n(static_cast<T*>(out.data), shape[0] * shape[2] * order.size, zero);
    job::with_element(table.dtype, [&](auto tag) {
      using Element = typename decltype(tag)::type;
      for (std::int64_t line = 0; line < made.lines; ++line) {
        const std::int64_t row = row_of_line(term, made, line);
        for (std::int64_t n = 0; row >= 0 && n < shape[0] * shape[2]; ++n) {
          const Element* const in = static_cast<const Element*>(table.data) + n / shape[2] * table.strides[0] + row * table.strides[1] +
                                    n % shape[2] * table.strides[2];
          T* const to = static_cast<T*>(out.data) + n * order.size + line * order.line_stride;
          for (std::int64_t c = 0; c < shape[3]; ++c) {
            to[c * order.channel_stride] = static_cast<T>(term.scale * job::number_of(in[c * table.strides[3]]));
          }
        }
      }
    });
  });
  return out;
}

/// Products of every key with the ends of the table, for tiles that are far.
struct FarTask {
  const KeyTableJob* made;
  const AttentionJob* job;
  std::int64_t heads;
  std::int64_t stride;  // of a line of keys
  void* out;
};
template <class T>
void fill_far(const FarTask& task, std::int64_t index) {
  const KeyTableJob& made = *task.made;
  const std::int64_t b = index / task.heads;
  const std::int64_t h = index % task.heads;
  const std::int64_t key_head = made.far_by_key_head ? h : h / task.job->shape.group();
  const T* const columns = made.columns.of<T>(b, made.far_by_key_head ? 0 : h);
  const T* features = static_cast<const T*>(made.features) + b * made.feature_strides[0] + key_head * made.feature_strides[1];
  T* const out = static_cast<T*>(task.out) + index * 2 * task.stride;
  for (std::int64_t j = 0; j < task.stride; ++j, features += made.padded_width) {
    T first = 0;
    T last = 0;
    for (std::int64_t c = 0; c < made.width; ++c) {
      first += features[c] * columns[c * made.line_stride];
      last += features[c] * columns[c * made.line_stride + made.last_line];
    }
    out[j] = first;
    out[task.stride + j] = last;
  }
}

void make_far(const job::TableTermJob& term, const TermContext& context, Arena& arena, KeyTableJob& made) {
  const AttentionShape& s = context.job->shape;
  const std::int64_t batch = made.feature_strides[0] == 0 && term.table.shape[0] == 1 ? 1 : s.batch;
  made.far_by_key_head = term.table.shape[2] == 1;
  FarTask task{&made, context.job, made.far_by_key_head ? s.key_heads : s.heads, s.keys + kKeyTile, nullptr};
  task.out = arena.take_bytes(batch * task.heads * 2 * task.stride * bytes_of(context.job->arithmetic));
  made.far = task.out;
  made.far_strides[0] = batch == 1 ? 0 : task.heads * 2 * task.stride;
  made.far_strides[1] = 2 * task.stride;
  if (task.out == nullptr) return;
  with_arithmetic(context.job->arithmetic, [&]<class T>(T) {
    cpu::run_each(*context.runner, batch * task.heads, [&](std::int64_t index) { fill_far<T>(task, index); });
  });
}

/// The lines that distances reach: a strip of keys moves towards the band where its window would leave the places, never away from it.
RowRange lines_reached(const job::TableTermJob& term, const KeyTableJob& made, const DistanceRange& range) {
  const std::int64_t least = -(made.band.first + made.band.count - 1);  // distance of the band's first place
  const std::int64_t last = kKeyWindow + made.band.count - 1;           // place of the band
  const std::int64_t low = std::clamp(range.low - least + kKeyWindow, std::int64_t{0}, last);
  const std::int64_t high = std::clamp(range.high - least + kKeyWindow, kKeyWindow, made.places - 1);
  if (!made.ranked) return {low, high + 1};
  const std::int64_t first = row_at_place(term, made.band, 0);
  return {row_at_place(term, made.band, low) - first, row_at_place(term, made.band, high) - first + 1};
}

void take_table(const job::TableTermJob& term, const TermContext& context, Arena& arena, KeyTableJob& made) {
  const TableSlots slots =
      take_table_slots(context, made.padded_width, [&](const DistanceRange& range) { return lines_reached(term, made, range); }, arena);
  made.sums = slots.sums;
  made.slot_rows = slots.rows;
}

void finish_table(const job::TableTermJob& term, const KeyTableJob& made, const TermContext& context) {
  const auto row_of = [&](std::int64_t line) { return row_of_line(term, made, line); };
  add_table_totals({.slots = {made.sums, made.slot_rows},
                    .padded_width = made.padded_width,
                    .rows = made.lines,
                    .row_of = std::ref(row_of),  // a copy might ask the heap
                    .repeats = term.rows.has_buckets && !made.ranked,
                    .factor = term.scale},
                   context);
}

}  // namespace

Status make_key_table(const job::TableTermJob& term, const TermContext& context, Arena& arena, TermJob& out) {
  const AttentionJob& job = *context.job;
  const std::int64_t width = is_given(term.features) ? term.features.shape[3] : job.shape.width;
  KeyTableJob made;
  if (Status status = make_table_band(term, context, arena, made.band); !status) return status;
  made.width = width;
  made.own_features = is_given(term.features);
  made.padded_width = padded(width);
  lay_out_lines(term, made);
  make_ranks(term, job, arena, made);
  const KeyFeatures features = pack_key_features(is_given(term.features) ? term.features : job.k, context, arena);
  made.features = features.data;
  made.feature_strides[0] = features.batch_stride;
  made.feature_strides[1] = features.head_stride;
  made.columns = pack_by_distance(term, context, made, {width * made.line_stride, 1, made.line_stride}, arena);
  make_far(term, context, arena, made);
  if (context.gradient != nullptr) {
    made.rows = pack_by_distance(term, context, made, {made.lines * made.padded_width, made.padded_width, 1}, arena);
    if (is_given(context.gradient->table)) take_table(term, context, arena, made);
    if (is_given(context.gradient->features)) made.feature_sums = take_feature_sums(made.padded_width, job, arena);
  }
  out = made;
  return {};
}

/// Products of a strip of keys with a window, or sums that belong to them; the same turned round; the same by lines.
std::int64_t scratch_of(const KeyTableJob& /*term*/, const AttentionJob& /*job*/, bool /*backward*/) {
  return 3 * kKeyStrip * (kKeyWindow + kKeyStrip);
}

void finish_term(const job::TableTermJob& term, const KeyTableJob& made, const TermContext& context) {
  if (made.sums != nullptr) finish_table(term, made, context);
  if (made.feature_sums != nullptr) add_feature_sums(made.feature_sums, made.padded_width, context);
}

TermCost cost_of(const KeyTableJob& term, const AttentionJob& /*job*/) {
  const auto product = 2 * static_cast<double>(term.width);
  return {.far_above = -term.band.first,
          .far_below = -(term.band.first + term.band.count - 1),
          .per_score = 1 + product * static_cast<double>(kKeyWindow) / static_cast<double>(kQueryTile),
          .per_key = 2 * product,
          .name = "key table"};
}

}  // namespace phasor::attend
