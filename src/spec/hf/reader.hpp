// SPDX-License-Identifier: Apache-2.0
// Typed reading of a Hugging Face config: every key has a path, and a value that does not fit says which, what it is and what is wanted.
#pragma once

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/model.hpp"
#include "phasor/result.hpp"
#include "spec/files/json.hpp"
#include "spec/held.hpp"

namespace phasor::spec {

/// Thrown while a config is read, caught by parse_hf_config.
class ConfigError : public std::exception {
 public:
  explicit ConfigError(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

/// "parse_hf_config: <message>".
[[noreturn]] void fail_config(const std::string& message);
[[noreturn]] void fail_unsupported(const std::string& message);

/// One of several names for the same key; the first that is there counts.
using Names = std::initializer_list<std::string_view>;

/// A value that was found, and where.
struct Found {
  const Json* json = nullptr;
  std::string path;
  explicit operator bool() const { return json != nullptr; }
  [[noreturn]] void wrong(std::string_view wanted) const;
};

/// An object of the config. A null value counts as absent, as it does for transformers, unless the method says otherwise.
class Section {
 public:
  Section(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  const Json& json() const { return *json_; }
  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const;
  Found find(Names names) const;
  bool has(std::string_view key) const { return static_cast<bool>(find({key})); }
  /// There, be it null.
  bool mentions(std::string_view key) const { return json_->find(key) != nullptr; }

  std::optional<double> number(Names names) const;    // finite
  std::optional<double> positive(Names names) const;  // finite and above 0
  std::optional<std::int64_t> integer(Names names) const;
  std::optional<std::int64_t> count(Names names, std::int64_t most) const;  // 1 to most
  std::optional<bool> boolean(Names names) const;                           // 0 and 1 too
  std::optional<std::string> text(Names names) const;
  std::optional<std::vector<double>> numbers(Names names) const;
  std::optional<std::vector<std::int64_t>> integers(Names names) const;
  std::optional<std::vector<std::string>> texts(Names names) const;
  std::optional<Section> section(Names names) const;

  /// The same, an error when there is none.
  double required_positive(std::string_view key) const;
  [[noreturn]] void missing(std::string_view key, std::string_view wanted) const;

 private:
  const Json* json_;
  std::string path_;  // empty for the whole file
};

/// What is known while one file is read.
struct Reading {
  ReadOptions options;
  std::vector<std::string> warnings;

  /// Said once, however many layers say it.
  void warn(const std::string& text);
};

}  // namespace phasor::spec
