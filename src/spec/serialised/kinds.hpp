// SPDX-License-Identifier: Apache-2.0
// What kind of value a field is, and the names of the types that a value may be of.
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "phasor/scheme.hpp"

namespace phasor::spec {

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;

/// The key of a value's type where several are possible, and of the version.
inline constexpr std::string_view kTypeKey = "type";
inline constexpr std::string_view kVersionKey = "phasor";

template <class T>
constexpr std::string_view type_name() {
  return name_of(std::type_identity<T>());
}

/// Adds the names of T: its own, or those of a variant's alternatives, which may be variants too.
template <class T>
void add_names(std::vector<std::string_view>& names) {
  if constexpr (is_variant<T>) {
    [&]<class... A>(std::type_identity<std::variant<A...>>) { (add_names<A>(names), ...); }(std::type_identity<T>());
  } else {
    names.push_back(type_name<T>());
  }
}

}  // namespace phasor::spec
