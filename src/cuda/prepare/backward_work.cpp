// SPDX-License-Identifier: Apache-2.0
// What launches decide about prepare_attention_backward: how many heads a block has, how many tokens it goes through, and its memory.
#include <algorithm>

#include "cuda/prepare/backward.hpp"

namespace phasor::cuda {
namespace {

/// Memory of a block that every GPU has without asking; a head that is wider gets one team, and more if it needs it.
constexpr std::int64_t kBackwardBytes = 40 * 1024;
constexpr std::int64_t kMostBackwardTeams = 8;
/// Wider heads add to their weights' sums in the workspace.
constexpr std::int64_t kMostSums = 512;
/// Tokens of a block that sums no weights: few, so that there are many blocks.
constexpr std::int64_t kFewTokens = 8;

std::size_t bytes_of_teams(const BackwardWork& work, std::int64_t teams) {
  const std::int64_t floats = backward_row_floats(work) + teams * work.team_floats;
  return static_cast<std::size_t>(teams * (work.team_doubles + work.product_doubles)) * sizeof(double) +
         static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace

BackwardWork work_of(const job::PrepareBackwardJob& job) {
  BackwardWork work{.job = job};
  bool sums_weights = false;
  for (int o = 0; o < job.step.operand_count; ++o) {
    work.channels = std::max(work.channels, job.step.operands[o].head_dim);
    work.heads += job.step.operands[o].heads;
    work.turns |= job.step.operands[o].turns;
    sums_weights |= job.operands[o].by_weight != nullptr;
  }
  work.team_floats = 4 * work.channels + math::kNormPartials;
  if (sums_weights && work.channels <= kMostSums) work.team_doubles = work.channels;
  if (job.by_factors != nullptr) work.product_doubles = math::kNormPartials;
  const std::int64_t team_bytes = work.team_floats * 4 + (work.team_doubles + work.product_doubles) * 8;
  work.teams = static_cast<int>(std::clamp<std::int64_t>(kBackwardBytes / team_bytes, 1, std::min(kMostBackwardTeams, work.heads)));
  work.block_tokens = sums_weights ? job::kWeightTokens : kFewTokens;
  work.by_head = job::has_rows_by_head(job.step.turn.rows);
  work.differ = job::has_rows_by_lane(job.step.turn.rows);
  return work;
}

bool may_take_parts(const BackwardWork& work) { return job::weight_spans(work.job) == 0; }

PrepareLaunch gradient_shape(const BackwardWork& work) {
  const std::int64_t tokens = work.job.step.turn.batch * work.job.step.turn.tokens;
  const std::int64_t parts = (tokens + work.block_tokens - 1) / work.block_tokens;
  return {parts * ((work.heads + work.teams - 1) / work.teams), work.teams * kTeamLanes, bytes_of_teams(work, work.teams)};
}

PrepareLaunch of_all_shape(const BackwardWork& work) {
  if (work.job.of_all == nullptr) return {0, kTeamLanes, 0};
  return {work.job.step.turn.batch * work.job.step.turn.tokens, kTeamLanes, bytes_of_teams(work, work.teams)};
}

}  // namespace phasor::cuda
