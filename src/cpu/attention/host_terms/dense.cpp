// SPDX-License-Identifier: Apache-2.0
// A bias given in full, on the host side.
#include <array>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"

namespace phasor::attend {
namespace {

bool is_whole(const ConstTensorView& bias, const AttentionShape& s) { return bias.shape == Extents{s.batch, s.queries, s.heads, s.keys}; }

/// Sums are kept apart where two tasks could add to one element, and shaped as the gradient otherwise.
void lay_out_sums(const ConstTensorView& bias, const AttentionJob& job, Arena& arena, DenseJob& out) {
  const AttentionShape& s = job.shape;
  const bool every_query = bias.shape[1] == s.queries;
  const bool every_key = bias.shape[3] == s.keys;
  const auto sequences = static_cast<std::int64_t>(job.sequences.size());
  const bool apart = sequences == s.batch;  // else varlen, whose sequences have tokens of their own
  out.sums_key_heads = bias.shape[2] == 1;
  out.sum_extents = {apart || !(every_query || every_key) ? sequences : 1, every_key ? 1 : job.backward.parts,
                     out.sums_key_heads ? s.key_heads : s.heads, bias.shape[1], bias.shape[3]};
  std::int64_t count = 1;
  for (std::size_t axis = 5; axis-- > 0;) {
    out.sum_strides[axis] = out.sum_extents[axis] == 1 ? 0 : count;
    count *= out.sum_extents[axis];
  }
  out.sums = arena.take_bytes(count * bytes_of(job.arithmetic));
  if (out.sums == nullptr) return;
  with_arithmetic(job.arithmetic, [&]<class T>(T zero) { std::fill_n(static_cast<T*>(out.sums), count, zero); });
}

/// The sum of what was kept apart, for one element of the gradient.
template <class T>
double total(const DenseJob& made, const std::array<std::int64_t, 5>& least, const std::array<std::int64_t, 5>& end) {
  double sum = 0;
  const T* const in = static_cast<const T*>(made.sums) + least[3] * made.sum_strides[3] + least[4] * made.sum_strides[4];
  for (std::int64_t s = least[0]; s < end[0]; ++s) {
    for (std::int64_t p = 0; p < end[1]; ++p) {
      for (std::int64_t h = least[2]; h < end[2]; ++h)
        sum += static_cast<double>(in[s * made.sum_strides[0] + p * made.sum_strides[1] + h * made.sum_strides[2]]);
    }
  }
  return sum;
}

}  // namespace

Status make_term(const DenseTerm& term, const TermContext& context, Arena& arena, TermJob& out) {
  const AttentionShape& s = context.job->shape;
  DenseJob made{.bias = term.bias};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (term.bias.shape[axis] == 1) made.bias.strides[axis] = 0;
  }
  if (context.gradient != nullptr && is_given(context.gradient->table)) {
    if (is_whole(term.bias, s)) {
      made.gradient = context.gradient->table;
    } else {
      lay_out_sums(term.bias, *context.job, arena, made);
    }
  }
  out = made;
  return {};
}

std::int64_t scratch_of(const DenseJob& /*term*/, const AttentionJob& /*job*/, bool /*backward*/) { return 0; }

void finish_term(const DenseTerm& term, const DenseJob& made, const TermContext& context) {
  if (made.sums == nullptr) return;
  const TensorView& gradient = context.gradient->table;
  const bool shares_batch = term.bias.shape[0] == 1;
  const auto& extents = made.sum_extents;
  with_arithmetic(context.job->arithmetic, [&]<class T>(T) {
    for (std::int64_t b = 0; b < gradient.shape[0]; ++b) {
      for (std::int64_t h = 0; h < gradient.shape[2]; ++h) {
        for (std::int64_t i = 0; i < gradient.shape[1]; ++i) {
          for (std::int64_t j = 0; j < gradient.shape[3]; ++j) {
            const std::array<std::int64_t, 5> least = {shares_batch ? 0 : b, 0, made.sums_key_heads ? 0 : h, i, j};
            const std::array<std::int64_t, 5> end = {shares_batch ? extents[0] : b + 1, extents[1],
                                                     made.sums_key_heads ? extents[2] : h + 1, 0, 0};
            add_to_element(gradient, {b, i, h}, j, total<T>(made, least, end));
          }
        }
      }
    }
  });
}

TermCost cost_of(const DenseJob& /*term*/, const AttentionJob& /*job*/) { return {.per_score = 1, .name = "dense bias"}; }

}  // namespace phasor::attend
