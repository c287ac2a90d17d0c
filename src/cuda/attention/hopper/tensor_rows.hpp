// SPDX-License-Identifier: Apache-2.0
// Rows of tensors of 16-bit numbers as kernels find them, 16 bytes at a time. Host and device.
#pragma once

#include "math/portable.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda::hopper {

/// Written.
struct OutputRows {
  unsigned char* data;      // null: not wanted
  std::int64_t strides[3];  // batch row, token, head; in bytes
  int width;

  PHASOR_HD unsigned char* row(int batch, int token, int head) const {
    return data + batch * strides[0] + token * strides[1] + head * strides[2];
  }
};
inline OutputRows output_rows(const TensorView& v) {
  return {static_cast<unsigned char*>(v.data), {v.strides[0] * 2, v.strides[1] * 2, v.strides[2] * 2}, static_cast<int>(v.shape[3])};
}

/// Read.
struct InputRows {
  const unsigned char* data;  // null: there is no such tensor
  std::int64_t strides[3];
  int width;

  PHASOR_HD const unsigned char* row(int batch, int token, int head) const {
    return data + batch * strides[0] + token * strides[1] + head * strides[2];
  }
};
/// An axis of one serves all: heads share such a table.
inline InputRows input_rows(const ConstTensorView& v) {
  const auto stride = [&](std::size_t axis) { return v.shape[axis] == 1 ? 0 : v.strides[axis] * 2; };
  return {static_cast<const unsigned char*>(v.data), {stride(0), stride(1), stride(2)}, static_cast<int>(v.shape[3])};
}

}  // namespace phasor::cuda::hopper
