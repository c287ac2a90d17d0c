// SPDX-License-Identifier: Apache-2.0
// Memory of a bridge from the reference of attention to the library: numbers of the reference in any dtype, seen through any strides.
#pragma once

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <vector>

#include "attention/reference/reference.hpp"
#include "job/element.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::test {

namespace ref = attend::reference;

inline double rounded(double x, DType dtype) {
  double memory = 0;
  job::store_element(&memory, dtype, 0, x);
  return job::load_element(&memory, dtype, 0);
}
inline void round_all(std::span<double> values, DType dtype) {
  for (double& x : values) x = rounded(x, dtype);
}

inline void expect_ok(const Status& status) {
  if (!status) throw std::invalid_argument(status.message());
}
template <class T>
T expect_ok(Result<T> result) {
  expect_ok(result.status());
  return *std::move(result);
}

/// How numbers in the reference's order are seen: element (b, t, h, d) is number first + b strides[0] + ...
struct Seen {
  Extents shape;
  Extents strides;
  std::int64_t first = 0;
};
inline Seen as_is(const Extents& shape) { return {shape, contiguous_strides(shape)}; }

/// Numbers in a dtype.
class Numbered {
 public:
  Numbered(std::int64_t count, DType dtype) : dtype_(dtype), count_(count), memory_(static_cast<std::size_t>(count) + 1, 0) {}

  void set(const ref::Values& values) {
    for (std::size_t i = 0; i < values.size(); ++i) job::store_element(memory_.data(), dtype_, static_cast<std::int64_t>(i), values[i]);
  }
  ref::Values values() const {
    ref::Values result;
    for (std::int64_t i = 0; i < count_; ++i) result.push_back(job::load_element(memory_.data(), dtype_, i));
    return result;
  }
  TensorView view(const Seen& seen) {
    auto* data = reinterpret_cast<std::byte*>(memory_.data()) + seen.first * bytes_of(dtype_);
    return {data, dtype_, seen.shape, seen.strides};
  }

 private:
  DType dtype_;
  std::int64_t count_;
  std::vector<double> memory_;  // raw: aligned for every dtype
};

/// Keeps what views point to, at one place for as long as it lives.
class Store {
 public:
  Numbered& make(std::int64_t count, DType dtype) { return numbers_.emplace_back(count, dtype); }
  Numbered& hold(const ref::Values& values, DType dtype) {
    Numbered& held = make(static_cast<std::int64_t>(values.size()), dtype);
    held.set(values);
    return held;
  }
  const std::vector<std::int64_t>& hold(const ref::Integers& list) { return integers_.emplace_back(list); }

 private:
  std::deque<Numbered> numbers_;
  std::deque<std::vector<std::int64_t>> integers_;
};

}  // namespace phasor::test
