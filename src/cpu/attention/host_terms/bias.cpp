// SPDX-License-Identifier: Apache-2.0
// A bias by distance on the host side: which form its kernel takes, memory, what it costs.
#include <algorithm>
#include <cmath>

#include "cpu/attention/host_terms/bias_parts.hpp"
#include "job/bias.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "job/positions/positions.hpp"
#include "plan/attention.hpp"
#include "plan/bias/buckets.hpp"
#include "spec/bias.hpp"

namespace phasor::attend {
namespace {

/// Positions are places of the window, where the scheme has one.
Status check_window(const TermContext& context) {
  const Window& window = context.bias->source.window;
  if (window.height == 0) return {};
  const AttentionShape& s = context.job->shape;
  const auto check = [&](const Positions& given, std::int64_t tokens) -> Status {
    std::vector<std::int64_t> list(static_cast<std::size_t>(tokens));
    for (std::int64_t b = 0; b < s.batch; ++b) {
      if (Status status = job::read_positions(context.where, window, given, b, list); !status) return status;
    }
    return {};
  };
  const job::SidePositions& queries = context.asked->query_positions;
  if (Status status = check(queries.given ? queries.at : positions_from(s.keys - s.queries), s.queries); !status) return status;
  return check(context.asked->key_positions.at, s.keys);
}

void make_gate(const ConstTensorView& gate, const TermContext& context, Arena& arena, BiasJob& bias) {
  const std::int64_t tokens = gate.shape[1];
  const std::int64_t heads = gate.shape[2];
  bias.gate_head = heads == 1 ? 0 : tokens;
  bias.gate_batch = gate.shape[0] == 1 ? 0 : heads * tokens;
  void* const memory = take_arithmetic(arena, *context.job, gate.shape[0] * heads * tokens);
  bias.gate = memory;
  if (memory == nullptr) return;
  with_arithmetic(context.job->arithmetic, [&](auto zero) {
    auto* to = static_cast<decltype(zero)*>(memory);
    for (std::int64_t n = 0; n < gate.shape[0] * heads * tokens; ++n) {
      to[n] = static_cast<decltype(zero)>(element_at(gate, {n / (heads * tokens), n % tokens, n / tokens % heads}, 0));
    }
  });
}

/// The norm of each key, and of each key tile the largest so far, and the farthest position: for ALiBi alone.
bool can_skip(const job::BiasTermJob& term, const TermContext& context, const BiasJob& bias) {
  const job::AttentionJob& asked = *context.asked;
  return asked.certified_skip && context.gradient == nullptr && asked.term_count == 1 && asked.softcap == 0 &&
         asked.content_shift.data == nullptr && asked.content.kind == job::ContentKind::plain && !is_given(term.gate) &&
         bias.form == BiasForm::line && bias.alibi != AlibiForm::key_position;
}
double norm_of(const ConstTensorView& k, std::int64_t batch, std::int64_t token, std::int64_t head) {
  const std::int64_t first = batch * k.strides[0] + token * k.strides[1] + head * k.strides[2];
  double sum = 0;
  for (std::int64_t c = 0; c < k.shape[3]; ++c) {
    const double x = job::load_element(k.data, k.dtype, first + c * k.strides[3]);
    sum += x * x;
  }
  return plan::norm_of_squares(sum);
}
void make_bounds(const TermContext& context, Arena& arena, BiasJob& bias) {
  const AttentionJob& job = *context.job;
  const auto tiles = static_cast<std::int64_t>(job.key_tiles.size());
  auto* norms = arena.take<double>(job.shape.key_heads * tiles);
  auto* positions = arena.take<std::int64_t>(tiles);
  bias.bounds = {norms, positions, 24 * std::log(2.0) + std::log(static_cast<double>(std::max<std::int64_t>(job.shape.keys, 1)))};
  if (positions == nullptr) return;
  for (const Sequence& sequence : job.sequences) {
    for (std::int64_t t = sequence.first_key_tile; t < sequence.end_key_tile; ++t) {
      const TokenTile& tile = job.key_tiles[static_cast<std::size_t>(t)];
      const bool first = t == sequence.first_key_tile;
      positions[t] = first ? tile.max_position : std::max(positions[t - 1], tile.max_position);
      for (std::int64_t head = 0; head < job.shape.key_heads; ++head) {
        double largest = first ? 0 : norms[head * tiles + t - 1];
        for (std::int64_t j = 0; j < tile.count; ++j) largest = std::fmax(largest, norm_of(job.k, sequence.batch, tile.first + j, head));
        norms[head * tiles + t] = largest;
      }
    }
  }
}

double* take_cleared(Arena& arena, std::int64_t count) {
  auto* const memory = arena.take<double>(count);
  if (memory != nullptr) std::fill_n(memory, count, 0.0);
  return memory;
}

void make_sums(const job::BiasTermJob& term, const TermContext& context, Arena& arena, BiasJob& bias) {
  const AttentionJob& job = *context.job;
  const std::int64_t slots = slots_of(job);
  if (is_wanted(context.gradient->parameters)) {
    bias.parameter_sums = take_cleared(arena, term.parameter_count);
    if (bias.form == BiasForm::band) {
      make_diagonals(context, arena, bias);
      bias.ends = take_cleared(arena, slots * 2);
    }
    if (bias.form == BiasForm::line) bias.sum_count = 1;
    if (bias.form == BiasForm::formula || bias.fire.present) bias.sum_count = formula_sums(bias.source, term.parameter_count);
    if (bias.fire.segments > 0) bias.sum_count = bias.fire.segments * kFireSums;
    if (bias.sum_count > 0) bias.sums = take_cleared(arena, slots * bias.sum_count);
    context.bias->finishing = arena.take<double>(finishing_size(bias, *context.bias, job.shape.heads));
  }
  if (!is_given(context.gradient->features)) return;
  bias.gate_sums = take_cleared(arena, job.backward.parts * job.shape.batch * job.shape.heads * job.shape.queries);
}

/// Whether a table of these distances would be out of all proportion.
bool too_far_apart(const DistanceRange& range, const AttentionShape& shape) {
  const auto span = static_cast<std::uint64_t>(range.high) - static_cast<std::uint64_t>(range.low);
  return span > static_cast<std::uint64_t>(longest_band(shape));
}

}  // namespace

Status make_bias_numbers(const job::BiasTermJob& term, std::int64_t heads, const char* where, BiasNumbers& out) {
  out.source = term.bias;
  if (is_named(term.parameters)) {
    for (std::int64_t i = 0; i < term.parameter_count; ++i) out.learned.push_back(element_at(term.parameters, {0, 0, 0}, i));
    if (Status s = plan::check_parameters(term.bias, out.learned); !s) return job::error(where, "parameters: {}", s.message());
    out.source = plan::with_parameters(term.bias, out.learned);
  }
  if (is_piecewise(out.source)) out.lines = lines_of(out.source, term.first_head, heads);
  return {};
}

std::int64_t longest_band(const AttentionShape& shape) { return 4 * (shape.queries + shape.keys) + 4096; }

Status make_term(const job::BiasTermJob& term, const TermContext& context, Arena& arena, TermJob& out) {
  if (Status status = check_window(context); !status) return status;
  BiasJob bias;
  bias.source = context.bias->source;
  bias.first_head = term.first_head;
  const DistanceRange seen = seen_distances(context);
  const DistanceRange changing = changing_distances(bias.source);
  const DistanceRange band = {std::clamp(seen.low, changing.low, changing.high), std::clamp(seen.high, changing.low, changing.high)};
  if (bias.source.scheme == plan::BiasSource::Scheme::alibi) {
    bias.form = BiasForm::line;
    bias.alibi = bias.source.form;
  } else if (too_far_apart(band, context.job->shape)) {
    bias.form = BiasForm::formula;
  } else {
    bias.low = -band.high;
    bias.high = -band.low;
    make_bias_band(context, arena, bias);
    if (bias.source.scheme == plan::BiasSource::Scheme::fire) make_fire_rows(context, arena, bias);
  }
  if (is_given(term.gate)) make_gate(term.gate, context, arena, bias);
  if (can_skip(term, context, bias)) make_bounds(context, arena, bias);
  if (context.gradient != nullptr) make_sums(term, context, arena, bias);
  out = bias;
  return {};
}

/// float64 for a perceptron, whatever the arithmetic.
std::int64_t scratch_of(const BiasJob& term, const AttentionJob& job, bool /*backward*/) {
  const bool by_formula = term.form == BiasForm::formula || (term.fire.present && term.fire.segments == 0);
  return by_formula ? formula_scratch(term.source) * 8 / bytes_of(job.arithmetic) : 0;
}

TermCost cost_of(const BiasJob& term, const AttentionJob& /*job*/) {
  TermCost cost;
  cost.name = "bias";
  cost.per_score = term.form == BiasForm::line ? 3 : 1;
  if (term.form == BiasForm::formula) cost.per_score = 100;  // a logarithm, or some layers
  if (term.gate != nullptr) cost.per_score += 1;
  if (term.form != BiasForm::band || term.fire.present) return cost;
  cost.far_above = -term.low;
  cost.far_below = -term.high;
  cost.per_query = 0;
  return cost;
}

}  // namespace phasor::attend
