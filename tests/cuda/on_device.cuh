// SPDX-License-Identifier: Apache-2.0
// What the programs that run on a GPU share: memory there, and failures that are counted and shown.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "phasor/tensor_view.hpp"

namespace phasor::test {

inline int failures = 0;

inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  if (++failures <= 20) std::printf("FAIL: %s\n", what.c_str());
}
inline void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAIL: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

constexpr Device kGpu = {DeviceKind::cuda, 0};

/// Copies of buffers on the device.
class OnDevice {
 public:
  explicit OnDevice(const std::vector<std::vector<std::byte>>& buffers) {
    for (const auto& buffer : buffers) {
      void* data = nullptr;
      must(cudaMalloc(&data, buffer.size() + 1), "cudaMalloc");
      must(cudaMemcpy(data, buffer.data(), buffer.size(), cudaMemcpyHostToDevice), "copy to the device");
      memory.push_back(static_cast<std::byte*>(data));
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    for (std::byte* const data : memory) cudaFree(data);
  }
  std::vector<std::byte> read(std::size_t n, std::size_t bytes) const {
    std::vector<std::byte> result(bytes);
    must(cudaMemcpy(result.data(), memory[n], bytes, cudaMemcpyDeviceToHost), "copy from the device");
    return result;
  }
  std::vector<std::byte*> memory;
};

inline std::vector<std::byte*> pointers(std::vector<std::vector<std::byte>>& buffers) {
  std::vector<std::byte*> list;
  for (auto& buffer : buffers) list.push_back(buffer.data());
  return list;
}

/// A stream, and what is captured on it.
class Captured {
 public:
  Captured() {
    must(cudaStreamCreate(&stream), "cudaStreamCreate");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    cudaGraphExecDestroy(program_);
    cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream);
  }
  void end() {
    must(cudaStreamEndCapture(stream, &graph_), "end of capture");
    must(cudaGraphInstantiate(&program_, graph_, 0), "cudaGraphInstantiate");
  }
  void replay() {
    must(cudaGraphLaunch(program_, stream), "cudaGraphLaunch");
    must(cudaStreamSynchronize(stream), "graph");
  }
  cudaStream_t stream = nullptr;

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t program_ = nullptr;
};

}  // namespace phasor::test
