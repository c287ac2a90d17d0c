// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: plain loops.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"
#include "formulas.hpp"

namespace {

void* take(std::size_t bytes) {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) {
    std::fputs("engine: out of memory\n", stderr);
    std::exit(1);
  }
  return memory;
}
void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void nothing_to_wait_for() {}

void linear(float* y, const float* x, std::int64_t rows, engine_matrix matrix) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < matrix.out; ++o) {
      y[r * matrix.out + o] = engine::product(matrix.values + o * matrix.in, x + r * matrix.in, matrix.in);
    }
  }
}
void norm(float* y, const float* x, std::int64_t rows, engine_norm norm) {
  for (std::int64_t r = 0; r < rows; ++r, x += norm.width, y += norm.width) {
    const float factor = engine::norm_factor(x, norm.width, norm.epsilon);
    for (std::int64_t i = 0; i < norm.width; ++i) y[i] = norm.weight[i] * (x[i] * factor);
  }
}
void gate(float* x, const float* up, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = engine::silu(x[i]) * up[i];
}
void add(float* x, const float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] += y[i];
}

constexpr engine_device kCpu = {"cpu", 0, nullptr, take, std::free, copy, nothing_to_wait_for, linear, norm, gate, add};

}  // namespace

const engine_device* engine_device_of(const char* name, char* message, size_t room) {
  if (std::strcmp(name, "cpu") == 0) return &kCpu;
  if (std::strcmp(name, "cuda") == 0) return engine_cuda(message, room);
  std::snprintf(message, room, "the device is %s, wanted cpu or cuda", name);
  return nullptr;
}
