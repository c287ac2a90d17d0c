// SPDX-License-Identifier: Apache-2.0
// Which row of a table a distance reads, for every device.
#pragma once

#include <cstdint>

#include "math/portable.hpp"
#include "plan/bias/source.hpp"

namespace phasor::plan {

PHASOR_HD inline std::int64_t clamped(std::int64_t x, std::int64_t low, std::int64_t high) { return x < low ? low : x > high ? high : x; }

/// Whether no distance beyond `a` has passed more thresholds: most of a long sequence has passed all.
PHASOR_HD inline bool has_passed_all(const RowRule& rule, std::int64_t a) {
  return rule.threshold_count == 0 || rule.thresholds[rule.threshold_count - 1] <= a;
}
/// Thresholds at or below `a`.
PHASOR_HD inline std::int64_t passed(const RowRule& rule, std::int64_t a) {
  if (has_passed_all(rule, a)) return rule.threshold_count;
  std::int64_t low = 0;
  std::int64_t high = rule.threshold_count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (rule.thresholds[middle] <= a) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

PHASOR_HD inline std::int64_t t5_row(const RowRule& rule, std::int64_t distance) {
  const std::int64_t n = rule.buckets;
  const std::int64_t behind = distance < 0 ? 0 : distance;
  const std::int64_t a = rule.both && distance < 0 ? -distance : behind;
  const std::int64_t bucket = a < n / 2 ? a : n / 2 + passed(rule, a);
  return rule.both && distance < 0 ? n + bucket : bucket;
}

PHASOR_HD inline std::int64_t deberta_row(const RowRule& rule, std::int64_t distance) {
  std::int64_t a = distance < 0 ? -distance : distance;
  if (rule.cut && a > rule.max_distance - 1) a = rule.max_distance - 1;
  std::int64_t bucket = a;
  if (a > rule.mid) bucket = rule.rising ? rule.mid + passed(rule, a) : rule.mid - passed(rule, a);
  return clamped((distance < 0 ? -bucket : bucket) + rule.buckets, 0, 2 * rule.buckets - 1);
}

/// -1: there is no table, or the distance is outside the window.
PHASOR_HD inline std::int64_t row_of(const RowRule& rule, std::int64_t distance) {
  switch (rule.kind) {
    case RowRule::Kind::t5:
      return t5_row(rule, distance);
    case RowRule::Kind::deberta:
      return deberta_row(rule, distance);
    case RowRule::Kind::deberta_clip:
      return clamped(distance, -rule.max_distance, rule.max_distance - 1) + rule.max_distance;
    case RowRule::Kind::shaw:
      return clamped(-distance, -rule.left, rule.right) + rule.left;
    case RowRule::Kind::window: {
      const std::int64_t row = distance + rule.rows / 2;
      return row >= 0 && row < rule.rows ? row : -1;
    }
    case RowRule::Kind::none:
      break;
  }
  return -1;
}

}  // namespace phasor::plan
