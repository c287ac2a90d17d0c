// SPDX-License-Identifier: Apache-2.0
// GGUF keys and tensors as JSON.
#include "plan/gguf_keys_json.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "spec/format.hpp"

namespace phasor::plan {
namespace {

using spec::fail;
using spec::GgufType;
using spec::GgufValue;
using Json = nlohmann::ordered_json;

double as_float32(std::string_view name, double value) {
  if (!(value <= std::numeric_limits<float>::max() && value >= -std::numeric_limits<float>::max())) {
    fail(spec::format("to_gguf_keys: {} is {}, which float32 cannot hold", name, value));
  }
  return static_cast<float>(value);
}

Json json_of(const GgufValue& value) {
  if (const auto* list = std::get_if<std::vector<double>>(&value.content)) {
    Json entries = Json::array();
    const bool flags = value.count > 0 && value.offset == static_cast<std::uint64_t>(GgufType::boolean);
    for (const double entry : *list) entries.push_back(flags ? Json(entry != 0) : Json(static_cast<std::int64_t>(entry)));
    return {{"type", flags ? "array of bool" : "array of i32"}, {"value", std::move(entries)}};
  }
  if (const auto* text = std::get_if<std::string>(&value.content)) return {{"type", "string"}, {"value", *text}};
  if (const auto* number = std::get_if<double>(&value.content)) return {{"type", "f32"}, {"value", *number}};
  if (const auto* flag = std::get_if<bool>(&value.content)) return {{"type", "bool"}, {"value", *flag}};
  return {{"type", "u32"}, {"value", *std::get_if<std::int64_t>(&value.content)}};
}

}  // namespace

GgufKeyWriter::GgufKeyWriter(std::string architecture) : architecture_(std::move(architecture)) {
  file_.keys["general.architecture"] = {.type = GgufType::string, .content = architecture_};
  order_.emplace_back("general.architecture");
}

void GgufKeyWriter::put(std::string_view key, GgufValue value) {
  std::string name = spec::format("{}.{}", architecture_, key);
  if (file_.keys.insert_or_assign(name, std::move(value)).second) order_.push_back(std::move(name));
}

void GgufKeyWriter::integer(std::string_view key, std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<std::uint32_t>::max())
    fail(spec::format("to_gguf_keys: {} is {}, wanted a uint32", key, value));
  put(key, {.type = GgufType::u32, .content = value});
}

void GgufKeyWriter::real(std::string_view key, double value) { put(key, {.type = GgufType::f32, .content = as_float32(key, value)}); }

void GgufKeyWriter::flag(std::string_view key, bool value) { put(key, {.type = GgufType::boolean, .content = value}); }

void GgufKeyWriter::text(std::string_view key, std::string_view value) {
  put(key, {.type = GgufType::string, .content = std::string(value)});
}

void GgufKeyWriter::list(std::string_view key, const std::vector<double>& values, GgufType type) {
  // There is no file yet: the place of the byte offset holds the type of the entries.
  put(key, {.type = GgufType::array, .offset = static_cast<std::uint64_t>(type), .count = values.size(), .content = values});
}

void GgufKeyWriter::tensor(std::string_view name, const std::vector<double>& values) {
  std::vector<double>& stored = file_.rope_tensors[std::string(name)];
  stored = values;
  for (double& value : stored) value = as_float32(name, value);
}

std::string GgufKeyWriter::json() const {
  Json keys = Json::object();
  for (const std::string& name : order_) keys[name] = json_of(file_.keys.find(name)->second);
  Json tensors = Json::object();
  for (const auto& [name, values] : file_.rope_tensors) {
    tensors[name] = {{"type", "f32"}, {"shape", Json::array({values.size()})}, {"data", values}};
  }
  const Json both = {{"keys", std::move(keys)}, {"tensors", std::move(tensors)}};
  return both.dump(2) + "\n";
}

}  // namespace phasor::plan
