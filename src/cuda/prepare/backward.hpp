// SPDX-License-Identifier: Apache-2.0
// Gradients of the step before attention by blocks: what norms over all heads need, a block per token; then the gradients, a block per run
// of tokens and a few heads, each of them a team's (a warp's); then the weights', eight a block. Bodies for any executor of a block.
#pragma once

#include "cuda/prepare/prepare.hpp"
#include "job/prepare/backward_token.hpp"
#include "job/prepare/weight_sums.hpp"

namespace phasor::cuda {

/// A job with what its launches have decided.
struct BackwardWork {
  job::PrepareBackwardJob job;
  int teams = 1;                     // heads of a block
  std::int64_t team_floats = 0;      // of a team's memory: a head, its gradient, its rotated part, weights, partial sums
  std::int64_t team_doubles = 0;     // sums of its weights; 0: they are added to in the workspace
  std::int64_t product_doubles = 0;  // sums of its products with gradients, where those by factors are wanted
  std::int64_t channels = 0;         // of the widest head
  std::int64_t heads = 0;            // of all operands
  std::int64_t block_tokens = 1;     // that a team goes through: a whole run where weights are summed
  bool by_head = false;              // every head has a row of its own
  bool differ = false;               // and so has every lane of a pair
  bool turns = false;                // any operand
};
BackwardWork work_of(const job::PrepareBackwardJob& job);
PrepareLaunch gradient_shape(const BackwardWork& work);
PrepareLaunch of_all_shape(const BackwardWork& work);
/// Whether launches one after the other may each take some of the specs, and leave the tokens of the others alone: not where weights are
/// summed, token by token in their order.
bool may_take_parts(const BackwardWork& work);
/// Memory of a block that every GPU has (cuda/device.cu asks for it).
constexpr std::size_t kMostBackwardBytes = 96 * 1024;
/// Threads that sum kWeightsTogether weights.
constexpr int kWeightThreads = static_cast<int>(job::kWeightsTogether) * math::kNormPartials;

/// Rows: cosines, sines of the transposed rotation, and where heads are turned ahead negated ones; twice where lanes differ.
PHASOR_HD inline int64_t lane_floats(const BackwardWork& work) { return work.job.step.turn.pairs * (turns_ahead(work.job) ? 3 : 2); }
PHASOR_HD inline int64_t backward_row_floats(const BackwardWork& work) {
  return work.turns ? lane_floats(work) * (work.differ ? 2 : 1) : 0;
}

/// Work where it lies; `tables` as of Rows.
struct BackwardAt {
  const BackwardWork* work;
  const std::byte* tables;
  SpecsAt specs;

  PHASOR_HD const BackwardWork* operator->() const { return work; }
};

/// `memory` holds sums of weights for each team, then of products, the rows, then what each team needs.
template <class Block>
struct BackwardBlock {
  BackwardAt at;
  double* memory;
  Block& block;

  /// The gradients of some heads, tokens of a run: block `index` of those that gradient_shape counts.
  PHASOR_HD void make(int64_t index) const {
    const job::PrepareBackwardJob& job = at->job;
    const int64_t head_blocks = (at->heads + at->teams - 1) / at->teams;
    const int64_t part = index / head_blocks;
    const int64_t first_head = index % head_blocks * at->teams;
    const int64_t tokens = job.step.turn.tokens;
    const int64_t all = job.step.turn.batch * tokens;
    const int64_t end = (part + 1) * at->block_tokens < all ? (part + 1) * at->block_tokens : all;
    block.teams([&](auto& team, int t, int /*teams*/) { clear_weights(team, t, first_head, part); });
    for (int64_t row = part * at->block_tokens; row < end; ++row) {
      const job::BackwardToken token = token_at(row);
      if (at->turns && rows_of(row).source == nullptr) continue;
      if (!at->by_head) {
        if (at->turns) fill(row, 0);
        block.teams([&](auto& team, int t, int /*teams*/) { make_head(team, t, token, head_at(first_head + t), part); });
        continue;
      }
      for (int t = 0; t < at->teams; ++t) {
        const job::BackwardHeads head = head_at(first_head + t);
        if (head.operand >= 0 && job.step.operands[head.operand].turns) fill(row, head.first);
        block.teams([&](auto& team, int own, int /*teams*/) {
          if (own == t) make_head(team, t, token, head, part);
        });
      }
    }
    block.teams([&](auto& team, int t, int /*teams*/) { keep_weights(team, t, first_head, part); });
  }

