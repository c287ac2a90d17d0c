// SPDX-License-Identifier: Apache-2.0
// From a call to its job, step by step.
#include "cpu/attention/host/prepare.hpp"

#include <algorithm>

#include "cpu/attention/host/backward.hpp"
#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host_tables/slots.hpp"
#include "cpu/attention/host_terms/sinks.hpp"
#include "cpu/attention/kernels.hpp"
#include "job/check.hpp"
#include "spec/format.hpp"

namespace phasor::attend {
namespace {

/// Queries of a sequence, at most, for the keys to be read where they are, a block of them a task: decoding.
constexpr std::int64_t kDecodeQueries = 8;

std::int64_t queries_of(const AttentionJob& job, const Sequence& sequence) {
  std::int64_t count = 0;
  for (std::int64_t t = sequence.first_query_tile; t < sequence.end_query_tile; ++t)
    count += job.query_tiles[static_cast<std::size_t>(t)].count;
  return count;
}

/// How many blocks of keys the tasks of a decoding call are made of; 0: it does not decode. By shapes only: threads change no bits. CoPE
/// counts keys over all blocks.
std::int64_t key_splits_of(const Call& call, const AttentionJob& job) {
  if (call.gradients != nullptr || call.weights || has_cope(*call.asked)) return 0;
  std::int64_t splits = 1;
  for (const Sequence& sequence : job.sequences) {
    if (queries_of(job, sequence) > kDecodeQueries) return 0;
    const std::int64_t tiles = sequence.end_key_tile - sequence.first_key_tile;
    splits = std::max(splits, (tiles + kSplitTiles - 1) / kSplitTiles);
  }
  const AttentionShape& s = job.shape;
  std::int64_t partial = s.batch * s.queries * s.heads;
  const bool vast = __builtin_mul_overflow(partial, splits * s.padded_value_width, &partial) || partial > std::int64_t{1} << 50;
  return vast ? 0 : splits;
}

void take_panels(const Call& call, Arena& arena, AttentionJob& job) {
  if (job.key_splits > 0) return;
  const std::int64_t tokens = job.shape.key_heads * static_cast<std::int64_t>(job.key_tiles.size()) * kKeyTile * bytes_of(job.arithmetic);
  const bool backward = call.gradients != nullptr;
  Panels& panels = job.panels;
  for (int c = 0; c < job.content_count; ++c) {
    if (c > 0 && job.rule == ContentRule::chunk) {  // one set of keys for every pass
      panels.keys_transposed[c] = panels.keys_transposed[0];
      panels.keys[c] = panels.keys[0];
      continue;
    }
    panels.keys_transposed[c] = arena.take_bytes(tokens * job.shape.padded_width);
    if (backward) panels.keys[c] = arena.take_bytes(tokens * job.shape.padded_width);
  }
  if (call.weights) return;
  void*& values = backward ? panels.values_transposed : panels.values;
  values = arena.take_bytes(tokens * job.shape.padded_value_width);
}

/// The numbers of each bias, and of those that come with the call whether they can be.
Status make_biases(const Call& call, Prepared& out) {
  out.biases.resize(static_cast<std::size_t>(call.asked->term_count));
  for (std::size_t t = 0; t < out.biases.size(); ++t) {
    const job::AttentionTermJob& term = call.asked->terms[t];
    if (term.kind != job::TermKind::bias) continue;
    if (Status s = make_bias_numbers(term.bias, out.job.shape.heads, out.term_names[t].c_str(), out.biases[t]); !s) return s;
  }
  return {};
}

Status make_terms(const Call& call, Arena& arena, Prepared& out) {
  const auto count = static_cast<std::size_t>(call.asked->term_count);
  for (std::size_t t = 0; t < count; ++t) out.term_names.push_back(spec::format("{}: terms[{}]", call.where, t));
  if (Status s = make_biases(call, out); !s) return s;
  out.terms.resize(count);
  for (std::size_t t = 0; t < count; ++t) {
    const TermContext context = context_of(call, out, t);
    const auto make = [&](const auto& term) { return make_term(term, context, arena, out.terms[t]); };
    if (Status s = job::with_term(call.asked->terms[t], make); !s) return s;
  }
  out.job.terms = out.terms;
  return {};
}

}  // namespace

Status prepare(const Call& call, Arena& arena, Prepared& out) {
  AttentionJob& job = out.job;
  job.shape = {job::shape_of(*call.asked), padded(call.asked->q.shape[3]), padded(call.asked->v.shape[3])};
  job.q = call.asked->q;
  job.k = call.asked->k;
  job.v = call.asked->v;
  job.arithmetic = job.q.dtype == DType::f64 ? DType::f64 : DType::f32;
  job.scale = call.asked->scale;
  job.softcap = call.asked->softcap;
  job.certified_skip = call.asked->certified_skip;
  job.dropout = dropout_of(call.asked->dropout);
  if (Status s = make_layout(call, tile_span(call.asked->content), arena, out); !s) return s;
  if (Status s = make_contents(call, arena, out); !s) return s;
  make_sinks(call.asked->sinks, arena, out);
  job.key_splits = key_splits_of(call, job);
  if (call.gradients != nullptr) {
    job.backward.parts = backward_parts(*call.asked, job);
    make_groups(call, out);
  }
  if (Status s = make_terms(call, arena, out); !s) return s;
  take_panels(call, arena, job);
  return {};
}

TermContext context_of(const Call& call, Prepared& prepared, std::size_t term) {
  return {.asked = call.asked,
          .job = &prepared.job,
          .runner = call.runner,
          .min_distance = prepared.min_distance,
          .max_distance = prepared.max_distance,
          .gradient = call.gradients != nullptr ? &call.asked->terms[term].gradient : nullptr,
          .bias = &prepared.biases[term],
          .where = prepared.term_names[term].c_str()};
}

void take_scratch(const ScratchNeeds& needs, Arena& arena, Prepared& prepared) {
  AttentionJob& job = prepared.job;
  std::int64_t used = needs.loops;
  prepared.term_scratch.clear();
  for (const TermJob& term : job.terms) {
    used = (used + 31) / 32 * 32;  // every buffer begins at a line of the cache
    prepared.term_scratch.push_back(used);
    used += std::visit([&](const auto& made) { return scratch_of(made, job, needs.backward); }, term);
  }
  job.term_scratch = prepared.term_scratch.data();
  job.strips = std::clamp<std::int64_t>(needs.tasks, 1, kMaxStrips);
  job.scratch_bytes = (used * bytes_of(job.arithmetic) + 63) / 64 * 64;
  job.scratch = arena.take<std::byte>(job.strips * job.scratch_bytes);
}

Status pack_panels(const Prepared& prepared, const Runner& runner) {
  const Result<const cpu::AttentionKernels*> kernels = cpu::active_attention();
  if (!kernels.ok()) return kernels.status();
  const auto key_tiles = static_cast<std::int64_t>(prepared.job.key_tiles.size());
  run_each(runner, prepared.job.shape.key_heads * key_tiles, [&](std::int64_t task) { (*kernels)->pack(prepared.job, task); });
  return {};
}

}  // namespace phasor::attend
