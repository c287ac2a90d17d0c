// SPDX-License-Identifier: Apache-2.0
// Outputs over disjoint sets of keys, made one by their logarithms of sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/run.hpp"
#include "job/element.hpp"
#include "plan/attention.hpp"

namespace phasor::cpu {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

struct Merge {
  std::span<const AttentionPart> parts;
  const AttentionOutputs& outputs;
};

/// Row n of all, as an index of a tensor's element.
std::int64_t row_of(const ConstTensorView& v, std::int64_t n) {
  const std::int64_t token = n / v.shape[2];
  return token / v.shape[1] * v.strides[0] + token % v.shape[1] * v.strides[1] + n % v.shape[2] * v.strides[2];
}

double lse_of(const AttentionPart& part, std::int64_t n) { return job::load_element(part.lse.data, part.lse.dtype, row_of(part.lse, n)); }

/// The logarithm of the sum of all; -infinity where no part saw a key.
double merged_lse(const Merge& merge, std::int64_t n) {
  double top = kNothing;
  for (const AttentionPart& part : merge.parts) top = std::fmax(top, lse_of(part, n));
  if (top == kNothing) top = 0;  // or NaN, which fmax leaves out
  double sum = 0;
  for (const AttentionPart& part : merge.parts) sum += plan::weight_of_part(lse_of(part, n), top);
  return top + std::log(sum);
}

/// A few channels of every part are read before any is written, so that outputs may be one of the parts.
void merge_row(const Merge& merge, std::int64_t n) {
  constexpr std::int64_t kChannels = 64;
  const TensorView& out = merge.outputs.out;
  const double lse = merged_lse(merge, n);
  for (std::int64_t first = 0; first < out.shape[3]; first += kChannels) {
    const std::int64_t count = std::min(kChannels, out.shape[3] - first);
    double sums[kChannels] = {};
    for (const AttentionPart& part : merge.parts) {
      const double of_part = lse_of(part, n);
      if (of_part == kNothing) continue;  // it saw nothing: what it holds counts for nothing, NaN too
      const double weight = plan::weight_of_part(of_part, lse);
      const std::int64_t row = row_of(part.out, n) + first;
      for (std::int64_t c = 0; c < count; ++c) sums[c] += weight * job::load_element(part.out.data, part.out.dtype, row + c);
    }
    const std::int64_t row = row_of(out, n) + first;
    for (std::int64_t c = 0; c < count; ++c) job::store_element(out.data, out.dtype, row + c, sums[c]);
  }
  const TensorView& to = merge.outputs.lse;
  if (to.data != nullptr) job::store_element(to.data, to.dtype, row_of(to, n), lse);
}

}  // namespace

Status run_merge(job::MergeJob& asked, const Execution& execution) {
  constexpr std::int64_t kRows = 64;
  const Merge merge = {{asked.parts, static_cast<std::size_t>(asked.part_count)}, asked.outputs};
  const Extents& shape = asked.outputs.out.shape;
  const std::int64_t rows = shape[0] * shape[1] * shape[2];
  run_each(execution.runner, (rows + kRows - 1) / kRows, [&](std::int64_t task) {
    for (std::int64_t n = task * kRows; n < std::min(rows, (task + 1) * kRows); ++n) merge_row(merge, n);
  });
  return {};
}

}  // namespace phasor::cpu
