// SPDX-License-Identifier: Apache-2.0
// Typed access to the keys of one architecture in a GGUF file; a wrong type or range is an error with key, value and byte offset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/format.hpp"
#include "spec/gguf/file.hpp"

namespace phasor::spec {

class GgufKeys {
 public:
  GgufKeys(const GgufFile& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  const std::string& architecture() const { return architecture_; }
  const GgufFile& file() const { return file_; }
  /// "llama.rope.freq_base" of "rope.freq_base".
  std::string full(std::string_view key) const { return spec::format("{}.{}", architecture_, key); }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Whether the file's keys are those of latent attention.
  bool is_latent() const { return has("attention.kv_lora_rank") || has("attention.key_length_mla"); }

  /// An integer of any width, 0 to 2^53, or nothing where the key is missing.
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// The same, and an error where it is missing or not within [least, most].
  std::int64_t required(std::string_view key, std::int64_t least, std::int64_t most) const;
  /// A finite float32 or float64.
  std::optional<double> real(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  /// An array of numbers or bools.
  std::optional<std::vector<double>> list(std::string_view key) const;
  /// A number for every layer: one for all, or a list with at least that many entries.
  std::optional<std::vector<std::int64_t>> per_layer(std::string_view key, std::int64_t layers) const;

  [[noreturn]] void wrong(std::string_view key, std::string_view is, std::string_view wanted) const;

 private:
  const GgufValue* find(std::string_view key) const;

  const GgufFile& file_;
  std::string architecture_;
};

}  // namespace phasor::spec
