// SPDX-License-Identifier: Apache-2.0
// A request of the page: members read by name and type, each with its default and its range. What does not fit is a RequestError that says
// where it is, what it is and what is wanted. nlohmann-json takes 3 s to read: request.cpp alone includes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "figures/number_list.hpp"
#include "figures/spec_words.hpp"
#include "phasor/result.hpp"
#include "phasor/serialised.hpp"

namespace phasor::web {

/// Thrown by methods, caught where they are called: `where` is the member of the request.
struct RequestError {
  Status status;
  std::string where;
};

/// Throws. By itself, and by names that are no std::string: these calls are everywhere, and each would be a hundred bytes of a module.
[[noreturn]] void fail(Status status, const char* where);
[[noreturn]] void fail(Status status, const std::string& where);
/// The message of an error of the request.
[[noreturn]] void refuse(const char* where, const std::string& message);

/// The value of a result, or its error as that of a member.
template <class T, class Name>
T value_of(Result<T> result, const Name& where) {
  if (!result.ok()) fail(result.status(), where);
  return *std::move(result);
}
template <class Name>
void must(const Status& status, const Name& where) {
  if (!status.ok()) fail(status, where);
}

struct Range {
  std::int64_t least = 0;
  std::int64_t most = std::int64_t{1} << 53;
};

/// An object of the request. Members that no getter asked for are an error of `finish`.
class Request {
 public:
  /// A whole request; throws RequestError for what is no JSON object, nested more than 64 deep or larger than 64 MiB.
  static Request parse(std::string_view text, std::span<const std::byte> attached);
  Request(const Request& other) = delete;
  Request& operator=(const Request& other) = delete;
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  bool has(const char* name) const;  // and is not null
  std::int64_t integer(const char* name, std::int64_t otherwise, const Range& range = {});
  double number(const char* name, double otherwise);
  bool flag(const char* name, bool otherwise);
  std::string text(const char* name, const std::string& otherwise);
  /// One of `choices`; the first is the default.
  std::string choice(const char* name, const std::vector<std::string>& choices);
  std::vector<double> numbers(const char* name, const std::vector<double>& otherwise);
  std::vector<std::string> texts(const char* name, const std::vector<std::string>& otherwise);
  /// A list, a text of ranges or a spread (see API.md), at most 65536; `otherwise` is a text of ranges.
  figures::Numbers positions(const char* name, const std::string& otherwise);

  /// Objects inside; an absent one is empty.
  Request object(const char* name);
  std::vector<Request> objects(const char* name);

  /// Specs as serialised, without version and type where the type is known; absent: `otherwise`, a JSON object.
  RotarySpec rotary_spec(const char* name = "spec", const char* otherwise = R"({"head_dim": 128})");
  SinusoidalSpec sinusoidal_spec(const char* name = "sinusoidal");
  BiasSpec bias_spec(const char* name, const char* otherwise);
  AttentionScheme scheme(const char* name);
  /// `spec` and `name` of this object.
  figures::NamedSpec named_spec();
  /// `specs`; absent: one of the default.
  std::vector<figures::NamedSpec> named_specs();

  std::span<const std::byte> attached() const { return attached_; }
  /// Where this object is in the request, for messages: "specs[1].".
  const std::string& path() const { return path_; }
  std::string where(const char* name) const { return path_ + name; }
  /// Throws for a member that nothing asked for.
  void finish() const;

 private:
  struct Tree;
  struct Member;
  Request(std::unique_ptr<Tree> tree, std::string path, std::span<const std::byte> attached);
  Request make(Member member, std::string path) const;
  [[noreturn]] void wrong(const char* name, const std::string& wanted) const;
  std::string spec_text(const char* name, const char* otherwise, const char* type);

  std::unique_ptr<Tree> tree_;
  std::string path_;
  std::span<const std::byte> attached_;
};

}  // namespace phasor::web
