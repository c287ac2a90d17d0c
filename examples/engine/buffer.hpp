// SPDX-License-Identifier: Apache-2.0
// Memory of an engine's device, as Phasor's calls take it.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <phasor/phasor.hpp>
#include <utility>
#include <vector>

#include "device.h"

namespace engine {

inline void must(const phasor::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "engine: %s\n", status.message().c_str());
  std::exit(1);
}
template <class T>
T value_of(phasor::Result<T> result) {
  must(result.status());
  return *std::move(result);
}

inline phasor::Device where(const engine_device& device) {
  return {device.is_cuda != 0 ? phasor::DeviceKind::cuda : phasor::DeviceKind::cpu, 0};
}
inline phasor::Execution on(const engine_device& device) { return {.stream = device.stream}; }

/// `size` numbers on a device, of any values.
template <class T>
class Buffer {
 public:
  explicit Buffer(const engine_device& device, std::int64_t size = 0)
      : device_(&device), data_(static_cast<T*>(device.take(static_cast<std::size_t>(size) * sizeof(T)))), size_(size) {}
  Buffer(Buffer&& other) noexcept : device_(other.device_), data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) device_->give_back(data_);
  }

  T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  const engine_device& device() const { return *device_; }
  /// The first of them become what the host has.
  void write(const T* from, std::size_t count) const { device_->copy(data_, from, count * sizeof(T)); }
  std::vector<T> read() const {
    std::vector<T> values(static_cast<std::size_t>(size_));
    device_->copy(values.data(), data_, values.size() * sizeof(T));
    device_->wait();
    return values;
  }

 private:
  const engine_device* device_;
  T* data_;
  std::int64_t size_;
};

inline phasor::TensorView tensor(const Buffer<float>& buffer, const phasor::Extents& shape) {
  return {buffer.data(), phasor::DType::f32, shape, phasor::contiguous_strides(shape), where(buffer.device())};
}
inline phasor::CacheView cache(const Buffer<float>& buffer, const phasor::CacheShape& shape) {
  phasor::CacheView view = phasor::contiguous_cache(buffer.data(), phasor::Storage::f32, shape);
  view.device = where(buffer.device());
  return view;
}
inline phasor::PositionsView positions(const Buffer<std::int64_t>& buffer) {
  phasor::PositionsView view = phasor::positions(buffer.data(), buffer.size());
  view.device = where(buffer.device());
  return view;
}
inline phasor::IntegerList integers(const Buffer<std::int64_t>& buffer) {
  phasor::IntegerList list = phasor::integers(buffer.data(), buffer.size());
  list.device = where(buffer.device());
  return list;
}

}  // namespace engine
