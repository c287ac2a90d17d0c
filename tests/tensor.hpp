// SPDX-License-Identifier: Apache-2.0
// Tensors for tests: any strides, guard zones around them, every element that is not ordinary data filled with odd bit patterns; and the
// fixture that runs a test on every target.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "phasor/targets.hpp"
#include "reference.hpp"

namespace phasor::test {

using reference::Element;

/// splitmix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In [-4, 4).
  float number() { return static_cast<float>(static_cast<std::int32_t>(bits() >> 32)) * 0x1p-29F; }

 private:
  std::uint64_t state_;
};

/// Any bits, half of them NaN with a payload: what an untouched element must keep.
template <class T>
T odd_bits(Random& random) {
  const std::uint64_t bits = random.bits();
  if constexpr (sizeof(T) == 2) return Element<T>::from_bits(bits % 2 == 0 ? bits : bits | 0x7f80);
  if constexpr (sizeof(T) == 4) return Element<T>::from_bits(bits % 2 == 0 ? bits : bits | 0x7f800001);
  return Element<T>::from_bits(bits % 2 == 0 ? bits : bits | 0x7ff0000000000001);
}

template <class T>
class Tensor {
 public:
  std::vector<T> memory;

  Tensor(const Extents& shape, const Extents& strides, std::uint64_t seed) : shape_(shape), strides_(strides) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t reach = shape[i] == 0 ? 0 : (shape[i] - 1) * strides[i];
      (reach < 0 ? low : high) += reach;
    }
    Random random(seed);
    origin_ = kGuard - low;
    memory.resize(static_cast<std::size_t>(high - low + 1 + 2 * kGuard));
    for (T& x : memory) x = odd_bits<T>(random);
  }
  Tensor(const Extents& shape, std::uint64_t seed) : Tensor(shape, contiguous_strides(shape), seed) {}

  /// Ordinary numbers in the channels [first, first + count).
  Tensor& with_numbers(std::int64_t first, std::int64_t count, std::uint64_t seed = 1) {
    Random random(seed);
    each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
      for (std::int64_t d = first; d < first + count; ++d) {
        at(b, t, h, d) = Element<T>::narrow(static_cast<typename Element<T>::Value>(random.number()));
      }
    });
    return *this;
  }

  const Extents& shape() const { return shape_; }
  TensorView view() { return phasor::view(memory.data() + origin_, shape_, strides_); }
  std::size_t index(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const {
    return static_cast<std::size_t>(origin_ + b * strides_[0] + t * strides_[1] + h * strides_[2] + d * strides_[3]);
  }
  T& at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) { return memory[index(b, t, h, d)]; }
  T at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) const { return memory[index(b, t, h, d)]; }

  template <class Body>
  void each_head(Body body) const {
    for (std::int64_t b = 0; b < shape_[0]; ++b) {
      for (std::int64_t t = 0; t < shape_[1]; ++t) {
        for (std::int64_t h = 0; h < shape_[2]; ++h) body(b, t, h);
      }
    }
  }

  std::vector<T> head(std::int64_t b, std::int64_t t, std::int64_t h) const {
    std::vector<T> channels;
    for (std::int64_t d = 0; d < shape_[3]; ++d) channels.push_back(at(b, t, h, d));
    return channels;
  }
  void set_head(std::int64_t b, std::int64_t t, std::int64_t h, const std::vector<T>& channels) {
    for (std::int64_t d = 0; d < shape_[3]; ++d) at(b, t, h, d) = channels[static_cast<std::size_t>(d)];
  }

 private:
  static constexpr std::int64_t kGuard = 67;
  Extents shape_;
  Extents strides_;
  std::int64_t origin_ = 0;
};

/// What `out` must be after a rotation of `in` by `rows`; they may be the same tensor.
template <class T, class V>
void rotate_reference(const Tensor<T>& in, Tensor<T>& out, const reference::Geometry& g, const reference::Rows<V>& rows) {
  const Tensor<T> from = in;
  std::vector<T> turned;
  from.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    reference::rotate_head(from.head(b, t, h), turned, g, rows, rows.index(b, t, 0));
    out.set_head(b, t, h, turned);
  });
}

/// Bit for bit over the whole memory, guard zones and gaps too.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& is, const std::vector<T>& wanted) {
  if (is.size() != wanted.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (Element<T>::bits(is[i]) != Element<T>::bits(wanted[i])) {
      return ::testing::AssertionFailure() << "element " << i << " of " << is.size() << " is " << Element<T>::widen(is[i]) << " ("
                                           << std::hex << +Element<T>::bits(is[i]) << "), wanted " << Element<T>::widen(wanted[i]) << " ("
                                           << +Element<T>::bits(wanted[i]) << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

/// The same, but any NaN is as good as another: payloads that went through arithmetic are the machine's.
template <class T>
::testing::AssertionResult same_numbers(std::vector<T> is, const std::vector<T>& wanted) {
  for (std::size_t i = 0; i < std::min(is.size(), wanted.size()); ++i) {
    if (reference::is_nan(is[i]) && reference::is_nan(wanted[i])) is[i] = wanted[i];
  }
  return same_bits(is, wanted);
}

template <class T>
struct Tag {
  using type = T;
};

template <class Body>
void for_each_dtype(Body body) {
  const auto named = [&](auto tag) {
    SCOPED_TRACE(name_of(dtype_of<typename decltype(tag)::type>));
    body(tag);
  };
  named(Tag<float>());
  named(Tag<double>());
  named(Tag<Float16>());
  named(Tag<BFloat16>());
}

/// Forces a target for as long as it lives, then goes back to the one before.
class OnTarget {
 public:
  explicit OnTarget(std::string_view name) : before_(*active_target()) { EXPECT_TRUE(force_target(name).ok()) << name; }
  ~OnTarget() { EXPECT_TRUE(force_target(before_).ok()); }
  OnTarget(const OnTarget&) = delete;
  OnTarget& operator=(const OnTarget&) = delete;

 private:
  std::string before_;
};

class EveryTarget : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(force_target("").ok()); }

  template <class Body>
  void on_every_target(Body body) {
    for (const std::string_view name : targets()) {
      SCOPED_TRACE(std::string(name));
      const OnTarget forced(name);
      body();
    }
  }
};

}  // namespace phasor::test
