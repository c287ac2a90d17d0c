// SPDX-License-Identifier: Apache-2.0
// Options to spec: which option belongs to which scaling.
#include "spec_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "figures/joined.hpp"
#include "models.hpp"

namespace phasor::cli {
namespace {

/// Hands out what a scaling asks for, and knows afterwards what was typed in vain.
class Given {
 public:
  template <class T>
  void add(const char* name, const std::optional<T>& value) {
    if (value.has_value()) unused_.insert(name);
  }
  template <class T>
  void add(const char* name, const std::vector<T>& list) {
    if (!list.empty()) unused_.insert(name);
  }
  template <class T>
  T required(const char* name, const std::optional<T>& value) {
    if (!value.has_value()) throw UsageError(fmt::format("{} wants {}", taker_, name));
    return optional(name, value, T{});
  }
  template <class T>
  T optional(const char* name, const std::optional<T>& value, const T& otherwise) {
    unused_.erase(name);
    return value.value_or(otherwise);
  }
  template <class T>
  std::vector<T> required(const char* name, const std::vector<T>& list) {
    if (list.empty()) throw UsageError(fmt::format("{} wants {}", taker_, name));
    unused_.erase(name);
    return list;
  }
  void used(const char* name) { unused_.erase(name); }
  void check_all_used() const {
    if (!unused_.empty()) throw UsageError(fmt::format("{} takes no {}", taker_, *unused_.begin()));
  }
  explicit Given(std::string taker) : taker_(std::move(taker)) {}

