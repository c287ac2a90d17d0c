// SPDX-License-Identifier: Apache-2.0
// Heads made ready on one target: a team of one, and its steps. Included once in each target's namespace by cpu/common/every_target.inl.
// clang-format off
#if PHASOR_LANES
#include "cpu/common/lanes.inl"
#include "math/float8.inl"
#include "cpu/prepare/spans.inl"
#include "cpu/prepare/whole.inl"
#include "cpu/prepare/backward_spans.inl"
#else
using HeadSpans = job::OneByOne;
using BackwardSpans = job::BackwardOneByOne;
#endif
// clang-format on

struct TeamOfOne {
  using Spans = HeadSpans;
  using Lane = job::TeamLane;
  static constexpr bool kAlone = true;
  static int lanes() { return 1; }
  template <class Body>
  void each(const Body& body) const {
    body(Lane{0, 1});
  }
};

/// A head on the stack.
struct HeadMemory {
  alignas(64) float x[job::kMaxPreparedChannels];
  alignas(64) float y[job::kMaxPreparedChannels];
  alignas(64) float weight[job::kMaxPreparedChannels];
  alignas(64) float sums[math::kNormPartials];

  job::PrepareScratch scratch() { return {x, y, weight, sums}; }
};

inline float factor_of_all(const job::PrepareJob& job, const job::PreparedToken& token, const job::PrepareOperand& operand) {
  HeadMemory memory;
  TeamOfOne team;
  return job::TokenMaker<TeamOfOne>{job, memory.scratch(), team}.factor_of_all(token, operand);
}

inline void make_heads(const job::PrepareJob& job, const job::PreparedToken& token, const job::PreparedHeads& heads) {
#if PHASOR_LANES
  if (WholeHeads::can(job, heads.operand, token.row)) return WholeHeads::make(job, token, heads);
#endif
  HeadMemory memory;
  TeamOfOne team;
  job::TokenMaker<TeamOfOne>{job, memory.scratch(), team}.make(token, heads);
}

struct BackwardTeam : TeamOfOne {
  using Spans = BackwardSpans;
};

/// A head and its gradient on the stack.
struct BackwardMemory {
  alignas(64) float x[job::kMaxPreparedChannels];
  alignas(64) float gradient[job::kMaxPreparedChannels];
  alignas(64) float y[job::kMaxPreparedChannels];
  alignas(64) float weight[job::kMaxPreparedChannels];

  alignas(64) double products[math::kNormPartials];

  job::BackwardScratch scratch(float* sums) { return {x, gradient, y, weight, sums, products}; }
};

inline void add_products_of_all(const job::PrepareBackwardJob& job, const job::BackwardToken& token, const job::BackwardHeads& heads,
                                float factor, float* sums) {
  BackwardMemory memory;
  BackwardTeam team;
  job::TokenBackward<BackwardTeam>{job, memory.scratch(sums), team}.add_products_of_all(token, heads, factor);
}

inline void make_gradients(const job::PrepareBackwardJob& job, const job::BackwardToken& token, const job::BackwardHeads& heads,
                           const job::NormOfAll& of_all, double* weight_sums) {
  BackwardMemory memory;
  alignas(64) float sums[math::kNormPartials];
  BackwardTeam team;
  job::TokenBackward<BackwardTeam>{job, memory.scratch(sums), team}.make(token, heads, of_all, weight_sums);
}

constexpr PrepareKernels kKernels = {
    .factor = factor_of_all, .make = make_heads, .add_products = add_products_of_all, .make_gradients = make_gradients};
