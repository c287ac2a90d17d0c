// SPDX-License-Identifier: Apache-2.0
// Arguments of the functions beside the rotary ones: tokens without heads, biases, positions that are written, lists of integers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays/array.hpp"
#include "fields/dataclass.hpp"
#include "phasor/position_builders.hpp"
#include "status.hpp"
#include "threads/threads.hpp"

namespace phasor::python {

inline std::int64_t elements_of(const TensorView& view) { return view.shape[0] * view.shape[1] * view.shape[2] * view.shape[3]; }

/// (B, T, D) or (T, D), as what is added to tokens has them, and grids of rows, (rows, columns, D): a view with one head.
class TokensArgument {
 public:
  TokensArgument(nb::handle object, const char* name, Access access);
  const TensorView& get() const { return view_; }
  const Place& place() const { return array_.place; }

 private:
  Array array_;
  TensorView view_{};
};

/// What is read and where it goes: `out` None means in place.
class TokensInOut {
 public:
  TokensInOut(nb::handle in, nb::handle out, const char* name)
      : in_(in, name, out.is_none() ? Access::write : Access::read),
        out_(out.is_none() ? in_ : TokensArgument(out, "out", Access::write)) {}
  InOut get() const { return {in_.get(), out_.get()}; }
  const Place& place() const { return in_.place(); }
  std::int64_t elements() const { return elements_of(in_.get()); }

 private:
  TokensArgument in_, out_;
};

/// (B, H, Tq, Tk) or (H, Tq, Tk); of a diagonal (H, N).
class BiasArgument {
 public:
  enum class Shape : std::uint8_t { scores, diagonal };
  BiasArgument(nb::handle object, const char* name, Access access, Shape shape);
  const TensorView& get() const { return view_; }
  const Place& place() const { return array_.place; }

 private:
  Array array_;
  TensorView view_{};
};

/// (axes, B, T), (B, T) or (T), to be written.
class PositionsOut {
 public:
  explicit PositionsOut(nb::handle object);
  const PositionsView& get() const { return view_; }
  const Place& place() const { return array_.place; }

 private:
  Array array_;
  PositionsView view_{};
};

/// Contiguous integers of a type that the library takes. None and an empty array: not given.
class IntegersArgument {
 public:
  IntegersArgument(nb::handle object, const char* name);
  const Integers& get() const { return integers_; }
  const Place& place() const { return array_.place; }

 private:
  Array array_{};
  Integers integers_{};
};

/// Contiguous float64 in memory of the host, in any shape.
class RealsArgument {
 public:
  RealsArgument(nb::handle object, const char* name, Access access = Access::read);
  std::span<double> get() const { return values_; }  // written only after Access::write

 private:
  Array array_;
  std::span<double> values_{};
};

/// Learned numbers' gradient, contiguous float64 in any shape on any device: (1, 1, 1, as many).
class NumbersOut {
 public:
  NumbersOut(nb::handle object, const char* name);
  const TensorView& get() const { return view_; }
  const Place& place() const { return array_.place; }

 private:
  Array array_;
  TensorView view_{};
};

/// A struct from its dataclass; messages begin with `where`.
template <class T>
T read(nb::handle object, const std::string& where) {
  T value{};
  read_python(object, value, where);
  return value;
}

/// The value of `work()`, run without the GIL.
template <class Work>
auto value_unlocked(const Work& work) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return work();
  }();
  return value_of(std::move(result));
}

/// A struct as its dataclass of `module`.
template <class T>
nb::any dataclass_of(const T& value, const char* module) {
  return nb::steal<nb::any>(to_python(value, nb::module_::import_(module)).release());
}

/// A NumPy array of float64 that owns its values; `shape` may be empty for as many as there are.
nb::any numpy_array(std::vector<double> values, const std::vector<std::int64_t>& shape = {});

}  // namespace phasor::python
