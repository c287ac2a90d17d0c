// SPDX-License-Identifier: Apache-2.0
// What every family of terms does on the host side: check, lay out and fill its job; sums of gradients to the caller's tensors.
#pragma once

#include <cstdint>

#include "cpu/attention/host_terms/bias_numbers.hpp"
#include "cpu/attention/job/attention.hpp"
#include "job/attention/job.hpp"
#include "job/memory/arena.hpp"
#include "phasor/execution.hpp"
#include "phasor/result.hpp"

namespace phasor::attend {

/// What a term is made ready for. The job has its shape, positions, sequences, tiles and mask by then; without memory its pointers are
/// null (positions are not known: sizes may depend on shapes and on the span of distances only).
struct TermContext {
  const job::AttentionJob* asked;
  const AttentionJob* job;
  const Runner* runner;
  std::int64_t min_distance;  // over all pairs of queries and keys of a sequence, seen or not; known without memory, too
  std::int64_t max_distance;
  const TermGradient* gradient;  // null: forward
  BiasNumbers* bias;             // of a bias
  const char* where;             // begins messages: "attention: terms[2]"
};

// A family overloads these for its public term, in attention/<family>.cpp.

/// Takes memory, and where there is some fills it. Shapes, dtypes and fields are checked (job/attention/check.hpp); what fails is what
/// memory holds.
Status make_term(const job::BiasTermJob& term, const TermContext& context, Arena& arena, TermJob& out);
Status make_term(const job::TableTermJob& term, const TermContext& context, Arena& arena, TermJob& out);
Status make_term(const job::SegmentTermJob& term, const TermContext& context, Arena& arena, TermJob& out);
Status make_term(const GridTerm& term, const TermContext& context, Arena& arena, TermJob& out);
Status make_term(const DecomposedTerm& term, const TermContext& context, Arena& arena, TermJob& out);
Status make_term(const DenseTerm& term, const TermContext& context, Arena& arena, TermJob& out);
Status make_term(const CopeTerm& term, const TermContext& context, Arena& arena, TermJob& out);

/// T that a strip's scratch must hold for the term; backward: in the backward.
std::int64_t scratch_of(const BiasJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const QueryTableJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const KeyTableJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const ValueTableJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const SegmentJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const GridJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const DecomposedJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const DenseJob& term, const AttentionJob& job, bool backward);
std::int64_t scratch_of(const CopeJob& term, const AttentionJob& job, bool backward);

/// After the backward's kernels: adds the term's sums, slot by slot in order, to the caller's tensors.
void finish_term(const job::BiasTermJob& term, const BiasJob& made, const TermContext& context);
void finish_term(const job::TableTermJob& term, const QueryTableJob& made, const TermContext& context);
void finish_term(const job::TableTermJob& term, const KeyTableJob& made, const TermContext& context);
void finish_term(const job::TableTermJob& term, const ValueTableJob& made, const TermContext& context);
void finish_term(const job::SegmentTermJob& term, const SegmentJob& made, const TermContext& context);
void finish_term(const GridTerm& term, const GridJob& made, const TermContext& context);
void finish_term(const DecomposedTerm& term, const DecomposedJob& made, const TermContext& context);
void finish_term(const DenseTerm& term, const DenseJob& made, const TermContext& context);
void finish_term(const CopeTerm& term, const CopeJob& made, const TermContext& context);

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
TermCost cost_of(const BiasJob& term, const AttentionJob& job);
TermCost cost_of(const QueryTableJob& term, const AttentionJob& job);
TermCost cost_of(const KeyTableJob& term, const AttentionJob& job);
TermCost cost_of(const ValueTableJob& term, const AttentionJob& job);
TermCost cost_of(const SegmentJob& term, const AttentionJob& job);
TermCost cost_of(const GridJob& term, const AttentionJob& job);
TermCost cost_of(const DecomposedJob& term, const AttentionJob& job);
TermCost cost_of(const DenseJob& term, const AttentionJob& job);
TermCost cost_of(const CopeJob& term, const AttentionJob& job);

}  // namespace phasor::attend
