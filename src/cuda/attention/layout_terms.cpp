// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/layout_terms.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/bias/work.hpp"
#include "cuda/tables.hpp"
#include "spec/format.hpp"

namespace phasor::cuda::attention {
namespace {

/// A term to be laid out, and what for.
struct Call {
  const job::AttentionJob& job;
  attend::Arena& arena;
  Layout& out;
};

TermWork& add_term(TermUse use, Layout& out) {
  TermWork& term = out.work.terms[out.work.term_count++];
  term.use = use;
  return term;
}
void add_table(const TableWork& table, Layout& out) { add_term(TermUse::table, out).table = table; }

void lay_out_term(const job::TableTermJob& term, const TermGradient& gradient, const Call& call) {
  TableWork table = {.use = term.side == TableSide::query ? RowUse::query
                            : term.side == TableSide::key ? RowUse::key
                                                          : RowUse::value,
                     .table = term.table,
                     .features = term.features,
                     .shift = term.shift,
                     .scale = term.scale,
                     .map = term.rows,
                     .own_features = term.features.data != nullptr,
                     .gradient = gradient.table,
                     .features_gradient = gradient.features,
                     .shift_gradient = gradient.shift};
  const plan::RowRule& rule = term.rows.buckets;
  if (rule.threshold_count > 0) table.last_threshold = rule.thresholds[rule.threshold_count - 1];
  if (!table.own_features) table.features = term.side == TableSide::key ? call.job.k : call.job.q;
  add_table(table, call.out);
}

void lay_out_term(const job::SegmentTermJob& term, const TermGradient& gradient, const Call& call) {
  TableWork table = {.kind = RowKind::segment,
                     .table = term.table,
                     .features = call.job.q,
                     .shift = term.shift,
                     .scale = term.scale,
                     .gradient = gradient.table,
                     .shift_gradient = gradient.shift};
  table.segments[0] = job::source_of(term.query_segments, 1);
  table.segments[1] = job::source_of(term.key_segments, 1);
  add_table(table, call.out);
}

void lay_out_term(const GridTerm& term, const TermGradient& gradient, const Call& call) {
  TableWork table = {};
  table.use = RowUse::number;
  table.kind = RowKind::grid;
  table.table = term.table;
  table.query_grid = term.window;
  table.class_token = term.class_token == ClassToken::first;
  table.gradient = gradient.table;
  add_table(table, call.out);
}

void lay_out_term(const DecomposedTerm& term, const TermGradient& gradient, const Call& call) {
  TableWork table = {.kind = RowKind::axis_y,
                     .table = term.rows_h,
                     .features = call.job.q,
                     .scale = term.scale,
                     .query_grid = term.query_grid,
                     .key_grid = term.key_grid,
                     .gradient = gradient.table};
  add_table(table, call.out);
  table.kind = RowKind::axis_x;
  table.table = term.rows_w;
  table.gradient = gradient.second;
  add_table(table, call.out);
}

void lay_out_term(const DenseTerm& term, const TermGradient& gradient, const Call& call) {
  TermWork& made = add_term(TermUse::dense, call.out);
  made.dense = term.bias;
  made.dense_gradient = gradient.table;
}

void lay_out_term(const CopeTerm& term, const TermGradient& gradient, const Call& call) {
  TermWork& made = add_term(TermUse::cope, call.out);
  made.cope = term;
  made.cope_number =
      static_cast<std::uint8_t>(std::count_if(call.out.work.terms, &made, [](const TermWork& one) { return one.use == TermUse::cope; }));
  made.table.table = term.table;
  made.table.gradient = gradient.table;
}

// ---- Biases ----

/// The source with numbers that are in the workspace.
plan::BiasSource with_numbers(plan::BiasSource bias, double* numbers) {
  using Scheme = plan::BiasSource::Scheme;
  if (bias.scheme == Scheme::alibi) bias.slopes = numbers;
  if (bias.scheme == Scheme::table) bias.table = numbers;
  if (bias.scheme == Scheme::kerple) {
    bias.r1 = numbers;
    bias.r2 = numbers == nullptr ? nullptr : numbers + bias.heads;
  }
  if (plan::has_perceptron(bias)) bias.mlp.parameters = numbers;
  return bias;
}

/// Whether one value per distance is all there is: positions are those of tokens, and FIRE's queries are within its length.
bool is_by_distance(const BiasWork& term, const AttentionWork& work) {
  if (work.has_positions[0] || work.has_positions[1]) return false;
  if (term.bias.scheme != plan::BiasSource::Scheme::fire) return true;
  return term.parameters.data == nullptr && static_cast<double>(work.shape.keys) <= term.bias.fire.length;
}

/// Whether a gradient is asked for by a perceptron of which a block's memory has not room for one distance: scores then go through it one
/// by one, in memory of the call.
bool is_wide_on_the_way_back(const job::BiasTermJob& term, const TermGradient& gradient, int64_t heads) {
  if (gradient.parameters.data == nullptr || !plan::has_perceptron(term.bias)) return false;
  return distances_together(backward_size(term.bias.mlp, heads)) == 0;
}

void lay_out_term(const job::BiasTermJob& term, const TermGradient& gradient, const Call& call) {
  AttentionWork& work = call.out.work;
  const int index = work.term_count;
  BiasWork& bias = add_term(TermUse::bias, call.out).bias;
  bias = {.bias = term.bias,
          .first_head = term.first_head,
          .parameter_count = term.parameter_count,
          .gate = term.gate,
          .parameters = term.parameters,
          .gate_gradient = gradient.features,
          .gradient = gradient.parameters};
  const plan::RowRule& rule = term.bias.row;
  if (rule.threshold_count > 0) bias.last_threshold = rule.thresholds[rule.threshold_count - 1];
  if (term.parameters.data != nullptr) {
    bias.numbers = call.arena.take<double>(term.parameter_count);
    bias.bias = with_numbers(bias.bias, nullptr);  // the plan's own do not travel
    call.out.items.push_back({.kind = ItemKind::parameters, .count = term.parameter_count, .term = index});
  }
  if (is_by_distance(bias, work) && !is_wide_on_the_way_back(term, gradient, work.shape.heads)) {
    bias.first_distance = -(work.shape.queries + work.shape.keys);
    bias.distances = work.shape.queries + 2 * work.shape.keys + 1;
    bias.diagonal = call.arena.take_bytes(work.shape.heads * bias.distances * bytes_of(call.out.arithmetic));
    call.out.items.push_back({.kind = ItemKind::diagonal, .count = work.shape.heads * bias.distances, .term = index});
  }
}

// ---- Lists of the host ----

template <class Each>
void each_list(TermWork& term, const Each& each) {
  if (term.use == TermUse::bias) {
    each_table(term.bias.bias, [&](auto& list, int64_t count, const plan::DeviceCopies*) { each(list, count); });
  } else if (term.use == TermUse::table) {
    each(term.table.map.buckets.thresholds, term.table.map.buckets.threshold_count);
  }
}

/// Lists go to the workspace as one block of bytes, each where its pointer will say.
void lay_out_lists(const Call& call) {
  Layout& out = call.out;
  const auto room_of = [](auto* list, int64_t count) {
    return list == nullptr ? std::size_t{0} : (static_cast<std::size_t>(count) * sizeof(*list) + 15) / 16 * 16;
  };
  std::size_t bytes = 0;
  for (int t = 0; t < out.work.term_count; ++t) each_list(out.work.terms[t], [&](auto& list, int64_t n) { bytes += room_of(list, n); });
  out.tables.resize(bytes);
  out.tables_at = call.arena.take<std::byte>(static_cast<int64_t>(bytes));
  std::size_t at = 0;
  for (int t = 0; t < out.work.term_count; ++t) {
    each_list(out.work.terms[t], [&](auto& list, int64_t n) {
      if (list == nullptr) return;
      std::memcpy(out.tables.data() + at, list, static_cast<std::size_t>(n) * sizeof(*list));
      const std::size_t used = room_of(list, n);
      list = out.tables_at == nullptr ? nullptr : reinterpret_cast<std::remove_reference_t<decltype(list)>>(out.tables_at + at);
      at += used;
    });
    BiasWork& bias = out.work.terms[t].bias;
    if (bias.parameters.data != nullptr) bias.bias = with_numbers(bias.bias, bias.numbers);
  }
}

Status check_perceptron(const job::AttentionTermJob& term, const char* where, int64_t index) {
  if (term.kind != job::TermKind::bias || term.bias.bias.mlp.width_count <= kMostLayers + 1) return {};
  return Status::unsupported(
      spec::format("{}: terms[{}]: a perceptron of {} layers is more than CUDA takes (a layer takes as many times longer as it is wide), "
                   "wanted at most {}",
                   where, index, term.bias.bias.mlp.width_count - 1, kMostLayers));
}

}  // namespace

Status lay_out_terms(const job::AttentionJob& job, const char* where, attend::Arena& arena, Layout& out) {
  const Call call = {job, arena, out};
  int64_t terms = 0;
  for (int64_t t = 0; t < job.term_count; ++t) {
    terms += job.terms[t].kind == job::TermKind::decomposed ? 2 : 1;
    if (Status s = check_perceptron(job.terms[t], where, t); !s) return s;
  }
  if (terms > kMostTerms) {
    return Status::unsupported(
        spec::format("{}: {} terms (a decomposed one counts as two) are more than the parameter of a CUDA kernel holds, wanted at most {}",
                     where, terms, kMostTerms));
  }
  for (int64_t t = 0; t < job.term_count; ++t) {
    job::with_term(job.terms[t], [&](const auto& term) { lay_out_term(term, job.terms[t].gradient, call); });
  }
  lay_out_lists(call);
  return {};
}

}  // namespace phasor::cuda::attention
