// SPDX-License-Identifier: Apache-2.0
// One list of fields per struct of the C API, walked three ways: into a spec of C++ (Read), from one (Write), and over what is left
// (Leftover).
//   void fields(auto& way, phasor_scaling& c, SpecOf<LinearScaling> auto& s) { way("factor", c.factor, s.factor); }
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/call.hpp"
#include "core/lists.hpp"
#include "phasor/fields.hpp"

namespace phasor::c {

/// A choice of C, 0 to count - 1, as an enumerator of the same number.
template <class E>
E choice_of(const char* where, const char* name, std::int32_t value, int count) {
  if (value < 0 || value >= count) {
    fail(std::string(where) + ": " + name + " is " + std::to_string(value) + ", wanted 0 to " + std::to_string(count - 1));
  }
  return static_cast<E>(value);
}

/// The alternative of a variant that a kind of C numbers, as by default.
template <class Variant>
Variant default_of(const char* where, const char* name, std::int32_t kind) {
  constexpr std::size_t kinds = std::variant_size_v<Variant>;
  const auto index = choice_of<std::size_t>(where, name, kind, static_cast<int>(kinds));
  return [index]<std::size_t... I>(std::index_sequence<I...> /*kinds*/) {
    const std::array<Variant, kinds> defaults = {Variant(std::in_place_index<I>)...};
    return defaults[index];
  }(std::make_index_sequence<kinds>());
}

/// Zero leaves the default. What was read is set to zero, so that what is left is what nobody asked for.
class Read {
 public:
  explicit Read(const char* where) : where_(where) {}

  template <class A, class B>
  void operator()(const char* /*name*/, A& c, B& s) const {
    if (c != 0) s = static_cast<B>(c);
    c = 0;
  }
  /// A value whose zero means something.
  template <class A, class B>
  void flagged(const char* name, std::int32_t& has, A& c, B& s) const {
    if (has != 0 && has != 1) fail(std::string(where_) + ": has_" + name + " is " + std::to_string(has) + ", wanted 0 or 1");
    if (has == 1) {
      s = c;
    } else if (c != 0) {
      fail(std::string(where_) + ": " + name + " is given and has_" + name + " is 0, wanted 1");
    }
    has = 0;
    c = 0;
  }
  template <class T, class U>
  void list(const char* name, const T*& data, std::size_t& count, std::vector<U>& s) const {
    const std::span<const T> given = span_of(where_, name, data, count);
    if (data != nullptr) s.assign(given.begin(), given.end());
    data = nullptr;
    count = 0;
  }
  template <class E>
  void choice(const char* name, std::int32_t& c, E& s, int count) const {
    if (c != 0) s = choice_of<E>(where_, name, c, count);
    c = 0;
  }
  /// Numbered otherwise than in C++: the default first.
  template <class E, std::size_t N>
  void choice(const char* name, std::int32_t& c, E& s, const std::array<E, N>& order) const {
    s = order[choice_of<std::size_t>(where_, name, c, N)];
    c = 0;
  }
  template <class E>
  void flagged_choice(const char* name, std::int32_t& has, std::int32_t& c, std::optional<E>& s, int count) const {
    std::optional<std::int32_t> value;
    flagged(name, has, c, value);
    if (value) s = choice_of<E>(where_, name, *value, count);
  }
  /// A field that is read apart from the list: a pointer to another struct. Whoever reads it sets it to null.
  template <class T>
  void apart(const char* /*name*/, const T& /*c*/) const {}

