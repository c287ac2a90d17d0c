// SPDX-License-Identifier: Apache-2.0
// Sums over the pairs of a spec by distance: every cosine from a 192-bit phase, added in double-double, rounded once.
#include "analysis/exact_pairs.hpp"

#include <algorithm>

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

math::CosSin<DoubleDouble> at(const math::Step& step, std::int64_t position) {
  return math::sincos_double_double(math::phase_of(step, position));
}

/// Offsets are kept for about this many pairs: 2 MiB.
constexpr std::int64_t kOffsets = 1 << 16;

}  // namespace

Result<ExactPairs> exact_pairs(const char* where, const Rotary& rotary) {
  Status status = check_relative(where, rotary);
  if (status.ok()) status = check_heads(where, rotary);
  if (!status.ok()) return status;
  RotarySpec spec = rotary.spec();
  spec.numerics = Numerics::exact;
  const Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  if (!plan.ok()) return plan.status();
  const auto pairs = static_cast<std::size_t>(rotary.rotary_width() / 2);
  ExactPairs exact{std::vector<math::Step>(pairs, math::Step{}), plan->amplitude};
  for (std::size_t i = 0; i < plan->steps.size(); ++i) add_fraction(exact.steps[i % pairs], plan->steps[i]);
  return exact;
}

double score_sum(const ExactPairs& pairs, std::int64_t distance) {
  DoubleDouble sum{0, 0};
  for (const math::Step& step : pairs.steps) sum = sum + at(step, distance).cos;
  return times_amplitude_squared(sum, pairs.amplitude);
}

DistanceWalk::DistanceWalk(const ExactPairs& pairs)
    : pairs_(pairs), block_(std::clamp<std::int64_t>(kOffsets / static_cast<std::int64_t>(pairs.steps.size()), 1, 64)) {
  offsets_.reserve(static_cast<std::size_t>(block_) * pairs.steps.size());
  for (std::int64_t k = 0; k < block_; ++k) {
    for (const math::Step& step : pairs.steps) offsets_.push_back(at(step, k));
  }
  start_.resize(pairs.steps.size());
}

void DistanceWalk::advance() {
  ++distance_;
  if (distance_ % block_ != 0) return;
  for (std::size_t i = 0; i < start_.size(); ++i) start_[i] = at(pairs_.steps[i], distance_);
}

DistanceWalk::CosSin DistanceWalk::turned(std::int64_t pair) const {
  const auto i = static_cast<std::size_t>(pair);
  const CosSin& a = start_[i];
  const CosSin& b = offsets_[static_cast<std::size_t>(distance_ % block_) * start_.size() + i];
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
