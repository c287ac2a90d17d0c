// SPDX-License-Identifier: Apache-2.0
// Specs as code: one walk over the fields that fields.hpp lists, in the words of a language.
#include "figures/spec_code.hpp"

#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "figures/joined.hpp"
#include "figures/spec_words.hpp"
#include "phasor/fields.hpp"

namespace phasor::figures {
namespace {

enum class Language : std::uint8_t { cpp, python };

constexpr const char* enum_name(YarnSoftmax /*v*/) { return "YarnSoftmax"; }
constexpr const char* enum_name(YarnRamp /*v*/) { return "YarnRamp"; }
constexpr const char* enum_name(LongRopeChoice /*v*/) { return "LongRopeChoice"; }
constexpr const char* enum_name(AxisOrder /*v*/) { return "AxisOrder"; }
constexpr const char* enum_name(AxisLadder /*v*/) { return "AxisLadder"; }
constexpr const char* enum_name(Pairing /*v*/) { return "Pairing"; }
constexpr const char* enum_name(Sense /*v*/) { return "Sense"; }
constexpr const char* enum_name(Lanes /*v*/) { return "Lanes"; }
constexpr const char* enum_name(FrequencyUnit /*v*/) { return "FrequencyUnit"; }
constexpr const char* enum_name(Numerics /*v*/) { return "Numerics"; }

/// Specs in the words of a language; members that are as by default are left out.
class Writer {
 public:
  explicit Writer(Language language) : cpp_(language == Language::cpp) {}

  template <class Spec>
  std::string object(const Spec& spec) const {
    return object(name_of(std::type_identity<Spec>()), members(spec), members(Spec{}));
  }

 private:
  using Members = std::vector<std::string>;

  std::string object(std::string_view type, const Members& is, const Members& by_default) const {
    Members written;
    for (std::size_t i = 0; i < is.size(); ++i) {
      if (is[i] != by_default[i]) written.push_back(is[i]);
    }
    const std::string list = joined(written, ", ");
    return cpp_ ? fmt::format("phasor::{}{{{}}}", type, list) : fmt::format("phasor.{}({})", type, list);
  }
  std::string member(const char* name, const std::string& value) const {
    return cpp_ ? fmt::format(".{} = {}", name, value) : fmt::format("{}={}", name, value);
  }
  std::string enumerator(const char* type, std::string_view value) const {
    return cpp_ ? fmt::format("phasor::{}::{}", type, value) : fmt::format("\"{}\"", value);
  }
  std::string list_of(const Members& values) const {
    const std::string list = joined(values, ", ");
    return cpp_ ? fmt::format("{{{}}}", list) : fmt::format("[{}]", list);
  }

  struct Visit {
    const Writer& writer;
    Members list = {};
    template <class T>
    void operator()(const char* name, const T& value) {
      list.push_back(writer.member(name, writer.text_of(value)));
    }
  };
  template <class Spec>
  Members members(const Spec& spec) const {
    Visit visit{*this};
    fields(visit, spec);
    return visit.list;
  }

  static std::string text_of(double value) { return fmt::format("{}", value); }
  static std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
  static std::string text_of(std::uint8_t value) { return fmt::format("{}", static_cast<int>(value)); }
  template <class T>
  std::string text_of(const std::optional<T>& value) const {
    return value ? text_of(*value) : "none";
  }
  template <class T>
  std::string text_of(const std::vector<T>& values) const {
    Members list;
    for (const T& value : values) list.push_back(text_of(value));
    return list_of(list);
  }
  template <class... T>
  std::string text_of(const std::variant<T...>& value) const {
    return std::visit([this](const auto& one) { return this->object(one); }, value);
  }
  template <class T>
  std::string text_of(const T& value) const {
    if constexpr (std::is_enum_v<T>) {
      return enumerator(enum_name(value), values_of(std::type_identity<T>())[static_cast<std::size_t>(value)]);
    } else {
      return object(value);
    }
  }

  bool cpp_;
};

std::string option_of(std::string name) {
  for (char& c : name) c = c == '_' ? '-' : c;
  return name;
}

/// Options of a scaling, under the names of its fields.
struct Options {
  std::string text = {};
  std::string missing = {};  // the first field that no option says

