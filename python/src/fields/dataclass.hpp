// SPDX-License-Identifier: Apache-2.0
// Structs from and to Python's frozen dataclasses of the same names (phasor/_spec.py and its kin), field by field.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "fields/fields.hpp"
#include "status.hpp"

namespace phasor::python {

namespace nb = nanobind;

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;

template <class T>
void read_python(nb::handle object, T& value, const std::string& where);

/// The value of an enumeration by its name.
template <class E>
void read_enum(nb::handle object, E& value, const std::string& where) {
  std::string wanted;
  const std::string text = nb::isinstance<nb::str>(object) ? nb::cast<std::string>(object) : nb::cast<std::string>(nb::repr(object));
  for (std::size_t i = 0; i < kValues<E>.size(); ++i) {
    if (text == kValues<E>[i]) {
      value = static_cast<E>(i);
      return;
    }
    wanted += (i == 0 ? "" : i + 1 == kValues<E>.size() ? " or " : ", ") + std::string(kValues<E>[i]);
  }
  raise(PyExc_ValueError, where + ": is " + text + ", wanted " + wanted);
}

/// The names of T: its own, or those of a variant's alternatives, which may be variants too.
template <class T>
std::string names_of() {
  if constexpr (is_variant<T>) {
    return []<class... A>(std::type_identity<std::variant<A...>>) {
      std::string names;
      ((names += (names.empty() ? "" : ", ") + names_of<A>()), ...);
      return names;
    }(std::type_identity<T>());
  } else {
    return std::string(kName<T>);
  }
}

/// Whether the object is of T's dataclass, or of an alternative's; then it is read.
template <class T>
bool read_named(nb::handle object, const std::string& name, T& value, const std::string& where) {
  if constexpr (is_variant<T>) {
    const auto attempt = [&]<class A>(std::type_identity<A>) {
      A alternative{};
      if (!read_named(object, name, alternative, where)) return false;
      value = std::move(alternative);
      return true;
    };
    return [&]<class... A>(std::type_identity<std::variant<A...>>) {
      return (attempt(std::type_identity<A>()) || ...);
    }(std::type_identity<T>());
  } else {
    if (name != kName<T>) return false;
    read_python(object, value, where);
    return true;
  }
}

template <class... T>
void read_variant(nb::handle object, std::variant<T...>& value, const std::string& where) {
  const std::string name = type_name_of(object);
  if (read_named(object, name, value, where)) return;
  raise(PyExc_TypeError, where + ": is " + name + ", wanted one of " + names_of<std::variant<T...>>());
}

template <class T>
void read_number(nb::handle object, T& value, const std::string& where) {
  if constexpr (std::is_same_v<T, bool>) {
    if (PyBool_Check(object.ptr()) != 0) return void(value = object.ptr() == Py_True);
    raise(PyExc_TypeError, where + ": is " + type_name_of(object) + ", wanted bool");
  } else if constexpr (std::is_floating_point_v<T>) {
    const double number = PyFloat_AsDouble(object.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      raise(PyExc_TypeError, where + ": is " + type_name_of(object) + ", wanted a number");
    }
    value = static_cast<T>(number);
  } else {
    const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
    if (!index.is_valid()) {
      PyErr_Clear();
      raise(PyExc_TypeError, where + ": is " + type_name_of(object) + ", wanted an integer");
    }
    if (!nb::try_cast(index, value))
      raise(PyExc_ValueError, where + ": is " + nb::cast<std::string>(nb::str(index)) + ", which does not fit");
  }
}

/// Reads the attributes of a dataclass into the fields of a struct.
struct AttributeReader {
  nb::handle object;
  const std::string& where;
  template <class T>
  void operator()(const char* name, T& value) {
    read_python(object.attr(name), value, where + "." + name);
  }
};

template <class T>
void read_python(nb::handle object, T& value, const std::string& where) {
  if constexpr (is_optional<T>) {
    value.reset();
    if (!object.is_none()) read_python(object, value.emplace(), where);
  } else if constexpr (is_vector<T>) {
    value.clear();
    const nb::object list = nb::steal(PySequence_List(object.ptr()));
    if (!list.is_valid()) {
      PyErr_Clear();
      raise(PyExc_TypeError, where + ": is " + type_name_of(object) + ", wanted a sequence");
    }
    for (const nb::handle item : nb::borrow<nb::list>(list)) read_python(item, value.emplace_back(), where);
  } else if constexpr (is_variant<T>) {
    read_variant(object, value, where);
  } else if constexpr (std::is_enum_v<T>) {
    read_enum(object, value, where);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!nb::try_cast(object, value)) raise(PyExc_TypeError, where + ": is " + type_name_of(object) + ", wanted str");
  } else if constexpr (std::is_arithmetic_v<T>) {
    read_number(object, value, where);
  } else {
    if (type_name_of(object) != kName<T>)
      raise(PyExc_TypeError, where + ": is " + type_name_of(object) + ", wanted " + std::string(kName<T>));
    AttributeReader reader{object, where};
    fields(reader, value);
  }
}

template <class T>
nb::object to_python(const T& value, nb::handle module);

/// Collects the fields of a struct as keywords of its dataclass.
struct KeywordWriter {
  nb::dict& keywords;
  nb::handle module;
  template <class T>
  void operator()(const char* name, const T& value) {
    keywords[name] = to_python(value, module);
  }
};

/// `module` is where the dataclasses are.
template <class T>
nb::object to_python(const T& value, nb::handle module) {
  if constexpr (is_optional<T>) {
    return value ? to_python(*value, module) : nb::none();
  } else if constexpr (is_vector<T>) {
    nb::list list;
    for (const auto& item : value) list.append(to_python(item, module));
    return nb::steal(PySequence_Tuple(list.ptr()));  // tuples, so that frozen dataclasses hash
  } else if constexpr (is_variant<T>) {
    return std::visit([&](const auto& alternative) { return to_python(alternative, module); }, value);
  } else if constexpr (std::is_enum_v<T>) {
    const std::string_view name = kValues<T>.at(static_cast<std::size_t>(value));
    return nb::str(name.data(), name.size());
  } else if constexpr (std::is_same_v<T, bool>) {
    return nb::bool_(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return nb::float_(value);
  } else if constexpr (std::is_integral_v<T>) {
    return nb::int_(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text_of(value);
  } else {
    nb::dict keywords;
    KeywordWriter writer{keywords, module};
    fields(writer, value);
    return module.attr(std::string(kName<T>).c_str())(**keywords);
  }
}

}  // namespace phasor::python
