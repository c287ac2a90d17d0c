// SPDX-License-Identifier: Apache-2.0
// Escaping what is no UTF-8.
#include "spec/utf8.hpp"

#include <cstdint>
#include <string_view>

namespace phasor::spec {
namespace {

/// Bytes of the character that the text begins with; 0 where it begins with none that may be shown.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\t' ? 1 : 0;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const bool too_long = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool beyond = first == 0xf4 && byte(1) >= 0x90;
  const bool control = first == 0xc2 && byte(1) < 0xa0;
  return too_long || surrogate || beyond || control ? 0 : size;
}

}  // namespace

std::string printable_utf8(std::string text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t size = character_size(rest);
    if (size == 0) break;
    rest.remove_prefix(size);
  }
  if (rest.empty()) return text;  // as nearly always
  std::string escaped(text, 0, text.size() - rest.size());
  while (!rest.empty()) {
    const std::size_t size = character_size(rest);
    if (size > 0) {
      escaped += rest.substr(0, size);
      rest.remove_prefix(size);
      continue;
    }
    constexpr std::string_view digits = "0123456789abcdef";
    const auto byte = static_cast<std::uint8_t>(rest[0]);
    escaped += "\\x";
    escaped += digits[byte >> 4U];
    escaped += digits[byte & 15U];
    rest.remove_prefix(1);
  }
  return escaped;
}

}  // namespace phasor::spec
