// SPDX-License-Identifier: Apache-2.0
// The gradients of one token's heads: the steps of job/prepare/token.hpp backwards, by a team of lanes as there. One body for CPU and GPU.
#pragma once

#include "job/prepare/backward.hpp"
#include "job/prepare/backward_spans.hpp"
#include "job/prepare/token.hpp"

namespace phasor::job {

/// Memory of a team: floats for a head and its gradient, for a rotated part that changes pairing, for a norm's weights, and partial sums;
/// and such sums of float64 where gradients by factors are wanted.
struct BackwardScratch {
  float* x;
  float* gradient;
  float* y;
  float* weight;
  float* sums;       // kNormPartials
  double* products;  // the same
};

/// A token with its rows: the transposed rotation's, and the rotation's own where heads are turned once more (turns_ahead).
struct BackwardToken {
  std::int64_t batch;
  std::int64_t token;
  PreparedRow back;
  PreparedRow ahead;
};

/// Heads first, first + step, ... of an operand.
struct BackwardHeads {
  int operand;
  std::int64_t first;
  std::int64_t step;
};

/// The rotation's own row from the transposed one: `sin` are the negated sines of the other lane.
PHASOR_HD inline PreparedRow opposite_row(const PreparedRow& row, const float* first_sin, const float* second_sin) {
  return {{row.cos[0], row.cos[1]}, {first_sin, second_sin}, row.identities};
}

PHASOR_HD inline float along_of(const PrepareNorm& norm, float sum, std::int64_t count) {
  return norm.kind == HeadNorm::Kind::rms ? math::rms_along(sum, count) : sum;
}

template <class Team>
struct TokenBackward {
  using Spans = typename Team::Spans;
  using Lane = typename Team::Lane;

  const PrepareBackwardJob& job;
  BackwardScratch scratch;
  Team& team;

  /// `of_all` where the norm is over all heads; `weight_sums` are those of the heads, (heads, width), null where not wanted.
  PHASOR_HD void make(const BackwardToken& token, const BackwardHeads& heads, const NormOfAll& of_all, double* weight_sums) const {
    const PrepareOperand& operand = job.step.operands[heads.operand];
    const PrepareNorm& norm = operand.norm;
    const bool norms = norm.kind != HeadNorm::Kind::none;
    if (operand.copies) return copy(token, heads);
    const bool ahead = norms && operand.turns && job.step.rotation_first;  // heads were turned, then normed
    read_shared_weights(norm);
    for (std::int64_t h = heads.first; h < operand.heads; h += heads.step) {
      if (operand.scales && job.by_factors != nullptr) add_to_factor(token, heads.operand, h, of_all);
      load_gradient(token, heads.operand, h, norms);
      if (operand.turns && !ahead) turn(token.back, operand, {scratch.gradient, rounds(norms)}, job.step.turn);
      if (norms) {
        load_normed(token, operand, h);
        norm_back(operand, h, of_all, weight_sums);
        if (weight_sums != nullptr) weight_sums += norm.width;
      }
      if (ahead) turn(token.back, operand, {scratch.gradient, false}, job.step.turn);
      store(token, operand, h);
    }
  }

  /// Products of the normed values of some heads with the gradients by them, added to the 32 sums of a norm over all heads.
  PHASOR_HD void add_products_of_all(const BackwardToken& token, const BackwardHeads& heads, float factor) const {
    const PrepareOperand& operand = job.step.operands[heads.operand];
    const PrepareNorm& norm = operand.norm;
    read_shared_weights(norm);
    for (std::int64_t h = heads.first; h < operand.heads; h += heads.step) {
      load_gradient(token, heads.operand, h, true);
      if (operand.turns) turn(token.back, operand, {scratch.gradient, rounds(true)}, job.step.turn);
      load_normed(token, operand, h);
      scale(scratch.x, factor, norm.width, false);
      weigh(norm, h);
      add_products(norm, h * norm.width);
    }
  }

 private:
  /// Whether a step's gradient is rounded to the dtype: as if it had been stored, for the step that follows. Storing rounds the last one's.
  PHASOR_HD bool rounds(bool followed) const { return followed && !job.step.kept; }

