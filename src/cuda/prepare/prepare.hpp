// SPDX-License-Identifier: Apache-2.0
// One token made ready by a block: it makes the row of cosines and sines, then each of its teams (warps) makes heads ready, as
// job/prepare/token.hpp says. Written for any executor of a block (device: kernel.cuh; tests run the same body on the host).
#pragma once

#include "cuda/prepare/work.hpp"
#include "cuda/rotary/row_value.hpp"
#include "cuda/rotary/specs.hpp"
#include "job/prepare/token.hpp"

namespace phasor::cuda {

constexpr int kTeamLanes = 32;
/// Factors of norms over all heads, one per operand, in the block's memory.
constexpr std::int64_t kFactors = 4;

PHASOR_HD inline int64_t row_floats(const PrepareWork& work) { return work.job.turn.pairs * (work.differ ? 4 : 2); }

/// Work where it lies, in a kernel's parameter or on the host; `tables` as of Rows.
struct PrepareAt {
  const PrepareWork* work;
  const std::byte* tables;
  SpecsAt specs;

  PHASOR_HD const PrepareWork* operator->() const { return work; }
};

/// The source of a token's row.
PHASOR_HD inline Rows rows_of(const PrepareAt& at, int64_t batch, int64_t token) {
  return rows_at(at.specs, {&at->job.turn.rows, at.tables}, batch, token);
}

/// The place of pair `p` of a row: tables may have segments apart.
PHASOR_HD inline RowPlace place_of_pair(const job::RotateJob& turn, const RowPlace& row, int64_t p) {
  const int64_t half = turn.pairs / turn.segments;
  return {row.batch, row.token, row.head, p / half * half};
}

/// A block's share of a token. `memory` holds the row, the factors, then what each team needs.
template <class Block>
struct PreparingBlock {
  PrepareAt at;
  float* memory;
  Block& block;

  PHASOR_HD void make(int64_t row) const {
    const job::PrepareJob& job = at->job;
    const int64_t batch = row / job.turn.tokens;
    const int64_t token = row % job.turn.tokens;
    const job::PreparedToken here = {batch, token, job::place_of(job.places, batch, token, job.turn.tokens), held_row(), 0};
    const Rows rows = rows_of(at, batch, token);
    if (rows.source == nullptr) return;
    block.teams([&](auto& team, int index, int teams) {
      for (int o = index; o < job.operand_count; o += teams) make_factor(team, index, here, o);
    });
    if (!at->by_head) {
      fill(rows, {batch, token, 0, 0});
      block.teams([&](auto& team, int index, int teams) {
        for (int o = 0; o < job.operand_count; ++o) make_heads(team, index, here, {job.operands[o], index, teams, factors()[o]});
      });
      return;
    }
    for (int o = 0; o < job.operand_count; ++o) {
      const job::PrepareOperand& operand = job.operands[o];
      for (int64_t h = 0; h < operand.heads; ++h) {
        if (operand.turns) fill(rows, {batch, token, h, 0});
        block.teams([&](auto& team, int index, int /*teams*/) {
          if (index == 0) make_heads(team, index, here, {operand, h, operand.heads, factors()[o]});
        });
      }
    }
  }

 private:
  PHASOR_HD float* factors() const { return memory + row_floats(*at.work); }
  PHASOR_HD job::PreparedRow held_row() const {
    const int64_t pairs = at->job.turn.pairs;
    const int64_t second = at->differ ? 2 * pairs : 0;
    return {{memory, memory + second}, {memory + pairs, memory + second + pairs}};
  }
  PHASOR_HD void fill(const Rows& rows, const RowPlace& place) const {
    const int64_t pairs = at->job.turn.pairs;
    block.each([&](int thread, int threads) {
      for (int64_t p = thread; p < pairs; p += threads) {
        const PairRow<float> row = Block::template any_row<float>(rows, place_of_pair(at->job.turn, place, p), p);
        memory[p] = row.lane[0].cos;
        memory[pairs + p] = row.lane[0].sin;
        if (!at->differ) continue;
        memory[2 * pairs + p] = row.lane[1].cos;
        memory[3 * pairs + p] = row.lane[1].sin;
      }
    });
  }
  PHASOR_HD job::PrepareScratch scratch(int team) const {
    float* const of_team = factors() + kFactors + team * at->team_floats;
    const int64_t channels = at->channels;
    return {of_team, of_team + channels, of_team + 2 * channels, of_team + 3 * channels};
  }
  template <class Team>
  PHASOR_HD void make_factor(Team& team, int index, const job::PreparedToken& token, int operand) const {
    const float factor = job::TokenMaker<Team>{at->job, scratch(index), team}.factor_of_all(token, at->job.operands[operand]);
    team.each([&](const job::TeamLane& lane) {
      if (lane.at == 0) factors()[operand] = factor;
    });
  }
  template <class Team>
  PHASOR_HD void make_heads(Team& team, int index, const job::PreparedToken& token, const job::PreparedHeads& heads) const {
    job::TokenMaker<Team>{at->job, scratch(index), team}.make(token, heads);
  }
};

}  // namespace phasor::cuda