 private:
  std::string taker_;  // "--scaling linear"
  std::set<std::string> unused_;
};

Scaling make_yarn(const SpecOptions& o, Given& given) {
  YarnScaling yarn;
  yarn.factor = given.required("--factor", o.factor);
  yarn.original_length = given.required("--original-length", o.original_length);
  yarn.beta_fast = given.optional("--beta-fast", o.beta_fast, yarn.beta_fast);
  yarn.beta_slow = given.optional("--beta-slow", o.beta_slow, yarn.beta_slow);
  for (const char* name : {"--attention-factor", "--mscale", "--mscale-all-dim"}) given.used(name);
  yarn.attention_factor = o.attention_factor;
  yarn.mscale = o.mscale;
  yarn.mscale_all_dim = o.mscale_all_dim;
  yarn.ramp = given.optional("--ramp", o.ramp, std::string("truncated")) == "exact" ? YarnRamp::exact : YarnRamp::truncated;
  return yarn;
}

Scaling make_ntk_mixed(const SpecOptions& o, Given& given) {
  NtkMixedScaling mixed;
  mixed.factor = given.required("--factor", o.factor);
  given.used("--mixed-exponent");
  mixed.mixed_exponent = o.mixed_exponent;
  return mixed;
}

/// Without --length the short list: nothing is longer than it was trained for.
Scaling make_longrope(const SpecOptions& o, Given& given) {
  LongRopeScaling longrope;
  longrope.short_factors = given.required("--short-factors", o.short_factors);
  longrope.long_factors = given.required("--long-factors", o.long_factors);
  longrope.original_length = given.required("--original-length", o.original_length);
  longrope.factor = given.optional("--factor", o.factor, longrope.factor);
  longrope.length = given.optional("--length", o.length, longrope.original_length);
  given.used("--attention-factor");
  longrope.attention_factor = o.attention_factor;
  return longrope;
}

Scaling make_proportional(const SpecOptions& o, Given& given) {
  ProportionalScaling proportional;
  proportional.factor = given.optional("--factor", o.factor, proportional.factor);
  proportional.share = given.required("--share", o.share);
  return proportional;
}

Scaling make_given_factors(const SpecOptions& o, Given& given) {
  return GivenFactors{given.required("--factors", o.factors), given.optional("--amplitude", o.amplitude, 1.0)};
}

Scaling make_given_frequencies(const SpecOptions& o, Given& given) {
  return GivenFrequencies{given.required("--frequencies", o.frequencies), given.optional("--amplitude", o.amplitude, 1.0)};
}

Scaling make_llama3(const SpecOptions& o, Given& given) {
  Llama3Scaling llama3;
  llama3.factor = given.optional("--factor", o.factor, llama3.factor);
  llama3.low_freq_factor = given.optional("--low-freq-factor", o.low_freq_factor, llama3.low_freq_factor);
  llama3.high_freq_factor = given.optional("--high-freq-factor", o.high_freq_factor, llama3.high_freq_factor);
  llama3.original_length = given.optional("--original-length", o.original_length, llama3.original_length);
  return llama3;
}

Scaling make_dynamic(const SpecOptions& o, Given& given) {
  DynamicNtkScaling dynamic;
  dynamic.factor = given.required("--factor", o.factor);
  dynamic.trained_length = given.required("--original-length", o.original_length);
  dynamic.length = given.optional("--length", o.length, dynamic.length);
  return dynamic;
}

using MakeScaling = std::function<Scaling(const SpecOptions&, Given&)>;

const std::map<std::string, MakeScaling>& scalings() {
  static const std::map<std::string, MakeScaling> all{
      {"unscaled", [](const SpecOptions&, Given&) -> Scaling { return Unscaled{}; }},
      {"linear", [](const SpecOptions& o, Given& g) -> Scaling { return LinearScaling{g.required("--factor", o.factor)}; }},
      {"ntk", [](const SpecOptions& o, Given& g) -> Scaling { return NtkScaling{g.required("--alpha", o.alpha)}; }},
      {"dynamic", make_dynamic},
      {"yarn", make_yarn},
      {"llama3", make_llama3},
      {"ntk-mixed", make_ntk_mixed},
      {"longrope", make_longrope},
      {"proportional", make_proportional},
      {"given-factors", make_given_factors},
      {"given-frequencies", make_given_frequencies},
  };
  return all;
}

Given given_for(const std::string& taker, const SpecOptions& o) {
  Given given(taker);
  given.add("--head-dim", o.head_dim);
  given.add("--rotary-width", o.rotary_width);
  given.add("--base", o.base);
  given.add("--scaling", o.scaling);
  given.add("--factor", o.factor);
  given.add("--alpha", o.alpha);
  given.add("--low-freq-factor", o.low_freq_factor);
  given.add("--high-freq-factor", o.high_freq_factor);
  given.add("--beta-fast", o.beta_fast);
  given.add("--beta-slow", o.beta_slow);
  given.add("--attention-factor", o.attention_factor);
  given.add("--original-length", o.original_length);
  given.add("--length", o.length);
  given.add("--mscale", o.mscale);
  given.add("--mscale-all-dim", o.mscale_all_dim);
  given.add("--ramp", o.ramp);
  given.add("--mixed-exponent", o.mixed_exponent);
  given.add("--share", o.share);
  given.add("--amplitude", o.amplitude);
  given.add("--factors", o.factors);
  given.add("--frequencies", o.frequencies);
  given.add("--short-factors", o.short_factors);
  given.add("--long-factors", o.long_factors);
  given.add("--rotary-offset", o.rotary_offset);
  given.add("--sections", o.sections);
  given.add("--axis-order", o.axis_order);
  given.add("--axis-ladder", o.axis_ladder);
  given.add("--segments", o.segments);
  given.add("--sense", o.sense);
  return given;
}

/// The enumerator of a name; the parser has checked that it is one of them.
template <class Enum>
Enum value_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

void take_layout(const SpecOptions& o, Given& given, RotarySpec& spec) {
  spec.rotary_offset = given.optional("--rotary-offset", o.rotary_offset, spec.rotary_offset);
  spec.segments = given.optional("--segments", o.segments, spec.segments);
  spec.sense =
      given.optional("--sense", o.sense, std::string("counterclockwise")) == "clockwise" ? Sense::clockwise : Sense::counterclockwise;
  if (o.sections.empty() && (o.axis_order || o.axis_ladder)) throw UsageError("--axis-order and --axis-ladder want --sections");
  given.used("--sections");
  spec.axes.sections = o.sections;
  spec.axes.order = value_of<AxisOrder>(order_names(), given.optional("--axis-order", o.axis_order, order_names().front()));
  spec.axes.ladder = value_of<AxisLadder>(ladder_names(), given.optional("--axis-ladder", o.axis_ladder, ladder_names().front()));
}

RotarySpec model_spec(const std::string& name, const SpecOptions& o) {
  if (o.model && o.config) throw UsageError("--config takes no --model");
  given_for(o.model ? "--model " + name : "--config", o).check_all_used();
  const auto model = find_model(name);
  if (!model.ok()) throw std::runtime_error(model.status().message());
  const auto spec = rotary_of(*model, o.layer);
  if (!spec.ok()) throw std::runtime_error(spec.status().message());
  return *spec;
}

RotarySpec free_spec(const SpecOptions& o) {
  const std::string scaling = o.scaling.value_or("unscaled");
  Given given = given_for("--scaling " + scaling, o);
  given.optional("--scaling", o.scaling, scaling);
  RotarySpec spec;
  spec.head_dim = given.optional("--head-dim", o.head_dim, std::int64_t{128});
  spec.rotary_width = given.optional("--rotary-width", o.rotary_width, spec.rotary_width);
  spec.base = given.optional("--base", o.base, spec.base);
  spec.scaling = scalings().at(scaling)(o, given);
  take_layout(o, given, spec);
  given.check_all_used();
  return spec;
}

/// Adds options of one group.
struct Adder {
  const Command& command;
  const char* group = "The encoding";

