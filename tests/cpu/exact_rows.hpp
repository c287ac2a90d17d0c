// SPDX-License-Identifier: Apache-2.0
// Rows of one target's kernel, called directly so that threads may use different targets at once, and the ways of asking for them.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu/rotary/kernels.hpp"
#include "job/rotary.hpp"
#include "plan/rotary.hpp"

namespace phasor::exact {

/// Kernels of the targets this machine can run, best first.
inline std::vector<const cpu::RotaryKernels*> available_kernels() {
  std::vector<const cpu::RotaryKernels*> found;
  const cpu::RotaryKernelTable table = cpu::rotary_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (table.entries[i].available()) found.push_back(&table.entries[i]);
  }
  return found;
}

/// cos and sin of `tokens` rows, (T, pairs).
template <class T>
struct Rows {
  std::int64_t pairs;
  std::vector<T> cos;
  std::vector<T> sin;

  Rows(std::int64_t tokens, std::int64_t pairs_) : pairs(pairs_), cos(static_cast<std::size_t>(tokens * pairs_)), sin(cos.size()) {}
  T cos_at(std::int64_t token, std::int64_t pair) const { return cos[static_cast<std::size_t>(token * pairs + pair)]; }
  T sin_at(std::int64_t token, std::int64_t pair) const { return sin[static_cast<std::size_t>(token * pairs + pair)]; }
};

/// Fills `rows` by one target on the calling thread.
template <class T>
Status fill(const cpu::RotaryKernels& kernels, const plan::RotaryPlan& plan, const Positions& positions, Rows<T>& rows) {
  const std::int64_t tokens = static_cast<std::int64_t>(rows.cos.size()) / rows.pairs;
  const Extents shape = {1, tokens, 1, rows.pairs};
  const Result<job::RowsJob> job =
      job::make_rows_job(plan, positions, view(rows.cos.data(), shape), view(rows.sin.data(), shape), Direction::forward);
  if (!job.ok()) return job.status();
  const cpu::Running<job::RowsJob> run = {.job = *job};
  for (std::int64_t task = 0; task < run.grid.tasks; ++task) kernels.fill_rows(run, task);
  return {};
}

}  // namespace phasor::exact
