// SPDX-License-Identifier: Apache-2.0
// GGUF keys and tensors that are being made: what a file of them would hold, and the same as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/gguf/file.hpp"

namespace phasor::plan {

/// Values are rounded to what GGUF stores (uint32, float32) as they are put in.
class GgufKeyWriter {
 public:
  explicit GgufKeyWriter(std::string architecture);

  void integer(std::string_view key, std::int64_t value);
  void real(std::string_view key, double value);
  void flag(std::string_view key, bool value);
  void text(std::string_view key, std::string_view value);
  /// int32, or bool where `type` says so.
  void list(std::string_view key, const std::vector<double>& values, spec::GgufType type);
  void tensor(std::string_view name, const std::vector<double>& values);
  /// A tensor that the model has anyway: known when the keys are read back, not written out.
  void existing_tensor(std::string_view name, std::vector<std::uint64_t> shape) {
    file_.tensors[std::string(name)].shape = std::move(shape);
  }

  const spec::GgufFile& file() const { return file_; }
  std::string json() const;

 private:
  void put(std::string_view key, spec::GgufValue value);

  std::string architecture_;
  spec::GgufFile file_;
  std::vector<std::string> order_;
};

}  // namespace phasor::plan
