// SPDX-License-Identifier: Apache-2.0
// Status and Result: how every function of the library reports what went wrong, without exceptions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace phasor {

enum class ErrorKind : std::uint8_t {
  none,
  invalid,      // the arguments contradict each other or the contract
  unsupported,  // meaningful, but this build or machine cannot do it
  out_of_memory,
  not_found,  // a file or folder that is not there
};

/// Success, or an error that says where, what is and what is wanted. Success does not allocate.
class [[nodiscard]] Status {
 public:
  Status() = default;
  static Status invalid(std::string message) { return {ErrorKind::invalid, std::move(message)}; }
  static Status unsupported(std::string message) { return {ErrorKind::unsupported, std::move(message)}; }
  static Status not_found(std::string message) { return {ErrorKind::not_found, std::move(message)}; }
  static Status out_of_memory() { return {ErrorKind::out_of_memory, "out of memory"}; }  // short enough for std::string not to allocate

  bool ok() const { return kind_ == ErrorKind::none; }
  explicit operator bool() const { return ok(); }
  ErrorKind kind() const { return kind_; }
  /// Empty on success.
  const std::string& message() const { return message_; }

 private:
  Status(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  ErrorKind kind_ = ErrorKind::none;
  std::string message_;
};

/// A value or the Status that explains its absence. `*` and `->` need `ok()`, as for std::optional.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// A value made in place by its default constructor, for values too large to move about.
  explicit Result(std::in_place_t /*tag*/) : content_(std::in_place_index<0>) {}
  Result(Status error) : content_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : *std::get_if<1>(&content_); }

  T& operator*() & { return *std::get_if<0>(&content_); }
  const T& operator*() const& { return *std::get_if<0>(&content_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&content_)); }
  T* operator->() { return std::get_if<0>(&content_); }
  const T* operator->() const { return std::get_if<0>(&content_); }

 private:
  std::variant<T, Status> content_;
};

}  // namespace phasor
