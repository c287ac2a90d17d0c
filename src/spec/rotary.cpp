// SPDX-License-Identifier: Apache-2.0
// Validation of a rotary spec: one function per scaling, the first field that does not fit is reported.
#include "spec/rotary.hpp"

#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

#include "spec/axes.hpp"
#include "spec/format.hpp"

namespace phasor::spec {
namespace {

// Far beyond any model; keeps the error of a ladder of products small and a mistyped width from asking for all memory.
constexpr std::int64_t largest_width = 1 << 20;
// Keeps amplitude * cos and its inverse far inside the range of float32.
constexpr double largest_amplitude = 0x1p64;
// Below 2^62 turns, so that whole turns fit int64.
constexpr double fastest_frequency = 0x1p64;

std::string text(std::int64_t value) { return std::to_string(value); }

std::string text(double value) {
  if (std::isnan(value)) return "nan";  // its sign says nothing
  return spec::format("{}", value);
}

template <class T>
Status wrong(std::string_view field, T value, std::string_view wanted) {
  std::string message = "RotarySpec: ";
  message.append(field).append(" is ").append(text(value)).append(", wanted ").append(wanted);
  return Status::invalid(std::move(message));
}

Status first_error(std::initializer_list<Status> statuses) {
  for (const Status& status : statuses) {
    if (!status) return status;
  }
  return {};
}

Status check_positive(std::string_view field, double value) {
  return std::isfinite(value) && value > 0 ? Status() : wrong(field, value, "a finite number above 0");
}

Status check_positive(std::string_view field, std::int64_t value) { return value > 0 ? Status() : wrong(field, value, "a number above 0"); }

Status check_not_negative(std::string_view field, std::optional<double> value) {
  return !value || (std::isfinite(*value) && *value >= 0) ? Status() : wrong(field, *value, "a finite number, 0 or above");
}

Status check_amplitude(std::string_view field, std::optional<double> value) {
  return !value || (*value >= 1 / largest_amplitude && *value <= largest_amplitude) ? Status() : wrong(field, *value, "2^-64 to 2^64");
}

template <class Enum>
Status check_enum(std::string_view field, Enum value, Enum last, std::string_view wanted) {
  return value <= last ? Status() : wrong(field, static_cast<std::int64_t>(value), wanted);
}

Status check_pairing(std::string_view field, Pairing value) {
  return check_enum(field, value, Pairing::interleaved, "half or interleaved");
}

/// One entry for each pair, each fitting.
template <class Fits>
Status check_list(std::string_view field, const std::vector<double>& list, std::int64_t pairs, Fits fits) {
  const auto size = static_cast<std::int64_t>(list.size());
  if (size != pairs) {
    return Status::invalid("RotarySpec: " + std::string(field) + " has " + text(size) + " entries, wanted " + text(pairs) +
                           ", half the rotary width");
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (Status status = fits(std::string(field) + "[" + std::to_string(i) + "]", list[i]); !status) return status;
  }
  return {};
}

Status check_factors(std::string_view field, const std::vector<double>& list, std::int64_t pairs) {
  return check_list(field, list, pairs, [](std::string_view entry, double value) { return check_positive(entry, value); });
}

// What a scaling is checked against.
struct Frame {
  std::int64_t width;  // of the ladder
  double base;
  const char* width_name = "rotary_width";
};

/// NTK's exponent R / (R - 2) needs a second pair.
Status check_ntk_width(const Frame& frame) {
  return frame.width > 2 ? Status() : wrong(frame.width_name, frame.width, "more than 2 for NTK scaling");
}

Status check_scaling(const Frame&, const Unscaled&) { return {}; }

Status check_scaling(const Frame&, const LinearScaling& s) { return check_positive("scaling.factor", s.factor); }

Status check_scaling(const Frame& frame, const NtkScaling& s) {
  return first_error({check_ntk_width(frame), check_positive("scaling.alpha", s.alpha)});
}

Status check_scaling(const Frame&, const NtkMixedScaling& s) {
  return first_error({check_positive("scaling.factor", s.factor), check_not_negative("scaling.mixed_exponent", s.mixed_exponent)});
}

Status check_scaling(const Frame& frame, const DynamicNtkScaling& s) {
  return first_error({check_ntk_width(frame), check_positive("scaling.factor", s.factor),
                      check_positive("scaling.trained_length", s.trained_length),
                      s.length >= 0 ? Status() : wrong("scaling.length", s.length, "0 or above")});
}

Status check_scaling(const Frame& frame, const YarnScaling& s) {
  return first_error({
      frame.base > 1 ? Status() : wrong("base", frame.base, "more than 1 for YaRN scaling"),  // its ramp divides by ln(base)
      check_positive("scaling.factor", s.factor),
      check_positive("scaling.original_length", s.original_length),
      check_positive("scaling.beta_slow", s.beta_slow),
      check_positive("scaling.beta_fast", s.beta_fast),
      s.beta_fast > s.beta_slow ? Status() : wrong("scaling.beta_fast", s.beta_fast, "more than scaling.beta_slow, " + text(s.beta_slow)),
      check_enum("scaling.ramp", s.ramp, YarnRamp::exact, "truncated or exact"),
      check_amplitude("scaling.attention_factor", s.attention_factor),
      check_not_negative("scaling.mscale", s.mscale),
      check_not_negative("scaling.mscale_all_dim", s.mscale_all_dim),
      check_enum("scaling.softmax", s.softmax, YarnSoftmax::unchanged, "mscale_all_dim_squared or unchanged"),
  });
}

Status check_scaling(const Frame& frame, const LongRopeScaling& s) {
  const bool divides_by_log = !s.attention_factor && s.factor > 1;
  const bool needs_length = s.choice == LongRopeChoice::by_length;
  return first_error({
      check_factors("scaling.short_factors", s.short_factors, frame.width / 2),
      check_factors("scaling.long_factors", s.long_factors, frame.width / 2),
      check_positive("scaling.original_length", s.original_length),
      check_positive("scaling.factor", s.factor),
      divides_by_log && s.original_length == 1 ? wrong("scaling.original_length", s.original_length, "more than 1") : Status(),
      check_amplitude("scaling.attention_factor", s.attention_factor),
      check_enum("scaling.choice", s.choice, LongRopeChoice::by_length, "short_factors, long_factors or by_length"),
      needs_length ? check_positive("scaling.length", s.length) : Status(),
  });
}

Status check_scaling(const Frame&, const Llama3Scaling& s) {
  // Equal factors are an empty ramp, which no pair meets: allowed.
  return first_error({
      check_positive("scaling.factor", s.factor),
      check_positive("scaling.low_freq_factor", s.low_freq_factor),
      check_positive("scaling.high_freq_factor", s.high_freq_factor),
      s.high_freq_factor >= s.low_freq_factor
          ? Status()
          : wrong("scaling.high_freq_factor", s.high_freq_factor, "at least scaling.low_freq_factor, " + text(s.low_freq_factor)),
      check_positive("scaling.original_length", s.original_length),
  });
}

Status check_scaling(const Frame&, const ProportionalScaling& s) {
  return first_error(
      {check_positive("scaling.factor", s.factor), s.share >= 0 && s.share <= 1 ? Status() : wrong("scaling.share", s.share, "0 to 1")});
}

Status check_scaling(const Frame& frame, const GivenFactors& s) {
  return first_error({check_factors("scaling.factors", s.factors, frame.width / 2), check_amplitude("scaling.amplitude", s.amplitude)});
}

Status check_frequency(std::string_view entry, double value) {
  return std::fabs(value) < fastest_frequency ? Status() : wrong(entry, value, "a finite number, less than 2^64 either way");
}

Status check_scaling(const Frame& frame, const GivenFrequencies& s) {
  return first_error({check_list("scaling.frequencies", s.frequencies, frame.width / 2, check_frequency),
                      check_amplitude("scaling.amplitude", s.amplitude)});
}

Status check_scaling(const Frame& frame, const GivenDirections& s) {
  if (s.axes < 1 || s.axes > kMostAxes) return wrong("scaling.axes", s.axes, "1 to " + text(kMostAxes));
  if (s.heads < 1 || s.heads > largest_width) return wrong("scaling.heads", s.heads, "1 to " + text(largest_width));
  const std::int64_t entries = s.axes * s.heads * (frame.width / 2);
  if (const auto size = static_cast<std::int64_t>(s.frequencies.size()); size != entries) {
    return Status::invalid("RotarySpec: scaling.frequencies has " + text(size) + " entries, wanted " + text(entries) +
                           ", axes * heads * half the rotary width");
  }
  return check_list("scaling.frequencies", s.frequencies, entries, check_frequency);
}

Status check_width(const RotarySpec& spec) {
  const std::int64_t width = rotary_width(spec);
  if (width <= 0) return wrong("rotary_width", width, "a number above 0, or 0 for head_dim");
  if (width % 2 != 0) return wrong(spec.rotary_width == 0 ? "head_dim" : "rotary_width", width, "an even number");
  if (width > largest_width) return wrong("rotary_width", width, "at most " + text(largest_width));
  if (width > spec.head_dim) return wrong("rotary_width", width, "at most head_dim, " + text(spec.head_dim));
  if (spec.rotary_offset < 0) return wrong("rotary_offset", spec.rotary_offset, "0 or above");
  if (spec.rotary_offset > spec.head_dim - width) {
    return wrong("rotary_offset", spec.rotary_offset, "at most head_dim - rotary_width, " + text(spec.head_dim - width));
  }
  return {};
}

}  // namespace

std::int64_t rotary_width(const RotarySpec& spec) { return spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width; }

Status check(const RotarySpec& spec) {
  if (Status status = first_error({
          check_positive("head_dim", spec.head_dim),
          check_width(spec),
          check_positive("base", spec.base),
          check_pairing("pairing", spec.pairing),
          check_pairing("output_pairing", spec.output_pairing.value_or(Pairing::half)),
          check_enum("sense", spec.sense, Sense::clockwise, "counterclockwise or clockwise"),
          check_enum("numerics", spec.numerics, Numerics::ggml, "exact, hf, hf_float32, vllm or ggml"),
      });
      !status) {
    return status;
  }
  if (Status status = check_axes(spec); !status) return status;
  const auto check_frame = [&](const Frame& frame) {
    return std::visit([&](const auto& scaling) { return check_scaling(frame, scaling); }, spec.scaling);
  };
  if (spec.axes.ladder != AxisLadder::own) return check_frame({rotary_width(spec), spec.base});
  for (const std::int64_t pairs : pairs_of_axis(spec)) {  // the scaling is applied to the ladder of each axis
    if (pairs == 0) continue;
    if (Status status = check_frame({2 * pairs, spec.base, "axes.ladder is own and twice a section"}); !status) return status;
  }
  return {};
}

}  // namespace phasor::spec
