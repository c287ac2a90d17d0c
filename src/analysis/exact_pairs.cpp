// SPDX-License-Identifier: Apache-2.0
// Sums over the pairs of a spec by distance: every cosine from a 192-bit phase, added in double-double, rounded once.
#include "analysis/exact_pairs.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/float32_angles.hpp"
#include "plan/rotary.hpp"

namespace phasor::analysis {
namespace {

using math::DoubleDouble;

/// Adds modulo one turn.
void add_fraction(math::Step& sum, const math::Step& term) {
  math::u64 carry = 0;
  for (int i = 0; i < 3; ++i) {
    const math::u64 partial = sum.fraction[i] + carry;
    carry = partial < carry ? 1 : 0;
    sum.fraction[i] = partial + term.fraction[i];
    carry += sum.fraction[i] < partial ? 1 : 0;
  }
}

double times_amplitude_squared(DoubleDouble sum, double amplitude) {
  if (amplitude == 1) return sum.high;
  return (sum * math::two_product(amplitude, amplitude)).high;
}

math::CosSin<DoubleDouble> sincos_at(const math::Step& step, std::int64_t position) {
  return math::sincos_double_double(math::phase_of(step, position));
}

ExactPairs pairs_of(const plan::RotaryPlan& plan, std::size_t pairs) {
  ExactPairs exact{std::vector<math::Step>(pairs, math::Step{}), plan.amplitude};
  for (std::size_t i = 0; i < plan.steps.size(); ++i) add_fraction(exact.steps[i % pairs], plan.steps[i]);
  return exact;
}

/// Offsets are kept for about this many pairs: 2 MiB.
constexpr std::int64_t kOffsets = 1 << 16;

/// As many offsets as starts, which makes their sum least; 64 where distances are many.
std::int64_t block_of(std::int64_t distances, std::size_t pairs) {
  const auto even = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(std::clamp<std::int64_t>(distances, 1, 4096)))));
  return std::clamp<std::int64_t>(even, 1, std::max<std::int64_t>(1, kOffsets / static_cast<std::int64_t>(pairs)));
}

}  // namespace

Result<ExactPairs> exact_pairs(const char* where, const Rotary& rotary) {
  Status status = check_relative(where, rotary);
  if (status.ok()) status = check_heads(where, rotary);
  if (!status.ok()) return status;
  const auto pairs = static_cast<std::size_t>(rotary.rotary_width() / 2);
  RotarySpec spec = rotary.spec();
  if (spec.numerics == Numerics::exact) return pairs_of(rotary.plan(), pairs);  // planned already
  spec.numerics = Numerics::exact;
  const Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  if (!plan.ok()) return plan.status();
  return pairs_of(*plan, pairs);
}

double score_sum(const ExactPairs& pairs, std::int64_t distance) {
  DoubleDouble sum{0, 0};
  for (const math::Step& step : pairs.steps) sum = sum + sincos_at(step, distance).cos;
  return times_amplitude_squared(sum, pairs.amplitude);
}

DistanceWalk::DistanceWalk(const ExactPairs& pairs, const EvenDistances& at)
    : pairs_(pairs), at_(at), block_(block_of(at.count, pairs.steps.size())) {
  offsets_.reserve(static_cast<std::size_t>(block_) * pairs.steps.size());
  for (std::int64_t k = 0; k < block_; ++k) {
    for (const math::Step& step : pairs.steps) offsets_.push_back(sincos_at(step, k * at_.step));
  }
  start_.resize(pairs.steps.size());
}

void DistanceWalk::advance() {
  ++number_;
  if (number_ % block_ != 0) return;
  for (std::size_t i = 0; i < start_.size(); ++i) start_[i] = sincos_at(pairs_.steps[i], at_.first + number_ * at_.step);
}

DistanceWalk::CosSin DistanceWalk::turned(std::int64_t pair) const {
  const auto i = static_cast<std::size_t>(pair);
  const CosSin& a = start_[i];
  const CosSin& b = offsets_[static_cast<std::size_t>(number_ % block_) * start_.size() + i];
  return {a.cos * b.cos + -(a.sin * b.sin), a.sin * b.cos + a.cos * b.sin};
}

double DistanceWalk::score() const {
  DoubleDouble sum{0, 0};
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(start_.size()); ++i) sum = sum + turned(i).cos;
  return times_amplitude_squared(sum, pairs_.amplitude);
}

double DistanceWalk::sine_squares() const {
  double sum = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(start_.size()); ++i) {
    const double sine = turned(i).sin.high;
    sum += sine * sine;
  }
  return sum;
}

}  // namespace phasor::analysis
