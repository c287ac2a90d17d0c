// SPDX-License-Identifier: Apache-2.0
// A spec in words, with another scaling, and in other languages.
#include <fmt/core.h>

#include <utility>

#include "figures/spec_code.hpp"
#include "phasor/analysis.hpp"
#include "phasor/model.hpp"
#include "web/core/methods.hpp"
#include "web/core/spec_json.hpp"

namespace phasor::web {
namespace {

constexpr Range kLengths{1, std::int64_t{1} << 40};

/// A model of so many layers that all rotate so.
ModelPositions model_of(const RotarySpec& spec, Request& request) {
  ModelPositions model{.dialect = "huggingface", .model_type = request.text("model_type", "llama")};
  model.length = request.integer("length", 4096, kLengths);
  model.trained_length = request.integer("trained_length", model.length, kLengths);
  model.layers.assign(static_cast<std::size_t>(request.integer("layers", 32, {1, 4096})), LayerPositions{.rotary = spec});
  return model;
}

}  // namespace

Json spec_scaled(Request& request, Blocks& /*blocks*/) {
  PlannerInput input{.spec = request.rotary_spec()};
  input.trained_length = request.integer("trained_length", 4096, kLengths);
  input.wanted_length = request.integer("wanted_length", 8 * input.trained_length, kLengths);
  const std::string name = request.text("name", "yarn");
  for (const PlannedScaling& one : value_of(plan_scalings(input), "spec")) {
    if (one.name != name) continue;
    if (!one.error.empty()) refuse("name", one.error);
    RotarySpec spec = input.spec;
    spec.scaling = one.scaling;
    return Json::object().with("spec", spec_json(spec));
  }
  refuse("name", fmt::format("name is \"{}\", which no scaling of plan is called", name.substr(0, 40)));
}

Json spec_export(Request& request, Blocks& /*blocks*/) {
  const RotarySpec spec = request.rotary_spec();
  const ModelPositions model = model_of(spec, request);
  // llama.cpp's llama is interleaved, whoever is paired by half is a qwen2 there.
  const std::string architecture = request.text("architecture", spec.pairing == Pairing::half ? "qwen2" : "llama");
  return Json::object()
      .with("json", text_or_error(spec_to_json(spec)))
      .with("cpp", text_or_error(figures::cpp_of(spec)))
      .with("python", text_or_error(figures::python_of(spec)))
      .with("cli", text_or_error(figures::command_of(spec)))
      .with("hf_config", text_or_error(to_hf_config(model)))
      .with("gguf_keys", text_or_error(to_gguf_keys(model, architecture)));
}

}  // namespace phasor::web
