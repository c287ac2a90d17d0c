// SPDX-License-Identifier: Apache-2.0
// A spec as 64-bit integers and back: what PyTorch's operators carry it in, because an integer tensor survives `.to(bfloat16)`, export and
// pickling. Doubles are their bits; lists have their length before them, options a flag, variants their index.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "dataclass.hpp"
#include "fields.hpp"
#include "status.hpp"

namespace phasor::python {

inline constexpr std::int64_t kWordsVersion = 1;

class WordWriter {
 public:
  explicit WordWriter(std::vector<std::int64_t>& words) : words_(words) {}
  template <class T>
  void operator()(const char* /*name*/, const T& value) {
    put(value);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (is_optional<T>) {
      words_.push_back(value.has_value() ? 1 : 0);
      if (value) put(*value);
    } else if constexpr (is_vector<T>) {
      words_.push_back(static_cast<std::int64_t>(value.size()));
      for (const auto& item : value) put(item);
    } else if constexpr (is_variant<T>) {
      words_.push_back(static_cast<std::int64_t>(value.index()));
      std::visit([&](const auto& alternative) { put(alternative); }, value);
    } else if constexpr (std::is_same_v<T, double>) {
      words_.push_back(std::bit_cast<std::int64_t>(value));
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      words_.push_back(static_cast<std::int64_t>(value));
    } else {
      fields(*this, value);
    }
  }
  std::vector<std::int64_t>& words_;
};

/// ValueError for words that no spec has; never reads past them.
class WordReader {
 public:
  explicit WordReader(std::span<const std::int64_t> words) : words_(words) {}
  template <class T>
  void operator()(const char* /*name*/, T& value) {
    get(value);
  }
  std::size_t left() const { return words_.size(); }

 private:
  std::int64_t next(std::int64_t limit = INT64_MAX) {
    if (words_.empty()) raise(PyExc_ValueError, "rotary_from_words: the words end too soon");
    const std::int64_t word = words_.front();
    words_ = words_.subspan(1);
    if (limit != INT64_MAX && (word < 0 || word >= limit)) raise(PyExc_ValueError, "rotary_from_words: these words are no spec");
    return word;
  }
  template <class T>
  void get(T& value) {
    if constexpr (is_optional<T>) {
      value.reset();
      if (next(2) == 1) get(value.emplace());
    } else if constexpr (is_vector<T>) {
      value.resize(static_cast<std::size_t>(next(static_cast<std::int64_t>(words_.size()) + 1)));
      for (auto& item : value) get(item);
    } else if constexpr (is_variant<T>) {
      get_variant(value, next(static_cast<std::int64_t>(std::variant_size_v<T>)));
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(next());
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(next(static_cast<std::int64_t>(kValues<T>.size())));
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(next(sizeof(T) == 1 ? 256 : INT64_MAX));
    } else {
      fields(*this, value);
    }
  }
  template <class... T>
  void get_variant(std::variant<T...>& value, std::int64_t index) {
    std::int64_t at = 0;
    const auto attempt = [&]<class A>(std::type_identity<A>) {
      if (at++ == index) get(value.template emplace<A>());
    };
    (attempt(std::type_identity<T>{}), ...);
  }
  std::span<const std::int64_t> words_;
};

}  // namespace phasor::python
