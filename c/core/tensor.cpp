// SPDX-License-Identifier: Apache-2.0
// DLPack's tensors as views: dtypes, devices, shapes.
#include "core/tensor.hpp"

#include <array>
#include <optional>
#include <string>

#include "core/call.hpp"

namespace phasor::c {
namespace {

// DLPack's numbers.
constexpr int kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;
constexpr std::uint8_t kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6;
constexpr int kMostAxes = 4;

std::string of(const char* where, const char* name) { return std::string(where) + ": " + name; }

std::string text_of(phasor_dtype dtype) {
  return "code " + std::to_string(dtype.code) + ", " + std::to_string(dtype.bits) + " bits, " + std::to_string(dtype.lanes) + " lanes";
}

[[noreturn]] void refuse_dtype(const char* where, const char* name, phasor_dtype dtype, const char* wanted) {
  fail(of(where, name) + " has a dtype of " + text_of(dtype) + ", wanted " + wanted);
}

bool is(phasor_dtype dtype, std::uint8_t code, std::uint8_t bits) { return dtype.code == code && dtype.bits == bits && dtype.lanes == 1; }

/// Shape and strides by the last axes; the ones before have extent 1, so that their strides are never taken.
struct Layout {
  std::array<std::int64_t, kMostAxes> shape{1, 1, 1, 1};
  std::array<std::int64_t, kMostAxes> strides{};
  std::int64_t elements = 1;
  bool contiguous = true;
};

Layout layout_of(const char* where, const char* name, const phasor_tensor& tensor, int most_axes) {
  if (tensor.ndim < 1 || tensor.ndim > most_axes) {
    fail(of(where, name) + " has " + std::to_string(tensor.ndim) + " axes, wanted 1 to " + std::to_string(most_axes));
  }
  if (tensor.shape == nullptr) fail(std::string(where) + ": the shape of " + name + " is null, wanted one");
  Layout layout;
  std::int64_t dense = 1;  // no strides mean a contiguous tensor
  for (int i = tensor.ndim - 1, to = kMostAxes - 1; i >= 0; --i, --to) {
    const std::int64_t extent = tensor.shape[i];
    if (extent < 0) fail(of(where, name) + " has an axis of " + std::to_string(extent) + " elements, wanted none below 0");
    layout.shape[to] = extent;
    layout.strides[to] = tensor.strides != nullptr ? tensor.strides[i] : dense;
    if (extent > 1 && layout.strides[to] != dense) layout.contiguous = false;
    if (__builtin_mul_overflow(dense, extent, &dense)) fail(of(where, name) + " has 2^63 elements or more, wanted fewer");
  }
  layout.elements = dense;
  if (dense == 0) layout.contiguous = true;  // whatever its strides
  return layout;
}

void* data_of(const char* where, const char* name, const phasor_tensor& tensor, std::int64_t elements) {
  if (tensor.data == nullptr && elements != 0) fail(of(where, name) + " has no memory, wanted " + std::to_string(elements) + " elements");
  return tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
}

std::optional<DType> dtype_of(phasor_dtype dtype) {
  if (is(dtype, kFloat, 32)) return DType::f32;
  if (is(dtype, kFloat, 64)) return DType::f64;
  if (is(dtype, kFloat, 16)) return DType::f16;
  if (is(dtype, kBfloat, 16)) return DType::bf16;
  return std::nullopt;
}

std::optional<PositionType> position_type_of(phasor_dtype dtype) {
  if (is(dtype, kInt, 32)) return PositionType::i32;
  if (is(dtype, kInt, 64)) return PositionType::i64;
  if (is(dtype, kFloat, 64)) return PositionType::f64;
  return std::nullopt;
}

struct List {
  const void* data = nullptr;
  std::int64_t size = 0;
  Device device{};
};
List list_of(const char* where, const char* name, const phasor_tensor& tensor) {
  const Layout layout = layout_of(where, name, tensor, kMostAxes);
  if (!layout.contiguous) fail(of(where, name) + " is not contiguous, wanted a list without gaps");
  return {data_of(where, name, tensor, layout.elements), layout.elements, device_of(where, name, tensor.device)};
}

}  // namespace

std::optional<DeviceKind> device_kind_of(std::int32_t device_type) {
  switch (device_type) {
    case 0:
    case kCpu:
    case kCudaHost:
      return DeviceKind::cpu;
    case kCuda:
    case kCudaManaged:
      return DeviceKind::cuda;
    default:
      return std::nullopt;
  }
}

Device device_of(const char* where, const char* name, phasor_device device) {
  const auto type = static_cast<std::int32_t>(device.device_type);
  const std::optional<DeviceKind> kind = device_kind_of(type);
  if (kind == DeviceKind::cpu) return {};
  if (kind == DeviceKind::cuda) return {DeviceKind::cuda, device.device_id};
  fail(of(where, name) + " is on a device of DLPack's kind " + std::to_string(type) + ", wanted memory of the CPU or of CUDA",
       PHASOR_UNSUPPORTED);
}

TensorView tensor_of(const char* where, const char* name, const phasor_tensor* tensor) {
  if (tensor == nullptr) return {};
  const std::optional<DType> dtype = dtype_of(tensor->dtype);
  if (!dtype) refuse_dtype(where, name, tensor->dtype, "float32, float64, float16 or bfloat16");
  const Layout layout = layout_of(where, name, *tensor, kMostAxes);
  TensorView view{data_of(where, name, *tensor, layout.elements), *dtype, layout.shape, layout.strides,
                  device_of(where, name, tensor->device)};
  // (T, D): one head, whose axis is between.
  if (tensor->ndim == 2) {
    view.shape = {1, layout.shape[2], 1, layout.shape[3]};
    view.strides = {0, layout.strides[2], 0, layout.strides[3]};
  }
  return view;
}

InOut in_out_of(const char* where, const char* name, const phasor_tensor* in, const char* out_name, const phasor_tensor* out) {
  const TensorView from = tensor_of(where, name, need(where, name, in));
  if (out == nullptr) return from;
  return {from, tensor_of(where, out_name, out)};
}

PositionsView positions_view_of(const char* where, const char* name, const phasor_tensor* tensor) {
  need(where, name, tensor);
  const std::optional<PositionType> type = position_type_of(tensor->dtype);
  if (!type) refuse_dtype(where, name, tensor->dtype, "int32, int64 or float64");
  const Layout layout = layout_of(where, name, *tensor, 3);
  static char nothing = 0;  // to the library, positions without memory are offset, offset + 1, ...: an empty list is not that
  void* const data = data_of(where, name, *tensor, layout.elements);
  return {data != nullptr ? data : &nothing,
          *type,
          {layout.shape[1], layout.shape[2], layout.shape[3]},
          {layout.strides[1], layout.strides[2], layout.strides[3]},
          device_of(where, name, tensor->device)};
}

Positions positions_of(const char* where, const char* name, const phasor_positions& positions) {
  if (positions.tensor == nullptr) return positions_from(positions.offset);
  if (positions.offset != 0) {
    fail(of(where, name) + " are a tensor and an offset of " + std::to_string(positions.offset) + ", wanted one of them");
  }
  return positions_view_of(where, name, positions.tensor);
}

Integers integers_of(const char* where, const char* name, const phasor_tensor* tensor) {
  if (tensor == nullptr) return {};
  const phasor_dtype dtype = tensor->dtype;
  const bool wide = is(dtype, kInt, 32) || is(dtype, kInt, 64);
  if (!wide && !is(dtype, kUint, 8) && !is(dtype, kBool, 8)) refuse_dtype(where, name, dtype, "int32, int64, uint8 or bool");
  const List list = list_of(where, name, *tensor);
  Integers integers;
  integers.data = list.data;
  integers.size = list.size;
  integers.bytes = dtype.bits / 8;
  integers.device = list.device;
  return integers;
}

IntegerList integer_list_of(const char* where, const char* name, const phasor_tensor* tensor) {
  if (tensor == nullptr) return {};
  const std::optional<PositionType> type = position_type_of(tensor->dtype);
  if (!type || *type == PositionType::f64) refuse_dtype(where, name, tensor->dtype, "int32 or int64");
  const List list = list_of(where, name, *tensor);
  return {list.data, *type, list.size, list.device};
}

MaskView mask_of(const char* where, const char* name, const phasor_tensor* tensor) {
  if (tensor == nullptr) return {};
  if (!is(tensor->dtype, kUint, 8) && !is(tensor->dtype, kBool, 8)) refuse_dtype(where, name, tensor->dtype, "uint8 or bool");
  const Layout layout = layout_of(where, name, *tensor, 2);
  return {static_cast<const std::uint8_t*>(data_of(where, name, *tensor, layout.elements)),
          {layout.shape[2], layout.shape[3]},
          {layout.shape[2] == 1 ? 0 : layout.strides[2], layout.strides[3]},
          device_of(where, name, tensor->device)};
}

Runner runner_of(const phasor_runner& runner) { return {.run = runner.run, .context = runner.context}; }
Runner runner_of(const phasor_runner* runner) { return runner == nullptr ? Runner{} : runner_of(*runner); }

Execution execution_of(const phasor_execution& execution) { return {.runner = runner_of(execution.runner), .stream = execution.stream}; }
Execution execution_of(const phasor_execution* execution) { return execution == nullptr ? Execution{} : execution_of(*execution); }

}  // namespace phasor::c
