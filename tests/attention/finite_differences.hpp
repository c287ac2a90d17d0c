// SPDX-License-Identifier: Apache-2.0
// Central differences of the reference by every number that it has a gradient for.
#pragma once

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "attention/problems.hpp"
#include "attention/reference.hpp"

namespace phasor::test {

/// Weights of the outputs: the loss is their sum with them. Queries that see nothing have no lse.
struct Loss {
  ref::Values out;
  ref::Values lse;

  Loss(const ref::Problem& p, std::uint64_t seed) {
    Numbers random(seed);
    const std::int64_t rows = p.shape.batch * p.shape.queries * p.shape.heads;
    out = random.values(rows * p.shape.value_width);
    lse = random.values(rows);
  }
  double of(const ref::Problem& p) const {
    const ref::Output output = ref::forward(p);
    double sum = 0;
    for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * output.out[n];
    for (std::size_t n = 0; n < lse.size(); ++n) sum += std::isinf(output.lse[n]) ? 0 : lse[n] * output.lse[n];
    return sum;
  }
};

inline ref::Parameters parameters_of(ref::Scheme& scheme) {
  return std::visit([](auto& one) { return one.parameters(); }, scheme);
}

/// Everything that a problem is differentiable by, beside the gradients of it.
struct Differentiable {
  std::string name;
  std::span<double> values;
  std::span<const double> gradient;
};
inline std::vector<Differentiable> differentiables(ref::Problem& p, ref::Gradients& g) {
  std::vector<Differentiable> all = {{"q", p.q, g.q}, {"k", p.k, g.k}, {"v", p.v, g.v}};
  for (std::size_t n = 0; n < p.schemes.size(); ++n) {
    const ref::Parameters values = parameters_of(p.schemes[n]);
    const ref::Parameters gradients = parameters_of(g.schemes[n]);
    for (std::size_t m = 0; m < values.size(); ++m) all.push_back({values[m].name, values[m].values, gradients[m].values});
  }
  return all;
}

struct Comparison {
  double worst = 0;   // |gradient - difference| / (1 + |gradient|)
  std::string where;  // of the worst
  std::size_t count = 0;
  std::vector<std::string> silent;  // inputs whose gradients are all 0: nothing was tested by them
};

/// Four points: the error is of the order of step^4.
inline Comparison compare_with_differences(ref::Problem p, ref::Gradients g, const Loss& loss, double step = 2e-4) {
  Comparison result;
  for (const Differentiable& input : differentiables(p, g)) {
    double largest = 0;
    for (std::size_t n = 0; n < input.values.size(); ++n) {
      const double x = input.values[n];
      const auto at = [&](double offset) {
        input.values[n] = x + offset;
        const double value = loss.of(p);
        input.values[n] = x;
        return value;
      };
      const double difference = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
      const double error = std::fabs(difference - input.gradient[n]) / (1 + std::fabs(input.gradient[n]));
      largest = std::fmax(largest, std::fabs(input.gradient[n]));
      if (!(error <= result.worst)) {
        result.worst = error;
        result.where = input.name + "[" + std::to_string(n) + "]";
      }
      ++result.count;
    }
    if (!input.values.empty() && largest < 1e-9) result.silent.push_back(input.name);
  }
  return result;
}

/// Of four points with that step: their own roundings, 2^-53 of a loss below 30 over the step, times 1.5; and 30 times the fourth power.
constexpr double kDifferenceTolerance = 1e-10;

}  // namespace phasor::test
