// SPDX-License-Identifier: Apache-2.0
// Heads made ready on one target: a team of one, and its steps. Included once in each target's namespace by cpu/common/every_target.inl.
// clang-format off
#if PHASOR_LANES
#include "cpu/common/lanes.inl"
#include "math/float8.inl"
#include "cpu/prepare/spans.inl"
#else
using HeadSpans = job::OneByOne;
#endif
// clang-format on

struct TeamOfOne {
  using Spans = HeadSpans;
  using Lane = job::TeamLane;
  static int lanes() { return 1; }
  template <class Body>
  void each(const Body& body) const {
    body(Lane{0, 1});
  }
};

inline void make_heads(const job::PrepareJob& job, const job::PreparedToken& token, const PrepareHeads& heads) {
  constexpr std::int64_t kMost = job::kMaxPreparedChannels;
  alignas(64) float x[kMost];
  alignas(64) float y[kMost];
  alignas(64) float weight[kMost];
  alignas(64) float sums[math::kNormPartials];
  TeamOfOne team;
  const job::TokenMaker<TeamOfOne> maker = {job, {x, y, weight, sums}, team};
  maker.make(token, heads.operand, heads.first, heads.step);
}

constexpr PrepareKernels kKernels = {.make = make_heads};
