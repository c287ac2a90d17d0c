// SPDX-License-Identifier: Apache-2.0
// Thresholds in 320 bits, and where those cannot decide (a power that is a whole number) by whole numbers.
#include "plan/bias/buckets.hpp"

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <numeric>
#include <variant>

#include "plan/real.hpp"
#include "spec/bias.hpp"

namespace phasor::plan {
namespace {

using Whole = boost::multiprecision::cpp_int;

/// Powers start * (top / bottom)^(j / n), top > bottom.
struct Ladder {
  std::int64_t start;
  std::int64_t top;
  std::int64_t bottom;
  std::int64_t n;
};
/// Whether a threshold that is a whole number belongs to its bucket (floor) or to the one before (ceil).
enum class Tie : std::uint8_t { inside, before };

Whole power_of(std::int64_t x, std::int64_t n) { return boost::multiprecision::pow(Whole(x), static_cast<unsigned>(n)); }

/// The sign of a - start (top / bottom)^(j / n), by whole numbers.
int compare(std::int64_t a, const Ladder& ladder, std::int64_t j) {
  const std::int64_t common = std::gcd(j, ladder.n);
  const std::int64_t n = ladder.n / common;
  const std::int64_t k = j / common;
  const Whole left = power_of(a, n) * power_of(ladder.bottom, k);
  const Whole right = power_of(ladder.start, n) * power_of(ladder.top, k);
  return left.compare(right);
}

/// The first whole number at (or after, as the tie says) the power.
std::int64_t first_at(const Real& power, const Ladder& ladder, std::int64_t j, Tie tie) {
  static const Real close = ldexp(Real(1), -160);  // the ladder's error is below 2^-220
  const auto nearest = static_cast<std::int64_t>(floor(power + 0.5));
  if (abs(power - nearest) > close) return power > nearest ? nearest + 1 : nearest;
  const int sign = compare(nearest, ladder, j);
  return sign > 0 || (sign == 0 && tie == Tie::inside) ? nearest : nearest + 1;
}

/// Of the powers first, first + 1, ..., first + count - 1, until one passes every distance.
std::vector<std::int64_t> thresholds_of(const Ladder& ladder, std::int64_t first, std::int64_t count, Tie tie) {
  const Real ratio = 1 / inverse_root(Real(ladder.top) / ladder.bottom, ladder.n);
  static const Real farthest = ldexp(Real(1), 62);
  std::vector<std::int64_t> list;
  Real power = ladder.start;
  for (std::int64_t j = 0; j < first; ++j) power *= ratio;
  for (std::int64_t j = first; j < first + count && power < farthest; ++j, power *= ratio) {
    list.push_back(first_at(power, ladder, j, tie));
  }
  return list;
}

/// DeBERTa's mid and the distance whose bucket is the last, as the reading has them.
struct DebertaShape {
  std::int64_t mid;
  std::int64_t last;
};
DebertaShape shape_of(const DebertaBuckets& s) {
  if (s.reading == DebertaReading::hf_swapped) return {s.max_distance / 2, s.buckets - 1};
  return {s.buckets / 2, s.max_distance - 1};
}

/// What each scheme's rows follow from.
struct MakeRule {
  RowRule& rule;

  void operator()(const T5Buckets& s) const {
    rule.kind = RowRule::Kind::t5;
    rule.both = s.sides == BucketSides::both;
    rule.buckets = spec::side_buckets(s);
  }
  void operator()(const DebertaBuckets& s) const {
    rule.kind = s.buckets == 0 ? RowRule::Kind::deberta_clip : RowRule::Kind::deberta;
    rule.cut = s.reading == DebertaReading::microsoft;
    rule.buckets = s.buckets;
    rule.max_distance = s.max_distance;
    rule.mid = shape_of(s).mid;
    rule.rising = shape_of(s).last > rule.mid;
  }
  void operator()(const ShawClip& s) const {
    rule.kind = RowRule::Kind::shaw;
    rule.left = s.left;
    rule.right = s.right;
  }
  void operator()(const SwinTable& s) const {
    rule.kind = RowRule::Kind::window;
    rule.rows = spec::window_rows(s.window);
  }
  template <class Scheme>
  void operator()(const Scheme& /*s*/) const {}
};

}  // namespace

// Bucket e + j begins where (a / e)^n >= (D / e)^j.
std::vector<std::int64_t> t5_thresholds(const T5Buckets& s) {
  const std::int64_t exact = spec::side_buckets(s) / 2;
  const std::int64_t n = spec::side_buckets(s) - exact;
  return thresholds_of({exact, s.max_distance, exact, n}, 1, n - 1, Tie::inside);
}

// Rising: |B| >= mid + k where (a / mid)^(mid - 1) > (last / mid)^(k - 1). Falling (last < mid): |B| <= mid - k where
// (a / mid)^(mid - 1) >= (mid / last)^k. Rows are clamped, so buckets beyond the span need no thresholds.
std::vector<std::int64_t> deberta_thresholds(const DebertaBuckets& s) {
  if (s.buckets == 0) return {};
  const auto [mid, last] = shape_of(s);
  if (last > mid) return thresholds_of({mid, last, mid, mid - 1}, 0, std::max<std::int64_t>(s.buckets - mid, 0), Tie::before);
  return thresholds_of({mid, mid, last, mid - 1}, 1, mid + s.buckets, Tie::inside);
}

RowRule row_rule(const BiasPlan& plan) {
  RowRule rule;
  rule.thresholds = plan.thresholds.data();
  rule.threshold_count = static_cast<std::int64_t>(plan.thresholds.size());
  std::visit(MakeRule{rule}, plan.spec);
  return rule;
}

std::int64_t row_of(const BiasPlan& plan, std::int64_t distance) { return row_of(row_rule(plan), distance); }

}  // namespace phasor::plan
