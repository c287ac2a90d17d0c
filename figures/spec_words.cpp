// SPDX-License-Identifier: Apache-2.0
// A spec back as words and as JSON, under the names of the options.
#include "figures/spec_words.hpp"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "figures/joined.hpp"

namespace phasor::figures {
namespace {

const char* pairing_name(Pairing pairing) { return pairing == Pairing::half ? "half" : "interleaved"; }

/// Name and fields of a scaling in the order of its struct, each value as JSON has it.
struct Fields {
  std::string name;
  std::vector<std::pair<std::string, std::string>> values = {};

  template <class T>
  Fields& add(const char* field, const T& value) {
    values.emplace_back(field, fmt::format("{}", value));
    return *this;
  }
  Fields& add(const char* field, const std::optional<double>& value) { return value ? add(field, *value) : *this; }
  Fields& add(const char* field, const std::vector<double>& list) {
    values.emplace_back(field, fmt::format("[{}]", joined(list, ", ")));
    return *this;
  }
};

struct ToFields {
  Fields operator()(const Unscaled& /*s*/) const { return {"unscaled"}; }
  Fields operator()(const LinearScaling& s) const { return Fields{"linear"}.add("factor", s.factor); }
  Fields operator()(const NtkScaling& s) const { return Fields{"ntk"}.add("alpha", s.alpha); }
  Fields operator()(const NtkMixedScaling& s) const {
    return Fields{"ntk-mixed"}.add("factor", s.factor).add("mixed_exponent", s.mixed_exponent);
  }
  Fields operator()(const DynamicNtkScaling& s) const {
    Fields fields = Fields{"dynamic"}.add("factor", s.factor).add("original_length", s.trained_length);
    return s.length == 0 ? fields : fields.add("length", s.length);
  }
  Fields operator()(const YarnScaling& s) const {
    Fields fields = Fields{"yarn"}.add("factor", s.factor).add("original_length", s.original_length);
    fields.add("beta_fast", s.beta_fast).add("beta_slow", s.beta_slow).add("attention_factor", s.attention_factor);
    fields.add("mscale", s.mscale).add("mscale_all_dim", s.mscale_all_dim);
    if (s.ramp == YarnRamp::exact) fields.values.emplace_back("ramp", "\"exact\"");
    return fields;
  }
  Fields operator()(const LongRopeScaling& s) const {
    Fields fields = Fields{"longrope"}.add("factor", s.factor).add("original_length", s.original_length).add("length", s.length);
    return fields.add("attention_factor", s.attention_factor).add("short_factors", s.short_factors).add("long_factors", s.long_factors);
  }
  Fields operator()(const Llama3Scaling& s) const {
    Fields fields = Fields{"llama3"}.add("factor", s.factor).add("low_freq_factor", s.low_freq_factor);
    return fields.add("high_freq_factor", s.high_freq_factor).add("original_length", s.original_length);
  }
  Fields operator()(const ProportionalScaling& s) const { return Fields{"proportional"}.add("factor", s.factor).add("share", s.share); }
  Fields operator()(const GivenFactors& s) const { return Fields{"given-factors"}.add("amplitude", s.amplitude).add("factors", s.factors); }
  Fields operator()(const GivenFrequencies& s) const {
    return Fields{"given-frequencies"}.add("amplitude", s.amplitude).add("frequencies", s.frequencies);
  }
  Fields operator()(const GivenDirections& s) const {  // no option makes them
    return Fields{"given-directions"}.add("axes", s.axes).add("heads", s.heads);
  }
};

/// What differs from the default, for people.
std::string rest_of(const RotarySpec& spec) {
  std::string text;
  const Axes& axes = spec.axes;
  if (!axes.sections.empty())
    text += fmt::format(", sections {} {}, {} ladder", joined(axes.sections, ","), name_of(axes.order), name_of(axes.ladder));
  if (spec.segments > 1) text += fmt::format(", {} segments", spec.segments);
  if (spec.sense == Sense::clockwise) text += ", clockwise";
  if (spec.numerics != Numerics::exact) text += fmt::format(", numerics {}", name_of(spec.numerics));
  return text;
}

}  // namespace

const std::vector<std::string>& numerics_names() {
  static const std::vector<std::string> names{"exact", "hf", "hf_float32", "vllm", "ggml"};
  return names;
}

const std::vector<std::string>& order_names() {
  static const std::vector<std::string> names{"chunked", "interleaved", "alternating"};
  return names;
}

const std::vector<std::string>& ladder_names() {
  static const std::vector<std::string> names{"shared", "own", "dealt"};
  return names;
}

const char* name_of(Numerics numerics) { return numerics_names().at(static_cast<std::size_t>(numerics)).c_str(); }
const char* name_of(AxisOrder order) {
  return order == AxisOrder::given ? "given" : order_names().at(static_cast<std::size_t>(order)).c_str();
}
const char* name_of(AxisLadder ladder) { return ladder_names().at(static_cast<std::size_t>(ladder)).c_str(); }

std::string scaling_name(const Scaling& scaling) { return std::visit(ToFields{}, scaling).name; }

std::string describe(const RotarySpec& spec) {
  const Fields fields = std::visit(ToFields{}, spec.scaling);
  std::string list;
  for (const auto& [name, value] : fields.values) list += fmt::format("{}{} {}", list.empty() ? " (" : ", ", name, value);
  std::string width =
      spec.rotary_width == 0 || spec.rotary_width == spec.head_dim ? "" : fmt::format(", rotary_width {}", spec.rotary_width);
  if (spec.rotary_offset != 0) width += fmt::format(", rotary_offset {}", spec.rotary_offset);
  return fmt::format("head_dim {}{}, base {}, {}{}{}, pairing {}{}", spec.head_dim, width, spec.base, fields.name, list,
                     list.empty() ? "" : ")", pairing_name(spec.pairing), rest_of(spec));
}

std::string label_of(const RotarySpec& spec) {
  const Fields fields = std::visit(ToFields{}, spec.scaling);
  std::string text = fmt::format("base {:g}, {}", spec.base, fields.name);
  for (const auto& [name, value] : fields.values) {
    if (name == "factor" || name == "alpha" || name == "share") text += fmt::format(", {} {}", name, value);
  }
  return text;
}

std::string to_json(const RotarySpec& spec) {
  const Fields fields = std::visit(ToFields{}, spec.scaling);
  std::string list;
  for (const auto& [name, value] : fields.values) list += fmt::format(", \"{}\": {}", name, value);
  const std::string axes = fmt::format(R"({{"sections": [{}], "order": "{}", "ladder": "{}"}})", joined(spec.axes.sections, ", "),
                                       name_of(spec.axes.order), name_of(spec.axes.ladder));
  return fmt::format(
      R"({{"head_dim": {}, "rotary_width": {}, "rotary_offset": {}, "base": {}, "pairing": "{}", "scaling": {{"name": "{}"{}}}, "axes": {}, "segments": {}, "sense": "{}", "numerics": "{}"}})",
      spec.head_dim, spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width, spec.rotary_offset, spec.base, pairing_name(spec.pairing),
      fields.name, list, axes, spec.segments, spec.sense == Sense::clockwise ? "clockwise" : "counterclockwise", name_of(spec.numerics));
}

Result<std::vector<Rotary>> rotaries_of(const std::vector<NamedSpec>& specs) {
  std::vector<Rotary> rotaries;
  for (const NamedSpec& one : specs) {
    const auto rotary = Rotary::make(one.spec);
    if (!rotary.ok()) return rotary.status();
    rotaries.push_back(*rotary);
  }
  return rotaries;
}

}  // namespace phasor::figures
