// SPDX-License-Identifier: Apache-2.0
// Errors of the library as Python's: ValueError where arguments contradict the contract, NotImplementedError where this build cannot do it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <utility>

#include "phasor/result.hpp"

namespace phasor::python {

[[noreturn]] inline void raise(PyObject* kind, const std::string& message) {
  PyErr_SetString(kind, message.c_str());
  throw nanobind::python_error();
}

/// The name of an object's type, as messages have it.
inline std::string type_name_of(nanobind::handle object) {
  return nanobind::cast<std::string>(nanobind::handle(object.type()).attr("__name__"));
}

inline void check(const Status& status) {
  if (!status.ok()) raise(status.kind() == ErrorKind::unsupported ? PyExc_NotImplementedError : PyExc_ValueError, status.message());
}

template <class T>
T value_of(Result<T> result) {
  check(result.status());
  return *std::move(result);
}

}  // namespace phasor::python