 private:
  const char* where_;
};

/// Every field is set; lists point into the spec.
class Write {
 public:
  template <class A, class B>
  void operator()(const char* /*name*/, A& c, const B& s) const {
    c = static_cast<A>(s);
  }
  template <class A, class B>
  void flagged(const char* /*name*/, std::int32_t& has, A& c, const std::optional<B>& s) const {
    has = s ? 1 : 0;
    c = s ? static_cast<A>(*s) : A{};
  }
  template <class A, class B>
  void flagged(const char* /*name*/, std::int32_t& has, A& c, const B& s) const {
    has = 1;
    c = static_cast<A>(s);
  }
  template <class T, class U>
  void list(const char* /*name*/, const T*& data, std::size_t& count, const std::vector<U>& s) const {
    data = s.empty() ? nullptr : s.data();
    count = s.size();
  }
  template <class E>
  void choice(const char* /*name*/, std::int32_t& c, const E& s, int /*count*/) const {
    c = static_cast<std::int32_t>(s);
  }
  template <class E, std::size_t N>
  void choice(const char* /*name*/, std::int32_t& c, const E& s, const std::array<E, N>& order) const {
    c = static_cast<std::int32_t>(std::find(order.begin(), order.end(), s) - order.begin());
  }
  template <class E>
  void flagged_choice(const char* /*name*/, std::int32_t& has, std::int32_t& c, const std::optional<E>& s, int /*count*/) const {
    has = s ? 1 : 0;
    c = s ? static_cast<std::int32_t>(*s) : 0;
  }
  template <class T>
  void apart(const char* /*name*/, const T& /*c*/) const {}
};

/// What is left when a kind was read: a field that is not zero is one that the kind does not have.
class Leftover {
 public:
  Leftover(const char* where, std::string kind) : where_(where), kind_(std::move(kind)) {}

  template <class T>
  void operator()(const std::string& name, const T& value) const {
    if (value != T{}) fail(std::string(where_) + ": " + name + " is given, and " + kind_ + " has none, wanted 0");
  }
  template <class A, class B>
  void operator()(const char* name, const A& c, const B& /*s*/) const {
    (*this)(std::string(name), c);
  }
  template <class A, class B>
  void flagged(const char* name, std::int32_t has, const A& c, const B& s) const {
    (*this)(name, c, s);
    (*this)("has_" + std::string(name), has);
  }
  template <class T, class U>
  void list(const char* name, const T* data, std::size_t count, const std::vector<U>& s) const {
    (*this)(name, data, s);
    (*this)(count_of(name), count);
  }
  template <class E, class Order>
  void choice(const char* name, std::int32_t c, const E& s, const Order& /*order*/) const {
    (*this)(name, c, s);
  }
  template <class E>
  void flagged_choice(const char* name, std::int32_t has, std::int32_t c, const std::optional<E>& s, int /*count*/) const {
    flagged(name, has, c, s);
  }
  template <class T>
  void apart(const char* name, const T& c) const {
    (*this)(std::string(name), c);
  }

 private:
  /// "slopes" has a "slope_count", "frequencies" a "frequency_count".
  static std::string count_of(std::string list) {
    if (list.ends_with("ies")) {
      list.replace(list.size() - 3, 3, "y");
    } else if (list.ends_with('s')) {
      list.pop_back();
    }
    return list + "_count";
  }

  const char* where_;
  std::string kind_;
};

/// The alternative that `kind` numbers, its fields read by fields(way, alternative); fields of the others must be zero.
template <class Variant, class Fields>
Variant read_variant(const char* where, const char* name, std::int32_t kind, const Fields& fields) {
  Variant value = default_of<Variant>(where, name, kind);
  const std::string kind_name = std::visit(
      [&](auto& s) {
        const Read way(where);
        fields(way, s);
        return std::string(name_of(std::type_identity<std::remove_cvref_t<decltype(s)>>()));
      },
      value);
  const Leftover unused(where, kind_name);
  for (std::size_t other = 0; other < std::variant_size_v<Variant>; ++other) {
    Variant alternative = default_of<Variant>(where, name, static_cast<std::int32_t>(other));
    std::visit([&](auto& s) { fields(unused, s); }, alternative);
  }
  return value;
}
/// Writes the fields of the alternative that there is, and gives its number.
template <class Variant, class Fields>
std::int32_t write_variant(const Variant& value, const Fields& fields) {
  std::visit(
      [&](const auto& s) {
        const Write way;
        fields(way, s);
      },
      value);
  return static_cast<std::int32_t>(value.index());
}

}  // namespace phasor::c
