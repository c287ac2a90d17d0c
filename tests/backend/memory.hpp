// SPDX-License-Identifier: Apache-2.0
// The memory of an operation: the host's, whatever device it says, filled with numbers that can be told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "phasor/phasor.hpp"

namespace phasor::test {

class Memory {
 public:
  /// Piece number `odd` says that it is on cuda:1.
  explicit Memory(Device device, int odd = -1) : device_(device), odd_(odd) {}

  TensorView tensor(const Extents& shape) {
    std::vector<double> numbers(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.25 + static_cast<double>((i * 7 + floats_.size()) % 11) / 16;
    std::vector<float>& list = floats_.emplace_back(numbers.begin(), numbers.end());
    floats_before_.push_back(list);
    TensorView made = view(list.data(), shape);
    made.device = next_device();
    return made;
  }
  Positions at(std::int64_t first, std::int64_t tokens) { return at(first, 1, tokens); }
  /// (axes, 1, T), each axis apart from the others.
  Positions at(std::int64_t first, std::int64_t axes, std::int64_t tokens) {
    std::vector<std::int64_t>& list = integers_.emplace_back();
    for (std::int64_t i = 0; i < axes * tokens; ++i) list.push_back(first + i);
    Positions made = positions(static_cast<const std::int64_t*>(list.data()), axes, 1, tokens);
    made.device = next_device();
    return made;
  }
  PositionsView doubles(std::int64_t axes, std::int64_t tokens) {
    PositionsView made = positions(numbers(axes * tokens), axes, 1, tokens);
    made.device = next_device();
    return made;
  }
  /// (1, 1, 1, count), f64: gradients of numbers that learn.
  TensorView sums(std::int64_t count) {
    TensorView made = view(numbers(count), {1, 1, 1, count});
    made.device = next_device();
    return made;
  }
  Slots slots(std::vector<std::int64_t> list) {
    const std::vector<std::int64_t>& kept = integers_.emplace_back(std::move(list));
    return {std::span(kept), next_device()};
  }

  Integers integers(std::vector<std::int64_t> list) {
    const std::vector<std::int64_t>& kept = integers_.emplace_back(std::move(list));
    return {kept.data(), kept.size(), next_device()};
  }

  int pieces() const { return pieces_; }
  bool is_untouched() const { return floats_ == floats_before_ && doubles_ == doubles_before_; }
  bool operator==(const Memory& other) const { return floats_ == other.floats_ && doubles_ == other.doubles_; }

  /// Whether a pointer is to an element of it.
  bool holds(const void* pointer) const { return holds(floats_, pointer) || holds(doubles_, pointer) || holds(integers_, pointer); }

 private:
  template <class Lists>
  static bool holds(const Lists& lists, const void* pointer) {
    for (const auto& list : lists) {
      if (pointer >= list.data() && pointer < list.data() + list.size()) return true;
    }
    return false;
  }
  double* numbers(std::int64_t count) {
    doubles_before_.emplace_back(static_cast<std::size_t>(count), 0.5);
    return doubles_.emplace_back(static_cast<std::size_t>(count), 0.5).data();
  }
  Device next_device() { return pieces_++ == odd_ ? Device{DeviceKind::cuda, 1} : device_; }

  Device device_;
  int odd_;
  int pieces_ = 0;
  std::deque<std::vector<float>> floats_, floats_before_;
  std::deque<std::vector<double>> doubles_, doubles_before_;
  std::deque<std::vector<std::int64_t>> integers_;
};

}  // namespace phasor::test
