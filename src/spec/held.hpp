// SPDX-License-Identifier: Apache-2.0
// The value of an optional that is known to hold one.
#pragma once

#include <optional>

namespace phasor::spec {

/// Throws where there is none, which the public functions catch: a mistake here is an error message, never a wild read.
template <class T>
const T& held(const std::optional<T>& value) {
  if (!value) throw std::bad_optional_access();
  return *value;
}
template <class T>
T& held(std::optional<T>& value) {
  if (!value) throw std::bad_optional_access();
  return *value;
}

}  // namespace phasor::spec
