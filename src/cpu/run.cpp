// SPDX-License-Identifier: Apache-2.0
// Jobs cut into tasks and run: rotation, rows, additions, lookups, gradients.
#include "cpu/run.hpp"

#include <algorithm>
#include <vector>

#include "cpu/common/runner.hpp"
#include "cpu/common/targets.hpp"
#include "cpu/rotary/phase_gradient.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::cpu {
namespace {

template <class Job>
using Kernel = void (*)(const Running<Job>& run, std::int64_t task);

template <class Job>
void run_all(const Running<Job>& run, Kernel<Job> kernel, const Execution& execution) {
  run_each(execution.runner, run.grid.tasks, [&](std::int64_t task) { kernel(run, task); });
}

/// By the active target's kernel. A target that is asked for and missing is an error of every call, of empty ones too.
template <class Job>
Status run_kernel(const Running<Job>& run, Kernel<Job> RotaryKernels::* kernel, const Execution& execution) {
  const Result<const RotaryKernels*> kernels = active_kernels();
  if (!kernels.ok()) return kernels.status();
  run_all(run, (*kernels)->*kernel, execution);
  return {};
}

/// Rows of one task of a gradient: as many as a thread is worth.
constexpr std::int64_t kScatterRows = 64;

std::int64_t row_of(const job::ScatterJob& job, std::int64_t token) {
  const job::PositionSource& p = job.positions;
  const std::int64_t t = token % job.gradient.shape[1];
  if (p.data == nullptr) return p.offset + t + job.offset;
  const std::int64_t at = token / job.gradient.shape[1] * p.batch_stride + t * p.token_stride;
  const bool narrow = p.type == PositionType::i32;
  return (narrow ? static_cast<const std::int32_t*>(p.data)[at] : static_cast<const std::int64_t*>(p.data)[at]) + job.offset;
}

/// The tokens of each row in their order: `tokens` from first[r] on, to first[r + 1].
struct TokensOfRows {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> tokens;
};

/// A counting sort, which is stable.
TokensOfRows tokens_of_rows(const job::ScatterJob& job) {
  const std::int64_t count = job.gradient.shape[0] * job.gradient.shape[1];
  TokensOfRows sorted{std::vector<std::int64_t>(static_cast<std::size_t>(job.table.shape[1]) + 1), {}};
  const auto each = [&](const auto& body) {
    for (std::int64_t token = 0; token < count; ++token) {
      const std::int64_t row = row_of(job, token);
      if (row != job.padding_row) body(static_cast<std::size_t>(row), token);
    }
  };
  each([&](std::size_t row, std::int64_t) { ++sorted.first[row + 1]; });
  for (std::size_t r = 1; r < sorted.first.size(); ++r) sorted.first[r] += sorted.first[r - 1];
  sorted.tokens.resize(static_cast<std::size_t>(sorted.first.back()));
  std::vector<std::int64_t> next(sorted.first.begin(), sorted.first.end() - 1);
  each([&](std::size_t row, std::int64_t token) { sorted.tokens[static_cast<std::size_t>(next[row]++)] = token; });
  return sorted;
}

/// Row `r` of the table gains the sum of its tokens' gradients, channel by channel in float64.
void scatter_row(const job::ScatterJob& job, const TokensOfRows& sorted, std::int64_t r) {
  const std::int64_t first = sorted.first[static_cast<std::size_t>(r)];
  const std::int64_t end = sorted.first[static_cast<std::size_t>(r) + 1];
  if (first == end) return;
  for (std::int64_t c = 0; c < job.table.shape[3]; ++c) {
    double sum = 0;
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t token = sorted.tokens[static_cast<std::size_t>(i)];
      sum += job::value_at(job.gradient, token / job.gradient.shape[1], token % job.gradient.shape[1], c);
    }
    const std::int64_t at = job::index_of(job.table, 0, r, c);
    job::store_element(job.table.data, job.table.dtype, at, job::load_element(job.table.data, job.table.dtype, at) + sum);
  }
}

}  // namespace

Status run_rotate(job::RotateJob& job, const Execution& execution) {
  return run_kernel<job::RotateJob>({.job = job, .stream = streams(job)}, &RotaryKernels::rotate, execution);
}

Status run_rerotate(job::RerotateJob& job, const Execution& execution) {
  job.link();
  return run_rotate(job.rotate, execution);
}

Status run_rows(job::RowsJob& job, const Execution& execution) {
  return run_kernel<job::RowsJob>({.job = job}, &RotaryKernels::fill_rows, execution);
}

Status run_add(job::AddJob& job, const Execution& execution) {
  return run_kernel<job::AddJob>({.job = job}, &RotaryKernels::add, execution);
}

Status run_lookup(job::LookupJob& job, const Execution& execution) {
  return run_kernel<job::LookupJob>({.job = job}, &RotaryKernels::lookup, execution);
}

Status run_scatter(job::ScatterJob& job, const Execution& execution) {
  return spec::without_exceptions([&] {
    const TokensOfRows sorted = tokens_of_rows(job);
    const std::int64_t rows = job.table.shape[1];
    run_each(execution.runner, (rows + kScatterRows - 1) / kScatterRows, [&](std::int64_t task) {
      for (std::int64_t r = task * kScatterRows; r < std::min((task + 1) * kScatterRows, rows); ++r) scatter_row(job, sorted, r);
    });
    return Status();
  });
}

Status run_phase_gradient(job::PhaseGradientJob& job, const Execution& execution) {
  run_all<job::PhaseGradientJob>({.job = job}, phase_gradient, execution);
  return {};
}

Status run_frequency_gradient(job::FrequencyGradientJob& job, const Execution& execution) {
  return spec::without_exceptions([&]() -> Status {
    const Extents& shape = job.gradient.shape;
    // Empty first: another extent may then be so large that the product wraps.
    const std::int64_t tokens = job::is_empty(job.gradient) ? 0 : shape[0] * shape[1];
    const std::int64_t parts = (tokens + job::kGradientTokens - 1) / job::kGradientTokens;
    const std::int64_t count = job.ladder.count;
    std::vector<double> partial(static_cast<std::size_t>(parts * count));
    run_each(execution.runner, parts, [&](std::int64_t part) { frequency_gradient(job, part, partial.data() + part * count); });
    for (std::int64_t i = 0; i < count; ++i) {
      double sum = job::load_element(job.sum.data, job.sum.dtype, i);
      for (std::int64_t part = 0; part < parts; ++part) sum += partial[static_cast<std::size_t>(part * count + i)];
      job::store_element(job.sum.data, job.sum.dtype, i, sum);
    }
    return {};
  });
}

Status run_position_gradient(job::PositionGradientJob& job, const Execution& execution) {
  run_all<job::PositionGradientJob>({.job = job}, position_gradient, execution);
  return {};
}

}  // namespace phasor::cpu
