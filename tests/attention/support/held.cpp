// SPDX-License-Identifier: Apache-2.0
// What a result may be off by, number by number. The call sees the reference's numbers (inputs are rounded before both), so that only
// roundings inside it are left. With u the half ulp of its arithmetic, w that of the dtype that it stores, and magnitudes as the reference
// adds them up:
//   A score is a sum of products and terms: roundings of random sign, each at most u times the sum S of its magnitudes; 4 u S is many
//   deviations. An exponential is off by a few u and by its argument's error. A weight is a quotient of two such: 8 u (2 + S), relative.
//   A sum of n such summands rounds n times, relative to what it has added up: 3 u sqrt(n) of the sum M of magnitudes.
//   Output: w |y| + u (8 (2 + S) + 3 sqrt(n)) M. Log-sum-exp: the same error without M, since the logarithm makes relative errors absolute.
//   A score's gradient is a weight times a difference of two sums, each as uncertain as an output: twice that; the sum of n of them and the
//   rounding of the result come as before. Where outputs are stored in 16 bits, the backward reads them so: w M more.
//   Weights that tensor cores of a GPU take are rounded to the dtype: w M more of an output, and of gradients that read it. So are the
//   gradients of scores that they take: w M more of everything that those give. In f16 both may be below its normal numbers, off by half of
//   the least one: n times that, times the largest number that they meet (2: problems have numbers up to 1, and shifts added to them).
//   Gradients by what a call has rotated may be rounded to the dtype before they are turned back: w M more of those by q and k.
//   bf16 on AMX has weights as two bf16 numbers: 2^-15 M more. Weights below 2^-64 of a row's largest are 0 in 32-bit arithmetic.
#include "attention/support/held.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace phasor::test {
namespace {

DType wide_of(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// u
double arithmetic_roundoff(DType dtype) { return dtype == DType::f64 ? 0x1p-53 : 0x1p-24; }

/// w
double stored_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
  }
  return 0;
}

/// Of a weight and a sum over n summands, in u.
double roundings(double score, double n) { return 8 * (2 + score) + 3 * std::sqrt(n); }

/// The least that a number may be off by: cut weights, and halves of the smallest float16.
double smallest_error(DType dtype, const ref::Values& magnitudes) {
  double most = 0;
  for (const double x : magnitudes) most = std::max(most, x);
  return (dtype == DType::f64 ? 0x1p-500 : 0x1p-60) * most + (dtype == DType::f16 ? 0x1p-25 : 0x1p-1000);
}

/// A tensor, what its errors are relative to, and what it is stored as.
struct Sought {
  ref::Values wanted;
  ref::Values magnitudes;
  DType stored;
};
/// bound(n): beside the rounding of the number itself.
template <class Bound>
void expect_within(const ref::Values& is, const Sought& sought, const Bound& bound, const std::string& name) {
  ASSERT_EQ(is.size(), sought.wanted.size()) << name;
  const double least = smallest_error(sought.stored, sought.magnitudes);
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t n = 0; n < is.size(); ++n) {
    if (is[n] == sought.wanted[n]) continue;  // infinities
    const double allowed = stored_roundoff(sought.stored) * std::fabs(sought.wanted[n]) + bound(n) + least;
    ASSERT_TRUE(std::isfinite(allowed)) << name << ": number " << n << " may be off by anything";
    const double part = std::fabs(is[n] - sought.wanted[n]) / allowed;
    if (part <= worst) continue;
    worst = std::isnan(part) ? INFINITY : part;
    where = n;
  }
  EXPECT_LE(worst, 1) << name << ": number " << where << " is " << is[where] << ", wanted " << sought.wanted[where];
}

double largest_of(const ref::Values& values) { return values.empty() ? 0 : *std::max_element(values.begin(), values.end()); }

}  // namespace

double far_apart(const ref::Values& is, const ref::Values& wanted) {
  if (is.size() != wanted.size()) return INFINITY;
  double worst = 0;
  for (std::size_t n = 0; n < is.size(); ++n) {
    if (is[n] == wanted[n]) continue;  // infinities
    const double d = std::fabs(is[n] - wanted[n]) / (1 + std::fabs(wanted[n]));
    if (!(d <= worst)) worst = std::isnan(d) ? INFINITY : d;
  }
  return worst;
}

