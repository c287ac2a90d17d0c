// SPDX-License-Identifier: Apache-2.0
// Memory that host and device share, and numbers of tensors in it.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <vector>

#include "cuda/attention/hopper_reference.hpp"

namespace phasor::test {

/// Lists that host and device read, until it ends.
class ManagedMemory {
 public:
  ManagedMemory() = default;
  ManagedMemory(const ManagedMemory&) = delete;
  ManagedMemory& operator=(const ManagedMemory&) = delete;
  ~ManagedMemory() {
    for (void* const data : taken_) cudaFree(data);
  }
  template <class T>
  T* take(std::int64_t count) {
    void* data = nullptr;
    if (cudaMallocManaged(&data, static_cast<std::size_t>(count + 1) * sizeof(T)) != cudaSuccess) std::abort();
    taken_.push_back(data);
    return static_cast<T*>(data);
  }

 private:
  std::vector<void*> taken_;
};

/// A number of a 16-bit or float32 tensor.
inline double number(const ConstTensorView& v, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t c) {
  const auto own = [&](int axis, std::int64_t n) { return v.shape[axis] == 1 ? 0 : n * v.strides[axis]; };
  const std::int64_t at = own(0, b) + own(1, t) + own(2, h) + c * v.strides[3];
  if (v.dtype == DType::f32) return static_cast<const float*>(v.data)[at];
  return value_of(v.dtype, static_cast<const std::uint16_t*>(v.data)[at]);
}

}  // namespace phasor::test
