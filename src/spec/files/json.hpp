// SPDX-License-Identifier: Apache-2.0
// Json: the value tree of a JSON text as model files write it, members in the order of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phasor/result.hpp"

namespace phasor::spec {

struct Json {
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;                                   // infinite or NaN where the text says Infinity or NaN
  std::optional<std::int64_t> integer = std::nullopt;  // exact, when the number is whole and fits
  std::string string = {};
  std::vector<Json> items = {};                            // of an array
  std::vector<std::pair<std::string, Json>> members = {};  // of an object; no key twice

  bool is(Kind other) const { return kind == other; }
  /// The member of that name, null when there is none.
  const Json* find(std::string_view key) const;
  /// What it is, in a few words for a message: `"x"`, `3`, `a list of 4`.
  std::string describe() const;
};

/// What parse_json reads at most: bytes of text, and values in it.
inline constexpr std::size_t largest_json_text = std::size_t{64} << 20;
inline constexpr std::size_t most_json_values = std::size_t{1} << 20;

/// Python's JSON: as the standard has it, and bare Infinity, -Infinity and NaN; {"__float__": "Infinity"} is that number too.
/// At most 64 MiB, 64 levels and 2^20 values. An error begins with `where` and says line and byte.
Result<Json> parse_json(std::string_view text, std::string_view where);
/// The same of CBOR (RFC 8949), within the same limits. An error says the byte.
Result<Json> parse_cbor(std::span<const std::byte> bytes, std::string_view where);
/// A valid JSON text as CBOR, members in their order. Throws where memory ends.
std::vector<std::byte> cbor_of(std::string_view json);

/// A string as JSON writes it, in quotes; bytes that are not printable ASCII as \u escapes (each byte of what is not UTF-8 as U+FFFD).
std::string json_string(std::string_view text);
/// A number as JSON writes it, with the digits that give the same double back; infinite and NaN as {"__float__": ...}.
std::string json_number(double value);

}  // namespace phasor::spec