  /// What the gradients of a token's norms over all heads share; by one team.
  PHASOR_HD void make_of_all(int64_t row) const {
    const job::PrepareBackwardJob& job = at->job;
    const job::BackwardToken token = token_at(row);
    if (at->turns && rows_of(row).source == nullptr) return;
    for (int o = 0; o < job.step.operand_count; ++o) {
      const job::PrepareOperand& operand = job.step.operands[o];
      if (!job::norms_over_all(operand)) continue;
      float factor = 0;
      block.teams([&](auto& team, int t, int /*teams*/) {
        const job::BackwardScratch mine = scratch(t);
        const job::PreparedToken here = {token.batch, token.token, {}, {}, 0};
        factor = maker(team, {mine.x, mine.y, mine.weight, mine.sums}).factor_of_all(here, operand);
      });
      block.teams([&](auto& team, int t, int /*teams*/) { job::clear_sums(team, scratch(t).sums); });
      for (int64_t h = 0; h < operand.heads; ++h) {
        if (operand.turns && (at->by_head || h == 0)) fill(row, h);
        block.teams([&](auto& team, int t, int /*teams*/) { backward(team, t).add_products_of_all(token, {o, h, operand.heads}, factor); });
      }
      block.teams([&](auto& team, int t, int /*teams*/) {
        const float along = job::along_of(operand.norm, job::folded(team, scratch(t).sums), operand.heads * operand.norm.width);
        team.each([&](const job::TeamLane& lane) {
          if (lane.at == 0) job.of_all[row * job.step.operand_count + o] = {factor, along};
        });
      });
    }
  }

 private:
  PHASOR_HD float* row_memory() const { return reinterpret_cast<float*>(memory + at->teams * (at->team_doubles + at->product_doubles)); }
  PHASOR_HD job::BackwardScratch scratch(int team) const {
    float* const mine = row_memory() + backward_row_floats(*at.work) + team * at->team_floats;
    const int64_t channels = at->channels;
    return {mine,
            mine + channels,
            mine + 2 * channels,
            mine + 3 * channels,
            mine + 4 * channels,
            memory + at->teams * at->team_doubles + team * at->product_doubles};
  }
  template <class Team>
  PHASOR_HD job::TokenBackward<Team> backward(Team& team, int index) const {
    return {at->job, scratch(index), team};
  }
  template <class Team>
  PHASOR_HD job::TokenMaker<Team> maker(Team& team, const job::PrepareScratch& scratch) const {
    return {at->job.step, scratch, team};
  }

  PHASOR_HD job::BackwardToken token_at(int64_t row) const {
    const int64_t tokens = at->job.step.turn.tokens;
    const int64_t pairs = at->job.step.turn.pairs;
    const float* const first = row_memory();
    const float* const second = at->differ ? first + lane_floats(*at.work) : first;
    const job::PreparedRow back = {{first, second}, {first + pairs, second + pairs}};
    return {row / tokens, row % tokens, back, job::opposite_row(back, second + 2 * pairs, first + 2 * pairs)};
  }
  /// Null: the token's spec is none of the list's, and the token is left alone.
  PHASOR_HD Rows rows_of(int64_t row) const {
    const job::RotateJob& turn = at->job.step.turn;
    return rows_at(at.specs, {&turn.rows, at.tables}, row / turn.tokens, row % turn.tokens);
  }
  /// Cosines, sines and negated sines of each lane of a head's row.
  PHASOR_HD void fill(int64_t row, int64_t head) const {
    const job::PrepareJob& step = at->job.step;
    const int64_t pairs = step.turn.pairs;
    const RowPlace place = {row / step.turn.tokens, row % step.turn.tokens, head, 0};
    const Rows rows = rows_of(row);
    float* const to = row_memory();
    block.each([&](int thread, int threads) {
      for (int64_t p = thread; p < pairs; p += threads) {
        const PairRow<float> values = Block::template any_row<float>(rows, place_of_pair(step.turn, place, p), p);
        for (int lane = 0; lane < (at->differ ? 2 : 1); ++lane) {
          float* const of_lane = to + lane * lane_floats(*at.work);
          of_lane[p] = values.lane[lane].cos;
          of_lane[pairs + p] = values.lane[lane].sin;
          if (turns_ahead(at->job)) of_lane[2 * pairs + p] = -values.lane[lane].sin;
        }
      }
    });
  }

