// SPDX-License-Identifier: Apache-2.0
// One token made ready: the steps of every head in their order, by a team of lanes that waits between the steps. One body for a CPU (a team
// of one, whose steps use registers) and a GPU (a warp). A team has each(body), which runs body(lane) for its lanes and waits for all, and
// its Spans, which do the steps; kAlone says that it has one lane.
#pragma once

#include "job/prepare/places.hpp"
#include "job/prepare/spans.hpp"

namespace phasor::job {

/// Memory of a team: floats for a head (x), for its rotated part where it changes pairing (y), for a norm's weights, and partial sums.
struct PrepareScratch {
  float* x;
  float* y;
  float* weight;
  float* sums;  // kNormPartials
};

/// A token and what is known of it.
struct PreparedToken {
  std::int64_t batch;
  std::int64_t token;
  TokenPlace place;  // in the caches
  PreparedRow row;   // of head 0
  std::int64_t row_head_stride;
};

/// Heads first, first + step, ... of an operand, and the factor of a norm over all its heads (TokenMaker::factor_of_all), which is asked
/// for before any of them is written: q may be in place.
struct PreparedHeads {
  const PrepareOperand& operand;
  std::int64_t first;
  std::int64_t step;
  float over_all;
};

PHASOR_HD inline bool norms_over_all(const PrepareOperand& operand) {
  return operand.norm.kind != HeadNorm::Kind::none && operand.norm.over_all_heads;
}

/// A scale that is made of values whose largest magnitude is `most`.
struct MadeScale {
  float scale;
  math::u32 code;  // as ue8m0
  float applied;   // what a value is divided by or multiplied with
};
PHASOR_HD inline MadeScale made_scale_of(const PrepareSink& sink, float most) {
  float scale = math::made_scale(most, largest_of(sink.storage), sink.least_scale);
  const math::u32 code = math::ue8m0_of(scale);
  if (sink.powers_of_two) scale = math::value_of_ue8m0(code);
  return {scale, code, sink.multiplies ? 1.0F / scale : scale};
}
PHASOR_HD inline void write_scale(const PrepareSink& sink, const MadeScale& made, std::byte* to) {
  if (sink.powers_of_two) *to = static_cast<std::byte>(made.code);
  if (!sink.powers_of_two) *reinterpret_cast<float*>(to) = made.scale;
}
/// What a norm multiplies a head by.
PHASOR_HD inline float norm_factor(HeadNorm::Kind kind, float epsilon, float sum, std::int64_t count) {
  return kind == HeadNorm::Kind::rms ? math::rms_factor(sum, count, epsilon) : math::l2_factor(sum, epsilon);
}
PHASOR_HD inline float norm_factor(const PrepareNorm& norm, float sum, std::int64_t count) {
  return norm_factor(norm.kind, norm.epsilon, sum, count);
}
/// Whether a step's result is rounded to the dtype: what follows reads it as if it had been stored. Where the last step's is stored in this
/// dtype, storing rounds it.
PHASOR_HD inline bool rounds_step(const PrepareJob& job, const PrepareOperand& operand, bool followed) {
  return !job.kept && (followed || operand.rounds_last);
}
/// The factor on a token's queries.
PHASOR_HD inline float query_factor(const PrepareJob& job, std::int64_t batch, std::int64_t token) {
  if (job.query_factors == nullptr) return math::plain_nan(job.query_scale);
  return math::plain_nan(job.query_factors[batch * job.factor_strides[0] + token * job.factor_strides[1]] * job.query_scale);
}

template <class Team>
PHASOR_HD void clear_sums(Team& team, float* sums) {
  team.each([&](const typename Team::Lane& lane) {
    for (int j = lane.at; j < math::kNormPartials; j += lane.of) sums[j] = 0;
  });
}
/// The tree of math::fold_partials: by lanes, or where there is one, by registers.
template <class Team>
PHASOR_HD float folded(Team& team, float* sums) {
  if constexpr (Team::kAlone) {
    return Team::Spans::fold(sums);
  } else {
    for (int half = math::kNormPartials / 2; half > 0; half /= 2) {
      team.each([&](const typename Team::Lane& lane) {
        for (int j = lane.at; j < half; j += lane.of) sums[j] += sums[j + half];
      });
    }
    return sums[0];
  }
}

template <class Team>
struct TokenMaker {
  using Spans = typename Team::Spans;
  using Lane = typename Team::Lane;

