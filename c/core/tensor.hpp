// SPDX-License-Identifier: Apache-2.0
// DLPack's tensors as the views that the library takes. `where` and `name` are how messages call function and argument.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "phasor/c/base.h"
#include "phasor/cache.hpp"
#include "phasor/execution.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/positions.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::c {

/// What memory of DLPack's device type is for the library; nothing: it has no kernels for it, in any build.
std::optional<DeviceKind> device_kind_of(std::int32_t device_type);
Device device_of(const char* where, const char* name, phasor_device device);
/// (B, T, H, D); of fewer axes (T, H, D), (T, D), (D). Null: an empty view.
TensorView tensor_of(const char* where, const char* name, const phasor_tensor* tensor);
/// What is read and where it goes, and how messages call them; `out` null: in place. `in` is needed.
InOut in_out_of(const char* where, const char* name, const phasor_tensor* in, const char* out_name, const phasor_tensor* out);
/// (axes, B, T), (B, T) or (T).
Positions positions_of(const char* where, const char* name, const phasor_positions& positions);
/// Positions to be written; needed.
PositionsView positions_view_of(const char* where, const char* name, const phasor_tensor* tensor);
/// Integers of 4 or 8 bytes, or of one (masks): of any axes, contiguous. Null: not given.
Integers integers_of(const char* where, const char* name, const phasor_tensor* tensor);
/// The same where only int32 and int64 will do.
IntegerList integer_list_of(const char* where, const char* name, const phasor_tensor* tensor);

/// A byte for each token, (B, T), or (T) shared by every batch row; any strides. Null: not given.
struct MaskView {
  const std::uint8_t* data = nullptr;
  std::array<std::int64_t, 2> shape{};
  std::array<std::int64_t, 2> strides{};
  Device device{};
};
MaskView mask_of(const char* where, const char* name, const phasor_tensor* tensor);

Runner runner_of(const phasor_runner& runner);
/// Null: the library's own.
Runner runner_of(const phasor_runner* runner);
Execution execution_of(const phasor_execution& execution);
/// Null: the defaults.
Execution execution_of(const phasor_execution* execution);

}  // namespace phasor::c
