// SPDX-License-Identifier: Apache-2.0
// The sentences of explain about rotary specs.
#include "analysis/model/explain_words.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/model/words.hpp"
#include "spec/format.hpp"

namespace phasor::analysis {
namespace {

std::int64_t width_of(const RotarySpec& spec) { return spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width; }

/// "channels (i, i + 64)", counted from the head's first.
std::string channels(Pairing pairing, std::int64_t offset, std::int64_t width) {
  if (pairing == Pairing::interleaved) {
    return offset == 0 ? "(2i, 2i + 1)" : spec::format("({} + 2i, {} + 2i)", offset, offset + 1);
  }
  return offset == 0 ? spec::format("(i, i + {})", width / 2) : spec::format("({} + i, {} + i)", offset, offset + width / 2);
}

std::string times(double count) { return count == 1 ? "once" : number(count) + " times"; }

/// What NTK-aware scaling makes of the base.
std::string ntk_base(const RotarySpec& spec, double alpha) {
  const auto width = static_cast<double>(width_of(spec));
  return number(spec.base * std::pow(alpha, width / (width - 2)));
}

struct InWords {
  const RotarySpec& spec;

  std::string operator()(const Unscaled& /*s*/) const { return ""; }
  std::string operator()(const LinearScaling& s) const { return spec::format("linear: every pair {}x slower", number(s.factor)); }
  std::string operator()(const NtkScaling& s) const {
    return spec::format("NTK, alpha {}: the base becomes {}", number(s.alpha), ntk_base(spec, s.alpha));
  }
  std::string operator()(const NtkMixedScaling& s) const {
    if (!s.mixed_exponent) return spec::format("NTK with Su's correction, factor {}", number(s.factor));
    return spec::format("mixed NTK (Su), factor {}, exponent {}", number(s.factor), number(*s.mixed_exponent));
  }
  std::string operator()(const DynamicNtkScaling& s) const {
    const std::int64_t length = std::max(s.length, s.trained_length);
    const double alpha = s.factor * static_cast<double>(length) / static_cast<double>(s.trained_length) - (s.factor - 1);
    return spec::format("dynamic NTK, factor {}: up to {} positions none; the base grows with the length in use, at {} it is {}",
                        number(s.factor), grouped(s.trained_length), grouped(length), ntk_base(spec, alpha));
  }
  std::string operator()(const YarnScaling& s) const {
    const char* ends = s.ramp == YarnRamp::truncated ? "rounded to whole pairs" : "not rounded";
    return spec::format(
        "YaRN, factor {} over {} positions: pairs that turn more than {} in them stay, less than {} slow down {}x, "
        "a ramp between (its ends {})",
        number(s.factor), grouped(s.original_length), times(s.beta_fast), times(s.beta_slow), number(s.factor), ends);
  }
  std::string operator()(const LongRopeScaling& s) const {
    const bool is_long =
        s.choice == LongRopeChoice::long_factors || (s.choice == LongRopeChoice::by_length && s.length > s.original_length);
    return spec::format("LongRoPE, factor {}: one list of factors up to {} positions, another beyond; here the {} one", number(s.factor),
                        grouped(s.original_length), is_long ? "long" : "short");
  }
  std::string operator()(const Llama3Scaling& s) const {
    const auto length = static_cast<double>(s.original_length);
    return spec::format("Llama 3, factor {} over {} positions: wavelengths below {} stay, above {} slow down {}x{}", number(s.factor),
                        grouped(s.original_length), number(length / s.high_freq_factor), number(length / s.low_freq_factor),
                        number(s.factor), s.high_freq_factor > s.low_freq_factor ? ", a ramp between" : "");
  }
  std::string operator()(const ProportionalScaling& s) const {
    return spec::format("proportional: the first {}% of the pairs turn{}, the others never", number(100 * s.share),
                        s.factor == 1 ? "" : spec::format(" {}x slower", number(s.factor)));
  }
  std::string operator()(const GivenFactors& s) const {
    return spec::format("{} given factors, each pair slowed by its own", grouped(static_cast<std::int64_t>(s.factors.size())));
  }
  std::string operator()(const GivenFrequencies& s) const {
    return spec::format("{} given frequencies instead of a base", grouped(static_cast<std::int64_t>(s.frequencies.size())));
  }
  std::string operator()(const GivenDirections& s) const {
    return spec::format("given directions: each pair{} turns along its own mixture of {} axes", s.heads == 1 ? "" : " of each head",
                        s.axes);
  }
};

struct Short {
  std::string operator()(const Unscaled& /*s*/) const { return "unscaled"; }
  std::string operator()(const LinearScaling& s) const { return "linear factor " + number(s.factor); }
  std::string operator()(const NtkScaling& s) const { return "NTK alpha " + number(s.alpha); }
  std::string operator()(const NtkMixedScaling& s) const { return "mixed NTK factor " + number(s.factor); }
  std::string operator()(const DynamicNtkScaling& s) const { return "dynamic NTK factor " + number(s.factor); }
  std::string operator()(const YarnScaling& s) const {
    return spec::format("YaRN factor {} over {}{}", number(s.factor), grouped(s.original_length),
                        s.ramp == YarnRamp::exact ? ", ramp not rounded" : "");
  }
  std::string operator()(const LongRopeScaling& s) const { return "LongRoPE factor " + number(s.factor); }
  std::string operator()(const Llama3Scaling& s) const {
    return spec::format("Llama 3 factor {} over {}", number(s.factor), grouped(s.original_length));
  }
  std::string operator()(const ProportionalScaling& s) const { return spec::format("proportional, {}% turn", number(100 * s.share)); }
  std::string operator()(const GivenFactors& /*s*/) const { return "given factors"; }
  std::string operator()(const GivenFrequencies& /*s*/) const { return "given frequencies"; }
  std::string operator()(const GivenDirections& /*s*/) const { return "given directions"; }
};

std::string order_words(const RotarySpec& spec) {
  if (spec.axes.ladder == AxisLadder::own) return "; each axis has its own ladder of frequencies";
  if (spec.axes.ladder == AxisLadder::dealt) return "; one ladder of frequencies dealt out to the axes in turn";
  return "";
}

}  // namespace

std::string pairing_words(const RotarySpec& spec) {
  const std::int64_t width = width_of(spec);
  const std::int64_t part = spec.segments > 1 ? width / spec.segments : width;
  std::string text = spec::format("{}: channels {} turn together", name_of(spec.pairing), channels(spec.pairing, spec.rotary_offset, part));
  if (width == spec.head_dim) {
    text += spec::format(", all {} of a head", width);
  } else {
    text += spec::format("; {} of a head's {} channels are rotated, {} to {}, the others left alone", width, spec.head_dim,
                         spec.rotary_offset, spec.rotary_offset + width - 1);
  }
  if (spec.segments > 1) text += spec::format("; in {} parts of {} channels, each paired within itself", spec.segments, part);
  const Pairing written = spec.output_pairing.value_or(spec.pairing);
  if (written != spec.pairing) {
    text += spec::format("; read so, but written {}, {}", name_of(written), channels(written, spec.rotary_offset, part));
  }
  if (spec.sense == Sense::clockwise) text += "; turned clockwise";
  if (spec.lanes == Lanes::per_channel_frequencies) text += "; the two channels of a pair turn by different angles (per_channel tables)";
  return text;
}

std::string base_words(const RotarySpec& spec) {
  if (std::holds_alternative<GivenFrequencies>(spec.scaling) || std::holds_alternative<GivenDirections>(spec.scaling)) return "";
  const std::string unit = spec.unit == FrequencyUnit::turns ? "turns per unit of the coordinate" : "radians per position";
  if (spec.axes.ladder != AxisLadder::shared) return spec::format("{}, {}", number(spec.base, Digits::exact), unit);
  return spec::format("{}: pair i turns by base^(-2i/{}) {}", number(spec.base, Digits::exact), width_of(spec), unit);
}

std::string scaling_words(const RotarySpec& spec) { return std::visit(InWords{spec}, spec.scaling); }

std::string short_scaling(const Scaling& scaling) { return std::visit(Short{}, scaling); }

std::string axes_words(const RotarySpec& spec) {
  const std::int64_t count = axis_count(spec);
  if (count < 2 || std::holds_alternative<GivenDirections>(spec.scaling)) return "";
  const std::vector<std::int64_t> axes = axes_of_pairs(spec);
  std::vector<std::string> parts;
  for (std::int64_t axis = 0; axis < count; ++axis) {
    std::vector<std::int64_t> pairs;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] == axis) pairs.push_back(static_cast<std::int64_t>(i));
    }
    parts.push_back(spec::format("{} turns {}", axis_name(axis, count), indices_in_words("pair", pairs)));
  }
  return spec::format("{}: {}{}", count, joined(parts, "; "), order_words(spec));
}

double attention_scale(const LayerPositions& layer, double softmax_scale) {
  const auto channels = static_cast<double>(layer.rotary ? layer.rotary->head_dim : 0);
  const double given = layer.attention_scale.value_or(channels > 0 ? 1 / std::sqrt(channels) : 1);
  return given * softmax_scale;
}

}  // namespace phasor::analysis
