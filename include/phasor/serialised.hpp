// SPDX-License-Identifier: Apache-2.0
// Serialised specs: one form for files, for operators that carry a spec as data, and for other languages (docs/spec-format.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "phasor/additive.hpp"
#include "phasor/bias.hpp"
#include "phasor/result.hpp"
#include "phasor/rotary.hpp"
#include "phasor/scheme.hpp"

namespace phasor {

/// The version that is written, and the only one that is read: "phasor": 1.
inline constexpr std::int64_t spec_version = 1;

using AnySpec = std::variant<RotarySpec, SinusoidalSpec, BiasSpec, AttentionScheme>;

/// A spec as a JSON object: version and type first, then the fields that are not as by default, in the order of fields.hpp. Equal specs
/// have equal texts, and every number comes back as it was. What is no valid spec has no text. All of these allocate.
Result<std::string> spec_to_json(const RotarySpec& spec);
Result<std::string> spec_to_json(const SinusoidalSpec& spec);
Result<std::string> spec_to_json(const BiasSpec& spec);
Result<std::string> spec_to_json(const AttentionScheme& scheme);

/// The spec of a text, checked as every spec is. Members may lie in any order, and those that are absent are as by default; one that the
/// type does not have, another type of value and another version are errors that say where. At most 64 MiB and 2^20 values.
Result<AnySpec> spec_from_json(std::string_view text);
/// The same where one type is wanted.
Result<RotarySpec> rotary_spec_from_json(std::string_view text);
Result<SinusoidalSpec> sinusoidal_spec_from_json(std::string_view text);
Result<BiasSpec> bias_spec_from_json(std::string_view text);
Result<AttentionScheme> attention_scheme_from_json(std::string_view text);

/// The binary form: the same object as CBOR (RFC 8949), of any text that spec_from_json reads. Equal specs have equal bytes.
Result<std::vector<std::byte>> cbor_of_json(std::string_view serialised);
Result<AnySpec> spec_from_cbor(std::span<const std::byte> bytes);

/// Any text as 64-bit integers, for operators whose data are integers: the number of its bytes, then eight bytes per integer, the first in
/// the lowest bits, zeros behind the last.
Result<std::vector<std::int64_t>> integers_of_json(std::string_view text);
/// Integers that no text has are an error: a length that they do not hold, or anything behind it.
Result<std::string> json_of_integers(std::span<const std::int64_t> integers);

}  // namespace phasor
