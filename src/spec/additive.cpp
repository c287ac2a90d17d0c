// SPDX-License-Identifier: Apache-2.0
// Validation of a sinusoidal spec: the first field that does not fit is reported.
#include "spec/additive.hpp"

#include <cmath>

#include "spec/format.hpp"

namespace phasor::spec {
namespace {

constexpr std::int64_t largest_width = 1 << 20;  // as of a rotary spec
constexpr double largest_amplitude = 0x1p64;

template <class... Args>
Status wrong(fmt::format_string<Args...> format, Args&&... args) {
  return Status::invalid("SinusoidalSpec: " + spec::format(format, std::forward<Args>(args)...));
}

bool is_positive(double x) { return std::isfinite(x) && x > 0; }

Status check_widths(const SinusoidalSpec& spec) {
  if (spec.width < 1 || spec.width > largest_width) return wrong("width is {}, wanted 1 to {}", spec.width, largest_width);
  std::int64_t rest = spec.width;
  for (const std::int64_t width : spec.axis_widths) {
    if (width < 1 || width > rest) return wrong("axis_widths has {}, wanted numbers above 0 whose sum is {}", width, spec.width);
    rest -= width;
  }
  if (!spec.axis_widths.empty() && rest != 0) return wrong("axis_widths sum to {}, wanted {}", spec.width - rest, spec.width);
  return {};
}

Status check_enums(const SinusoidalSpec& spec) {
  if (spec.order > SinusoidOrder::cos_sin)
    return wrong("order is {}, wanted interleaved, sin_cos or cos_sin", static_cast<int>(spec.order));
  if (spec.odd > OddChannel::unpaired) return wrong("odd is {}, wanted zero or unpaired", static_cast<int>(spec.odd));
  if (spec.unit > FrequencyUnit::turns) return wrong("unit is {}, wanted radians or turns", static_cast<int>(spec.unit));
  return {};
}

/// Of an axis of P pairs: P - shift must be above 0, but a ladder of one pair is 1 whatever the shift.
Status check_ladder(const GeometricLadder& ladder, const SinusoidalSpec& spec) {
  if (!is_positive(ladder.base)) return wrong("ladder.base is {}, wanted a finite number above 0", ladder.base);
  if (!std::isfinite(ladder.shift)) return wrong("ladder.shift is {}, wanted a finite number", ladder.shift);
  for (const AxisPart& part : axis_parts(spec)) {
    const double pairs = static_cast<double>(part.pairs) - (part.unpaired ? 0.5 : 0);
    if (part.pairs > 1 && !(pairs - ladder.shift >= 0x1p-10)) {
      return wrong("ladder.shift is {}, wanted less than the {} pairs of an axis", ladder.shift, pairs);
    }
  }
  return {};
}

Status check_ladder(const LogSpacedLadder& ladder, const SinusoidalSpec& /*spec*/) {
  const auto fits = [](double x) { return x >= 0x1p-200 && x <= 0x1p200; };  // beyond, their quotient is no float64
  if (!fits(ladder.fastest)) return wrong("ladder.fastest is {}, wanted 2^-200 to 2^200", ladder.fastest);
  if (!fits(ladder.slowest)) return wrong("ladder.slowest is {}, wanted 2^-200 to 2^200", ladder.slowest);
  return {};
}

Status check_ladder(const BandLadder& ladder, const SinusoidalSpec& spec) {
  if (!is_positive(ladder.highest)) return wrong("ladder.highest is {}, wanted a finite number above 0", ladder.highest);
  if (ladder.spacing > BandLadder::Spacing::ratio)
    return wrong("ladder.spacing is {}, wanted even or ratio", static_cast<int>(ladder.spacing));
  if (spec.unit != FrequencyUnit::radians) return wrong("unit is turns, wanted radians: bands have their pi already");
  return {};
}

Status check_ladder(const GivenLadder& ladder, const SinusoidalSpec& spec) {
  std::int64_t pairs = 0;
  for (const AxisPart& part : axis_parts(spec)) pairs += part.pairs;
  if (static_cast<std::int64_t>(ladder.frequencies.size()) != pairs) {
    return wrong("ladder.frequencies has {} elements, wanted {}", ladder.frequencies.size(), pairs);
  }
  for (const double frequency : ladder.frequencies) {
    if (!std::isfinite(frequency)) return wrong("ladder.frequencies has {}, wanted finite numbers", frequency);
  }
  return {};
}

}  // namespace

bool is_amplitude(double amplitude) { return std::fabs(amplitude) >= 1 / largest_amplitude && std::fabs(amplitude) <= largest_amplitude; }

std::vector<AxisPart> axis_parts(const SinusoidalSpec& spec) {
  std::vector<std::int64_t> widths = spec.axis_widths;
  if (widths.empty()) widths.push_back(spec.width);
  std::vector<AxisPart> parts;
  AxisPart next = {};
  for (const std::int64_t width : widths) {
    next.width = width;
    next.unpaired = width % 2 != 0 && spec.odd == OddChannel::unpaired;
    next.pairs = width / 2 + (next.unpaired ? 1 : 0);
    parts.push_back(next);
    next.channel += width;
    next.pair += next.pairs;
    ++next.axis;
  }
  return parts;
}

Status check(const SinusoidalSpec& spec) {
  if (Status s = check_widths(spec); !s) return s;
  if (Status s = check_enums(spec); !s) return s;
  if (!is_positive(std::fabs(spec.position_scale))) return wrong("position_scale is {}, wanted a finite number but 0", spec.position_scale);
  if (!is_amplitude(spec.amplitude)) return wrong("amplitude is {}, wanted 2^-64 to 2^64 (or below 0)", spec.amplitude);
  return std::visit([&](const auto& ladder) { return check_ladder(ladder, spec); }, spec.ladder);
}

}  // namespace phasor::spec
