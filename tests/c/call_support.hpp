// SPDX-License-Identifier: Apache-2.0
// Structs of calls for tests of the C API, and the same tensors as C++ has them.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "c/support.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::test {

/// Numbers between -1 and 1, the same in every run.
inline std::vector<float> sample(std::size_t count, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 4097) / 2048 - 1;
  return values;
}

/// A tensor of the C API as a view of C++.
template <class T>
TensorView view_of(const CTensor<T>& tensor, const Extents& shape) {
  return view(const_cast<T*>(tensor.values.data()), shape);
}

template <class T>
bool equal_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace phasor::test
