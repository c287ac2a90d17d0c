// SPDX-License-Identifier: Apache-2.0
// TensorView: somebody else's memory as a strided (B, T, H, D) tensor. Owns nothing, copies nothing.
#pragma once

#include <array>
#include <cstdint>

namespace phasor {

enum class DType : std::uint8_t { f32, f64, f16, bf16 };

/// IEEE binary16 and bfloat16 as their bits, so that views of them are typed.
struct Float16 {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};

/// Name of a dtype as it appears in messages, "bf16"; "unknown" for a value outside the enumeration.
constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "unknown";
}
/// 8, 4 or 2; 0 for a value outside the enumeration.
constexpr std::int64_t bytes_of(DType dtype) {
  if (dtype == DType::f16 || dtype == DType::bf16) return 2;
  return dtype == DType::f32 ? 4 : dtype == DType::f64 ? 8 : 0;
}

template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(sizeof(T) == 0, "phasor: a tensor holds float, double, Float16 or BFloat16");
  return DType::f32;
}();
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<Float16> = DType::f16;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bf16;

/// Where memory is.
enum class DeviceKind : std::uint8_t { cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t index = 0;  // which of several GPUs

  bool operator==(const Device&) const = default;
};

/// batch, token, head, channel.
using Extents = std::array<std::int64_t, 4>;

constexpr Extents contiguous_strides(const Extents& shape) { return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1}; }

/// Axes (B, T, H, D), strides in elements; the last axis must be contiguous. (B, H, T, D) memory, packed QKV slices and
/// ragged batches (B = 1, T = all tokens) are strides. `data` may be null when the tensor is empty.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Extents shape{};
  Extents strides{};
  Device device{};
};

struct ConstTensorView {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Extents shape{};
  Extents strides{};
  Device device{};

  ConstTensorView() = default;
  ConstTensorView(const void* data_, DType dtype_, const Extents& shape_, const Extents& strides_, Device device_ = {})
      : data(data_), dtype(dtype_), shape(shape_), strides(strides_), device(device_) {}
  ConstTensorView(const TensorView& v)  // NOLINT(google-explicit-constructor)
      : data(v.data), dtype(v.dtype), shape(v.shape), strides(v.strides), device(v.device) {}
};

template <class T>
TensorView view(T* data, const Extents& shape, const Extents& strides) {
  return {data, dtype_of<T>, shape, strides};
}
template <class T>
TensorView view(T* data, const Extents& shape) {
  return view(data, shape, contiguous_strides(shape));
}
template <class T>
ConstTensorView view(const T* data, const Extents& shape, const Extents& strides) {
  return {data, dtype_of<T>, shape, strides};
}
template <class T>
ConstTensorView view(const T* data, const Extents& shape) {
  return view(data, shape, contiguous_strides(shape));
}

/// What is read and where the result goes. A TensorView alone means in place.
struct InOut {
  ConstTensorView in;
  TensorView out;

  InOut(const TensorView& x) : in(x), out(x) {}  // NOLINT(google-explicit-constructor)
  InOut(const ConstTensorView& from, const TensorView& to) : in(from), out(to) {}
};

}  // namespace phasor
