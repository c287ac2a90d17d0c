// SPDX-License-Identifier: Apache-2.0
// Arrays of any library (PyTorch, NumPy, JAX, CuPy, whatever speaks DLPack) as the views that the library takes. Nothing is copied.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "arrays/place.hpp"
#include "phasor/positions.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::python {

namespace nb = nanobind;

inline constexpr int kTensorAxes = 4;
inline constexpr int kMostAxes = 6;  // of a cache

enum class Access : std::uint8_t { read, write };

/// A negative view of PyTorch shows its memory with the other sign. Asking costs as much as a view, so whoever has asked says so.
enum class Sign : std::uint8_t { to_be_asked, as_in_memory };

/// A Python object's memory. Valid while the object and this live.
struct Array {
  void* data = nullptr;
  nb::dlpack::dtype dtype{};
  bool is_bf16_bits = false;  // NumPy's bfloat16 is ml_dtypes', which enters as its bits
  int ndim = 0;
  std::array<std::int64_t, kMostAxes> shape{};
  std::array<std::int64_t, kMostAxes> strides{};  // elements
  Place place{};
  nb::ndarray<nb::ro> keeps = {};  // nothing for plain PyTorch tensors: the caller's reference keeps those
};

/// `name` is how messages call it ("q"). TypeError for what is no array, ValueError for a read-only one that is to be written,
/// NotImplementedError for memory on a device that this build has no kernels for, or with another sign than the numbers. Only an array
/// without elements has no memory.
Array array_of(nb::handle object, const char* name, Access access, Sign sign = Sign::to_be_asked, int most_axes = kTensorAxes);

/// (B, T, H, D), (T, H, D) or (T, D).
TensorView tensor_of(const Array& array, const char* name);
/// A table of cosines or sines: (T, P), (B, T, P) or (B, T, H, P).
TensorView table_of(const Array& array, const char* name);
/// Factors (T) or (B, T) of float32 as (B, T, 1, 1).
TensorView factors_of(const Array& array, const char* name);
/// (axes, B, T), (B, T) or (T) of int32, int64 or float64.
Positions positions_of(const Array& array, const char* name);

/// Positions as every function takes them: an array, an int (the first of consecutive ones), or None (from 0 on).
class PositionsArgument {
 public:
  explicit PositionsArgument(nb::handle object, const char* name = "positions", Sign sign = Sign::to_be_asked);
  const Positions& get() const { return positions_; }
  Place place() const { return array_ ? array_->place : Place{}; }

 private:
  std::optional<Array> array_;
  Positions positions_{};
};

/// What is read and where it goes: `out` None means in place.
class InOutArgument {
 public:
  InOutArgument(nb::handle in, nb::handle out, const char* name, Sign sign = Sign::to_be_asked);
  InOut get() const { return {in_, out_}; }
  Place place() const { return in_array_.place; }
  std::int64_t elements() const { return in_.shape[0] * in_.shape[1] * in_.shape[2] * in_.shape[3]; }

 private:
  Array in_array_;
  std::optional<Array> out_array_;
  ConstTensorView in_;
  TensorView out_;
};

/// A dtype as messages call it: "int32".
std::string text_of_dtype(const nb::dlpack::dtype& dtype);

/// Exactly one of those types; false before `use_torch`.
bool is_plain_torch(nb::handle object);
/// Whether a plain PyTorch tensor is a negative view.
bool is_negative_view(nb::handle tensor);

/// PyTorch's tensor and parameter types, whose exchange API is used from then on.
void use_torch(nb::handle tensor_type, nb::handle parameter_type);

}  // namespace phasor::python
