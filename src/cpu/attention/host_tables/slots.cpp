// SPDX-License-Identifier: Apache-2.0
// How sequences are grouped, which rows a group reaches, and slots added up.
#include "cpu/attention/host_tables/slots.hpp"
#include "cpu/attention/host/backward.hpp"

#include <array>
#include <cstring>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host_tables/table_rows.hpp"
#include "cpu/attention/host_terms/bias_parts.hpp"

namespace phasor::attend {
namespace {

/// A group may have so many rows of sums for each of its tokens, queries and keys alike. A sequence at consecutive positions reaches
/// fewer distances than it has tokens, and so is a group by itself.
constexpr std::int64_t kRowsPerToken = 4;
/// Where rows are more than that, groups are no larger than this many tasks of like size need.
constexpr std::int64_t kGroupTasks = 16;

/// How many rows the sums of terms have, at most.
struct SumRows {
  std::int64_t always = 0;       // whatever the distances
  std::int64_t by_distance = 0;  // as many as there are distances, but no more than this
  bool per_batch = false;        // a table of each batch row: no two of them may share sums

  std::int64_t of(const DistanceRange& range) const {
    if (range.empty()) return always;
    const auto span = static_cast<std::uint64_t>(range.high) - static_cast<std::uint64_t>(range.low) + 1;
    return std::max(always, span < static_cast<std::uint64_t>(by_distance) ? static_cast<std::int64_t>(span) : by_distance);
  }
};

/// Adds a term's.
struct AddRows {
  const TermGradient& gradient;
  const AttentionShape& shape;
  SumRows& sum;

  void operator()(const job::BiasTermJob& term) const {
    if (!is_wanted(gradient.parameters) || term.bias.scheme == plan::BiasSource::Scheme::alibi) return;
    sum.by_distance = std::max(sum.by_distance, longest_band(shape));
    // Beside its diagonal FIRE has sums for queries beyond its length, in float64: its parameters, or three per segment, which is no more.
    if (term.bias.scheme == plan::BiasSource::Scheme::fire) sum.always = std::max(sum.always, 2 * term.parameter_count);
  }
  void operator()(const job::TableTermJob& term) const {
    if (!is_given(gradient.table)) return;
    sum.by_distance = std::max(sum.by_distance, most_columns(term) + 2 * kKeyWindow);
    sum.per_batch = sum.per_batch || term.table.shape[0] != 1;
  }
  void operator()(const job::SegmentTermJob& term) const { add(gradient.table, term.table); }
  void operator()(const GridTerm& term) const { add(gradient.table, term.table); }
  void operator()(const DecomposedTerm& term) const {
    add(gradient.table, term.rows_h);
    add(gradient.second, term.rows_w);
  }
  void operator()(const DenseTerm& /*term*/) const {}  // apart by sequence, whatever the groups
  void operator()(const CopeTerm& term) const { add(gradient.table, term.table); }