  PHASOR_HD void read_shared_weights(const PrepareNorm& norm) const {
    if (norm.weight == nullptr || norm.weight_head_stride != 0) return;
    team.each([&](const Lane& lane) { Spans::weights(lane, norm, 0, scratch.weight); });
  }
  PHASOR_HD void scale(float* x, float factor, std::int64_t count, bool rounding) const {
    const NormScale by = {factor, nullptr, false, rounding, job.step.turn.dtype};
    team.each([&](const Lane& lane) { Spans::scale_by_norm(lane, by, count, x); });
  }

  PHASOR_HD const std::byte* gradient_at(const BackwardToken& token, int o, std::int64_t head) const {
    const BackwardOperand& from = job.operands[o];
    return from.gradient + token.batch * from.strides[0] + token.token * from.strides[1] + head * from.strides[2];
  }
  PHASOR_HD std::byte* place_of_head(const BackwardToken& token, const PrepareOperand& operand, std::int64_t head) const {
    const PrepareSink& sink = operand.sinks[0];
    return sink.data + token.batch * sink.strides[0] + token.token * sink.strides[1] + head * sink.strides[2];
  }
  /// Nothing happens to them.
  PHASOR_HD void copy(const BackwardToken& token, const BackwardHeads& heads) const {
    const PrepareOperand& operand = job.step.operands[heads.operand];
    for (std::int64_t h = heads.first; h < operand.heads; h += heads.step) {
      const std::byte* const in = gradient_at(token, heads.operand, h);
      std::byte* const to = place_of_head(token, operand, h);
      team.each([&](const Lane& lane) { Spans::move(lane, operand.sinks[0], in, to); });
    }
  }

  /// What a head adds to the gradient by its token's factor.
  PHASOR_HD void add_to_factor(const BackwardToken& token, int o, std::int64_t head, const NormOfAll& of_all) const {
    const PrepareOperand& operand = job.step.operands[o];
    const bool norms = operand.norm.kind != HeadNorm::Kind::none;
    load_normed(token, operand, head);
    if (norms) norm_ahead(operand.norm, head, of_all);
    if (operand.turns && !job.step.rotation_first) turn(token.ahead, operand, {scratch.x, rounds(true)}, job.ahead);
    const std::byte* const in = gradient_at(token, o, head);
    team.each([&](const Lane& lane) { Spans::widen(lane, job.step.turn.dtype, in, operand.head_dim, scratch.gradient); });
    team.each([&](const Lane& lane) { Spans::add_factor_terms(lane, {scratch.x, scratch.gradient}, operand.head_dim, scratch.products); });
    const double sum = folded_products();
    team.each([&](const Lane& lane) {
      if (lane.at == 0) job.head_sums[(token.batch * job.step.turn.tokens + token.token) * operand.heads + head] = sum;
    });
  }
  /// The norm itself, as the step ahead does it.
  PHASOR_HD void norm_ahead(const PrepareNorm& norm, std::int64_t head, const NormOfAll& of_all) const {
    if (norm.weight != nullptr && norm.weight_head_stride != 0) {
      team.each([&](const Lane& lane) { Spans::weights(lane, norm, head, scratch.weight); });
    }
    const float factor = norm.over_all_heads ? of_all.factor : own_factor(norm);
    const NormScale by = {factor, norm.weight == nullptr ? nullptr : scratch.weight, norm.casts_before_weight, rounds(true),
                          job.step.turn.dtype};
    team.each([&](const Lane& lane) { Spans::scale_by_norm(lane, by, norm.width, scratch.x); });
  }
  /// What a norm multiplies the head by that is loaded.
  PHASOR_HD float own_factor(const PrepareNorm& norm) const {
    clear_sums(team, scratch.sums);
    team.each([&](const Lane& lane) { Spans::add_squares(lane, scratch.x, norm.width, 0, scratch.sums); });
    return norm_factor(norm, folded(team, scratch.sums), norm.width);
  }
  /// The tree of math::fold_partials.
  PHASOR_HD double folded_products() const {
    for (int half = math::kNormPartials / 2; half > 0; half /= 2) {
      team.each([&](const Lane& lane) {
        for (int j = lane.at; j < half; j += lane.of) scratch.products[j] += scratch.products[j + half];
      });
    }
    return scratch.products[0];
  }

