// SPDX-License-Identifier: Apache-2.0
// Options of a plan to a longer context, shared by plan and plot scaling.
#pragma once

#include <optional>

#include "phasor/analysis.hpp"
#include "spec_options.hpp"

namespace phasor::cli {

struct PlanOptions {
  SpecOptions spec;
  std::int64_t trained_length = 4096;
  std::optional<std::int64_t> wanted_length;  // 8 times as much
};

void add_plan_options(const Command& command, PlanOptions& options);

/// Throws as spec_of does.
PlannerInput planner_input(const PlanOptions& options);

}  // namespace phasor::cli
