// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/backward/layout_terms.hpp"

#include "cuda/attention/layout_terms.hpp"
#include "cuda/attention/mma/cope/room.hpp"
#include "job/check.hpp"

namespace phasor::cuda::attention {
namespace {

bool wants_parameters(const BiasWork& bias) { return is_asked(bias.gradient); }

/// body(as it was asked, the term): a decomposed one has become two.
template <class Body>
void each_term(const job::AttentionBackwardJob& job, AttentionWork& work, const Body& body) {
  int at = 0;
  for (int64_t t = 0; t < job.forward.term_count; ++t) {
    const job::AttentionTermJob& asked = job.forward.terms[t];
    const int end = at + (asked.kind == job::TermKind::decomposed ? 2 : 1);
    while (at < end) body(asked, work.terms[at++]);
  }
}

void begin_dense(const TensorView& gradient, const AttentionWork& work, TermNeeds& needs) {
  if (!is_asked(gradient)) return;
  // Sequences of a varlen batch have queries of their own.
  if (gradient.shape[0] == 1 && !(is_varlen(work) && gradient.shape[1] != 1)) needs.one_group = true;
  if (gradient.shape[2] == 1) needs.one_key_group = true;
  needs.any = true;
}

void begin_table(const TermWork& term, TermNeeds& needs) {
  const TableWork& table = term.table;
  if (is_asked(table.gradient) && table.gradient.shape[0] > 1) needs.by_batch = true;
  if (is_asked(table.gradient) || is_asked(table.features_gradient) || is_asked(table.shift_gradient)) needs.any = true;
  if (table.use == RowUse::query && !table.own_features) needs.raw_q = true;
  if (table.use == RowUse::key && !table.own_features) needs.raw_k = true;
}

}  // namespace

ItemWork item_of(ItemKind kind, int64_t count, const SumWork& sum) {
  ItemWork item = {};
  item.kind = kind;
  item.count = count;
  item.sum = sum;
  return item;
}

TermNeeds begin_terms(const job::AttentionBackwardJob& job, AttentionWork& work) {
  TermNeeds needs;
  each_term(job, work, [](const job::AttentionTermJob& asked, TermWork& term) {
    const plan::BiasSource& host = asked.bias.bias;  // its lists are the host's
    if (term.use == TermUse::bias && plan::has_perceptron(host)) term.sums.numbers = backward_size(host.mlp, 1);
  });
  for (int t = 0; t < work.term_count; ++t) {
    TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.use == RowUse::value) {
      term.table.features = job.saved.out_gradient;  // what meets its rows on the way back
      term.table.scale = 1;
    }
    if (term.use == TermUse::cope) {
      term.table.features = work.q;
      term.table.scale = term.cope.scale;
      needs.raw_k = true;
    }
    if (term.use == TermUse::table || term.use == TermUse::cope) begin_table(term, needs);
    if (term.use == TermUse::dense) begin_dense(term.dense_gradient, work, needs);
    if (term.use == TermUse::bias) needs.any = needs.any || wants_parameters(term.bias) || is_asked(term.bias.gate_gradient);
  }
  return needs;
}

void lay_out_slot(AttentionWork& work, int64_t bytes, SumPlaces& slot) {
  int64_t copes = 0;
  for (int t = 0; t < work.term_count; ++t) {
    TermWork& term = work.terms[t];
    const TableWork& table = term.table;
    if (term.use == TermUse::table || term.use == TermUse::cope) {
      term.sums.slot = slot.take(slot_extent(work, table.table.shape), is_asked(table.gradient));
      term.sums.shift = slot.take(slot_extent(work, table.shift.shape), is_asked(table.shift_gradient));
    } else if (term.use == TermUse::bias) {
      term.sums.slot = slot.take(slot_extent(work, bias_sums(work, term.bias)), wants_parameters(term.bias));
      const bool at_scores = wants_parameters(term.bias) && way_of(term.bias) == BiasWay::perceptron;
      term.sums.memory = slot.take(kPlaces * term.sums.numbers * static_cast<int64_t>(sizeof(double)) / bytes, at_scores);
    }
    copes += term.use == TermUse::cope ? 1 : 0;
  }
  if (copes > 0) work.backward.carry = slot.take(copes * tiles_of(work.shape.keys) * most(kTile, mma::cope::kQueries));
}

