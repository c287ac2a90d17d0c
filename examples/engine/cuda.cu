// SPDX-License-Identifier: Apache-2.0
// A GPU as a device: the naive kernels of what is not about positions, on a stream of its own. A number is made by one thread, in the order
// of the CPU.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "device.h"
#include "formulas.hpp"

namespace {

constexpr int kThreads = 128;
cudaStream_t stream = nullptr;

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "engine: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void* take(std::size_t bytes) {
  void* memory = nullptr;
  must(cudaMallocAsync(&memory, std::max<std::size_t>(bytes, 1), stream), "cudaMallocAsync");
  return memory;
}
void give_back(void* memory) { must(cudaFreeAsync(memory, stream), "cudaFreeAsync"); }
// Of the host's memory, which is not pinned, CUDA has taken a copy when this returns.
void copy(void* to, const void* from, std::size_t bytes) {
  must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}
void wait() { must(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

__device__ std::int64_t this_thread() { return std::int64_t{blockIdx.x} * kThreads + threadIdx.x; }
/// A kernel with a thread for each of `count`.
template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), std::int64_t count, Parameters... parameters) {
  if (count == 0) return;
  kernel<<<static_cast<unsigned>((count + kThreads - 1) / kThreads), kThreads, 0, stream>>>(parameters...);
  must(cudaGetLastError(), name);
}

__global__ void linear_number(float* y, const float* x, std::int64_t count, engine_matrix matrix) {
  const std::int64_t n = this_thread();
  if (n < count) y[n] = engine::product(matrix.values + n % matrix.out * matrix.in, x + n / matrix.out * matrix.in, matrix.in);
}
void linear(float* y, const float* x, std::int64_t rows, engine_matrix matrix) {
  launch("linear", linear_number, rows * matrix.out, y, x, rows * matrix.out, matrix);
}

__global__ void norm_number(float* y, const float* x, std::int64_t count, engine_norm norm) {
  const std::int64_t n = this_thread();
  if (n >= count) return;
  const float factor = engine::norm_factor(x + n / norm.width * norm.width, norm.width, norm.epsilon);
  y[n] = norm.weight[n % norm.width] * (x[n] * factor);
}
void norm(float* y, const float* x, std::int64_t rows, engine_norm norm) {
  launch("norm", norm_number, rows * norm.width, y, x, rows * norm.width, norm);
}

__global__ void gate_number(float* x, const float* up, std::int64_t count) {
  const std::int64_t n = this_thread();
  if (n < count) x[n] = engine::silu(x[n]) * up[n];
}
void gate(float* x, const float* up, std::int64_t count) { launch("gate", gate_number, count, x, up, count); }

__global__ void add_number(float* x, const float* y, std::int64_t count) {
  const std::int64_t n = this_thread();
  if (n < count) x[n] += y[n];
}
void add(float* x, const float* y, std::int64_t count) { launch("add", add_number, count, x, y, count); }

}  // namespace

const engine_device* engine_cuda(char* message, size_t room) {
  static engine_device cuda = {"cuda", 1, nullptr, take, give_back, copy, wait, linear, norm, gate, add};
  if (stream == nullptr) {
    const cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) {
      std::snprintf(message, room, "there is no GPU to compute on: %s", cudaGetErrorString(error));
      return nullptr;
    }
    cuda.stream = stream;
  }
  return &cuda;
}
