// SPDX-License-Identifier: Apache-2.0
// Specs as text for Python (docs/spec-format.md): what files hold and what PyTorch's operators carry.
#include "phasor/serialised.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string>
#include <string_view>

#include "arrays/arguments.hpp"
#include "bindings.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;

std::string spec_text(nb::handle dataclass) {
  const std::string name = type_name_of(dataclass);
  if (name == kName<RotarySpec>) return value_of(spec_to_json(read<RotarySpec>(dataclass, name)));
  if (name == kName<SinusoidalSpec>) return value_of(spec_to_json(read<SinusoidalSpec>(dataclass, name)));
  if (name == kName<AttentionScheme>) return value_of(spec_to_json(read<AttentionScheme>(dataclass, name)));
  return value_of(spec_to_json(read<BiasSpec>(dataclass, "spec_to_json")));
}

const char* module_of(const AnySpec& spec) {
  if (std::holds_alternative<RotarySpec>(spec)) return "phasor._spec";
  if (std::holds_alternative<AttentionScheme>(spec)) return "phasor._attention.types";
  return std::holds_alternative<SinusoidalSpec>(spec) ? "phasor._additive" : "phasor._bias_specs";
}

nb::object spec_of_text(std::string_view text) {
  const AnySpec spec = value_of(spec_from_json(text));
  return to_python(spec, nb::module_::import_(module_of(spec)));
}

}  // namespace

void bind_serialised(nb::module_& m) {
  m.def("spec_to_json", &spec_text, "spec"_a, "A spec as text.");
  m.def("spec_from_json", &spec_of_text, "text"_a, "The spec of a text.");
  m.def(
      "sinusoidal_from_json", [](std::string_view text) { return value_of(Sinusoidal::make(value_of(sinusoidal_spec_from_json(text)))); },
      "text"_a, "The Sinusoidal of a spec's text.");
  m.def(
      "bias_from_json", [](std::string_view text) { return value_of(Bias::make(value_of(bias_spec_from_json(text)))); }, "text"_a,
      "The Bias of a spec's text.");
}

}  // namespace phasor::python
