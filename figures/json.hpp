// SPDX-License-Identifier: Apache-2.0
// JSON that the commands print, built as a tree. nlohmann-json takes 3 s to read and far longer to compile: json.cpp alone includes it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phasor::figures {

/// A value: null, true or false, a number, a string, an array or an object that keeps the order of its keys.
class Json {
 public:
  struct Field;

  // The values of JSON, each of them implicit so that they can be listed. NOLINTBEGIN(google-explicit-constructor)
  Json() : Json(nullptr) {}
  Json(std::nullptr_t);
  Json(bool value);
  Json(std::int64_t value);
  Json(double value);
  Json(const char* text);
  Json(std::string_view text);
  Json(const std::string& text);
  template <std::integral Number>  // the other integers: without this they would be as near to bool as to double
  Json(Number value) : Json(static_cast<std::int64_t>(value)) {}
  Json(const std::optional<std::int64_t>& value) : Json(value ? Json(*value) : Json(nullptr)) {}
  Json(const std::vector<double>& list);
  Json(const std::vector<std::int64_t>& list);
  Json(const std::vector<std::string>& list);
  // NOLINTEND(google-explicit-constructor)
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(Json other) noexcept;
  ~Json();

  static Json array();
  static Json object(std::initializer_list<Field> fields);
  /// `text` must be JSON.
  static Json parse(const std::string& text);

  static Json object();

  /// At the end of an array.
  void push_back(Json value);
  /// At the end of an object.
  void add(const char* key, Json value);
  /// The same of an object that is being made: Json::object().with("a", 1).with("b", "two"). A function for each kind of value, so that
  /// there is no Json in between: long objects would be much code.
  Json&& with(const char* key, Json value) &&;
  Json&& with(const char* key, bool value) &&;
  Json&& with(const char* key, std::int64_t value) &&;
  Json&& with(const char* key, double value) &&;
  Json&& with(const char* key, const char* text) &&;
  Json&& with(const char* key, std::string_view text) &&;
  Json&& with(const char* key, const std::string& text) && { return std::move(*this).with(key, std::string_view(text)); }
  Json&& with(const char* key, const std::optional<std::int64_t>& value) && {
    return value ? std::move(*this).with(key, *value) : std::move(*this).with(key, Json(nullptr));
  }
  template <std::integral Number>
  Json&& with(const char* key, Number value) && {
    return std::move(*this).with(key, static_cast<std::int64_t>(value));
  }

  /// ASCII alone, bytes that are not UTF-8 replaced. One line.
  std::string line() const;
  /// The same, one value per line, indented by one space per level.
  std::string lines() const;

 private:
  struct Tree;
  std::unique_ptr<Tree> tree_;
};

struct Json::Field {
  const char* key;
  Json value;
};

}  // namespace phasor::figures
