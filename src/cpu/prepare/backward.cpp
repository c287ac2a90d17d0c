// SPDX-License-Identifier: Apache-2.0
// The token loop of gradients: a task is a run of tokens, whose partial sums of weights it makes; then the partial sums are added.
#include <algorithm>

#include "cpu/common/runner.hpp"
#include "cpu/prepare/kernels.hpp"
#include "cpu/prepare/rows.hpp"
#include "cpu/prepare/run.hpp"
#include "job/prepare/weight_sums.hpp"

namespace phasor::cpu {
namespace {

class BackwardTask {
 public:
  BackwardTask(const job::PrepareBackwardJob& job, const RotaryKernels& rotary, const PrepareKernels& heads)
      : job_(job), heads_(heads), rows_(job.step, rotary) {
    for (int o = 0; o < job.step.operand_count; ++o) turns_ |= job.step.operands[o].turns;
  }

  void make(std::int64_t run) {
    run_ = run;
    if (job_.partials != nullptr) std::fill_n(job_.partials + run * job_.run_partials, job_.run_partials, 0.0);
    const std::int64_t tokens = job_.step.turn.tokens;
    const std::int64_t end = std::min((run + 1) * job::kWeightTokens, job_.step.turn.batch * tokens);
    for (std::int64_t row = run * job::kWeightTokens; row < end;) {
      const std::int64_t batch = row / tokens;
      const std::int64_t first = row % tokens;
      const std::int64_t n = std::min({end - row, tokens - first, rows_.most(end - row)});
      const std::int64_t begin = row;
      row += job::has_rows_by_head(rows_.source_of(batch, first)) ? make_by_head(batch, first) : make_together(batch, first, n);
      for (std::int64_t r = begin; job_.by_factors != nullptr && r < row; ++r) job::store_factor(job_, r);
    }
  }

 private:
  /// Up to `count` tokens with one spec; how many it were.
  std::int64_t make_together(std::int64_t batch, std::int64_t first, std::int64_t count) {
    const std::int64_t same = rows_.with_one_spec(batch, first, count);
    const job::RowSource& source = rows_.source_of(batch, first);
    if (turns_) rows_.fill(source_from(source, batch, first), same);
    for (std::int64_t r = 0; r < same; ++r) {
      const job::BackwardToken token = token_at(batch, first + r, source, r);
      for (int o = 0; o < job_.step.operand_count; ++o) {
        const job::BackwardHeads all = {o, 0, 1};
        const job::NormOfAll of_all =
            norm_of_all(token, o, [&](float factor, float* sums) { heads_.add_products(job_, token, all, factor, sums); });
        heads_.make_gradients(job_, token, all, of_all, weight_sums(o));
      }
    }
    return same;
  }

  /// One token whose heads turn by ladders of their own.
  std::int64_t make_by_head(std::int64_t batch, std::int64_t token) {
    const job::RowSource source = source_from(rows_.source_of(batch, token), batch, token);
    for (int o = 0; o < job_.step.operand_count; ++o) {
      const std::int64_t heads = job_.step.operands[o].heads;
      const auto each_head = [&](const auto& body) {
        for (std::int64_t h = 0; h < heads; ++h) {
          if (job_.step.operands[o].turns) rows_.fill(source_of_head(source, h), 1);
          body(token_at(batch, token, source, 0), job::BackwardHeads{o, h, heads});
        }
      };
      const job::BackwardToken without_rows = {batch, token, {}, {}};
      const job::NormOfAll of_all = norm_of_all(without_rows, o, [&](float factor, float* sums) {
        each_head([&](const job::BackwardToken& at, const job::BackwardHeads& head) { heads_.add_products(job_, at, head, factor, sums); });
      });
      each_head([&](const job::BackwardToken& at, const job::BackwardHeads& head) {
        double* const sums = weight_sums(o);
        heads_.make_gradients(job_, at, head, of_all, sums == nullptr ? nullptr : sums + head.first * job_.step.operands[o].norm.width);
      });
    }
    return 1;
  }

  /// With row `r` of those that are filled.
  job::BackwardToken token_at(std::int64_t batch, std::int64_t token, const job::RowSource& source, std::int64_t r) {
    if (!turns_) return {batch, token, {}, {}};
    const job::PreparedRow back = rows_.row_at(source, r);
    const std::int64_t pairs = job_.step.turn.pairs;
    if (job::turns_ahead(job_)) {
      std::transform(back.sin[1], back.sin[1] + pairs, ahead_[0], [](float sine) { return -sine; });
      std::transform(back.sin[0], back.sin[0] + pairs, ahead_[1], [](float sine) { return -sine; });
    }
    const bool differ = back.sin[0] != back.sin[1];
    return {batch, token, back, job::opposite_row(back, ahead_[0], differ ? ahead_[1] : ahead_[0])};
  }

  /// add(factor, sums) adds the products of all heads.
  template <class Add>
  job::NormOfAll norm_of_all(const job::BackwardToken& token, int o, const Add& add) const {
    const job::PrepareOperand& operand = job_.step.operands[o];
    if (!job::norms_over_all(operand)) return {};
    const float factor = heads_.factor(job_.step, {token.batch, token.token, {}, {}, 0}, operand);
    alignas(64) float sums[math::kNormPartials] = {};
    add(factor, sums);
    return {factor, job::along_of(operand.norm, math::fold_partials(sums), operand.heads * operand.norm.width)};
  }

  double* weight_sums(int o) const { return job_.operands[o].by_weight == nullptr ? nullptr : job::partials_of(job_, o, run_); }

  const job::PrepareBackwardJob& job_;
  const PrepareKernels& heads_;
  std::int64_t run_ = 0;
  bool turns_ = false;
  TokenRows rows_;
  alignas(64) float ahead_[2][job::kMaxPreparedChannels / 2];  // sines of the rotation itself
};

/// Eight weights: the partial sums are read line by line.
void add_weights(const job::PrepareBackwardJob& job, const job::WeightSpan& span) {
  double sums[job::kWeightsTogether][math::kNormPartials] = {};
  const std::int64_t entries = job::weight_entries(job, span.operand);
  for (std::int64_t e = 0; e < entries; ++e) {
    for (std::int64_t w = 0; w < span.count; ++w) {
      sums[w][e % math::kNormPartials] += job::weight_entry(job, span.operand, span.first + w, e);
    }
  }
  for (std::int64_t w = 0; w < span.count; ++w) job::store_weight(job, span.operand, span.first + w, math::fold_partials(sums[w]));
}

}  // namespace

Status run_prepare_backward(job::PrepareBackwardJob& job, const Execution& execution) {
  job::PrepareJob prepared = job::only_prepared(job);
  if (prepared.operand_count > 0) {
    if (Status s = run_prepare(prepared, execution); !s) return s;
  }
  const job::PrepareBackwardJob rest = job::without_only_prepared(job);
  if (rest.step.operand_count == 0) return {};
  const Result<const RotaryKernels*> rotary = active_kernels();
  if (!rotary.ok()) return rotary.status();
  const Result<const PrepareKernels*> heads = active_prepare();
  if (!heads.ok()) return heads.status();
  run_each(execution.runner, rest.runs, [&](std::int64_t run) { BackwardTask(rest, **rotary, **heads).make(run); });
  run_each(execution.runner, job::weight_spans(rest), [&](std::int64_t index) { add_weights(rest, job::weight_span(rest, index)); });
  return {};
}

}  // namespace phasor::cpu