void lay_out_term_sums(AttentionWork& work, SumPlaces& sums) {
  const job::AttentionShape& s = work.shape;
  for (int t = 0; t < work.term_count; ++t) {
    TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.own_features) {
      const int64_t width = term.table.table.shape[3];
      const int64_t count = term.table.use == RowUse::key ? work.backward.parts * s.batch * s.keys * s.key_heads * width
                                                          : s.batch * s.queries * s.heads * width;
      term.sums.features = sums.take(count, is_asked(term.table.features_gradient));
    } else if (term.use == TermUse::bias) {
      term.sums.features = sums.take(s.batch * s.queries * s.heads, is_asked(term.bias.gate_gradient));
    } else if (term.use == TermUse::dense && is_asked(term.dense_gradient) && term.dense_gradient.shape[1] == 1) {
      term.sums.features = sums.take(work.backward.parts * element_count(term.dense_gradient.shape));
    }
  }
}

namespace {

/// A bias's term, and what it is of.
struct BiasEnd {
  const TermWork& term;
  const plan::BiasSource& host;  // its lists are the host's
};

void add_slots_to(const TensorView& to, int64_t slot, BackwardLayout& out) {
  SumWork sum = {};
  sum.at[0] = slot;
  sum.to = to;
  out.finish.push_back(item_of(ItemKind::add_slots, element_count(to.shape), sum));
}
void add_sums_to(const TensorView& to, int64_t at, int64_t parts, const Extents& shape, std::vector<ItemWork>& items) {
  SumWork sum = {};
  sum.at[0] = at;
  sum.parts = parts;
  sum.shape = shape;
  sum.to = to;
  items.push_back(item_of(ItemKind::add_sums, element_count(to.shape), sum));
}

/// Some of the parameters as a tensor: from `first` on, with these strides in numbers.
TensorView some_parameters(const TensorView& all, int64_t first, const Extents& shape, const Extents& strides) {
  TensorView v = all;
  const int64_t step = all.strides[3];
  v.data = static_cast<std::byte*>(all.data) + first * step * bytes_of(all.dtype);
  v.shape = shape;
  for (std::size_t axis = 0; axis < 4; ++axis) v.strides[axis] = strides[axis] * step;
  return v;
}

/// Sums of the call as a tensor; data null while measuring.
TensorView sums_view(const BackwardLayout& out, int64_t at, const Extents& shape) {
  void* const data =
      out.work.backward.sums == nullptr ? nullptr : static_cast<std::byte*>(out.work.backward.sums) + at * bytes_of(out.arithmetic);
  return {data, out.arithmetic, shape, contiguous_strides(shape), out.work.q.device};
}

/// One distance at least has room: wider perceptrons do not go by distance.
void end_distances(const BiasEnd& end, SumPlaces& sums, BackwardLayout& out) {
  const BiasWork& bias = end.term.bias;
  const int64_t heads = out.work.shape.heads;
  ParameterGradient gradient = {};
  if (plan::has_perceptron(end.host)) {
    const int64_t numbers = backward_size(end.host.mlp, heads);
    gradient.together = distances_together(numbers);
    gradient.memory = (numbers * gradient.together + kPerceptronThreads) * static_cast<int64_t>(sizeof(double));
  } else {
    gradient.memory = static_cast<int64_t>(sizeof(TermRoom));
  }
  const Extents shape = bias_sums(out.work, bias);
  const int64_t diagonal = sums.take(element_count(shape));
  const int64_t parameters = sums.take(bias.parameter_count);
  add_slots_to(sums_view(out, diagonal, shape), end.term.sums.slot, out);
  const Extents by_head = {1, heads, 1, bias.distances};
  const Extents list = {1, 1, 1, bias.parameter_count};
  gradient.job = {out.work.q.device,
                  bias.bias,
                  sums_view(out, diagonal, by_head),
                  bias.first_distance,
                  {.first_head = bias.first_head, .query_position = 0},
                  sums_view(out, parameters, list)};
  out.parameters.push_back(gradient);
  add_sums_to(bias.gradient, parameters, 1, list, out.after);
}

void end_parameters(const BiasEnd& end, SumPlaces& sums, BackwardLayout& out) {
  const BiasWork& bias = end.term.bias;
  const int64_t heads = out.work.shape.heads;
  switch (way_of(bias)) {
    case BiasWay::distances:
      return end_distances(end, sums, out);
    case BiasWay::rows: {
      const int64_t rows = bias.bias.rows;
      add_slots_to(some_parameters(bias.gradient, bias.first_head * rows, {1, 1, heads, rows}, {0, 0, rows, 1}), end.term.sums.slot, out);
      return;
    }
    case BiasWay::numbers: {
      const Extents shape = bias_sums(out.work, bias);
      add_slots_to(some_parameters(bias.gradient, bias.first_head, shape, {0, bias.bias.heads, 1, 0}), end.term.sums.slot, out);
      return;
    }
    case BiasWay::perceptron:
      break;
  }
  add_slots_to(bias.gradient, end.term.sums.slot, out);
}

void end_bias(const BiasEnd& end, SumPlaces& sums, BackwardLayout& out) {
  const job::AttentionShape& s = out.work.shape;
  const BiasWork& bias = end.term.bias;
  if (end.term.sums.features >= 0) {
    add_sums_to(bias.gate_gradient, end.term.sums.features, 1, {s.batch, s.queries, s.heads, 1}, out.finish);
  }
  if (wants_parameters(bias)) end_parameters(end, sums, out);
}

void end_table(const TermWork& term, BackwardLayout& out) {
  const job::AttentionShape& s = out.work.shape;
  const TableWork& table = term.table;
  if (term.sums.slot >= 0) add_slots_to(table.gradient, term.sums.slot, out);
  if (term.sums.shift >= 0) add_slots_to(table.shift_gradient, term.sums.shift, out);
  if (term.sums.features < 0) return;
  const bool keys = table.use == RowUse::key;
  const Extents shape = {s.batch, keys ? s.keys : s.queries, keys ? s.key_heads : s.heads, table.table.shape[3]};
  add_sums_to(table.features_gradient, term.sums.features, keys ? out.work.backward.parts : 1, shape, out.finish);
}

void end_dense(const TermWork& term, BackwardLayout& out) {
  if (term.sums.features < 0) return;
  add_sums_to(term.dense_gradient, term.sums.features, out.work.backward.parts, term.dense_gradient.shape, out.finish);
}

}  // namespace

TensorView lay_out_whole_end(const TensorView& to, SumPlaces& sums, BackwardLayout& out) {
  if (!is_asked(to)) return {};
  const int64_t at = sums.take(element_count(to.shape));
  add_sums_to(to, at, 1, to.shape, out.after);
  return sums_view(out, at, to.shape);
}

void lay_out_term_ends(const job::AttentionBackwardJob& job, SumPlaces& sums, BackwardLayout& out) {
  each_term(job, out.work, [&](const job::AttentionTermJob& asked, const TermWork& term) {
    if (term.use == TermUse::bias) {
      end_bias({term, asked.bias.bias}, sums, out);
    } else if (term.use == TermUse::dense) {
      end_dense(term, out);
    } else {
      end_table(term, out);
    }
  });
}

}  // namespace phasor::cuda::attention
