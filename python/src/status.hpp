// SPDX-License-Identifier: Apache-2.0
// Errors of the library as Python's: ValueError where arguments contradict the contract, NotImplementedError where this build cannot do it,
// MemoryError, FileNotFoundError.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>

#include "phasor/result.hpp"

namespace phasor::python {

/// Text of the library as Python's. Names come from files too: bytes that are no UTF-8 become \xNN instead of a UnicodeDecodeError.
inline nanobind::str text_of(std::string_view text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (made == nullptr) throw nanobind::python_error();
  return nanobind::steal<nanobind::str>(made);
}

[[noreturn]] inline void raise(PyObject* kind, const std::string& message) {
  PyErr_SetObject(kind, text_of(message).ptr());
  throw nanobind::python_error();
}

/// The name of an object's type, as messages have it.
inline std::string type_name_of(nanobind::handle object) {
  return nanobind::cast<std::string>(nanobind::handle(object.type()).attr("__name__"));
}

inline PyObject* exception_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::unsupported:
      return PyExc_NotImplementedError;
    case ErrorKind::out_of_memory:
      return PyExc_MemoryError;
    case ErrorKind::not_found:
      return PyExc_FileNotFoundError;
    case ErrorKind::none:
    case ErrorKind::invalid:
      break;
  }
  return PyExc_ValueError;
}

inline void check(const Status& status) {
  if (!status.ok()) raise(exception_of(status.kind()), status.message());
}

template <class T>
T value_of(Result<T> result) {
  check(result.status());
  return *std::move(result);
}

}  // namespace phasor::python
