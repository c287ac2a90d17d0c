// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/mma/backward/call.hpp"

#include <algorithm>
#include <cstdint>

#include "cuda/attention/bias.hpp"
#include "cuda/attention/mma/call.hpp"
#include "cuda/attention/mma/cope/room.hpp"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/attention/place.hpp"

namespace phasor::cuda::attention::mma::backward {
namespace {

/// The slope of a capped score comes from its weight, with an error of about 2 ulp(lse) / cap: far below 16 bits from here on.
constexpr double kLeastCap = 0x1p-6;

/// Features take the place of queries, and of another table's rows.
const char* why_not_features(const TableWork& table) {
  if (table.use != RowUse::query) return "features of their own in the place of keys";
  if (!is_in_pieces(table.features)) return "features whose channels do not lie in aligned pieces of 16 bytes";
  if (table.features.shape[3] > kMostFeatures) return "features of their own of more than 64 channels";
  return table.shift.data != nullptr ? "features of their own with a shift" : nullptr;
}
/// Rows of the same distance lie side by side in every tile, and those of one row, too.
const char* why_not(const TableWork& table) {
  if (table.use == RowUse::number || table.kind != RowKind::distance) return "a table of numbers, or not by distance";
  if (table.own_features) {
    if (const char* const why = why_not_features(table); why != nullptr) return why;
  }
  if (!is_in_pieces(table.table)) return "a table whose channels do not lie in aligned pieces of 16 bytes";
  const plan::RowRule& rule = table.map.buckets;
  const bool comes_again = table.map.has_buckets && rule.kind == plan::RowRule::Kind::deberta && !rule.rising;
  return comes_again ? "buckets whose rows come again" : nullptr;
}
const char* why_not(const BiasWork& bias) {
  if (bias.distances == 0) return "a bias without a value for each distance";
  if (bias_distance(bias.bias, 1, 0) == 0) return "ALiBi by the key's position";
  return bias.gate.data != nullptr ? "a gate" : nullptr;
}
/// Of a bias given in full: each element is one score of a head, or of heads that read one key head, and so of one block.
const char* why_not_dense(const TensorView& gradient, const job::AttentionShape& shape) {
  if (gradient.data == nullptr) return nullptr;
  if (gradient.dtype != DType::f32) return "the gradient of a bias given in full, in float64";
  const bool shared = gradient.shape[1] == 1 || gradient.shape[3] != shape.keys || (gradient.shape[2] == 1 && shape.key_heads > 1);
  return shared ? "the gradient of a bias given in full that queries, keys or key heads share" : nullptr;
}
const char* why_not(const TermWork& term, const job::AttentionShape& shape) {
  if (term.use == TermUse::bias) return why_not(term.bias);
  if (term.use == TermUse::dense) return why_not_dense(term.dense_gradient, shape);
  if (term.use == TermUse::cope) return nullptr;  // below
  return why_not(term.table);
}

int64_t widest(const AttentionWork& work) {  // features have the width of queries, or room for kMostFeatures
  return std::max(work.shape.width, work.shape.value_width);
}

}  // namespace

const char* why_not(const AttentionWork& work, const job::AttentionBackwardJob& job) {
  AttentionWork done = work;  // its outputs are what the forward saved
  done.outputs.out = {const_cast<void*>(job.saved.out.data), job.saved.out.dtype, job.saved.out.shape, job.saved.out.strides,
                      job.saved.out.device};
  if (const char* const why = mma::why_not(done); why != nullptr) return why;
  if (work.has_positions[0] || work.has_positions[1]) return "given positions";
  if (work.dropout.present && has_values(work)) return "dropout beside a value-side table";
  if (work.softcap != 0 && has_cope(work)) return "CoPE with a soft cap";
  if (work.softcap != 0 && work.softcap < kLeastCap) return "a soft cap near 0";
  if (work.scale == 0) return "a scale of 0";
  if (widest(work) > kMostWidth) return "heads of more than 128 channels";
  const ConstTensorView& gradient = job.saved.out_gradient;
  if (gradient.dtype != work.q.dtype && gradient.dtype != DType::f32) return "a gradient of another dtype";
  if (gradient.dtype != work.q.dtype && work.q.dtype == DType::f16) return "a float32 gradient of what is computed in float16's range";
  if (!is_in_pieces(gradient)) return "channels that do not lie in aligned pieces of 16 bytes";
  int64_t shifted = 0;
  int64_t tables = 0;
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (const char* const why = why_not(term, work.shape); why != nullptr) return why;
    tables += term.use == TermUse::table ? 1 : 0;
    shifted += term.use == TermUse::table && term.table.shift_gradient.data != nullptr ? 1 : 0;
  }
  if (tables > 1 && has_own_features(work)) return "features of their own beside another table";
  if (has_cope(work) && !cope::fits_backward(width_of(work), work.terms[0].cope.table.shape[1])) {
    return "CoPE with a table of more rows than shared memory has room for";
  }
  return shifted > kMostShifted ? "gradients of more than two shifts" : nullptr;
}

int width_of(const AttentionWork& work) { return widest(work) > kWidths[0] ? kWidths[1] : kWidths[0]; }

int queries_of(const AttentionWork& work) { return has_cope(work) ? cope::kQueries : queries_for(width_of(work)); }

}  // namespace phasor::cuda::attention::mma::backward
