// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: buffers of realistic data, a runner of one thread, and the check that precedes every timing.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "phasor/phasor.hpp"

namespace bench {

constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kPairs = kHeadDim / 2;

/// Aligned to a page, so that runs compare; not counted in any time.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes) : bytes_(bytes), data_(::operator new(static_cast<std::size_t>(bytes), std::align_val_t{4096})) {}
  ~Buffer() { ::operator delete(data_, std::align_val_t{4096}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_;
  void* data_;
};

/// The first `count` values, of both signs between 1/4 and 1 in any dtype: no subnormals, no overflow, however often they are turned.
inline void draw(void* data, std::int64_t count, phasor::DType dtype) {
  std::uint64_t state = 88172645463325252ULL;
  for (std::int64_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const double value = (0.25 + 0.75 * static_cast<double>(state >> 11) * 0x1p-53) * ((state & 1) != 0 ? 1 : -1);
    const float f = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &f, 4);
    switch (dtype) {
      case phasor::DType::f32:
        static_cast<float*>(data)[i] = f;
        break;
      case phasor::DType::f64:
        static_cast<double*>(data)[i] = value;
        break;
      case phasor::DType::bf16:
        static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(bits >> 16);
        break;
      case phasor::DType::f16:  // exponents fit: sign, exponent - 112, mantissa
        static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - 0x38000000) >> 13);
        break;
    }
  }
}

/// Fills by repeating one drawn tile: setting up must not outlast the timing.
inline void fill(const Buffer& buffer, phasor::DType dtype) {
  const std::int64_t tile = std::min<std::int64_t>(buffer.bytes(), 64 * 1024);
  draw(buffer.data(), tile / phasor::bytes_of(dtype), dtype);
  for (std::int64_t at = tile; at < buffer.bytes(); at += tile) {
    std::memcpy(static_cast<std::byte*>(buffer.data()) + at, buffer.data(), static_cast<std::size_t>(std::min(tile, buffer.bytes() - at)));
  }
}

/// One thread: what the targets of performance are about.
inline phasor::Runner serial() {
  return {[](void* /*context*/, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
            for (std::int64_t i = 0; i < tasks; ++i) task(task_context, i);
          },
          nullptr};
}

inline std::int64_t cache_bytes(int level) {
#ifdef _SC_LEVEL3_CACHE_SIZE
  const long size = sysconf(level == 3 ? _SC_LEVEL3_CACHE_SIZE : _SC_LEVEL2_CACHE_SIZE);
  if (size > 0) return size;
#endif
  return level == 3 ? 32 << 20 : 1 << 20;
}

/// A tensor of whole tokens of `heads` heads that fills about `bytes`.
struct Shape {
  std::int64_t tokens;
  std::int64_t heads;
};

inline phasor::TensorView tensor(const Buffer& buffer, phasor::DType dtype, Shape shape) {
  const phasor::Extents extents = {1, shape.tokens, shape.heads, kHeadDim};
  return {buffer.data(), dtype, extents, phasor::contiguous_strides(extents)};
}

inline phasor::RotarySpec llama31(phasor::Pairing pairing) {
  phasor::RotarySpec spec{.head_dim = kHeadDim, .base = 500000, .scaling = phasor::Llama3Scaling{.factor = 8}};
  spec.pairing = pairing;
  return spec;
}

inline double value_at(const Buffer& buffer, phasor::DType dtype, std::int64_t i) {
  if (dtype == phasor::DType::f64) return static_cast<const double*>(buffer.data())[i];
  if (dtype == phasor::DType::f32) return static_cast<double>(static_cast<const float*>(buffer.data())[i]);
  const std::uint16_t bits = static_cast<const std::uint16_t*>(buffer.data())[i];
  if (dtype == phasor::DType::bf16) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float f = 0;
    std::memcpy(&f, &wide, 4);
    return static_cast<double>(f);
  }
  const int exponent = bits >> 10 & 31;
  const double mantissa = (exponent == 0 ? 0.0 : 1024.0) + (bits & 1023);
  return std::ldexp(mantissa, (exponent == 0 ? 1 : exponent) - 25) * ((bits & 0x8000) != 0 ? -1 : 1);
}

/// The first tokens of a rotation against long double arithmetic. A benchmark that fails this prints no time.
inline bool rotates_rightly(const phasor::Rotary& rotary, phasor::DType dtype) {
  // float64 frequencies times a position far out would be less exact than a float64 rotation is.
  const std::int64_t position = dtype == phasor::DType::f64 ? 1 : 1000000;
  const Shape shape = {3, 2};
  const std::int64_t count = shape.tokens * shape.heads * kHeadDim;
  const Buffer before(count * phasor::bytes_of(dtype));
  const Buffer after(count * phasor::bytes_of(dtype));
  fill(before, dtype);
  std::memcpy(after.data(), before.data(), static_cast<std::size_t>(before.bytes()));
  if (!rotary.apply(tensor(after, dtype, shape), phasor::positions_from(position)).ok()) return false;
  const double ulp = dtype == phasor::DType::f64 ? 1e-15 : dtype == phasor::DType::f32 ? 4e-7 : dtype == phasor::DType::f16 ? 2e-3 : 2e-2;
  const bool half = rotary.spec().pairing == phasor::Pairing::half;
  for (std::int64_t i = 0; i < count / 2; ++i) {
    const std::int64_t head = i / kPairs;
    const std::int64_t pair = i % kPairs;
    const std::int64_t x = head * kHeadDim + (half ? pair : 2 * pair);
    const std::int64_t y = head * kHeadDim + (half ? pair + kPairs : 2 * pair + 1);
    const long double angle =
        static_cast<long double>(position + head / shape.heads) * rotary.frequencies()[static_cast<std::size_t>(pair)];
    const double c = static_cast<double>(std::cos(angle));
    const double s = static_cast<double>(std::sin(angle));
    const double bx = value_at(before, dtype, x);
    const double by = value_at(before, dtype, y);
    if (!(std::fabs(value_at(after, dtype, x) - (bx * c - by * s)) < ulp) ||
        !(std::fabs(value_at(after, dtype, y) - (bx * s + by * c)) < ulp))
      return false;
  }
  return true;
}

}  // namespace bench
