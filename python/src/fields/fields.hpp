// SPDX-License-Identifier: Apache-2.0
// The fields of every struct that is a dataclass in Python: one list a struct. Those of specs are the library's own (phasor/fields.hpp);
// the others are lists of the same form, `fields(visit, s)`, which calls visit("name", s.name) for each field in order.
#pragma once

#include <array>
#include <concepts>
#include <string_view>
#include <type_traits>

#include "phasor/scheme.hpp"

namespace phasor::python {

template <class T>
constexpr std::string_view name_or_none() {
  if constexpr (requires { name_of(std::type_identity<T>()); }) {
    return name_of(std::type_identity<T>());
  } else {
    return "";
  }
}
template <class E>
constexpr auto values_or_none() {
  if constexpr (requires { values_of(std::type_identity<E>()); }) {
    return values_of(std::type_identity<E>());
  } else {
    return std::array<std::string_view, 0>();
  }
}

/// The name of the dataclass, and for an enumeration the strings of its values in order.
template <class T>
inline constexpr std::string_view kName = name_or_none<T>();
template <class E>
inline constexpr auto kValues = values_or_none<E>();

/// A struct of type T or const T.
template <class S, class T>
concept Of = SpecOf<S, T>;

}  // namespace phasor::python