 private:
  void add(const TensorView& wanted, const ConstTensorView& table) const {
    if (is_given(wanted)) sum.always = std::max(sum.always, table.shape[1]);
  }
};
SumRows sum_rows_of(const Call& call, const AttentionShape& shape) {
  SumRows sum;
  for (std::int64_t t = 0; t < call.asked->term_count; ++t) {
    job::with_term(call.asked->terms[t], AddRows{call.asked->terms[t].gradient, shape, sum});
  }
  return sum;
}

std::int64_t tokens_of(const AttentionJob& job, const Sequence& sequence) {
  std::int64_t count = 0;
  for (std::int64_t t = sequence.first_query_tile; t < sequence.end_query_tile; ++t) {
    count += job.query_tiles[static_cast<std::size_t>(t)].count;
  }
  for (std::int64_t t = sequence.first_key_tile; t < sequence.end_key_tile; ++t) count += job.key_tiles[static_cast<std::size_t>(t)].count;
  return count;
}

}  // namespace

DistanceRange seen_distances(const TermContext& context) {
  const MaskJob& mask = context.job->mask;
  DistanceRange range = {context.min_distance, context.max_distance};
  if (mask.causal && context.asked->visibility.prefix.size == 0) range.low = std::max<std::int64_t>(range.low, 0);
  if (mask.right != INT64_MAX) range.low = std::max(range.low, -mask.right);
  range.high = std::min(range.high, mask.left);
  range.low = std::min(range.low, range.high);
  return range;
}

DistanceRange distances_of(const AttentionJob& job, const SequenceGroup& group, std::int64_t part, std::int64_t parts) {
  DistanceRange range;
  for (std::int64_t s = group.first; s < group.end; ++s) {
    const Sequence& sequence = job.sequences[static_cast<std::size_t>(s)];
    range = joined(range, distances_of(job, sequence, key_tiles_of(sequence, part, parts)));
  }
  return range;
}

void make_groups(const Call& call, Prepared& out) {
  const AttentionJob& job = out.job;
  const SumRows rows = sum_rows_of(call, job.shape);
  std::int64_t total = 0;
  for (const Sequence& sequence : job.sequences) total += tokens_of(job, sequence);
  const std::int64_t enough = (kGroupTasks + job.shape.key_heads - 1) / job.shape.key_heads;  // groups
  SequenceGroup group;
  DistanceRange range;
  std::int64_t tokens = 0;
  for (const Sequence& sequence : job.sequences) {
    range = joined(range, distances_of(job, sequence, key_tiles_of(sequence, 0, 1)));
    tokens += tokens_of(job, sequence);
    ++group.end;
    const bool is_last = group.end == static_cast<std::int64_t>(job.sequences.size());
    if (!is_last && !rows.per_batch && rows.of(range) > kRowsPerToken * tokens && tokens * enough < total) continue;
    out.groups.push_back(group);
    group.first = group.end;
    range = {};
    tokens = 0;
  }
  out.job.groups = out.groups;
}

std::int64_t slots_of(const AttentionJob& job) {
  return static_cast<std::int64_t>(job.groups.size()) * job.backward.parts * job.shape.heads;
}

TableSlots take_table_slots(const TermContext& context, std::int64_t padded_width, const RowsOfDistances& rows_of, Arena& arena) {
  const AttentionJob& job = *context.job;
  const std::int64_t parts = job.backward.parts;
  const auto count = static_cast<std::int64_t>(job.groups.size()) * parts;
  const DistanceRange seen = seen_distances(context);
  auto* const slots = arena.take<SlotRows>(count);
  std::int64_t used = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    DistanceRange range = distances_of(job, job.groups[static_cast<std::size_t>(n / parts)], n % parts, parts);
    range = {std::max(range.low, seen.low), std::min(range.high, seen.high)};
    const RowRange rows = !range.empty() ? rows_of(range) : RowRange{0, 0};
    if (slots != nullptr) slots[n] = {rows.first, rows.end - rows.first, used};
    used += job.shape.heads * (rows.end - rows.first) * padded_width;
  }
  const std::int64_t bytes = used * bytes_of(job.arithmetic);
  void* const sums = arena.take_bytes(bytes);
  if (sums != nullptr) std::memset(sums, 0, static_cast<std::size_t>(bytes));
  return {sums, slots};
}