  /// The gradient by a head, times the factor of queries.
  PHASOR_HD void load_gradient(const BackwardToken& token, int o, std::int64_t head, bool norms) const {
    const PrepareOperand& operand = job.step.operands[o];
    const std::byte* const in = gradient_at(token, o, head);
    team.each([&](const Lane& lane) { Spans::widen(lane, job.step.turn.dtype, in, operand.head_dim, scratch.gradient); });
    if (!operand.scales) return;
    scale(scratch.gradient, query_factor(job.step, token.batch, token.token), operand.head_dim, rounds(norms || operand.turns));
  }
  /// A head as its norm found it.
  PHASOR_HD void load_normed(const BackwardToken& token, const PrepareOperand& operand, std::int64_t head) const {
    const std::byte* const in =
        operand.in + token.batch * operand.in_strides[0] + token.token * operand.in_strides[1] + head * operand.in_strides[2];
    team.each([&](const Lane& lane) { Spans::widen(lane, job.step.turn.dtype, in, operand.head_dim, scratch.x); });
    if (!operand.turns || !job.step.rotation_first) return;
    turn(token.ahead, operand, {scratch.x, !job.step.kept}, job.ahead);
  }

  struct Turned {
    float* head;
    bool rounds;
  };
  PHASOR_HD void turn(const PreparedRow& row, const PrepareOperand& operand, const Turned& turned, const RotateJob& by) const {
    float* const x = turned.head + operand.rotary_offset;
    const bool stays = by.read == by.write;
    team.each([&](const Lane& lane) { Spans::turn(lane, by, row, {x, stays ? x : scratch.y, turned.rounds}); });
    if (!stays) team.each([&](const Lane& lane) { Spans::copy(lane, scratch.y, 2 * by.pairs, x); });
  }

  /// The gradient, times the weights that are in force.
  PHASOR_HD void weigh(const PrepareNorm& norm, std::int64_t head) const {
    if (norm.weight == nullptr) return;
    if (norm.weight_head_stride != 0) team.each([&](const Lane& lane) { Spans::weights(lane, norm, head, scratch.weight); });
    const NormScale by = {1, scratch.weight, false, false, job.step.turn.dtype};
    team.each([&](const Lane& lane) { Spans::scale_by_norm(lane, by, norm.width, scratch.gradient); });
  }
  PHASOR_HD void add_products(const PrepareNorm& norm, std::int64_t first) const {
    team.each([&](const Lane& lane) { Spans::add_products(lane, {scratch.x, scratch.gradient}, norm.width, first, scratch.sums); });
  }

  PHASOR_HD void norm_back(const PrepareOperand& operand, std::int64_t head, const NormOfAll& of_all, double* weight_sums) const {
    const PrepareNorm& norm = operand.norm;
    const DType dtype = job.step.turn.dtype;
    NormOfAll by = of_all;
    if (!norm.over_all_heads) by.factor = own_factor(norm);
    scale(scratch.x, by.factor, norm.width, false);
    if (weight_sums != nullptr) {
      const WeightTerms terms = {scratch.gradient, scratch.x, norm.casts_before_weight, dtype};
      team.each([&](const Lane& lane) { Spans::add_weight_terms(lane, terms, norm.width, weight_sums); });
    }
    weigh(norm, head);
    if (!norm.over_all_heads) {
      clear_sums(team, scratch.sums);
      add_products(norm, 0);
      by.along = along_of(norm, folded(team, scratch.sums), norm.width);
    }
    const NormBack back = {scratch.x, by.along, by.factor, rounds(operand.turns && job.step.rotation_first), dtype};
    team.each([&](const Lane& lane) { Spans::norm_back(lane, back, norm.width, scratch.gradient); });
  }

  PHASOR_HD void store(const BackwardToken& token, const PrepareOperand& operand, std::int64_t head) const {
    const PrepareSink& sink = operand.sinks[0];
    const bool bf16 = job.step.turn.dtype == DType::bf16;
    const StoreRange range = {place_of_head(token, operand, head), 0, sink.count, false, 1, false, bf16};
    team.each([&](const Lane& lane) { Spans::store(lane, sink, range, scratch.gradient); });
  }
};

}  // namespace phasor::job
