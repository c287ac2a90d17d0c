// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/hopper_call.hpp"

#include "cuda/attention/bias.hpp"
#include "cuda/attention/hopper/tiles.hpp"
#include "cuda/attention/place.hpp"

namespace phasor::cuda::attention {
namespace {

/// One product of q and k in their own dtype. Rotated copies are so in a numerics profile; exact ones are float32, as attention.hpp says,
/// and no tensor map has them.
bool has_plain_scores(const AttentionWork& work) {
  const Content& content = work.contents[0];
  return work.content_count == 1 && content.q.dtype == work.q.dtype && content.k.dtype == work.k.dtype && !work.decay.present;
}
/// Tokens in the place of positions, no other rules than distances, no numbers after the softmax.
bool is_simple(const AttentionWork& work) {
  const job::VisibilityJob& see = work.see;
  if ((work.has_positions[0] || work.has_positions[1]) && goes_by_distances(work)) return false;
  return has_plain_scores(work) && work.sinks.data == nullptr && !work.dropout.present && see.prefix.size == 0 &&
         see.query_starts.size == 0 && see.key_mask.data == nullptr && work.outputs.out.dtype == work.q.dtype;
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

/// Tables of Shaw's keys, of Transformer-XL, XLNet and Conformers: rows by distance that meet q as it is given, in its dtype, and what is
/// added to it; and Inkling's, which meet features.
std::optional<hopper::Forward> with_table(hopper::Forward f, const AttentionWork& work) {
  const TableWork& term = work.terms[0].table;
  const bool by_distance = term.use == RowUse::query && term.kind == RowKind::distance && !term.map.has_buckets;
  if (!by_distance || (!term.own_features && f.q.data != work.q.data)) return std::nullopt;
  f.table = term.table;
  if (term.own_features) f.features = term.features;
  f.table_shift = term.shift;
  f.content_shift = work.content_shift;
  f.zero_outside = term.map.zero_outside;
  f.table_left = term.map.left;
  f.table_right = term.map.right;
  f.table_scale = term.scale;
  return f;
}

}  // namespace

bool goes_by_distances(const AttentionWork& work) {
  const job::VisibilityJob& see = work.see;
  return see.causal || see.left != INT64_MAX || see.right != INT64_MAX || work.term_count > 0;
}

std::optional<hopper::Forward> hopper_forward(const AttentionWork& work) {
  if (!is_simple(work) || work.term_count > 1) return std::nullopt;
  hopper::Forward f;
  f.q = work.contents[0].q;
  f.k = work.contents[0].k;
  f.v = work.v;
  f.out = work.outputs.out;
  f.lse = static_cast<float*>(work.outputs.lse.data);
  for (std::size_t axis = 0; axis < 3; ++axis) f.lse_strides[axis] = work.outputs.lse.strides[axis];
  f.scale = work.scale;
  f.softcap = work.softcap;
  f.causal = work.see.causal;
  f.left = work.see.left;
  f.right = work.see.right;
  if (work.term_count == 1 && work.terms[0].use == TermUse::table) return with_table(f, work);
  if (work.content_shift.data != nullptr) return std::nullopt;
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
  f.skip = work.certified_skip;  // checked: of a falling ALiBi alone; one that rises leaves nothing out
  return f;
}

namespace {

/// From which distance on, in a direction, a rule has one row; rows only rise or fall.
int64_t constant_from(const job::RowMap& map, int64_t direction) {
  constexpr int64_t kFarthest = int64_t{1} << 28;
  const int64_t last = row_by_distance(map, direction * kFarthest);
  int64_t low = 0, high = kFarthest;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (row_by_distance(map, direction * middle) == last) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// A table by distance that meets queries or keys as they are given; rows that come again are left to others.
bool is_by_distance(const AttentionWork& work, const TermWork& term) {
  using Kind = plan::RowRule::Kind;
  const TableWork& table = term.table;
  const plan::RowRule& rule = table.map.buckets;
  const bool comes_again = rule.kind == Kind::deberta && !rule.rising;
  if (table.map.has_buckets && (comes_again || rule.kind == Kind::window || rule.kind == Kind::none)) return false;
  const bool of_queries = table.use == RowUse::query, of_keys = table.use == RowUse::key;
  const bool as_given = of_queries ? work.contents[0].q.data == work.q.data : work.contents[0].k.data == work.k.data;
  return term.use == TermUse::table && (of_queries || of_keys) && as_given && table.kind == RowKind::distance && !table.map.zero_outside &&
         !table.own_features && table.shift.data == nullptr;
}
/// One table of either side: what the backward makes of DeBERTa. But for one of queries whose clipped rows its kernels keep in shared
/// memory.
bool has_tables_by_distance(const AttentionWork& work) {
  if (work.term_count < 1 || work.term_count > 2 || work.content_shift.data != nullptr) return false;
  for (int t = 0; t < work.term_count; ++t) {
    if (!is_by_distance(work, work.terms[t])) return false;
  }
  if (work.term_count == 2) return work.terms[0].table.use != work.terms[1].table.use;
  const TableWork& table = work.terms[0].table;
  return table.use == RowUse::key || table.map.has_buckets || table.table.shape[1] > hopper::Clips::kMostRows;
}
/// `rows` has its lists on the host.
hopper::DistanceTable distance_table(const TableWork& term, const job::RowMap& rows) {
  return {.rows = term.table,
          .map = term.map,
          .scale = term.scale,
          .left = constant_from(rows, 1),
          .right = constant_from(rows, -1),
          .gradient = static_cast<float*>(term.gradient.data)};
}
/// Tables are not the forward's then.
std::optional<hopper::Forward> forward_of_backward(const AttentionWork& work, bool tables) {
  if (!tables) return hopper_forward(work);
  if (!is_simple(work)) return std::nullopt;
  AttentionWork without = work;
  without.term_count = 0;
  return hopper_forward(without);
}

}  // namespace

std::optional<hopper::Backward> hopper_backward(const AttentionWork& work, const job::AttentionBackwardJob& job) {
  const AttentionSaved& saved = job.saved;
  const auto is_float = [](const ConstTensorView& v) { return v.data == nullptr || v.dtype == DType::f32; };
  if (!is_float(saved.lse) || !is_float(saved.lse_gradient)) return std::nullopt;
  AttentionWork done = work;  // its outputs are what the forward saved
  done.outputs.out = {const_cast<void*>(saved.out.data), saved.out.dtype, saved.out.shape, saved.out.strides, saved.out.device};
  const bool tables = has_tables_by_distance(done);
  const std::optional<hopper::Forward> forward = forward_of_backward(done, tables);
  // Its kernels do not know the way back from rotated copies to what was rotated.
  const bool copied = work.contents[0].q.data != work.q.data || work.contents[0].k.data != work.k.data;
  if (!forward || copied) return std::nullopt;
  hopper::Backward b;
  b.forward = *forward;
  b.out = saved.out;
  b.out_gradient = saved.out_gradient;
  b.lse = static_cast<const float*>(saved.lse.data);
  b.lse_gradient = static_cast<const float*>(saved.lse_gradient.data);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    b.lse_strides[axis] = saved.lse.strides[axis];
    b.lse_gradient_strides[axis] = saved.lse_gradient.strides[axis];
  }
  b.q = job.q;
  b.k = job.k;
  b.v = job.v;
  if (tables) {
    for (int t = 0; t < work.term_count; ++t) {
      const TableWork& table = work.terms[t].table;
      b.tables[table.use == RowUse::key ? 1 : 0] = distance_table(table, job.forward.terms[t].table.rows);
    }
  } else if (forward->table.data != nullptr) {
    b.table = static_cast<float*>(work.terms[0].table.gradient.data);
  } else if (work.term_count > 0) {
    b.diagonal = static_cast<float*>(work.terms[0].bias.gradient.data);
  }
  b.deterministic = job.deterministic;
  return b;
}

}  // namespace phasor::cuda::attention