Wanted::Wanted(const ref::Problem& p, DType dtype) {
  Numbers random(77);
  out_gradient = random.values(p.shape.batch * p.shape.queries * p.shape.heads * p.shape.value_width);
  lse_gradient = random.values(p.shape.batch * p.shape.queries * p.shape.heads);
  round_all(out_gradient, dtype);
  round_all(lse_gradient, dtype);
  output = ref::forward(p);
  gradients = ref::backward(p, out_gradient, lse_gradient);
  magnitudes = ref::magnitudes(p, out_gradient, lse_gradient);
}

HeldAs held_as(const ref::Problem& problem, DType dtype) {
  const bool turned = std::any_of(problem.schemes.begin(), problem.schemes.end(), [](const ref::Scheme& scheme) {
    return std::holds_alternative<ref::Rope>(scheme) || std::holds_alternative<ref::MappedRope>(scheme);
  });
  return {.shape = problem.shape, .dtype = dtype, .turned = turned};
}

void expect_output(const ref::Output& is, const ref::Output& wanted, const ref::Magnitudes& magnitudes, const HeldAs& as,
                   const std::string& name) {
  const double u = arithmetic_roundoff(as.dtype);
  const double before = stored_roundoff(as.dtype) * as.roundings_before + (as.dtype == DType::bf16 ? 0x1p-15 : 0);
  const bool narrow = as.dtype != wide_of(as.dtype);
  const double of_weights = narrow && weights_are_rounded ? stored_roundoff(as.dtype) : 0;
  const auto keys = static_cast<double>(as.shape.keys);
  const auto score_of = [&](std::size_t n) {  // (B, Tq, H, Dv) to (B, H, Tq)
    const auto row = static_cast<std::int64_t>(n) / as.shape.value_width;
    const std::int64_t token = row / as.shape.heads;
    const std::int64_t head = token / as.shape.queries * as.shape.heads + row % as.shape.heads;
    return magnitudes.scores[static_cast<std::size_t>(head * as.shape.queries + token % as.shape.queries)];
  };
  expect_within(
      is.out, {wanted.out, magnitudes.out, as.dtype},
      [&](std::size_t n) { return (before + of_weights + u * roundings(score_of(n), keys)) * magnitudes.out[n]; }, name + ", out");
  expect_within(
      is.lse, {wanted.lse, magnitudes.scores, wide_of(as.dtype)},
      [&](std::size_t n) { return before + u * roundings(magnitudes.scores[n], keys); }, name + ", lse");
}

void expect_gradients(ref::Gradients& is, Wanted& wanted, const HeldAs& as, const std::string& name) {
  const ref::Shape& s = as.shape;
  const bool narrow = as.dtype != wide_of(as.dtype);
  const double u = arithmetic_roundoff(as.dtype);
  const double outputs = narrow ? stored_roundoff(as.dtype) * (weights_are_rounded ? 3 : 1) : 0;
  const double score = largest_of(wanted.magnitudes.scores);
  const double turned = narrow && gradients_are_turned_narrow && as.turned ? stored_roundoff(as.dtype) : 0;
  const auto expect = [&](const ref::Values& x, const Sought& sought, std::int64_t summands, const std::string& what, double more = 0) {
    const double part =
        outputs + more + u * (2 * roundings(score, static_cast<double>(s.keys)) + 3 * std::sqrt(static_cast<double>(summands)));
    const double lost = weights_are_rounded && as.dtype == DType::f16 ? 0x1p-25 * 2 * static_cast<double>(summands) : 0;
    expect_within(x, sought, [&](std::size_t n) { return part * sought.magnitudes[n] + lost; }, name + ", gradient of " + what);
  };
  const std::int64_t readers = s.queries * s.heads / std::max<std::int64_t>(s.key_heads, 1);  // of a key
  const ref::Gradients& g = wanted.gradients;
  expect(is.q, {g.q, wanted.magnitudes.gradients.q, as.dtype}, s.keys, "q", turned);
  expect(is.k, {g.k, wanted.magnitudes.gradients.k, as.dtype}, readers, "k", turned);
  expect(is.v, {g.v, wanted.magnitudes.gradients.v, as.dtype}, readers, "v");
  const std::int64_t rows = s.batch * s.queries * (g.sinks.size() == 1 ? s.heads : 1);
  expect(is.sinks, {g.sinks, wanted.magnitudes.gradients.sinks, wide_of(as.dtype)}, rows, "sinks");
  const auto list = [](const ref::Parameter& p) { return ref::Values(p.values.begin(), p.values.end()); };
  for (std::size_t n = 0; n < wanted.gradients.schemes.size(); ++n) {
    const ref::Parameters own = parameters_of(is.schemes[n]);
    const ref::Parameters theirs = parameters_of(wanted.gradients.schemes[n]);
    const ref::Parameters most = parameters_of(wanted.magnitudes.gradients.schemes[n]);
    for (std::size_t k = 0; k < theirs.size(); ++k) {
      expect(list(own[k]), {list(theirs[k]), list(most[k]), wide_of(as.dtype)}, s.batch * s.heads * s.queries * s.keys, theirs[k].name);
    }
  }
}

