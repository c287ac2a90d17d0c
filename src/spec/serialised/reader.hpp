// SPDX-License-Identifier: Apache-2.0
// A struct of fields.hpp from a JSON tree. What does not fit is a ReadError that says where it is, what it is and what is wanted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/files/cursor.hpp"
#include "spec/files/json.hpp"
#include "spec/serialised/kinds.hpp"

namespace phasor::spec {

/// Where a value is, as a chain of frames: text is made of it for an error alone.
struct Place {
  const Place* outer = nullptr;
  std::string_view name = {};  // of a member; empty: an entry of a list
  std::size_t entry = 0;

  std::string text() const {
    const std::string before = outer == nullptr ? "" : outer->text();
    if (name.empty()) return outer == nullptr ? "the text" : before + "[" + std::to_string(entry) + "]";
    return outer == nullptr || outer->outer == nullptr ? std::string(name.substr(0, 60)) : before + "." + std::string(name.substr(0, 60));
  }
};

[[noreturn]] inline void fail_at(const Place& place, std::string_view is, std::string_view wanted) {
  fail(spec::format("spec_from_json: {} {}, wanted {}", place.text(), is, wanted));
}
[[noreturn]] inline void wrong_value(const Place& place, const Json& json, std::string_view wanted) {
  fail_at(place, "is " + json.describe(), wanted);
}

/// "a", "a or b", "a, b or c".
template <class Texts>
std::string one_of(const Texts& texts) {
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) out.append(i == 0 ? "" : i + 1 == texts.size() ? " or " : ", ").append(texts[i]);
  return out;
}

template <class T>
void read_json(const Json& json, T& value, const Place& place);

/// Reads the members that are there into the fields of a struct, and remembers which there might be.
struct MemberReader {
  const Json& json;
  const Place& place;
  std::vector<std::string_view> names;
  template <class T>
  void operator()(const char* name, T& value) {
    names.emplace_back(name);
    if (const Json* member = json.find(name); member != nullptr) read_json(*member, value, Place{&place, name});
  }
};

/// `allowed`: keys that are no fields. The struct is as by default before.
template <class T>
void read_members(const Json& json, T& value, const Place& place, std::vector<std::string_view> allowed) {
  if (!json.is(Json::Kind::object)) wrong_value(place, json, "an object");
  MemberReader reader{json, place, std::move(allowed)};
  const std::size_t others = reader.names.size();
  fields(reader, value);
  for (const auto& [key, member] : json.members) {
    if (std::find(reader.names.begin(), reader.names.end(), key) != reader.names.end()) continue;
    const std::vector<std::string_view> known(reader.names.begin() + static_cast<std::ptrdiff_t>(others), reader.names.end());
    fail_at(Place{&place, key}, spec::format("is no field of {}", type_name<T>()), known.empty() ? "none" : one_of(known));
  }
}

/// Whether `name` is T or one of its alternatives; then the value is read.
template <class T>
bool read_named(const Json& json, std::string_view name, T& value, const Place& place, const std::vector<std::string_view>& allowed) {
  if constexpr (is_variant<T>) {
    const auto attempt = [&]<class A>(std::type_identity<A>) {
      A alternative{};
      if (!read_named(json, name, alternative, place, allowed)) return false;
      value = std::move(alternative);
      return true;
    };
    return [&]<class... A>(std::type_identity<std::variant<A...>>) {
      return (attempt(std::type_identity<A>()) || ...);
    }(std::type_identity<T>());
  } else {
    if (name != type_name<T>()) return false;
    read_members(json, value, place, allowed);
    return true;
  }
}

/// An object that names its type.
template <class T>
void read_typed(const Json& json, T& value, const Place& place, const std::vector<std::string_view>& allowed) {
  if (!json.is(Json::Kind::object)) wrong_value(place, json, "an object");
  std::vector<std::string_view> names;
  add_names<T>(names);
  const Place at{&place, kTypeKey};
  const Json* type = json.find(kTypeKey);
  if (type == nullptr) fail_at(at, "is missing", one_of(names));
  if (!type->is(Json::Kind::string) || !read_named(json, type->string, value, place, allowed)) wrong_value(at, *type, one_of(names));
}

template <class T>
void read_list(const Json& json, std::vector<T>& list, const Place& place) {
  if (!json.is(Json::Kind::array)) wrong_value(place, json, "a list");
  list.clear();
  list.reserve(json.items.size());
  for (const Json& item : json.items) {
    const std::size_t index = list.size();  // before the element is there: compilers differ in which argument comes first
    read_json(item, list.emplace_back(), Place{&place, {}, index});
  }
}

template <class T>
void read_integer(const Json& json, T& value, const Place& place) {
  if (!json.is(Json::Kind::number) || !json.integer) wrong_value(place, json, "a whole number of 64 bits");
  if constexpr (sizeof(T) < sizeof(std::int64_t)) {
    constexpr std::int64_t most = std::numeric_limits<T>::max();
    if (*json.integer < 0 || *json.integer > most) wrong_value(place, json, spec::format("0 to {}", most));
  }
  value = static_cast<T>(*json.integer);
}

template <class E>
void read_enum(const Json& json, E& value, const Place& place) {
  constexpr auto texts = values_of(std::type_identity<E>());
  const auto found = json.is(Json::Kind::string) ? std::find(texts.begin(), texts.end(), json.string) : texts.end();
  if (found == texts.end()) wrong_value(place, json, one_of(texts));
  value = static_cast<E>(found - texts.begin());
}

template <class T>
void read_json(const Json& json, T& value, const Place& place) {
  if constexpr (is_optional<T>) {
    value.reset();
    if (!json.is(Json::Kind::null)) read_json(json, value.emplace(), place);
  } else if constexpr (is_vector<T>) {
    read_list(json, value, place);
  } else if constexpr (is_variant<T>) {
    read_typed(json, value, place, {kTypeKey});
  } else if constexpr (std::is_enum_v<T>) {
    read_enum(json, value, place);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!json.is(Json::Kind::boolean)) wrong_value(place, json, "true or false");
    value = json.boolean;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!json.is(Json::Kind::number)) wrong_value(place, json, "a number");
    value = json.number;
  } else if constexpr (std::is_integral_v<T>) {
    read_integer(json, value, place);
  } else {
    value = T{};
    read_members(json, value, place, {});
  }
}

}  // namespace phasor::spec
