// SPDX-License-Identifier: Apache-2.0
// Holding attention against the reference on every target: forward and all gradients of a problem.
#pragma once

#include <string>

#include "attention/support/table_problems.hpp"
#include "phasor/targets.hpp"

namespace phasor::test {

/// float64 and float32, on every target.
void expect_on_every_target(const ref::Problem& problem, const std::string& name);

/// Tasks from the last to the first.
Runner backwards_runner();
/// The same bits whatever the runner: outputs and all gradients.
void expect_same_bits_by_any_runner(const ref::Problem& problem, const std::string& name);

/// The problem with NaN in the keys and values that the mask hides.
ref::Problem with_nan_behind_the_mask(ref::Problem p);

/// What a call that must fail says.
std::string failure_of(Bridge& bridge);

}  // namespace phasor::test
