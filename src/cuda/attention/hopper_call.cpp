// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/hopper_call.hpp"

#include <algorithm>

#include "cuda/attention/bias.hpp"
#include "cuda/attention/hopper/tiles.hpp"
#include "cuda/attention/hopper/work.hpp"
#include "cuda/attention/place.hpp"

namespace phasor::cuda::attention {
namespace {

/// One product of q and k, or of their rotated copies, in q's dtype.
bool has_plain_scores(const AttentionWork& work) {
  const Content& content = work.contents[0];
  return work.content_count == 1 && content.q.dtype == work.q.dtype && content.k.dtype == work.k.dtype && !work.decay.present;
}
/// Tokens in the place of positions, no other rules than distances, no numbers after the softmax.
bool is_simple(const AttentionWork& work) {
  const job::VisibilityJob& see = work.see;
  if (work.has_positions[0] || work.has_positions[1]) return false;
  return has_plain_scores(work) && work.sinks.data == nullptr && !work.dropout.present && see.prefix.size == 0 &&
         see.query_starts.size == 0 && see.key_mask.data == nullptr && work.outputs.out.dtype == work.q.dtype;
}

/// Where rows stop changing: one row for all r >= left, and for all r <= -right.
struct FarRows {
  int64_t left;
  int64_t right;
};
FarRows far_rows(const job::RowMap& map, int64_t last_threshold) {
  using Kind = plan::RowRule::Kind;
  const plan::RowRule& rule = map.buckets;
  if (!map.has_buckets) return {map.left + (map.zero_outside ? 1 : 0), map.right + (map.zero_outside ? 1 : 0)};
  switch (rule.kind) {
    case Kind::t5: {
      const int64_t last = std::max(rule.buckets / 2, last_threshold);
      return {last, rule.both ? last : 0};
    }
    case Kind::deberta: {
      const int64_t last = std::max(rule.mid + 1, last_threshold);
      const int64_t cut = rule.cut ? std::min(last, rule.max_distance - 1) : last;
      return {cut, cut};
    }
    case Kind::deberta_clip:
      return {rule.max_distance - 1, rule.max_distance};
    case Kind::shaw:
      return {rule.left, rule.right};
    case Kind::window:
      return {rule.rows - rule.rows / 2, rule.rows / 2 + 1};
    case Kind::none:
      break;
  }
  return {0, 0};
}

FarRows far_rows(const plan::BiasSource& bias, int64_t last_threshold) {
  using Kind = plan::RowRule::Kind;
  const bool ends = bias.row.kind == Kind::t5 || bias.row.kind == Kind::shaw;
  if (bias.scheme != plan::BiasSource::Scheme::table || !ends) return {hopper::kNoLimit, hopper::kNoLimit};
  return far_rows(job::RowMap{.has_buckets = true, .buckets = bias.row}, last_threshold);
}

/// Shaw's values: rows by distance, which end where those of keys do.
bool add_value_table(const TableWork& term, hopper::Forward& f) {
  const bool alone = f.table.data == nullptr;
  if (f.value_table.data != nullptr || term.map.zero_outside) return false;
  if (!alone && (term.map.left != f.table_left || term.map.right != f.table_right)) return false;
  f.value_table = term.table;
  f.table_left = term.map.left;
  f.table_right = term.map.right;
  return true;
}
/// Tables of Shaw's keys, of Transformer-XL, XLNet and Conformers: rows by distance that meet q as it is given, in its dtype, and what is
/// added to it; and Inkling's, which meet features.
bool add_key_table(const TableWork& term, const AttentionWork& work, hopper::Forward& f) {
  if (f.table.data != nullptr || (!term.own_features && f.q.data != work.q.data)) return false;
  f.table = term.table;
  if (term.own_features) f.features = term.features;
  f.table_shift = term.shift;
  f.content_shift = work.content_shift;
  f.zero_outside = term.map.zero_outside;
  f.table_left = term.map.left;
  f.table_right = term.map.right;
  f.table_scale = term.scale;
  return true;
}
/// One table that meets queries, one that is added to values, or either.
std::optional<hopper::Forward> with_tables(hopper::Forward f, const AttentionWork& work) {
  for (const RowUse use : {RowUse::query, RowUse::value}) {
    for (int t = 0; t < work.term_count; ++t) {
      const TableWork& term = work.terms[t].table;
      const bool by_distance = work.terms[t].use == TermUse::table && term.kind == RowKind::distance && !term.map.has_buckets;
      if (!by_distance || (term.use != RowUse::query && term.use != RowUse::value)) return std::nullopt;
      if (term.use != use) continue;
      if (!(use == RowUse::query ? add_key_table(term, work, f) : add_value_table(term, f))) return std::nullopt;
    }
  }
  if (f.table.data == nullptr) f.content_shift = work.content_shift;  // which is not taken without one
  return f;
}

/// One table that queries meet as they are given, one that keys meet, or both (DeBERTa): rows by distance, in the dtype of queries.
std::optional<hopper::Forward> with_strips(hopper::Forward f, const AttentionWork& work) {
  if (work.content_shift.data != nullptr) return std::nullopt;
  for (int t = 0; t < work.term_count; ++t) {
    const TableWork& term = work.terms[t].table;
    const bool by_distance =
        work.terms[t].use == TermUse::table && term.kind == RowKind::distance && (term.use == RowUse::query || term.use == RowUse::key);
    if (!by_distance || term.own_features || term.shift.data != nullptr) return std::nullopt;
    const bool of_queries = term.use == RowUse::query;
    hopper::ByDistance& side = of_queries ? f.of_queries : f.of_keys;
    const bool as_given = of_queries ? f.q.data == work.q.data : f.k.data == work.k.data;
    if (!as_given || side.table.data != nullptr) return std::nullopt;
    const FarRows far = far_rows(term.map, term.last_threshold);
    side = {term.table, term.map, term.scale, far.left, far.right};
  }
  return f;
}
/// Whether a table that queries meet is longer than what is kept of all products, but clipped so early that few tiles have more than its
/// ends.
bool is_narrow(const hopper::Forward& f) { return hopper::has_windows(f) && 2 * (f.table_left + f.table_right) <= f.k.shape[1]; }
/// Strips take one table of queries, too: where it is narrow, or its rows are those of buckets.
std::optional<hopper::Forward> with_terms(const hopper::Forward& f, const AttentionWork& work) {
  const std::optional<hopper::Forward> clipped = with_tables(f, work);
  if (clipped && !is_narrow(*clipped)) return clipped;
  const std::optional<hopper::Forward> strips = with_strips(f, work);
  return strips && (!clipped || hopper::takes(*strips, hopper::kComputeMajor)) ? strips : clipped;
}

}  // namespace

std::optional<hopper::Forward> hopper_forward(const AttentionWork& work) {
  if (!is_simple(work) || work.term_count > 2) return std::nullopt;
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
  if (work.term_count == 2 || (work.term_count == 1 && work.terms[0].use == TermUse::table)) return with_terms(f, work);
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

/// Whether every distance that is seen has a row.
bool has_all_rows(const AttentionWork& work, const job::RowMap& map) {
  const job::VisibilityJob& see = work.see;
  const int64_t right = see.causal ? std::min<int64_t>(see.right, 0) : see.right;
  return std::min(see.left, work.shape.keys - 1) <= map.left && std::min(right, work.shape.queries - 1) <= map.right;
}
/// A table by distance that meets queries or keys as they are given; rows that come again, or neither rise nor fall, are left to others.
bool is_by_distance(const AttentionWork& work, const TermWork& term) {
  using Kind = plan::RowRule::Kind;
  const TableWork& table = term.table;
  const plan::RowRule& rule = table.map.buckets;
  const bool comes_again = (rule.kind == Kind::deberta && !rule.rising) || (rule.kind == Kind::t5 && rule.both);  // or is in no order
  if (table.map.has_buckets && (comes_again || rule.kind == Kind::window || rule.kind == Kind::none)) return false;
  const bool of_queries = table.use == RowUse::query, of_keys = table.use == RowUse::key;
  const bool as_given = of_queries ? work.contents[0].q.data == work.q.data : work.contents[0].k.data == work.k.data;
  return term.use == TermUse::table && (of_queries || of_keys) && as_given && table.kind == RowKind::distance &&
         (!table.map.zero_outside || has_all_rows(work, table.map)) && !table.own_features;
}
/// One table of either side, and what is added to queries: what the backward makes of DeBERTa, and of Transformer-XL. But for one of
/// queries whose clipped rows its kernels keep in shared memory.
bool has_tables_by_distance(const AttentionWork& work) {
  if (work.term_count < 1 || work.term_count > 2) return false;
  for (int t = 0; t < work.term_count; ++t) {
    if (!is_by_distance(work, work.terms[t])) return false;
  }
  if (work.term_count == 2) return work.terms[0].table.use != work.terms[1].table.use;
  const TableWork& table = work.terms[0].table;
  const bool shifted = work.content_shift.data != nullptr || table.shift.data != nullptr;
  return shifted || table.use == RowUse::key || table.map.has_buckets || table.map.zero_outside ||
         table.table.shape[1] > hopper::Clips::kMostRows;
}
/// `rows` has its lists on the host.
hopper::DistanceTable distance_table(const TableWork& term, job::RowMap rows) {
  job::RowMap map = term.map;
  map.zero_outside = rows.zero_outside = false;  // nobody sees what is outside
  return {.rows = term.table,
          .map = map,
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
  without.content_shift = {};
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
  if (!forward || forward->value_table.data != nullptr) return std::nullopt;
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
      if (table.shift.data != nullptr) b.shifts[hopper::kOfRows] = {table.shift, static_cast<float*>(table.shift_gradient.data)};
    }
    b.shifts[hopper::kOfContent] = {work.content_shift, static_cast<float*>(job.content_shift.data)};
  } else if (forward->table.data != nullptr) {
    b.table = static_cast<float*>(work.terms[0].table.gradient.data);
  } else if (work.term_count > 0) {
    b.diagonal = static_cast<float*>(work.terms[0].bias.gradient.data);
  }
  b.deterministic = job.deterministic;
  return b;
}

}  // namespace phasor::cuda::attention
