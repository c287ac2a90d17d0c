// SPDX-License-Identifier: Apache-2.0
// The fence that exceptions do not pass: every public function that may run out of memory stands behind it.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "phasor/result.hpp"
#include "spec/utf8.hpp"

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

/// The same where other things may throw too, as other libraries do: what is no lack of memory is invalid, "<where>: <what it says>".
template <class Body>
auto without_exceptions(std::string_view where, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status::out_of_memory();
  } catch (const std::length_error&) {  // more than a container can be asked for
    return Status::out_of_memory();
  } catch (const std::exception& error) {
    return Status::invalid(printable_utf8(std::string(where) + ": " + error.what()));
  }
}

}  // namespace phasor::spec
