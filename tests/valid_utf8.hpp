// SPDX-License-Identifier: Apache-2.0
// Whether text is UTF-8, by decoding each character and encoding it again: shares nothing with what the library escapes by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace phasor::test {

inline std::string encoded_utf8(std::uint32_t point) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 + ((point >> shift) % 64)); };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xc0 + (point >> 6)), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xe0 + (point >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 + (point >> 18)), tail(12), tail(6), tail(0)};
}

inline bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const auto first = static_cast<std::uint8_t>(text[0]);
    const std::size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (text.size() < size) return false;
    std::uint32_t point = size == 1 ? first : first % (1U << (7 - size));
    for (std::size_t i = 1; i < size; ++i) point = point * 64 + static_cast<std::uint8_t>(text[i]) % 64;
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    if (surrogate || point > 0x10ffff || encoded_utf8(point) != text.substr(0, size)) return false;
    text.remove_prefix(size);
  }
  return true;
}

/// What a message may hold: besides that, no control characters (U+0000 to U+001F, U+007F to U+009F) but tabs and line ends.
inline bool is_message(std::string_view text) {
  if (!is_valid_utf8(text)) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) return false;
    if (byte == 0xc2 && static_cast<std::uint8_t>(text[i + 1]) < 0xa0) return false;
  }
  return true;
}

}  // namespace phasor::test
