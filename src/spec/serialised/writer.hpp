// SPDX-License-Identifier: Apache-2.0
// A struct of fields.hpp as JSON text. Fields that are as by default are left out, so that a field that is added later leaves the texts of
// today as they are.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/files/json.hpp"
#include "spec/serialised/kinds.hpp"

namespace phasor::spec {

template <class T>
std::string json_text(const T& value);

struct FieldText {
  std::string_view name;
  std::string text;
};

/// Collects the texts of a struct's fields.
struct FieldWriter {
  std::vector<FieldText> texts = {};
  template <class T>
  void operator()(const char* name, const T& value) {
    texts.push_back({name, json_text(value)});
  }
};

template <class T>
std::vector<FieldText> field_texts(const T& value) {
  FieldWriter writer;
  fields(writer, value);
  return std::move(writer.texts);
}

/// A number with the digits that give the same double back; a zero below 0 keeps its sign, which JSON's integers have not.
inline std::string number_text(double value) { return value == 0 && std::signbit(value) ? "-0.0" : json_number(value); }

/// `"name":text` for each field that is not as by default, a comma before each but the first of all.
template <class T>
void append_members(std::string& out, const T& value) {
  static const std::vector<FieldText> defaults = field_texts(T{});
  const std::vector<FieldText> texts = field_texts(value);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].text == defaults[i].text) continue;
    if (out.back() != '{') out += ',';
    out.append("\"").append(texts[i].name).append("\":").append(texts[i].text);
  }
}

/// The type of a value that may be of several, then its members.
template <class T>
void append_typed(std::string& out, const T& value) {
  if constexpr (is_variant<T>) {
    std::visit([&](const auto& alternative) { append_typed(out, alternative); }, value);
  } else {
    if (out.back() != '{') out += ',';
    out.append("\"").append(kTypeKey).append("\":\"").append(type_name<T>()).append("\"");
    append_members(out, value);
  }
}

template <class T>
std::string list_text(const std::vector<T>& list) {
  std::string out = "[";
  for (const T& item : list) {
    if (out.size() > 1) out += ',';
    out += json_text(item);
  }
  return out + "]";
}

/// Needs a checked spec: an enumeration's value is one of those that have names.
template <class T>
std::string json_text(const T& value) {
  if constexpr (is_optional<T>) {
    return value ? json_text(*value) : "null";
  } else if constexpr (is_vector<T>) {
    return list_text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return "\"" + std::string(values_of(std::type_identity<T>()).at(static_cast<std::size_t>(value))) + "\"";
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    return number_text(value);
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    std::string out = "{";
    if constexpr (is_variant<T>) {
      append_typed(out, value);
    } else {
      append_members(out, value);
    }
    return out + "}";
  }
}

}  // namespace phasor::spec
