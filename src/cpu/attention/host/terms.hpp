// SPDX-License-Identifier: Apache-2.0
// What every family of terms does on the host side: check, lay out and fill its job; sums of gradients to the caller's tensors.
#pragma once

#include <cstdint>

#include "cpu/attention/host/arena.hpp"
#include "job/attention/attention.hpp"
#include "phasor/attention.hpp"
#include "phasor/result.hpp"
#include "plan/bias/bias.hpp"

namespace phasor::attend {

/// What a term is made ready for. The job has its shape, positions, sequences, tiles and mask by then; without memory its pointers are
/// null (positions are not known: sizes may depend on shapes and on the span of distances only).
struct TermContext {
  const AttentionSpec* spec;
  const job::AttentionJob* job;
  double scale;               // the attention's
  std::int64_t min_distance;  // over all pairs of queries and keys of a sequence, seen or not; known without memory, too
  std::int64_t max_distance;
  const TermGradient* gradient;     // null: forward
  const plan::BiasPlan* bias_plan;  // of a BiasTerm: its own, or that of the numbers it comes with
  const char* where;                // begins messages: "attention: terms[2]"
};

/// The plan of a bias whose parameters come with the call.
Result<plan::BiasPlan> plan_with_parameters(const BiasTerm& term, const char* where);

// A family overloads these for its public term, in attention/<family>.cpp.

/// Takes memory, and where there is some fills it. Shapes, dtypes and fields are checked (job/attention/check.hpp); what fails is what
/// memory holds.
Status make_term(const BiasTerm& term, const TermContext& context, Arena& arena, job::TermJob& out);
Status make_term(const TableTerm& term, const TermContext& context, Arena& arena, job::TermJob& out);
Status make_term(const SegmentTerm& term, const TermContext& context, Arena& arena, job::TermJob& out);
Status make_term(const GridTerm& term, const TermContext& context, Arena& arena, job::TermJob& out);
Status make_term(const DecomposedTerm& term, const TermContext& context, Arena& arena, job::TermJob& out);
Status make_term(const DenseTerm& term, const TermContext& context, Arena& arena, job::TermJob& out);
Status make_term(const CopeTerm& term, const TermContext& context, Arena& arena, job::TermJob& out);

/// T that a strip's scratch must hold for the term; backward: in the backward.
std::int64_t scratch_of(const job::BiasJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::QueryTableJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::KeyTableJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::ValueTableJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::SegmentJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::GridJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::DecomposedJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::DenseJob& term, const job::AttentionJob& job, bool backward);
std::int64_t scratch_of(const job::CopeJob& term, const job::AttentionJob& job, bool backward);

/// After the backward's kernels: adds the term's sums, slot by slot in order, to the caller's tensors.
Status finish_term(const BiasTerm& term, const job::BiasJob& made, const TermContext& context);
Status finish_term(const TableTerm& term, const job::QueryTableJob& made, const TermContext& context);
Status finish_term(const TableTerm& term, const job::KeyTableJob& made, const TermContext& context);
Status finish_term(const TableTerm& term, const job::ValueTableJob& made, const TermContext& context);
Status finish_term(const SegmentTerm& term, const job::SegmentJob& made, const TermContext& context);
Status finish_term(const GridTerm& term, const job::GridJob& made, const TermContext& context);
Status finish_term(const DecomposedTerm& term, const job::DecomposedJob& made, const TermContext& context);
Status finish_term(const DenseTerm& term, const job::DenseJob& made, const TermContext& context);
Status finish_term(const CopeTerm& term, const job::CopeJob& made, const TermContext& context);

/// What explain says of a term: whether a tile of these distances is far for it (constant per row or per column), and operations per score
/// it adds in the band, a query row, and in all, forward.
struct TermCost {
  std::int64_t far_above = INT64_MAX;  // every distance >= this: far
  std::int64_t far_below = INT64_MIN;  // every distance <= this: far
  double per_score = 0;
  double per_query = 0;
  double per_key = 0;
  const char* name = "";
};
TermCost cost_of(const job::BiasJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::QueryTableJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::KeyTableJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::ValueTableJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::SegmentJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::GridJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::DecomposedJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::DenseJob& term, const job::AttentionJob& job);
TermCost cost_of(const job::CopeJob& term, const job::AttentionJob& job);

}  // namespace phasor::attend