  template <class T>
  Option one(const char* name, T& value, const std::string& text) const {
    return command.option(name, value, text).group(group);
  }
  template <class T>
  void list(const char* name, std::vector<T>& values, const std::string& text) const {
    one(name, values, text + ", a list like 1,2,3").comma_separated();
  }
  template <class T>
  void choice(const char* name, T& value, const std::vector<std::string>& choices, const std::string& text) const {
    one(name, value, fmt::format("{}: {}", text, joined(choices, ", "))).one_of(choices);
  }
};

void add_scaling_options(const Adder& add, SpecOptions& o) {
  std::vector<std::string> names;
  for (const auto& entry : scalings()) names.push_back(entry.first);
  add.choice("--scaling", o.scaling, names, "How frequencies are scaled (unscaled)");
  add.one("--factor", o.factor, "Of linear, dynamic, yarn, llama3, ntk-mixed, longrope and proportional");
  add.one("--alpha", o.alpha, "Of ntk");
  add.one("--original-length", o.original_length, "Of dynamic, yarn, llama3 and longrope, in positions");
  add.one("--length", o.length, "Of dynamic and longrope: positions in use");
  add.one("--beta-fast", o.beta_fast, "Of yarn");
  add.one("--beta-slow", o.beta_slow, "Of yarn");
  add.one("--attention-factor", o.attention_factor, "Of yarn and longrope");
  add.one("--mscale", o.mscale, "Of yarn");
  add.one("--mscale-all-dim", o.mscale_all_dim, "Of yarn");
  add.choice("--ramp", o.ramp, {"truncated", "exact"}, "Of yarn, whether the ramp's ends are rounded to whole pairs (truncated)");
  add.one("--low-freq-factor", o.low_freq_factor, "Of llama3");
  add.one("--high-freq-factor", o.high_freq_factor, "Of llama3");
  add.one("--mixed-exponent", o.mixed_exponent, "Of ntk-mixed");
  add.one("--share", o.share, "Of proportional: the share of pairs that turn");
  add.list("--short-factors", o.short_factors, "Of longrope");
  add.list("--long-factors", o.long_factors, "Of longrope");
  add.list("--factors", o.factors, "Of given-factors");
  add.list("--frequencies", o.frequencies, "Of given-frequencies, radians per position");
  add.one("--amplitude", o.amplitude, "Of given-factors and given-frequencies (1)");
}

}  // namespace

void add_spec_options(const Command& command, SpecOptions& o) {
  const Adder add{command};
  add.one("--model", o.model, model_help("Instead of all below but --layer, --pairing and --numerics taken from a model"));
  add.one("--config", o.config, "The same as --model");
  add.one("--layer", o.layer, "Of --model: this layer (the first that rotates)");
  add.choice("--pairing", o.pairing, {"half", "interleaved"}, "Which channels turn together (half)");
  add.choice("--numerics", o.numerics, numerics_names(), "Whose rounding (exact)");
  add.one("--head-dim", o.head_dim, "Channels of a head (128)");
  add.one("--rotary-width", o.rotary_width, "Channels that are rotated (all)");
  add.one("--rotary-offset", o.rotary_offset, "First channel that is rotated (0)");
  add.one("--base", o.base, "Base of the frequencies (10000)");
  add.list("--sections", o.sections, "Pairs of each axis of the position (one axis)");
  add.choice("--axis-order", o.axis_order, order_names(), "Which axis turns which pair (chunked)");
  add.choice("--axis-ladder", o.axis_ladder, ladder_names(), "Which frequency a pair of an axis gets (shared)");
  add.one("--segments", o.segments, "Equal parts, each paired within itself (1)");
  add.choice("--sense", o.sense, {"counterclockwise", "clockwise"}, "Which way a pair turns (counterclockwise)");
  add_scaling_options(add, o);
}

RotarySpec spec_of(const SpecOptions& o) {
  const std::optional<std::string>& name = o.model ? o.model : o.config;
  if (o.layer && !name) throw UsageError("--layer wants --model");
  RotarySpec spec = name ? model_spec(*name, o) : free_spec(o);
  if (o.pairing) spec.pairing = *o.pairing == "half" ? Pairing::half : Pairing::interleaved;
  spec.numerics = value_of<Numerics>(numerics_names(), o.numerics);
  return spec;
}

}  // namespace phasor::cli
