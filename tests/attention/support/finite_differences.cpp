// SPDX-License-Identifier: Apache-2.0
#include "attention/support/finite_differences.hpp"

#include <cmath>

namespace phasor::test {

Loss::Loss(const ref::Problem& p, std::uint64_t seed) {
  Numbers random(seed);
  const std::int64_t rows = p.shape.batch * p.shape.queries * p.shape.heads;
  out = random.values(rows * p.shape.value_width);
  lse = random.values(rows);
}

double Loss::of(const ref::Problem& p) const {
  const ref::Output output = ref::forward(p);
  double sum = 0;
  for (std::size_t n = 0; n < out.size(); ++n) sum += out[n] * output.out[n];
  for (std::size_t n = 0; n < lse.size(); ++n) sum += std::isinf(output.lse[n]) ? 0 : lse[n] * output.lse[n];
  return sum;
}

std::vector<Differentiable> differentiables(ref::Problem& p, ref::Gradients& g) {
  std::vector<Differentiable> all = {{"q", p.q, g.q}, {"k", p.k, g.k}, {"v", p.v, g.v}, {"sinks", p.sinks, g.sinks}};
  for (std::size_t n = 0; n < p.schemes.size(); ++n) {
    const ref::Parameters values = parameters_of(p.schemes[n]);
    const ref::Parameters gradients = parameters_of(g.schemes[n]);
    for (std::size_t m = 0; m < values.size(); ++m) all.push_back({values[m].name, values[m].values, gradients[m].values});
  }
  return all;
}

Comparison compare_with_differences(ref::Problem p, ref::Gradients g, const Loss& loss, double step) {
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

}  // namespace phasor::test
