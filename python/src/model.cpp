// SPDX-License-Identifier: Apache-2.0
// What a model's files say about its positions, and weights between pairings: what phasor/_model.py is made of.
#include "phasor/model.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <span>
#include <string>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "fields/model_fields.hpp"
#include "phasor/weights.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;

constexpr const char* kDataclasses = "phasor._types.model";

ModelPositions model_of(nb::handle model) { return read<ModelPositions>(model, "model"); }

nb::any parse_config(const std::string& json, std::int64_t length) {
  return dataclass_of(value_unlocked([&] { return parse_hf_config(json, {.length = length}); }), kDataclasses);
}

nb::any parse_gguf_bytes(const nb::bytes& file, std::int64_t length) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(file.data()), file.size());
  return dataclass_of(value_unlocked([&] { return parse_gguf(bytes, {.length = length}); }), kDataclasses);
}

nb::any read_path(const std::string& path, std::int64_t length) {
  return dataclass_of(value_unlocked([&] { return read_model(path, {.length = length}); }), kDataclasses);
}

nb::any permute(const std::string& from_path, const std::string& to_path, nb::handle options) {
  const auto wanted = read<PermuteOptions>(options, "PermuteOptions");
  return dataclass_of(value_unlocked([&] { return permute_safetensors(from_path, to_path, wanted); }), kDataclasses);
}

nb::any detect(const std::string& left_path, const std::string& right_path, nb::handle shape) {
  const auto wanted = read<PermuteOptions>(shape, "PermuteOptions");
  return dataclass_of(value_unlocked([&] { return detect_pairing(left_path, right_path, wanted); }), kDataclasses);
}

}  // namespace

void bind_model(nb::module_& m) {
  m.def("parse_hf_config", &parse_config, "json"_a, "length"_a = 0);
  m.def("parse_gguf", &parse_gguf_bytes, "file"_a, "length"_a = 0);
  m.def("read_model", &read_path, "path"_a, "length"_a = 0);
  m.def("to_hf_config", [](nb::handle model) { return text_of(value_of(to_hf_config(model_of(model)))); }, "model"_a);
  m.def(
      "to_gguf_keys",
      [](nb::handle model, const std::string& architecture) { return text_of(value_of(to_gguf_keys(model_of(model), architecture))); },
      "model"_a, "architecture"_a);
  m.def(
      "explain",
      [](nb::handle model, std::optional<std::int64_t> layer) { return text_of(value_of(explain(model_of(model), {.layer = layer}))); },
      "model"_a, "layer"_a = nb::none());
  m.def(
      "explain_json",
      [](nb::handle model, std::optional<std::int64_t> layer) {
        return text_of(value_of(explain_json(model_of(model), {.layer = layer})));
      },
      "model"_a, "layer"_a = nb::none());
  m.def(
      "diff", [](nb::handle left, nb::handle right) { return dataclass_of(value_of(diff(model_of(left), model_of(right))), kDataclasses); },
      "left"_a, "right"_a);
  m.def("permute_safetensors", &permute, "from_path"_a, "to_path"_a, "options"_a);
  m.def("detect_pairing", &detect, "left_path"_a, "right_path"_a, "shape"_a);
}

}  // namespace phasor::python
