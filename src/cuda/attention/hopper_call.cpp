// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/hopper_call.hpp"

#include "cuda/attention/bias.hpp"

namespace phasor::cuda::attention {
namespace {

/// Tokens in the place of positions, no other rules than distances, no numbers after the softmax, no rotated copies (they are float32).
bool is_simple(const AttentionWork& work) {
  const job::VisibilityJob& see = work.see;
  return work.contents[0].q.data == work.q.data && work.contents[0].k.data == work.k.data && work.content_count == 1 &&
         work.content_shift.data == nullptr && work.sinks.data == nullptr && !work.dropout.present && !work.has_positions[0] &&
         !work.has_positions[1] && see.prefix.size == 0 && see.query_starts.size == 0 && see.key_mask.data == nullptr &&
         work.outputs.out.dtype == work.q.dtype;
}

/// Where a table stops changing: one row for all r >= left, and for all r <= -right.
struct FarRows {
  int64_t left;
  int64_t right;
};
FarRows far_rows(const plan::BiasSource& bias, int64_t last_threshold) {
  const plan::RowRule& rule = bias.row;
  if (bias.scheme != plan::BiasSource::Scheme::table) return {hopper::kNoLimit, hopper::kNoLimit};
  if (rule.kind == plan::RowRule::Kind::shaw) return {rule.left, rule.right};
  if (rule.kind != plan::RowRule::Kind::t5) return {hopper::kNoLimit, hopper::kNoLimit};
  const int64_t last = rule.threshold_count == 0 ? rule.buckets / 2 : last_threshold;
  return {last, rule.both ? last : 0};
}

}  // namespace

std::optional<hopper::Forward> hopper_forward(const AttentionWork& work) {
  if (!is_simple(work) || work.term_count > 1) return std::nullopt;
  hopper::Forward f;
  f.q = work.q;
  f.k = work.k;
  f.v = work.v;
  f.out = work.outputs.out;
  f.lse = static_cast<float*>(work.outputs.lse.data);
  for (std::size_t axis = 0; axis < 3; ++axis) f.lse_strides[axis] = work.outputs.lse.strides[axis];
  f.scale = work.scale;
  f.softcap = work.softcap;
  f.causal = work.see.causal;
  f.left = work.see.left;
  f.right = work.see.right;
  if (work.term_count == 0) return f;
  const BiasWork& bias = work.terms[0].bias;
  // Of queries that all stand at 0 nothing is a function of the distance; with a NaN in the place of a row nothing is right anyway.
  const bool by_key = bias_distance(bias.bias, 1, 0) == 0;
  if (work.terms[0].use != TermUse::bias || bias.gate.data != nullptr || bias.distances == 0 || by_key) return std::nullopt;
  f.diagonal = static_cast<const float*>(bias.diagonal);
  f.diagonal_stride = bias.distances;
  f.first_distance = bias.first_distance;
  f.distances = bias.distances;
  const FarRows far = far_rows(bias.bias, bias.last_threshold);
  f.far_left = far.left;
  f.far_right = far.right;
  return f;
}

}  // namespace phasor::cuda::attention
