// SPDX-License-Identifier: Apache-2.0
// What a launch decides about prepare_attention: how many warps share a token, and their memory.
#include "cuda/prepare/work.hpp"

#include <algorithm>

#include "cuda/prepare/prepare.hpp"

namespace phasor::cuda {
namespace {

/// Memory of a block that every GPU has without asking; a head that is wider gets one team, and more if it needs it.
constexpr std::int64_t kTeamBytes = 40 * 1024;
constexpr std::int64_t kMostTeams = 8;

}  // namespace

PrepareWork work_of(const job::PrepareJob& job) {
  PrepareWork work{.job = job};
  std::int64_t heads = 1;
  for (int o = 0; o < job.operand_count; ++o) {
    work.channels = std::max(work.channels, job.operands[o].head_dim);
    heads = std::max(heads, job.operands[o].heads);
  }
  work.team_floats = 3 * work.channels + math::kNormPartials;
  work.teams = static_cast<int>(
      std::clamp<std::int64_t>(kTeamBytes / static_cast<std::int64_t>(sizeof(float)) / work.team_floats, 1, std::min(kMostTeams, heads)));
  work.by_head = job::has_rows_by_head(job.turn.rows);
  work.differ = job::has_rows_by_lane(job.turn.rows);
  return work;
}

PrepareLaunch launch_shape(const PrepareWork& work) {
  constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) - 1;
  const std::int64_t floats = row_floats(work) + kFactors + work.teams * work.team_floats;
  return {std::min(work.job.turn.batch * work.job.turn.tokens, kMostBlocks), work.teams * kTeamLanes,
          static_cast<std::size_t>(floats) * sizeof(float)};
}

}  // namespace phasor::cuda
