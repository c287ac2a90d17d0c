// SPDX-License-Identifier: Apache-2.0
// FIRE in the reference: a perceptron of one number, forward and backward.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "attention/reference/parts.hpp"

namespace phasor::attend::reference {
namespace {

double psi(double c, double x) { return std::log(c * x + 1); }
double psi_by_c(double c, double x) { return x / (c * x + 1); }

double activate(Activation kind, double x) {
  if (kind == Activation::relu) return std::max(x, 0.0);
  return x / (1 + std::exp(-x));
}

double activation_slope(Activation kind, double x) {
  if (kind == Activation::relu) return x > 0 ? 1 : 0;
  const double s = 1 / (1 + std::exp(-x));
  return s + x * s * (1 - s);
}

/// What enters each layer, before the activation (the first: the input itself), and last the outputs.
std::vector<Values> run_mlp(const Fire& f, double x) {
  std::vector<Values> layers = {{x}};
  const double* weights = f.mlp.data();
  for (std::size_t l = 0; l + 1 < f.widths.size(); ++l) {
    Values inputs = layers.back();
    if (l > 0) {
      for (double& value : inputs) value = activate(f.activation, value);
    }
    const auto in = f.widths[l];
    const auto out = f.widths[l + 1];
    Values next;
    for (std::int64_t o = 0; o < out; ++o) next.push_back(weights[out * in + o] + dot(weights + o * in, inputs.data(), in));
    weights += out * (in + 1);
    layers.push_back(next);
  }
  return layers;
}

/// The gradient by x; that of the weights is added to `own`.
double mlp_gradient(const Fire& f, double x, std::int64_t head, double ds, Values& own) {
  const std::vector<Values> layers = run_mlp(f, x);
  Values above(layers.back().size(), 0);
  above[static_cast<std::size_t>(head)] = ds;
  std::int64_t end = static_cast<std::int64_t>(f.mlp.size());
  for (std::size_t l = f.widths.size() - 1; l-- > 0;) {
    const auto in = f.widths[l];
    const auto out = f.widths[l + 1];
    end -= out * (in + 1);
    Values below(static_cast<std::size_t>(in), 0);
    for (std::int64_t n = 0; n < in; ++n) {
      const double raw = layers[l][static_cast<std::size_t>(n)];
      const double entered = l > 0 ? activate(f.activation, raw) : raw;
      for (std::int64_t o = 0; o < out; ++o) {
        const double g = above[static_cast<std::size_t>(o)];
        own[static_cast<std::size_t>(end + o * in + n)] += g * entered;
        below[static_cast<std::size_t>(n)] += g * f.mlp[static_cast<std::size_t>(end + o * in + n)];
      }
      if (l > 0) below[static_cast<std::size_t>(n)] *= activation_slope(f.activation, raw);
    }
    add(own.data() + end + out * in, 1, above.data(), out);
    above = below;
  }
  return above[0];
}

struct Fraction {
  double far;     // |r|
  double whole;   // max(length, query position)
  double top;     // psi(far)
  double bottom;  // psi(whole) + epsilon
};
Fraction fraction(const Fire& f, const Problem& p, const Cell& c) {
  const auto far = static_cast<double>(std::abs(distance(p, c)));
  const double whole = std::max(f.length, static_cast<double>(query_position(p, c)));
  return {far, whole, psi(f.c, far), psi(f.c, whole) + f.epsilon};
}

}  // namespace

double Fire::term(const Problem& p, const Cell& c) const {
  const Fraction x = fraction(*this, p, c);
  return run_mlp(*this, x.top / x.bottom).back()[static_cast<std::size_t>(c.h)];
}

void Fire::term_gradient(const Problem& p, const Cell& cell, double ds, Gradients&, Fire& own) const {
  const bool magnitudes = p.magnitudes_of != nullptr;
  const Fraction x = fraction(*this, p, cell);
  const double dx = mlp_gradient(*this, x.top / x.bottom, cell.h, ds, own.mlp);
  const double dtop = dx / x.bottom;
  const double dbottom = (magnitudes ? dx : -dx) * x.top / (x.bottom * x.bottom);
  own.c += dtop * psi_by_c(c, x.far) + dbottom * psi_by_c(c, x.whole);
  if (x.whole == length) own.length += dbottom * c / (c * x.whole + 1);
}

void Fire::check(const Problem& p) const {
  expect(widths.size() >= 2 && widths.front() == 1 && widths.back() == p.shape.heads, "widths of the mlp are not 1, ..., H");
  std::int64_t count = 0;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) count += widths[l + 1] * (widths[l] + 1);
  expect_size(mlp, count, "mlp");
}

}  // namespace phasor::attend::reference
