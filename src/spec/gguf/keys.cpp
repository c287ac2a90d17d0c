// SPDX-License-Identifier: Apache-2.0
// Typed access to the keys of one architecture in a GGUF file.
#include "spec/gguf/keys.hpp"

#include <cmath>

#include "spec/format.hpp"

namespace phasor::spec {
namespace {

constexpr double largest_integer = 0x1p53;

/// What a list's entry must be to count something.
bool is_count(double value) { return value >= 0 && value <= largest_integer && value == std::floor(value); }

}  // namespace

const GgufValue* GgufKeys::find(std::string_view key) const {
  const auto found = file_.keys.find(full(key));
  return found == file_.keys.end() ? nullptr : &found->second;
}

void GgufKeys::wrong(std::string_view key, std::string_view is, std::string_view wanted) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(spec::format("gguf: {} is missing, wanted {}", full(key), wanted));
  fail(spec::format("gguf: byte {}: {} is {}, wanted {}", value->offset, full(key), is, wanted));
}

std::optional<std::int64_t> GgufKeys::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(&value->content)) {
    if (*number >= 0 && *number <= std::int64_t{1} << 53) return *number;
    wrong(key, std::to_string(*number), "0 to 2^53");
  }
  if (const auto* number = std::get_if<std::uint64_t>(&value->content)) {
    if (*number <= std::uint64_t{1} << 53) return static_cast<std::int64_t>(*number);
    wrong(key, std::to_string(*number), "0 to 2^53");
  }
  wrong(key, "of another type", "an integer");
}

std::int64_t GgufKeys::required(std::string_view key, std::int64_t least, std::int64_t most) const {
  const std::optional<std::int64_t> value = integer(key);
  const std::string wanted = spec::format("{} to {}", least, most);
  if (!value) wrong(key, "", wanted);
  if (*value < least || *value > most) wrong(key, std::to_string(*value), wanted);
  return *value;
}

std::optional<double> GgufKeys::real(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* number = std::get_if<double>(&value->content);
  if (number == nullptr) wrong(key, "of another type", "a float32 or float64");
  if (!std::isfinite(*number)) wrong(key, spec::format("{}", *number), "a finite number");
  return *number;
}

std::optional<bool> GgufKeys::flag(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* flag = std::get_if<bool>(&value->content);
  if (flag == nullptr) wrong(key, "of another type", "a bool");
  return *flag;
}

std::optional<std::string> GgufKeys::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* text = std::get_if<std::string>(&value->content);
  if (text == nullptr) wrong(key, "of another type", "a string");
  return *text;
}

std::optional<std::vector<double>> GgufKeys::list(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* list = std::get_if<std::vector<double>>(&value->content);
  if (list == nullptr || list->size() != value->count) wrong(key, "of another type or too long", "an array of numbers");
  return *list;
}

std::optional<std::vector<std::int64_t>> GgufKeys::per_layer(std::string_view key, std::int64_t layers) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto count = static_cast<std::size_t>(layers);
  if (value->type != GgufType::array) return std::vector<std::int64_t>(count, integer(key).value_or(0));
  const std::vector<double> entries = list(key).value_or(std::vector<double>());
  if (entries.size() < count)
    wrong(key, spec::format("a list of {}", entries.size()), spec::format("an entry for each of {} layers", layers));
  std::vector<std::int64_t> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_count(entries[i])) wrong(key, spec::format("{} for layer {}", entries[i], i), "0 to 2^53");
    result[i] = static_cast<std::int64_t>(entries[i]);
  }
  return result;
}

}  // namespace phasor::spec
