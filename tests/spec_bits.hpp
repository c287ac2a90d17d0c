// SPDX-License-Identifier: Apache-2.0
// Every field of a spec as 64-bit patterns: another way through the lists than the text's, so that a number that came back otherwise is
// seen.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "math/portable.hpp"
#include "phasor/scheme.hpp"
#include "phasor/serialised.hpp"

namespace phasor::test {

struct Bits {
  std::vector<std::uint64_t> words = {};
  template <class T>
  void operator()(const char* /*name*/, const T& value) {
    add(value);
  }
  void add(double value) { words.push_back(math::bit_cast<std::uint64_t>(value)); }
  template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
  void add(T value) {
    words.push_back(static_cast<std::uint64_t>(value));
  }
  template <class T>
  void add(const std::optional<T>& value) {
    words.push_back(value.has_value() ? 1 : 0);
    if (value) add(*value);
  }
  template <class T>
  void add(const std::vector<T>& list) {
    words.push_back(list.size());
    for (const T& item : list) add(item);
  }
  template <class... T>
  void add(const std::variant<T...>& value) {
    words.push_back(value.index());
    std::visit([&](const auto& one) { add(one); }, value);
  }
  template <class T>
    requires std::is_class_v<T>
  void add(const T& value) {
    fields(*this, value);
  }
};

/// Equal for specs that are equal bit for bit, and for no others.
inline std::vector<std::uint64_t> bits(const AnySpec& spec) {
  Bits visitor;
  visitor.add(spec);
  return std::move(visitor.words);
}

}  // namespace phasor::test