  /// Head number n of all operands, one after the other; operand -1 where there are no more.
  PHASOR_HD job::BackwardHeads head_at(int64_t n) const {
    const job::PrepareJob& step = at->job.step;
    for (int o = 0; o < step.operand_count; ++o) {
      if (n < step.operands[o].heads) return {o, n, step.operands[o].heads};
      n -= step.operands[o].heads;
    }
    return {-1, 0, 1};
  }

  /// Where a team adds to the sums of its head's weights; null where none are wanted.
  PHASOR_HD double* weight_sums(int team, const job::BackwardHeads& head, int64_t part) const {
    if (head.operand < 0 || at->job.operands[head.operand].by_weight == nullptr) return nullptr;
    return at->team_doubles > 0 ? memory + team * at->team_doubles : kept_sums(head, part);
  }
  PHASOR_HD double* kept_sums(const job::BackwardHeads& head, int64_t part) const {
    return job::partials_of(at->job, head.operand, part) + head.first * at->job.step.operands[head.operand].norm.width;
  }
  template <class Team>
  PHASOR_HD void clear_weights(Team& team, int t, int64_t first_head, int64_t part) const {
    const job::BackwardHeads head = head_at(first_head + t);
    double* const sums = weight_sums(t, head, part);
    if (sums == nullptr) return;
    const int64_t width = at->job.step.operands[head.operand].norm.width;
    team.each([&](const job::TeamLane& lane) {
      for (int64_t c = lane.at; c < width; c += lane.of) sums[c] = 0;
    });
  }
  template <class Team>
  PHASOR_HD void keep_weights(Team& team, int t, int64_t first_head, int64_t part) const {
    const job::BackwardHeads head = head_at(first_head + t);
    const double* const sums = weight_sums(t, head, part);
    if (sums == nullptr || at->team_doubles == 0) return;
    double* const kept = kept_sums(head, part);
    const int64_t width = at->job.step.operands[head.operand].norm.width;
    team.each([&](const job::TeamLane& lane) {
      for (int64_t c = lane.at; c < width; c += lane.of) kept[c] = sums[c];
    });
  }
  template <class Team>
  PHASOR_HD void make_head(Team& team, int t, const job::BackwardToken& token, const job::BackwardHeads& head, int64_t part) const {
    if (head.operand < 0) return;
    const job::PrepareBackwardJob& job = at->job;
    const int64_t row = token.batch * job.step.turn.tokens + token.token;
    job::NormOfAll of_all{};
    if (job::norms_over_all(job.step.operands[head.operand])) of_all = job.of_all[row * job.step.operand_count + head.operand];
    double* const sums = weight_sums(t, head, part);
    backward(team, t).make(token, head, of_all, sums);
  }
};

/// kWeightsTogether weights: 32 threads for each, whose sums are then added by the tree.
struct WeightRoom {
  double sums[math::kNormPartials][job::kWeightsTogether];
};
template <class Block>
PHASOR_HD void sum_weights(const job::PrepareBackwardJob& job, int64_t index, WeightRoom& room, Block& block) {
  const job::WeightSpan span = job::weight_span(job, index);
  const int64_t entries = job::weight_entries(job, span.operand);
  constexpr int kTogether = static_cast<int>(job::kWeightsTogether);
  block.each([&](int thread, int /*threads*/) {
    const int w = thread % kTogether;
    double sum = 0;
    for (int64_t e = thread / kTogether; w < span.count && e < entries; e += math::kNormPartials) {
      sum += job::weight_entry(job, span.operand, span.first + w, e);
    }
    room.sums[thread / kTogether][w] = sum;
  });
  for (int half = math::kNormPartials / 2; half > 0; half /= 2) {
    block.each([&](int thread, int /*threads*/) {
      if (thread < half * kTogether)
        room.sums[thread / kTogether][thread % kTogether] += room.sums[thread / kTogether + half][thread % kTogether];
    });
  }
  block.each([&](int thread, int /*threads*/) {
    if (thread < span.count) job::store_weight(job, span.operand, span.first + thread, room.sums[0][thread]);
  });
}

}  // namespace phasor::cuda