void expect_wanted(Bridge& bridge, Wanted& wanted, DType dtype, const std::string& name) {
  const HeldAs as = held_as(bridge.problem, dtype);
  const Status forward = bridge.forward();
  ASSERT_TRUE(forward.ok()) << name << ": " << forward.message();
  expect_output(bridge.output(), wanted.output, wanted.magnitudes, as, name);
  const Status backward = bridge.backward(wanted.out_gradient, wanted.lse_gradient);
  ASSERT_TRUE(backward.ok()) << name << ": " << backward.message();
  ref::Gradients is = bridge.reference_gradients();
  expect_gradients(is, wanted, as, name);
}

void expect_forward(const ref::Problem& problem, DType dtype, const std::string& name, Order order) {
  Bridge bridge(problem, dtype, order);
  const Status status = bridge.forward();
  ASSERT_TRUE(status.ok()) << name << ": " << status.message();
  expect_output(bridge.output(), ref::forward(bridge.problem), ref::magnitudes(bridge.problem), {problem.shape, dtype},
                name + ", " + name_of(dtype));
}

void expect_as_reference(const ref::Problem& problem, DType dtype, const std::string& name) {
  Bridge bridge(problem, dtype);
  Wanted wanted(bridge.problem, dtype);
  expect_wanted(bridge, wanted, dtype, name + ", " + name_of(dtype));
}

void expect_as_reference(const ref::Problem& problem, const std::string& name) {
  expect_as_reference(problem, DType::f64, name);
  expect_as_reference(problem, DType::f32, name);
}

void expect_every_scheme_as_reference() {
  for (const std::int64_t queries : {5, 8}) {
    const ref::Shape shape{.batch = 2, .queries = queries, .keys = 8, .heads = 4, .key_heads = 2, .width = 4, .value_width = 3};
    for (const NamedScheme& one : every_scheme(shape, 1)) {
      const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
      if (xpos != nullptr && xpos->keys_rotated) continue;  // the library has none
      ref::Problem p = random_problem(shape, 2);
      p.schemes = {one.scheme};
      p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
      expect_as_reference(p, one.name);
    }
  }
}

std::vector<ref::Shape> edge_shapes() {
  std::vector<ref::Shape> shapes;
  for (const auto& [queries, keys] : {std::pair{1, 1}, {1, 65}, {8, 600}, {9, 63}, {95, 64}, {96, 96}, {97, 129}, {160, 31}}) {
    shapes.push_back({.batch = 2, .queries = queries, .keys = keys, .heads = 4, .key_heads = 2, .width = 10, .value_width = 7});
  }
  shapes.push_back({.batch = 1, .queries = 33, .keys = 70, .heads = 3, .key_heads = 1, .width = 40, .value_width = 36});
  return shapes;
}

std::vector<NamedMask> every_mask(const ref::Shape& s) {
  std::vector<std::uint8_t> padding(static_cast<std::size_t>(s.batch * s.keys), 1);
  for (std::size_t n = 0; n < padding.size(); n += 3) padding[n] = 0;
  std::vector<std::uint8_t> nobody(padding.size(), 0);
  ref::Integers prefix;
  for (std::int64_t b = 0; b < s.batch; ++b) prefix.push_back(s.keys / 2 + b);
  return {{"full", {}},
          {"causal", {.causal = true}},
          {"window", {.left = 5, .right = 3}},
          {"wide window", {.causal = true, .left = 70}},
          {"nothing in the window", {.left = -s.queries - s.keys, .right = 0}},
          {"prefix", {.causal = true, .prefix = prefix}},
          {"padding", {.key_mask = padding}},
          {"causal padding", {.causal = true, .key_mask = padding}},
          {"all padding", {.key_mask = nobody}}};
}

}  // namespace phasor::test
