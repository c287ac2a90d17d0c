// SPDX-License-Identifier: Apache-2.0
// What goes wrong in a handler: thrown here, told to XLA at its end in the library's words.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "jax/xla_ffi.hpp"
#include "phasor/result.hpp"

namespace phasor::python::jax {

class Failure : public std::exception {
 public:
  Failure(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  xla::ErrorCode code() const {
    switch (kind_) {
      case ErrorKind::unsupported:
        return xla::ErrorCode::unimplemented;
      case ErrorKind::out_of_memory:
        return xla::ErrorCode::resource_exhausted;
      case ErrorKind::not_found:
        return xla::ErrorCode::not_found;
      case ErrorKind::none:
      case ErrorKind::invalid:
        break;
    }
    return xla::ErrorCode::invalid_argument;
  }

 private:
  ErrorKind kind_;
  std::string message_;
};

inline void demand(const Status& status) {
  if (!status.ok()) throw Failure(status.kind(), status.message());
}
template <class T>
T demand(Result<T> result) {
  demand(result.status());
  return *std::move(result);
}
inline void demand(bool holds, const char* message) {
  if (!holds) throw Failure(ErrorKind::invalid, message);
}

/// Whether XLA did what it was asked for; its error is let go.
inline bool succeeded(const xla::CallFrame& frame, xla::Error* error) {
  if (error == nullptr) return true;
  xla::ErrorDestroy destroy = {sizeof destroy, nullptr, error};
  frame.api->error_destroy(&destroy);
  return false;
}

}  // namespace phasor::python::jax
