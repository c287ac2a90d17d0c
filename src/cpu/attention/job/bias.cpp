// SPDX-License-Identifier: Apache-2.0
// The formula of a bias, a row of a tile at a time, for kernels that have no table.
#include "cpu/attention/job/bias.hpp"

#include "plan/bias/buckets.hpp"

namespace phasor::attend {
namespace {

plan::BiasSlice slice_of(const BiasJob& job, const BiasRow& row) { return {job.first_head + row.head, 1, row.query_position}; }
std::span<double> memory_of(const BiasJob& job, const BiasRow& row) { return {row.scratch, plan::scratch_size(job.source, 1)}; }

}  // namespace

std::int64_t formula_sums(const plan::BiasSource& bias, std::int64_t parameters) { return bias.rows > 0 ? bias.rows : parameters; }
std::int64_t formula_scratch(const plan::BiasSource& bias) { return static_cast<std::int64_t>(plan::scratch_size(bias, 1)); }

void bias_row_values(const BiasJob& job, const BiasRow& row, std::span<double> out) noexcept {
  plan::fill_values(job.source, slice_of(job, row), row.distances, out, memory_of(job, row));
}

void bias_row_gradient(const BiasJob& job, const BiasRow& row, std::span<const double> gradient, std::span<double> sum) noexcept {
  if (job.source.rows > 0) {
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      sum[static_cast<std::size_t>(plan::row_of(job.source.row, row.distances[j]))] += gradient[j];
    }
    return;
  }
  plan::add_gradient(job.source, slice_of(job, row), {row.distances, gradient, sum}, memory_of(job, row));
}

}  // namespace phasor::attend
