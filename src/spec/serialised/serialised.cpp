// SPDX-License-Identifier: Apache-2.0
// Specs serialised and read: as JSON, as CBOR, and JSON as integers.
#include "phasor/serialised.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "spec/additive.hpp"
#include "spec/bias.hpp"
#include "spec/rotary.hpp"
#include "spec/scheme/scheme.hpp"
#include "spec/serialised/reader.hpp"
#include "spec/serialised/writer.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {

namespace spec {
namespace {

constexpr const char* kReader = "spec_from_json";
constexpr std::size_t kBytes = sizeof(std::int64_t);  // of an integer

template <class Spec>
Status check_spec(const Spec& value) {
  if constexpr (std::is_same_v<Spec, AnySpec>) {
    return std::visit([](const auto& one) { return check(one); }, value);
  } else {
    return check(value);
  }
}

// ---- Writing ----

/// What is written can be read: the reader's own limits. A comma, a bracket or a brace stands for each value but the first.
Status check_limits(std::string_view text) {
  const auto values = 1 + std::count_if(text.begin(), text.end(), [](char c) { return c == ',' || c == '[' || c == '{'; });
  if (text.size() <= largest_json_text && static_cast<std::size_t>(values) <= most_json_values) return {};
  return Status::invalid(spec::format("spec_to_json: the spec has {} values in {} bytes, wanted at most {} in {}", values, text.size(),
                                      most_json_values, largest_json_text));
}

template <class Spec>
Result<std::string> written(const Spec& value) {
  return without_exceptions("spec_to_json", [&]() -> Result<std::string> {
    if (Status status = check_spec(value); !status) return status;
    std::string text = spec::format("{{\"{}\":{}", kVersionKey, spec_version);
    append_typed(text, value);
    text += '}';
    if (Status status = check_limits(text); !status) return status;
    return text;
  });
}

// ---- Reading ----

void check_version(const Json& json) {
  const Place place;
  const Place at{&place, kVersionKey};
  const std::string wanted = spec::format("{}, the version of the form that this library reads", spec_version);
  if (!json.is(Json::Kind::object)) wrong_value(place, json, "an object, a spec as phasor writes it");
  const Json* version = json.find(kVersionKey);
  if (version == nullptr) fail_at(at, "is missing", wanted);
  if (!version->is(Json::Kind::number) || version->integer != spec_version) wrong_value(at, *version, wanted);
}

template <class Spec>
Result<Spec> spec_of(const Result<Json>& json) {
  if (!json) return json.status();
  check_version(*json);
  Result<Spec> value{std::in_place};
  read_typed(*json, *value, Place{}, {kTypeKey, kVersionKey});
  return value;
}

template <class Spec>
Result<Spec> checked_spec_of(const Result<Json>& json) {
  return without_exceptions(kReader, [&]() -> Result<Spec> {
    try {
      Result<Spec> value = spec_of<Spec>(json);
      if (!value) return value;
      if (Status status = check_spec(*value); !status) return status;
      return value;
    } catch (const ReadError& error) {
      return error.status;
    }
  });
}

template <class Spec>
Result<Spec> from_json(std::string_view text) {
  return checked_spec_of<Spec>(parse_json(text, kReader));
}

// ---- As integers ----

/// Byte i of words whose first byte is in the lowest bits, on any machine.
char byte_of(std::span<const std::int64_t> words, std::size_t i) {
  return static_cast<char>(static_cast<std::uint64_t>(words[i / kBytes]) >> (8 * (i % kBytes)) & 0xff);
}

std::vector<std::int64_t> packed(std::string_view text) {
  std::vector<std::uint64_t> words(1 + (text.size() + kBytes - 1) / kBytes, 0);
  words[0] = text.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    words[1 + i / kBytes] |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * (i % kBytes));
  }
  return {words.begin(), words.end()};
}

Result<std::string> unpacked(std::span<const std::int64_t> words) {
  if (words.empty()) return Status::invalid("json_of_integers: there are no integers, wanted a length and a text");
  const std::int64_t length = words[0];
  const std::span<const std::int64_t> rest = words.subspan(1);
  const std::size_t held = rest.size() * kBytes;
  // Compared with what is there before anything is asked for: a length may be any number.
  if (length < 0 || static_cast<std::uint64_t>(length) > held || held - static_cast<std::size_t>(length) >= kBytes) {
    return Status::invalid(
        spec::format("json_of_integers: the length is {} bytes and {} integers follow, wanted as many as hold it", length, rest.size()));
  }
  std::string text(static_cast<std::size_t>(length), '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = byte_of(rest, i);
  for (std::size_t i = text.size(); i < held; ++i) {
    if (byte_of(rest, i) != 0) return Status::invalid(spec::format("json_of_integers: byte {} lies behind the text, wanted 0", i));
  }
  return text;
}

}  // namespace
}  // namespace spec

Result<std::string> spec_to_json(const RotarySpec& spec) { return spec::written(spec); }
Result<std::string> spec_to_json(const SinusoidalSpec& spec) { return spec::written(spec); }
Result<std::string> spec_to_json(const BiasSpec& spec) { return spec::written(spec); }
Result<std::string> spec_to_json(const AttentionScheme& scheme) { return spec::written(scheme); }

Result<AnySpec> spec_from_json(std::string_view text) { return spec::from_json<AnySpec>(text); }
Result<RotarySpec> rotary_spec_from_json(std::string_view text) { return spec::from_json<RotarySpec>(text); }
Result<SinusoidalSpec> sinusoidal_spec_from_json(std::string_view text) { return spec::from_json<SinusoidalSpec>(text); }
Result<BiasSpec> bias_spec_from_json(std::string_view text) { return spec::from_json<BiasSpec>(text); }
Result<AttentionScheme> attention_scheme_from_json(std::string_view text) { return spec::from_json<AttentionScheme>(text); }

Result<std::vector<std::byte>> cbor_of_json(std::string_view serialised) {
  return spec::without_exceptions("cbor_of_json", [&]() -> Result<std::vector<std::byte>> {
    const Result<AnySpec> spec = spec_from_json(serialised);
    if (!spec) return spec.status();
    const Result<std::string> written = std::visit([](const auto& one) { return spec_to_json(one); }, *spec);
    if (!written) return written.status();
    return spec::cbor_of(*written);
  });
}
Result<AnySpec> spec_from_cbor(std::span<const std::byte> bytes) {
  return spec::checked_spec_of<AnySpec>(spec::parse_cbor(bytes, "spec_from_cbor"));
}

Result<std::vector<std::int64_t>> integers_of_json(std::string_view text) {
  return spec::without_exceptions("integers_of_json", [&]() -> Result<std::vector<std::int64_t>> { return spec::packed(text); });
}
Result<std::string> json_of_integers(std::span<const std::int64_t> words) {
  return spec::without_exceptions("json_of_integers", [&] { return spec::unpacked(words); });
}

}  // namespace phasor