  template <class T>
  void add(const char* name, const T& value) {
    text += fmt::format(" --{} {}", option_of(name), value);
  }
  void refuse(const char* field) {
    if (missing.empty()) missing = field;
  }
};

/// Fields of scalings whose options have other names, or that no option says.
struct ScalingOptions {
  Options& out;
  bool dynamic = false;

  void operator()(const char* name, const double& value) const { out.add(name, value); }
  void operator()(const char* name, const std::int64_t& value) const {
    const std::string_view field = name;
    if (field == "length" && value == 0) return;
    out.add(field == "trained_length" ? "original_length" : name, value);
  }
  void operator()(const char* name, const std::optional<double>& value) const {
    if (value) out.add(name, *value);
  }
  void operator()(const char* name, const std::vector<double>& list) const { out.add(name, joined(list, ",")); }
  void operator()(const char* name, const YarnRamp& ramp) const {
    if (ramp != YarnRamp::truncated) out.add(name, "exact");
  }
  void operator()(const char* name, const YarnSoftmax& softmax) const {
    if (softmax != YarnSoftmax::mscale_all_dim_squared) out.refuse(name);
  }
  void operator()(const char* name, const LongRopeChoice& choice) const {
    if (choice != LongRopeChoice::by_length) out.refuse(name);
  }
};

void add_scaling(const RotarySpec& spec, Options& out) {
  if (std::holds_alternative<Unscaled>(spec.scaling)) return;
  if (std::holds_alternative<GivenDirections>(spec.scaling)) return out.refuse("scaling");
  out.add("scaling", scaling_name(spec.scaling));
  ScalingOptions visit{out};
  std::visit([&](const auto& scaling) { fields(visit, scaling); }, spec.scaling);
}

void add_layout(const RotarySpec& spec, Options& out) {
  if (spec.rotary_offset != 0) out.add("rotary_offset", spec.rotary_offset);
  if (spec.pairing != Pairing::half) out.add("pairing", "interleaved");
  if (spec.output_pairing) out.refuse("output_pairing");
  if (spec.sense == Sense::clockwise) out.add("sense", "clockwise");
  if (spec.axes.order == AxisOrder::given) out.refuse("axes.axis_of_pair");
  if (!spec.axes.sections.empty()) {
    out.add("sections", joined(spec.axes.sections, ","));
    if (spec.axes.order != AxisOrder::chunked) out.add("axis_order", name_of(spec.axes.order));
    if (spec.axes.ladder != AxisLadder::shared) out.add("axis_ladder", name_of(spec.axes.ladder));
  }
  if (spec.segments != 1) out.add("segments", spec.segments);
  if (spec.lanes != Lanes::alike) out.refuse("lanes");
  if (spec.unit != FrequencyUnit::radians) out.refuse("unit");
  if (spec.numerics != Numerics::exact) out.add("numerics", name_of(spec.numerics));
}

}  // namespace

Result<std::string> cpp_of(const RotarySpec& spec) {
  return fmt::format(
      "#include <phasor/phasor.hpp>\n\nconst phasor::RotarySpec spec = {};\nconst auto rotary = phasor::Rotary::make(spec);\n"
      "if (rotary.ok()) (void)rotary->apply(q, k, phasor::positions_from(0));\n",
      Writer(Language::cpp).object(spec));
}

Result<std::string> python_of(const RotarySpec& spec) {
  return fmt::format("import phasor\n\nspec = {}\nrope = phasor.Rotary.from_spec(spec)\nq, k = rope(q, k, positions=0)\n",
                     Writer(Language::python).object(spec));
}

Result<std::string> command_of(const RotarySpec& spec) {
  Options out;
  out.add("head_dim", spec.head_dim);
  if (spec.rotary_width != 0 && spec.rotary_width != spec.head_dim) out.add("rotary_width", spec.rotary_width);
  if (spec.base != RotarySpec{}.base) out.add("base", spec.base);
  add_scaling(spec, out);
  add_layout(spec, out);
  if (!out.missing.empty()) return Status::unsupported(fmt::format("the tool has no option for {}", out.missing));
  return "phasor table" + out.text + "\n";
}

}  // namespace phasor::figures
