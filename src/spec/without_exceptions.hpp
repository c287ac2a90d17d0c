// SPDX-License-Identifier: Apache-2.0
// The fence that exceptions do not pass: every public function that may run out of memory stands behind it.
#pragma once

#include <exception>

#include "phasor/result.hpp"

namespace phasor::spec {

/// What body gives, a Status or a Result; out_of_memory where it throws. Only the standard library's containers throw inside: there is no
/// memory, or more than can be asked for.
template <class Body>
auto without_exceptions(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception&) {
    return Status::out_of_memory();
  }
}

}  // namespace phasor::spec
