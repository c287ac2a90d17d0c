// SPDX-License-Identifier: Apache-2.0
// Writing a config: an object of JSON text in order, and the writers of each encoding.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/model.hpp"
#include "spec/held.hpp"
#include "spec/hf/models.hpp"

namespace phasor::spec {

/// An object of JSON text, one key per line.
class JsonObject {
 public:
  explicit JsonObject(int depth = 0) : depth_(depth) {}
  void add(std::string_view key, std::int64_t value);
  void add(std::string_view key, double value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const JsonObject& value);
  void add_null(std::string_view key);
  template <class T>
  void add_list(std::string_view key, const std::vector<T>& values);
  template <class T>
  void add_optional(std::string_view key, const std::optional<T>& value) {
    if (value) add(key, *value);
  }
  int depth() const { return depth_; }
  bool empty() const { return body_.empty(); }
  std::string text() const;

 private:
  void add_text(std::string_view key, std::string_view text);
  int depth_;
  std::string body_;
};

/// Thrown while a config is written, caught by to_hf_config.
class ExportError : public std::exception {
 public:
  explicit ExportError(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// One part of a model, to be written.
struct ExportPart {
  const std::vector<LayerPositions>* layers;
  const Model* model;
  std::int64_t length;                              // positions the file allows
  const std::vector<ModelTower>* towers = nullptr;  // encoders that belong to the part itself
};

/// A rope dictionary: type, base, width, scaling, axes and temperature of a layer.
JsonObject rope_dictionary(const LayerPositions& layer, const Model& model, int depth);
void write_rotary(JsonObject& out, const ExportPart& part);
void write_patches(JsonObject& out, const ExportPart& part);
void write_unrotated(JsonObject& out, const ExportPart& part);

/// The name of the first field in which the layers differ, empty when none does. Numerics are not compared: no config says them.
std::string first_difference(const LayerPositions& left, const LayerPositions& right);

}  // namespace phasor::spec
