// SPDX-License-Identifier: Apache-2.0
// Comparing outputs of the reference of attention, and taking problems apart.
#pragma once

#include <string>

#include "attention/support/problems.hpp"

namespace phasor::test {

/// float64 sums of at most some hundred terms below 10, in another order.
constexpr double kSameTolerance = 1e-13;

/// The largest |x - y|; infinite where sizes differ or one is no number.
double apart(const ref::Values& x, const ref::Values& y);
void expect_same(const ref::Output& is, const ref::Output& wanted, const std::string& name, double tolerance = kSameTolerance);
void expect_other(const ref::Output& is, const ref::Output& unwanted, const std::string& name);

/// The keys [first, end) of a problem, at the positions that they had.
ref::Problem with_keys(const ref::Problem& p, std::int64_t first, std::int64_t end);

}  // namespace phasor::test
