// SPDX-License-Identifier: Apache-2.0
// What a checked call becomes: optional numbers resolved, plans by their sources, rotations ready but for what they turn.
#include "job/attention/make_job.hpp"

#include <tuple>

#include "job/attention/check.hpp"
#include "plan/bias/source.hpp"

namespace phasor::job {
namespace {

MapJob map_job_of(const ReRope& map) { return {.kind = MapKind::rerope, .window = map.window}; }
MapJob map_job_of(const LeakyReRope& map) { return {.kind = MapKind::leaky_rerope, .window = map.window, .factor = map.factor}; }
MapJob map_job_of(const SelfExtend& map) { return {.kind = MapKind::self_extend, .window = map.window, .group = map.group}; }
MapJob map_job_of(const DualChunk& map) {
  return {.kind = MapKind::dual_chunk, .chunk = map.chunk, .local = map.local, .critical = map.critical};
}

SidePositions side_of(const std::optional<Positions>& given) { return {given.has_value(), given.value_or(Positions())}; }

/// The first position of a side whose positions are no memory: `otherwise` where none are given.
std::optional<std::int64_t> first_of(const SidePositions& side, std::int64_t otherwise) {
  if (!side.given) return otherwise;
  return side.at.data == nullptr ? std::optional(side.at.offset) : std::nullopt;
}

/// Whether nothing but who sees whom goes by positions: then only distances count.
bool goes_by_distances_alone(const AttentionJob& job) {
  return job.content.kind == ContentKind::plain && job.term_count == 0 && job.visibility.prefix.size == 0 && job.dropout.probability == 0;
}

// ---- Contents ----

/// Without any heads nothing is turned.
void make_rotations(const plan::RotaryPlan& plan, const AttentionCall& call, ContentJob& content) {
  if (call.inputs->q.shape[2] == 0) return;
  const Side queries = {call.inputs->q, call.spec->query_positions, content.dtype};
  const Side keys = {call.inputs->k, call.spec->key_positions, content.dtype};
  content.queries = *make_rotation(plan, queries, Direction::forward);
  content.queries_back = *make_rotation(plan, queries, Direction::transpose);
  if (content.keys_rotated) return;
  content.keys = *make_rotation(plan, keys, Direction::forward);
  content.keys_back = *make_rotation(plan, keys, Direction::transpose);
}

void make_content(const PlainContent& /*content*/, const AttentionCall& /*call*/, ContentJob& /*out*/) {}
void make_content(const RotaryContent& content, const AttentionCall& call, ContentJob& out) {
  out.kind = ContentKind::rotary;
  out.keys_rotated = content.keys == KeyState::rotated;
  out.dtype = rotated_dtype(call);
  if (content.map) out.map = std::visit([](const auto& map) { return map_job_of(map); }, *content.map);
  make_rotations(content.rotary.plan(), call, out);
}
void make_content(const XposContent& content, const AttentionCall& call, ContentJob& out) {
  out.kind = ContentKind::xpos;
  out.dtype = rotated_dtype(call);
  out.gamma = content.gamma;
  out.scale_base = content.scale_base;
  make_rotations(content.rotary.plan(), call, out);
}

// ---- Terms ----

RowMap row_map_of(const ClipRows& clip) {
  return {.left = clip.left, .right = clip.right, .zero_outside = clip.outside == OutsideRows::zero};
}
RowMap row_map_of(const Bias& bias) { return {.has_buckets = true, .buckets = plan::source_of(bias.plan()).row}; }

void make_term(const BiasTerm& term, const AttentionCall& /*call*/, AttentionTermJob& out) {
  out.kind = TermKind::bias;
  out.bias = {plan::source_of(term.bias.plan()), term.bias.parameter_count(), term.first_head, term.gate, term.parameters};
}
void make_term(const TableTerm& term, const AttentionCall& call, AttentionTermJob& out) {
  out.kind = TermKind::table;
  out.table = {.side = term.side,
               .table = term.table,
               .rows = std::visit([](const auto& map) { return row_map_of(map); }, term.rows),
               .row_count = term.table.shape[1],
               .features = term.features,
               .shift = term.shift,
               .scale = term.side == TableSide::value ? 1 : term.scale.value_or(scale_of(call))};
}
void make_term(const SegmentTerm& term, const AttentionCall& call, AttentionTermJob& out) {
  out.kind = TermKind::segment;
  out.segment = {term.table, term.shift, term.query_segments, term.key_segments, term.scale.value_or(scale_of(call))};
}
void make_term(const GridTerm& term, const AttentionCall& /*call*/, AttentionTermJob& out) {
  out.kind = TermKind::grid;
  out.grid = term;
}
void make_term(const DecomposedTerm& term, const AttentionCall& /*call*/, AttentionTermJob& out) {
  out.kind = TermKind::decomposed;
  out.decomposed = term;
}
void make_term(const DenseTerm& term, const AttentionCall& /*call*/, AttentionTermJob& out) {
  out.kind = TermKind::dense;
  out.dense = term;
}
void make_term(const CopeTerm& term, const AttentionCall& /*call*/, AttentionTermJob& out) {
  out.kind = TermKind::cope;
  out.cope = term;
}

VisibilityJob visibility_of(const Visibility& see) {
  return {.causal = see.mask == Mask::causal,
          .left = see.left.value_or(INT64_MAX),
          .right = see.right.value_or(INT64_MAX),
          .prefix = see.prefix,
          .query_starts = see.query_starts,
          .key_starts = see.key_starts,
          .key_mask = see.key_mask};
}

/// Positions that tokens have anyway are forgotten: every kernel takes tokens, few take positions, and none leaves out tiles by those.
void forget_positions_of_tokens(AttentionJob& job) {
  if (job.visibility.query_starts.size > 0) return;  // tokens of each sequence begin anew
  const std::int64_t wanted = job.k.shape[1] - job.q.shape[1];
  const auto queries = first_of(job.query_positions, wanted);
  const auto keys = first_of(job.key_positions, 0);
  if (!queries || !keys) return;
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  const bool near = *queries > -kFar && *queries < kFar && *keys > -kFar && *keys < kFar;
  const bool same_distances = near && *queries - *keys == wanted && goes_by_distances_alone(job);
  if (same_distances || (*queries == wanted && *keys == 0)) job.query_positions = job.key_positions = {};
}

}  // namespace

void make_attention_job_as_given(const AttentionCall& call, std::vector<AttentionTermJob>& terms, AttentionJob& job) {
  const AttentionSpec& spec = *call.spec;
  job.device = call.inputs->q.device;
  job.q = call.inputs->q;
  job.k = call.inputs->k;
  job.v = call.inputs->v;
  std::visit([&](const auto& content) { make_content(content, call, job.content); }, spec.content);
  job.content_shift = spec.content_shift;
  terms.resize(spec.terms.size());
  for (std::size_t t = 0; t < terms.size(); ++t) {
    std::visit([&](const auto& term) { make_term(term, call, terms[t]); }, spec.terms[t]);
    if (call.gradients != nullptr) terms[t].gradient = *gradient_of(call, t);
  }
  job.terms = terms.data();
  job.term_count = static_cast<std::int64_t>(terms.size());
  job.scale = scale_of(call);
  job.softcap = spec.softcap;
  job.sinks = spec.sinks;
  job.visibility = visibility_of(spec.visibility);
  job.query_positions = side_of(spec.query_positions);
  job.key_positions = side_of(spec.key_positions);
  job.certified_skip = spec.skip == TileSkip::certified;
  job.dropout = spec.dropout;
}

void make_attention_job(const AttentionCall& call, std::vector<AttentionTermJob>& terms, AttentionJob& job) {
  make_attention_job_as_given(call, terms, job);
  forget_positions_of_tokens(job);
}

void make_backward_job(const AttentionCall& call, std::vector<AttentionTermJob>& terms, AttentionBackwardJob& job) {
  make_attention_job(call, terms, job.forward);
  job.q = call.gradients->q;
  job.k = call.gradients->k;
  job.v = call.gradients->v;
  job.content_shift = call.gradients->content_shift;
  job.sinks = call.gradients->sinks;
  job.deterministic = call.gradients->deterministic;
}

void make_weights_job(const WeightsCall& of, std::vector<AttentionTermJob>& terms, AttentionWeightsJob& job) {
  make_attention_job(of.call(), terms, job.forward);
  job.rows = of.rows;
  job.weights = of.weights;
}

PositionMap position_map_of(const MapJob& map) {
  if (map.kind == MapKind::rerope) return ReRope{map.window};
  if (map.kind == MapKind::leaky_rerope) return LeakyReRope{map.window, map.factor};
  if (map.kind == MapKind::self_extend) return SelfExtend{map.window, map.group};
  return DualChunk{map.chunk, map.local, map.critical};
}

RotateJob rotation_of(const RotateJob& rotation, const InOut& x, const Positions& at) {
  RotateJob job = rotation;
  job.dtype = x.in.dtype;  // sums of gradients have more digits than what was rotated: a profile rounds none of their products
  if (job.dtype != rotation.dtype) job.rounds_products = false;
  Operand& operand = job.operands[0];
  operand = {static_cast<const std::byte*>(x.in.data), static_cast<std::byte*>(x.out.data), x.in.shape[2], {}, {}};
  for (int i = 0; i < 3; ++i) {
    operand.in_strides[i] = x.in.strides[i] * bytes_of(x.in.dtype);
    operand.out_strides[i] = x.out.strides[i] * bytes_of(x.out.dtype);
  }
  job.batch = x.in.shape[0];
  job.tokens = x.in.shape[1];
  job.rows.positions = source_of(at, rotation.rows.positions.axes);
  job.rows.shared = job.rows.positions.data == nullptr || job.rows.positions.batch_stride == 0;
  return job;
}

bool join(const RotateJob& other, RotateJob& job) {
  const auto by = [](const RotateJob& of) {
    const PositionSource& p = of.rows.positions;
    return std::tuple(p.data, p.type, p.axes, p.axis_stride, p.batch_stride, p.token_stride, p.offset, of.dtype, of.batch, of.tokens,
                      of.operands[0].in_strides[2], of.operands[0].out_strides[2]);
  };
  if (job.operand_count != 1 || other.operand_count != 1 || by(other) != by(job)) return false;
  job.operands[job.operand_count++] = other.operands[0];
  return true;
}

}  // namespace phasor::job
