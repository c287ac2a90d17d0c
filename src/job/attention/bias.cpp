// SPDX-License-Identifier: Apache-2.0
// The formula of a bias, a row of a tile at a time, for kernels that have no table.
#include "job/attention/bias.hpp"

#include <algorithm>
#include <exception>
#include <limits>

#include "plan/bias/buckets.hpp"

namespace phasor::job {
namespace {

/// Perceptrons allocate: where that fails, `sum` is no number, rather than wrong.
template <class Body>
void or_nan(std::span<double> sum, const Body& body) {
  try {
    body();
  } catch (const std::exception&) {
    std::fill(sum.begin(), sum.end(), std::numeric_limits<double>::quiet_NaN());
  }
}

plan::BiasSlice slice_of(const BiasJob& job, const BiasRow& row) { return {job.first_head + row.head, 1, row.query_position}; }

}  // namespace

std::int64_t formula_sums(const plan::BiasPlan& plan) { return plan.rows > 0 ? plan.rows : plan.parameters; }

void bias_row_values(const BiasJob& job, const BiasRow& row, std::span<double> out) noexcept {
  or_nan(out, [&] { plan::fill_values(*job.plan, slice_of(job, row), row.distances, out); });
}

void bias_row_gradient(const BiasJob& job, const BiasRow& row, std::span<const double> gradient, std::span<double> sum) noexcept {
  if (job.plan->rows > 0) {
    for (std::size_t j = 0; j < gradient.size(); ++j) {
      sum[static_cast<std::size_t>(plan::row_of(*job.plan, row.distances[j]))] += gradient[j];
    }
    return;
  }
  or_nan(sum, [&] { plan::add_gradient(*job.plan, slice_of(job, row), row.distances, gradient, sum); });
}

}  // namespace phasor::job