namespace {

/// So many channels are summed at a time, on the stack: the heap is not for threads.
constexpr std::int64_t kChannels = 64;
/// Rows of the packed table that a task of the runner adds up.
constexpr std::int64_t kChunkRows = 1024;

/// One table (b, h) of the gradient.
struct TotalTask {
  const TableTotals* totals;
  const TermContext* context;
  std::int64_t b;
  std::int64_t h;
};

/// Channels from `channel` on of one packed row, over every slot that belongs to the table.
template <class T>
void add_slots(const TotalTask& task, std::int64_t row, std::int64_t channel, std::span<double> out) {
  const AttentionJob& job = *task.context->job;
  const TableTotals& totals = *task.totals;
  const Extents& shape = task.context->gradient->table.shape;
  const std::int64_t parts = job.backward.parts;
  const auto count = static_cast<std::int64_t>(job.groups.size()) * parts;
  const std::int64_t head_end = shape[2] == 1 ? job.shape.heads : task.h + 1;
  for (std::int64_t n = 0; n < count; ++n) {
    const SlotRows& at = totals.slots.rows[n];
    if (row < at.first || row >= at.first + at.count) continue;
    const SequenceGroup& group = job.groups[static_cast<std::size_t>(n / parts)];
    if (shape[0] != 1 && job.sequences[static_cast<std::size_t>(group.first)].batch != task.b) continue;
    for (std::int64_t head = task.h; head < head_end; ++head) {
      const std::int64_t first = at.offset + (head * at.count + row - at.first) * totals.padded_width + channel;
      const T* const in = static_cast<const T*>(totals.slots.sums) + first;
      for (std::size_t c = 0; c < out.size(); ++c) out[c] += static_cast<double>(in[c]);
    }
  }
}

template <class Element>
void add_values(std::span<const double> values, double factor, Element* out, std::int64_t stride) {
  for (const double value : values) {
    *out = static_cast<Element>(static_cast<double>(*out) + factor * value);
    out += stride;
  }
}

/// Packed rows from `first` to `end` - 1, which have one row of the caller's table.
void add_run(const TotalTask& task, const RowRange& run, std::int64_t to) {
  const TensorView& gradient = task.context->gradient->table;
  for (std::int64_t channel = 0; channel < gradient.shape[3]; channel += kChannels) {
    std::array<double, kChannels> memory = {};
    const auto channels = static_cast<std::size_t>(std::min(kChannels, gradient.shape[3] - channel));
    const std::span<double> sum = std::span(memory).first(channels);
    for (std::int64_t row = run.first; row < run.end; ++row) {
      with_arithmetic(task.context->job->arithmetic, [&]<class T>(T) { add_slots<T>(task, row, channel, sum); });
    }
    const std::int64_t at =
        task.b * gradient.strides[0] + to * gradient.strides[1] + task.h * gradient.strides[2] + channel * gradient.strides[3];
    if (gradient.dtype == DType::f64) {
      add_values(sum, task.totals->factor, static_cast<double*>(gradient.data) + at, gradient.strides[3]);
    } else {
      add_values(sum, task.totals->factor, static_cast<float*>(gradient.data) + at, gradient.strides[3]);
    }
  }
}

/// Every run that begins in the chunk.
void add_chunk(const TotalTask& task, const RowRange& chunk) {
  const TableTotals& totals = *task.totals;
  for (RowRange run = {chunk.first, chunk.first}; run.first < chunk.end; run.first = run.end) {
    const std::int64_t to = totals.row_of(run.first);
    run.end = run.first + 1;
    while (run.end < totals.rows && totals.row_of(run.end) == to) ++run.end;
    const bool begins_here = run.first > chunk.first || run.first == 0 || totals.row_of(run.first - 1) != to;
    if (to >= 0 && begins_here) add_run(task, run, to);
  }
}

}  // namespace

void add_table_totals(const TableTotals& totals, const TermContext& context) {
  const Extents& shape = context.gradient->table.shape;
  const std::int64_t size = totals.repeats ? totals.rows : kChunkRows;  // no two tasks may add to one row
  const std::int64_t chunks = (totals.rows + size - 1) / size;
  run_each(*context.runner, shape[0] * shape[2] * chunks, [&](std::int64_t n) {
    const std::int64_t table = n / chunks;
    const std::int64_t first = n % chunks * size;
    add_chunk({&totals, &context, table / shape[2], table % shape[2]}, {first, std::min(first + size, totals.rows)});
  });
}

}  // namespace phasor::attend
