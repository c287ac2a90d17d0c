// SPDX-License-Identifier: Apache-2.0
// Options to spec: which option belongs to which scaling, and the spec back as words and as JSON.
#include "spec_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace phasor::cli {
namespace {

const char* name_of(Pairing pairing) { return pairing == Pairing::half ? "half" : "interleaved"; }

/// Hands out what a scaling asks for, and knows afterwards what was typed in vain.
class Given {
 public:
  template <class T>
  void add(const char* name, const std::optional<T>& value) {
    if (value.has_value()) unused_.insert(name);
  }
  template <class T>
  T required(const char* name, const std::optional<T>& value) {
    if (!value.has_value()) throw CLI::ValidationError(fmt::format("{} wants {}", taker_, name));
    return optional(name, value, T{});
  }
  template <class T>
  T optional(const char* name, const std::optional<T>& value, const T& otherwise) {
    unused_.erase(name);
    return value.value_or(otherwise);
  }
  void check_all_used() const {
    if (!unused_.empty()) throw CLI::ValidationError(fmt::format("{} takes no {}", taker_, *unused_.begin()));
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
  given.optional("--attention-factor", o.attention_factor, 0.0);
  yarn.attention_factor = o.attention_factor;
  return yarn;
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
  return given;
}

RotarySpec model_spec(const SpecOptions& o) {
  given_for("--model " + o.model, o).check_all_used();
  return llama31_spec();
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
  given.check_all_used();
  return spec;
}

/// Name and fields of a scaling, in the order of its struct.
struct Fields {
  std::string name;
  std::vector<std::pair<std::string, double>> values;
};

struct ToFields {
  Fields operator()(const Unscaled& /*s*/) const { return {"unscaled", {}}; }
  Fields operator()(const LinearScaling& s) const { return {"linear", {{"factor", s.factor}}}; }
  Fields operator()(const NtkScaling& s) const { return {"ntk", {{"alpha", s.alpha}}}; }
  Fields operator()(const DynamicNtkScaling& s) const {
    Fields fields{"dynamic", {{"factor", s.factor}, {"original_length", static_cast<double>(s.trained_length)}}};
    if (s.length != 0) fields.values.emplace_back("length", static_cast<double>(s.length));
    return fields;
  }
  Fields operator()(const YarnScaling& s) const {
    Fields fields{"yarn", {{"factor", s.factor}, {"original_length", static_cast<double>(s.original_length)}}};
    fields.values.emplace_back("beta_fast", s.beta_fast);
    fields.values.emplace_back("beta_slow", s.beta_slow);
    if (s.attention_factor) fields.values.emplace_back("attention_factor", *s.attention_factor);
    return fields;
  }
  Fields operator()(const Llama3Scaling& s) const {
    return {"llama3",
            {{"factor", s.factor},
             {"low_freq_factor", s.low_freq_factor},
             {"high_freq_factor", s.high_freq_factor},
             {"original_length", static_cast<double>(s.original_length)}}};
  }
  template <class Other>  // no option of this tool makes them
  Fields operator()(const Other& /*s*/) const {
    return {"other", {}};
  }
};

}  // namespace

RotarySpec llama31_spec() {
  const Llama3Scaling scaling{.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 8192};
  return {.head_dim = 128, .base = 500000, .scaling = scaling};
}

void add_spec_options(CLI::App& command, SpecOptions& o) {
  std::vector<std::string> names;
  for (const auto& entry : scalings()) names.push_back(entry.first);
  const auto add = [&](const char* name, auto& value, const std::string& text) {
    return command.add_option(name, value, text)->group("The encoding");
  };
  const auto add_choice = [&](const char* name, auto& value, const std::vector<std::string>& choices, const std::string& text) {
    const CLI::Validator one_of = CLI::IsMember(choices);
    add(name, value, fmt::format("{}: {}", text, fmt::join(choices, ", ")))->check(CLI::Validator(one_of).description(""));
  };
  add_choice("--model", o.model, {"llama3.1"}, "A built-in model, instead of all below but --pairing");
  add_choice("--pairing", o.pairing, {"half", "interleaved"}, "Which channels turn together (half)");
  add("--head-dim", o.head_dim, "Channels of a head (128)");
  add("--rotary-width", o.rotary_width, "Channels that are rotated (all)");
  add("--base", o.base, "Base of the frequencies (10000)");
  add_choice("--scaling", o.scaling, names, "How frequencies are scaled (unscaled)");
  add("--factor", o.factor, "Of linear, dynamic, yarn and llama3");
  add("--alpha", o.alpha, "Of ntk");
  add("--original-length", o.original_length, "Of dynamic, yarn and llama3, in positions");
  add("--length", o.length, "Of dynamic, in positions");
  add("--beta-fast", o.beta_fast, "Of yarn");
  add("--beta-slow", o.beta_slow, "Of yarn");
  add("--attention-factor", o.attention_factor, "Of yarn");
  add("--low-freq-factor", o.low_freq_factor, "Of llama3");
  add("--high-freq-factor", o.high_freq_factor, "Of llama3");
}

RotarySpec spec_of(const SpecOptions& o) {
  RotarySpec spec = o.model.empty() ? free_spec(o) : model_spec(o);
  spec.pairing = o.pairing == "half" ? Pairing::half : Pairing::interleaved;
  return spec;
}

std::string describe(const RotarySpec& spec) {
  const Fields fields = std::visit(ToFields{}, spec.scaling);
  std::string list;
  for (const auto& [name, value] : fields.values) list += fmt::format("{}{} {}", list.empty() ? " (" : ", ", name, value);
  const std::string width =
      spec.rotary_width == 0 || spec.rotary_width == spec.head_dim ? "" : fmt::format(", rotary_width {}", spec.rotary_width);
  return fmt::format("head_dim {}{}, base {}, {}{}{}, pairing {}", spec.head_dim, width, spec.base, fields.name, list,
                     list.empty() ? "" : ")", name_of(spec.pairing));
}

std::string to_json(const RotarySpec& spec) {
  const Fields fields = std::visit(ToFields{}, spec.scaling);
  std::string list;
  for (const auto& [name, value] : fields.values) list += fmt::format(", \"{}\": {}", name, value);
  return fmt::format(R"({{"head_dim": {}, "rotary_width": {}, "base": {}, "pairing": "{}", "scaling": {{"name": "{}"{}}}}})", spec.head_dim,
                     spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width, spec.base, name_of(spec.pairing), fields.name, list);
}

}  // namespace phasor::cli
