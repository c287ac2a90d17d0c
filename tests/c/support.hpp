// SPDX-License-Identifier: Apache-2.0
// What tests of the C API share: tensors with shapes of their own, and calls that must succeed or fail.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "phasor/c/base.h"
#include "phasor/tensor_view.hpp"

namespace phasor::test {

template <class T>
inline constexpr phasor_element element_of = PHASOR_F32;
template <>
inline constexpr phasor_element element_of<double> = PHASOR_F64;
template <>
inline constexpr phasor_element element_of<Float16> = PHASOR_F16;
template <>
inline constexpr phasor_element element_of<BFloat16> = PHASOR_BF16;
template <>
inline constexpr phasor_element element_of<std::int32_t> = PHASOR_I32;
template <>
inline constexpr phasor_element element_of<std::int64_t> = PHASOR_I64;
template <>
inline constexpr phasor_element element_of<std::uint8_t> = PHASOR_U8;

/// A contiguous tensor of C that owns its numbers and its shape.
template <class T>
class CTensor {
 public:
  explicit CTensor(std::vector<std::int64_t> shape) : CTensor(std::move(shape), {}) {}
  CTensor(std::vector<std::int64_t> shape, std::vector<T> numbers) : values(std::move(numbers)), shape_(std::move(shape)) {
    std::int64_t count = 1;
    for (const std::int64_t n : shape_) count *= n;
    if (values.empty()) values.resize(static_cast<std::size_t>(count));
    tensor_ = phasor_tensor_of(values.data(), element_of<T>, shape_.data(), static_cast<std::int32_t>(shape_.size()));
  }
  CTensor(const CTensor&) = delete;
  CTensor& operator=(const CTensor&) = delete;
  CTensor(CTensor&&) = delete;
  CTensor& operator=(CTensor&&) = delete;
  ~CTensor() = default;

  const phasor_tensor* get() const { return &tensor_; }
  std::vector<T> values;

 private:
  std::vector<std::int64_t> shape_;
  phasor_tensor tensor_;
};

/// Numbers between -1 and 1, the same in every run.
inline std::vector<float> floats(std::size_t count, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = between(random);
  return values;
}

/// EXPECTs that fn(error) succeeds.
template <class Call>
void succeeds(const Call& fn) {
  phasor_error error{};
  EXPECT_EQ(fn(&error), PHASOR_OK) << error.message;
}
/// The message of a call that fails with `status`; without an error struct it must fail alike.
template <class Call>
std::string failure(phasor_status status, const Call& fn) {
  phasor_error error{};
  EXPECT_EQ(fn(&error), status) << error.message;
  EXPECT_EQ(error.status, status);
  EXPECT_EQ(fn(nullptr), status);
  return error.message;
}

/// A text that a call gives, in two calls: how long it is, then the text.
template <class Call>
std::string text_by(const Call& fn) {
  phasor_text text{};
  phasor_error error{};
  EXPECT_EQ(fn(&text, &error), PHASOR_TOO_SMALL) << error.message;
  std::string written(text.length + 1, '?');
  text.data = written.data();
  text.capacity = written.size();
  EXPECT_EQ(fn(&text, &error), PHASOR_OK) << error.message;
  EXPECT_EQ(written.back(), '\0');
  written.pop_back();
  return written;
}

/// A struct of zeros that knows its size.
template <class T>
T sized() {
  T value = {};
  value.size = sizeof value;
  return value;
}

}  // namespace phasor::test
