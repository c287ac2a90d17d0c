// SPDX-License-Identifier: Apache-2.0
// Central differences of the reference by every number that it has a gradient for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "attention/reference/reference.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {

/// Weights of the outputs: the loss is their sum with them. Queries that see nothing have no lse.
struct Loss {
  ref::Values out;
  ref::Values lse;

  Loss(const ref::Problem& p, std::uint64_t seed);
  double of(const ref::Problem& p) const;
};

/// Everything that a problem is differentiable by, beside the gradients of it.
struct Differentiable {
  std::string name;
  std::span<double> values;
  std::span<const double> gradient;
};
std::vector<Differentiable> differentiables(ref::Problem& p, ref::Gradients& g);

struct Comparison {
  double worst = 0;   // |gradient - difference| / (1 + |gradient|)
  std::string where;  // of the worst
  std::size_t count = 0;
  std::vector<std::string> silent;  // inputs whose gradients are all 0: nothing was tested by them
};

/// Four points: the error is of the order of step^4.
Comparison compare_with_differences(ref::Problem p, ref::Gradients g, const Loss& loss, double step = 2e-4);

/// Of four points with that step: their own roundings, 2^-53 of a loss below 30 over the step, times 1.5; and 30 times the fourth power.
constexpr double kDifferenceTolerance = 1e-10;

}  // namespace phasor::test