  const PrepareJob& job;
  PrepareScratch scratch;
  Team& team;

  PHASOR_HD void make(const PreparedToken& token, const PreparedHeads& heads) const {
    const PrepareOperand& operand = heads.operand;
    const TokenPlace place = operand.placed ? token.place : TokenPlace{token.batch, token.token};
    if (place.block < 0) return;
    if (operand.copies) return copy(token, heads, place);
    const PrepareNorm& norm = operand.norm;
    const bool norms = norm.kind != HeadNorm::Kind::none;
    if (norms && norm.weight != nullptr && norm.weight_head_stride == 0) read_weights(norm, 0);
    const float query = operand.scales ? query_factor(job, token.batch, token.token) : 1;
    for (std::int64_t h = heads.first; h < operand.heads; h += heads.step) {
      load(token, operand, h);
      if (norms && norm.weight != nullptr && norm.weight_head_stride != 0) read_weights(norm, h);
      if (norms && !job.rotation_first) apply_norm(operand, heads.over_all, operand.turns || operand.scales);
      if (operand.turns) turn(token, operand, h, (norms && job.rotation_first) || operand.scales);
      if (norms && job.rotation_first) apply_norm(operand, heads.over_all, operand.scales);
      if (operand.scales) multiply(operand, query);
      for (int s = 0; s < operand.sink_count; ++s) store(operand.sinks[s], place, h);
    }
  }

  /// What a norm over all heads multiplies by; 0 where there is none.
  PHASOR_HD float factor_of_all(const PreparedToken& token, const PrepareOperand& operand) const {
    if (!norms_over_all(operand)) return 0;
    const std::int64_t width = operand.norm.width;
    clear_sums(team, scratch.sums);
    for (std::int64_t h = 0; h < operand.heads; ++h) {
      load(token, operand, h);
      team.each([&](const Lane& lane) { Spans::add_squares(lane, scratch.x, width, h * width, scratch.sums); });
    }
    return norm_factor(operand.norm, folded(team, scratch.sums), operand.heads * width);
  }

 private:
  PHASOR_HD const std::byte* head_at(const PreparedToken& token, const PrepareOperand& operand, std::int64_t head) const {
    return operand.in + token.batch * operand.in_strides[0] + token.token * operand.in_strides[1] + head * operand.in_strides[2];
  }
  PHASOR_HD void load(const PreparedToken& token, const PrepareOperand& operand, std::int64_t head) const {
    const std::byte* const in = head_at(token, operand, head);
    team.each([&](const Lane& lane) { Spans::widen(lane, job.turn.dtype, in, operand.head_dim, scratch.x); });
  }
  PHASOR_HD void copy(const PreparedToken& token, const PreparedHeads& heads, const TokenPlace& place) const {
    for (std::int64_t h = heads.first; h < heads.operand.heads; h += heads.step) {
      const std::byte* const in = head_at(token, heads.operand, h);
      for (int s = 0; s < heads.operand.sink_count; ++s) {
        const PrepareSink& sink = heads.operand.sinks[s];
        std::byte* const to = sink.data + place.block * sink.strides[0] + place.token * sink.strides[1] + h * sink.strides[2];
        team.each([&](const Lane& lane) { Spans::move(lane, sink, in + sink.first * bytes_of(sink.storage), to); });
      }
    }
  }
  PHASOR_HD void read_weights(const PrepareNorm& norm, std::int64_t head) const {
    team.each([&](const Lane& lane) { Spans::weights(lane, norm, head, scratch.weight); });
  }
  PHASOR_HD bool rounds(const PrepareOperand& operand, bool followed) const { return rounds_step(job, operand, followed); }

