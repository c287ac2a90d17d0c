// SPDX-License-Identifier: Apache-2.0
// GGUF files built in memory, well formed or as broken as a test wants them; and files read from tests/golden.
#pragma once

#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spec/gguf/file.hpp"

namespace phasor::test {

using spec::GgufType;

inline std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The bytes of a number, little end first.
template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

/// Values as they stand after a key: type, then bytes.
inline std::string u32_value(std::uint32_t value) { return raw(std::uint32_t{4}) + raw(value); }
inline std::string f32_value(float value) { return raw(std::uint32_t{6}) + raw(value); }
inline std::string bool_value(bool value) { return raw(std::uint32_t{7}) + raw(static_cast<std::uint8_t>(value)); }
inline std::string text_value(std::string_view value) {
  return raw(std::uint32_t{8}) + raw(std::uint64_t{value.size()}) + std::string(value);
}
inline std::string array_value(GgufType element, std::uint64_t count, const std::string& entries) {
  return raw(std::uint32_t{9}) + raw(static_cast<std::uint32_t>(element)) + raw(count) + entries;
}

class GgufBuilder {
 public:
  explicit GgufBuilder(std::string_view architecture) { key("general.architecture", text_value(architecture)); }
  GgufBuilder() = default;

  GgufBuilder& key(std::string_view name, const std::string& value) {
    keys_ += text(name) + value;
    ++key_count;
    return *this;
  }
  /// A float32 tensor of one axis with these values, laid out after those before it.
  GgufBuilder& tensor(std::string_view name, const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    info(name, {values.size()}, 0, data_.size());
    data_ += bytes;
    data_.resize((data_.size() + 31) / 32 * 32);
    return *this;
  }
  GgufBuilder& info(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type, std::uint64_t offset) {
    infos_ += text(name) + raw(static_cast<std::uint32_t>(shape.size()));
    for (const std::uint64_t axis : shape) infos_ += version == 1 ? raw(static_cast<std::uint32_t>(axis)) : raw(axis);
    infos_ += raw(type) + raw(offset);
    ++tensor_count;
    return *this;
  }
  std::string bytes() const {
    const auto count = [&](std::uint64_t n) { return version == 1 ? raw(static_cast<std::uint32_t>(n)) : raw(n); };
    std::string file = "GGUF" + raw(version) + count(tensor_count) + count(key_count) + keys_ + infos_;
    if (tensor_count > 0) file.resize((file.size() + 31) / 32 * 32);
    return file + data_;
  }

  // What the header says; set to other than what was added to break it.
  std::uint64_t key_count = 0;
  std::uint64_t tensor_count = 0;
  std::uint32_t version = 3;

 private:
  std::string text(std::string_view name) const {
    return (version == 1 ? raw(static_cast<std::uint32_t>(name.size())) : raw(std::uint64_t{name.size()})) + std::string(name);
  }
  std::string keys_;
  std::string infos_;
  std::string data_;
};

/// A small llama that is read without complaint.
inline GgufBuilder small_llama() {
  GgufBuilder file("llama");
  file.key("llama.block_count", u32_value(2)).key("llama.context_length", u32_value(4096)).key("llama.embedding_length", u32_value(64));
  file.key("llama.attention.head_count", u32_value(4));
  return file;
}

}  // namespace phasor::test
