// SPDX-License-Identifier: Apache-2.0
// Serialised specs in and out, and lists of handles.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/call.hpp"
#include "core/lists.hpp"
#include "handles.hpp"
#include "phasor/fields.hpp"
#include "phasor/serialised.hpp"

namespace phasor::c {

inline std::string_view text_of(const char* where, const char* text, std::size_t length) {
  return length == 0 ? std::string_view() : std::string_view(need(where, "the text", text), length);
}

template <class Spec>
std::string name_of_spec() {
  if constexpr (std::is_same_v<Spec, BiasSpec>) {
    return "BiasSpec";  // a variant
  } else {
    return std::string(name_of(std::type_identity<Spec>()));
  }
}

template <class Spec>
Spec spec_of_cbor(const char* where, const std::uint8_t* bytes, std::size_t count) {
  AnySpec spec = value_of(spec_from_cbor(std::as_bytes(span_of(where, "bytes", bytes, count))));
  if (!std::holds_alternative<Spec>(spec))
    fail(std::string(where) + ": the bytes are a spec of another type, wanted " + name_of_spec<Spec>());
  return std::get<Spec>(std::move(spec));
}

template <class Spec>
void give_cbor(const char* where, const Spec& spec, phasor_bytes* to) {
  const std::vector<std::byte> bytes = value_of(cbor_of_json(value_of(spec_to_json(spec))));
  give(where, bytes.data(), bytes.size(), to);
}

inline std::vector<Rotary> rotaries_of(const char* where, const phasor_rotary* const* rotaries, std::size_t count) {
  std::vector<Rotary> list;
  for (const phasor_rotary* rotary : span_of(where, "the list's rotaries", rotaries, count)) {
    list.push_back(need(where, "a rotary of the list", rotary)->value);
  }
  return list;
}

}  // namespace phasor::c