  PHASOR_HD void apply_norm(const PrepareOperand& operand, float over_all, bool followed) const {
    const PrepareNorm& norm = operand.norm;
    float factor = over_all;
    if (!norm.over_all_heads) {
      clear_sums(team, scratch.sums);
      team.each([&](const Lane& lane) { Spans::add_squares(lane, scratch.x, norm.width, 0, scratch.sums); });
      factor = norm_factor(norm, folded(team, scratch.sums), norm.width);
    }
    const NormScale by = {factor, norm.weight == nullptr ? nullptr : scratch.weight, norm.casts_before_weight, rounds(operand, followed),
                          job.turn.dtype};
    team.each([&](const Lane& lane) { Spans::scale_by_norm(lane, by, norm.width, scratch.x); });
  }

  PHASOR_HD void turn(const PreparedToken& token, const PrepareOperand& operand, std::int64_t head, bool followed) const {
    const std::int64_t at = head * token.row_head_stride;
    const PreparedRow row = {
        {token.row.cos[0] + at, token.row.cos[1] + at}, {token.row.sin[0] + at, token.row.sin[1] + at}, token.row.identities};
    float* const x = scratch.x + operand.rotary_offset;
    const bool stays = job.turn.read == job.turn.write;
    const bool rounding = rounds(operand, followed);
    team.each([&](const Lane& lane) { Spans::turn(lane, job.turn, row, {x, stays ? x : scratch.y, rounding}); });
    if (!stays) team.each([&](const Lane& lane) { Spans::copy(lane, scratch.y, 2 * job.turn.pairs, x); });
  }

  PHASOR_HD void multiply(const PrepareOperand& operand, float factor) const {
    const NormScale by = {factor, nullptr, false, rounds(operand, false), job.turn.dtype};
    team.each([&](const Lane& lane) { Spans::scale_by_norm(lane, by, operand.head_dim, scratch.x); });
  }

  PHASOR_HD void store(const PrepareSink& sink, const TokenPlace& place, std::int64_t head) const {
    StoreRange range = {sink.data + place.block * sink.strides[0] + place.token * sink.strides[1] + head * sink.strides[2],
                        0,
                        sink.count,
                        sink.scales != CacheScales::Kind::none,
                        sink.scale,
                        sink.multiplies,
                        job.turn.dtype == DType::bf16 && sink.scales == CacheScales::Kind::none};
    const float* const x = scratch.x + sink.first;
    if (sink.scales != CacheScales::Kind::made) {
      if (sink.scale_data != nullptr && range.scales) {
        range.scale = *reinterpret_cast<const float*>(sink.scale_data + head * sink.scale_strides[2]);
      }
      team.each([&](const Lane& lane) { Spans::store(lane, sink, range, x); });
      return;
    }
    std::byte* const scales =
        sink.scale_data + place.block * sink.scale_strides[0] + place.token * sink.scale_strides[1] + head * sink.scale_strides[2];
    for (range.first = 0; range.first < sink.count; range.first += sink.group) {
      range.count = sink.count - range.first < sink.group ? sink.count - range.first : sink.group;
      store_group(sink, range, x + range.first, scales + range.first / sink.group * sink.scale_strides[3]);
    }
  }

  /// Channels that share a scale, which is made of them.
  PHASOR_HD void store_group(const PrepareSink& sink, StoreRange range, const float* x, std::byte* scale_at) const {
    team.each([&](const Lane& lane) { scratch.sums[lane.at] = Spans::largest(lane, x, range.count); });
    float most = 0;
    for (int j = 0; j < team.lanes(); ++j) most = scratch.sums[j] > most ? scratch.sums[j] : most;
    const MadeScale made = made_scale_of(sink, most);
    range.scale = made.applied;
    team.each([&](const Lane& lane) {
      if (lane.at == 0) write_scale(sink, made, scale_at);
      Spans::store(lane, sink, range, x);
    });
  }
};

}  // namespace phasor::job
