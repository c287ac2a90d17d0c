// SPDX-License-Identifier: Apache-2.0
// Typed reading of a Hugging Face config: one method a type, all through `find`.
#include "spec/hf/reader.hpp"

#include <algorithm>
#include <cmath>

#include "spec/utf8.hpp"

namespace phasor::spec {
namespace {

constexpr const char* where = "parse_hf_config: ";

/// A list, each entry read by `read(entry)`.
template <class T, class Read>
std::optional<std::vector<T>> list(const Found& found, std::string_view wanted, Read read) {
  if (!found) return std::nullopt;
  if (!found.json->is(Json::Kind::array)) found.wrong(wanted);
  std::vector<T> values;
  values.reserve(found.json->items.size());
  for (const Json& item : found.json->items) {
    values.push_back(read(Found{&item, found.path + "[" + std::to_string(values.size()) + "]"}));
  }
  return values;
}

double finite(const Found& found, std::string_view wanted) {
  if (!found.json->is(Json::Kind::number) || !std::isfinite(found.json->number)) found.wrong(wanted);
  return found.json->number;
}

std::int64_t whole(const Found& found) {
  if (!found.json->is(Json::Kind::number) || !found.json->integer) found.wrong("a whole number");
  return *found.json->integer;
}

std::string string(const Found& found) {
  if (!found.json->is(Json::Kind::string)) found.wrong("a string");
  return found.json->string;
}

}  // namespace

void fail_config(const std::string& message) { throw ConfigError(Status::invalid(printable_utf8(where + message))); }
void fail_unsupported(const std::string& message) { throw ConfigError(Status::unsupported(printable_utf8(where + message))); }

void Found::wrong(std::string_view wanted) const { fail_config(path + " is " + json->describe() + ", wanted " + std::string(wanted)); }

std::string Section::path_of(std::string_view key) const { return path_.empty() ? std::string(key) : path_ + "." + std::string(key); }

Found Section::find(Names names) const {
  for (const std::string_view name : names) {
    const Json* json = json_->find(name);
    if (json != nullptr && !json->is(Json::Kind::null)) return {json, path_of(name)};
  }
  return {};
}

std::optional<double> Section::number(Names names) const {
  const Found found = find(names);
  return found ? std::optional(finite(found, "a finite number")) : std::nullopt;
}

std::optional<double> Section::positive(Names names) const {
  const Found found = find(names);
  if (!found) return std::nullopt;
  const double value = finite(found, "a number above 0");
  if (value <= 0) found.wrong("a number above 0");
  return value;
}

std::optional<std::int64_t> Section::integer(Names names) const {
  const Found found = find(names);
  return found ? std::optional(whole(found)) : std::nullopt;
}

std::optional<std::int64_t> Section::count(Names names, std::int64_t most) const {
  const Found found = find(names);
  if (!found) return std::nullopt;
  const std::int64_t value = whole(found);
  if (value < 1 || value > most) found.wrong("a whole number from 1 to " + std::to_string(most));
  return value;
}

std::optional<bool> Section::boolean(Names names) const {
  const Found found = find(names);
  if (!found) return std::nullopt;
  if (found.json->is(Json::Kind::boolean)) return found.json->boolean;
  const std::optional<std::int64_t>& integer = found.json->integer;
  if (!found.json->is(Json::Kind::number) || !integer || (*integer != 0 && *integer != 1)) found.wrong("true or false");
  return *integer == 1;
}

std::optional<std::string> Section::text(Names names) const {
  const Found found = find(names);
  return found ? std::optional(string(found)) : std::nullopt;
}

std::optional<std::vector<double>> Section::numbers(Names names) const {
  return list<double>(find(names), "a list of numbers", [](const Found& item) { return finite(item, "a finite number"); });
}

std::optional<std::vector<std::int64_t>> Section::integers(Names names) const {
  return list<std::int64_t>(find(names), "a list of whole numbers", [](const Found& item) { return whole(item); });
}

std::optional<std::vector<std::string>> Section::texts(Names names) const {
  return list<std::string>(find(names), "a list of strings", [](const Found& item) { return string(item); });
}

std::optional<Section> Section::section(Names names) const {
  const Found found = find(names);
  if (!found) return std::nullopt;
  if (!found.json->is(Json::Kind::object)) found.wrong("an object");
  return Section(*found.json, found.path);
}

double Section::required_positive(std::string_view key) const {
  const std::optional<double> value = positive({key});
  if (!value) missing(key, "a number above 0");
  return *value;
}

void Section::missing(std::string_view key, std::string_view wanted) const {
  fail_config(path_of(key) + (mentions(key) ? " is null, wanted " : " is missing, wanted ") + std::string(wanted));
}

void Reading::warn(const std::string& given) {
  const std::string text = printable_utf8(given);
  if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(text);
}

}  // namespace phasor::spec
