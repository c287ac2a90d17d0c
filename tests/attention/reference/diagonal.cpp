// SPDX-License-Identifier: Apache-2.0
// Biases of the reference that are functions of the distance and the head (and, gated, of the query).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "attention/reference/parts.hpp"
#include "attention/reference/powers.hpp"
#include "attention/reference/remembered.hpp"

namespace phasor::attend::reference {
namespace {

std::size_t index(std::int64_t n) { return static_cast<std::size_t>(n); }

std::size_t gate_index(const Problem& p, const Cell& c) { return index((c.b * p.shape.queries + c.i) * p.shape.heads + c.h); }

/// What ALiBi multiplies by the slope.
double alibi_factor(AlibiForm form, const Problem& p, const Cell& c) {
  if (p.magnitudes_of != nullptr) return std::fabs(alibi_factor(form, *p.magnitudes_of, c));
  const std::int64_t r = distance(p, c);
  switch (form) {
    case AlibiForm::symmetric:
      return static_cast<double>(-std::abs(r));
    case AlibiForm::causal:
      return static_cast<double>(-std::max<std::int64_t>(r, 0));
    case AlibiForm::key_position:
      break;
  }
  return static_cast<double>(key_position(p, c));
}

std::size_t diagonal_index(const LearnedDiagonal& s, const Problem& p, const Cell& c) {
  const std::int64_t row = std::clamp(-distance(p, c), -s.left, s.right) + s.left;
  return index(c.h * (s.left + 1 + s.right) + row);
}

}  // namespace

Values alibi_slopes(std::int64_t heads, double max_bias) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto slope = [&](std::int64_t h, std::int64_t of) {
    return static_cast<double>(std::exp2(-static_cast<long double>(max_bias) * static_cast<long double>(h) / static_cast<long double>(of)));
  };
  Values slopes;
  for (std::int64_t h = 1; h <= power; ++h) slopes.push_back(slope(h, power));
  for (std::int64_t h = 1; static_cast<std::int64_t>(slopes.size()) < heads; h += 2) slopes.push_back(slope(h, 2 * power));
  return slopes;
}

double Alibi::term(const Problem& p, const Cell& c) const { return slopes[index(c.h)] * alibi_factor(form, p, c); }
void Alibi::term_gradient(const Problem& p, const Cell& c, double ds, Gradients&, Alibi& own) const {
  own.slopes[index(c.h)] += ds * alibi_factor(form, p, c);
}
void Alibi::check(const Problem& p) const { expect_size(slopes, p.shape.heads, "slopes"); }

std::int64_t t5_bucket(const T5& spec, std::int64_t r) {
  const std::int64_t relative = -r;  // the paper's code has key - query
  std::int64_t count = spec.buckets;
  std::int64_t bucket = 0;
  std::int64_t far = 0;
  if (spec.both_sides) {
    count /= 2;
    if (relative > 0) bucket += count;
    far = std::abs(relative);
  } else {
    far = std::max<std::int64_t>(-relative, 0);
  }
  const std::int64_t exact = count / 2;
  if (far < exact) return bucket + far;
  // floor(ln(far / exact) / ln(max_distance / exact) (count - exact)), without rounding.
  const std::int64_t grown = scaled_logarithm(count - exact, {far, exact}, {spec.max_distance, exact}, count).floor;
  return bucket + std::min(count - 1, exact + grown);
}

double T5::term(const Problem& p, const Cell& c) const { return table[index(c.h * buckets + t5_bucket(*this, distance(p, c)))]; }
void T5::term_gradient(const Problem& p, const Cell& c, double ds, Gradients&, T5& own) const {
  own.table[index(c.h * buckets + t5_bucket(*this, distance(p, c)))] += ds;
}
void T5::check(const Problem& p) const {
  expect(max_distance > (both_sides ? buckets / 2 : buckets) / 2, "max_distance of T5 lies among the exact buckets");
  expect_size(table, p.shape.heads * buckets, "table");
}

double WavLm::term(const Problem& p, const Cell& c) const { return gate[gate_index(p, c)] * bias.term(p, c); }
void WavLm::term_gradient(const Problem& p, const Cell& c, double ds, Gradients& sum, WavLm& own) const {
  own.gate[gate_index(p, c)] += ds * bias.term(p, c);
  bias.term_gradient(p, c, ds * gate[gate_index(p, c)], sum, own.bias);
}
void WavLm::check(const Problem& p) const {
  bias.check(p);
  expect_size(gate, p.shape.batch * p.shape.queries * p.shape.heads, "gate");
}

double Kerple::term(const Problem& p, const Cell& c) const {
  const auto far = static_cast<double>(std::abs(distance(p, c)));
  const double a = r1[index(c.h)];
  const double b = r2[index(c.h)];
  const double value = kind == KerpleKind::logarithmic ? a * std::log(1 + b * far) : a * std::pow(far, b);
  return p.magnitudes_of != nullptr ? value : -value;
}
void Kerple::term_gradient(const Problem& p, const Cell& c, double ds, Gradients&, Kerple& own) const {
  const auto far = static_cast<double>(std::abs(distance(p, c)));
  if (far == 0) return;  // 0 for every r1 and r2 above 0
  const double a = r1[index(c.h)];
  const double b = r2[index(c.h)];
  if (kind == KerpleKind::logarithmic) {
    own.r1[index(c.h)] -= ds * std::log(1 + b * far);
    own.r2[index(c.h)] -= ds * a * far / (1 + b * far);
  } else {
    own.r1[index(c.h)] -= ds * std::pow(far, b);
    own.r2[index(c.h)] -= ds * a * std::pow(far, b) * std::log(far);
  }
}
void Kerple::check(const Problem& p) const {
  expect_size(r1, p.shape.heads, "r1");
  expect_size(r2, p.shape.heads, "r2");
}

double Sandwich::term(const Problem& p, const Cell& c) const {
  const std::int64_t r = distance(p, c);
  const bool magnitudes = p.magnitudes_of != nullptr;
  const auto sum_of_cosines = [&] {
    long double sum = 0;
    for (std::int64_t n = 0; n < width / 2; ++n) {
      const long double exponent = static_cast<long double>(2 * n) / static_cast<long double>(width);
      const long double cosine = std::cos(static_cast<long double>(r) / std::pow(static_cast<long double>(base), exponent));
      sum += magnitudes ? std::fabs(cosine) : cosine;
    }
    return static_cast<double>(sum);
  };
  using Key = std::tuple<std::int64_t, std::int64_t, double, bool>;
  thread_local std::map<Key, double> memory;
  const double sum = remembered(memory, Key{r, width, base, magnitudes}, sum_of_cosines);
  return sum * static_cast<double>(p.shape.heads) / static_cast<double>(8 * (c.h + 1));
}

double LearnedDiagonal::term(const Problem& p, const Cell& c) const { return table[diagonal_index(*this, p, c)]; }
void LearnedDiagonal::term_gradient(const Problem& p, const Cell& c, double ds, Gradients&, LearnedDiagonal& own) const {
  own.table[diagonal_index(*this, p, c)] += ds;
}
void LearnedDiagonal::check(const Problem& p) const { expect_size(table, p.shape.heads * (left + 1 + right), "table"); }

}  // namespace phasor::attend::reference
