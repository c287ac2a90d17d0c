// SPDX-License-Identifier: Apache-2.0
// prepare_attention on a GPU: random calls give the bytes of the CPU. `gpu_prepare [CALLS]` exits non-zero where something differs.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "prepare/random_prepare.hpp"

namespace phasor::test {
namespace {

int failures = 0;

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAIL: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

/// Copies of buffers on the device.
class OnDevice {
 public:
  explicit OnDevice(const Memory8& buffers) {
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      void* data = nullptr;
      must(cudaMalloc(&data, buffers[b].size() + 1), "cudaMalloc");
      must(cudaMemcpy(data, buffers[b].data(), buffers[b].size(), cudaMemcpyHostToDevice), "copy to the device");
      memory[b] = static_cast<std::byte*>(data);
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    for (std::byte* const data : memory) cudaFree(data);
  }
  RandomPrepare::Pointers memory{};
};

bool is_same(const OnDevice& device, const Memory8& wanted) {
  for (std::size_t b = 0; b < wanted.size(); ++b) {
    std::vector<std::byte> is(wanted[b].size());
    must(cudaMemcpy(is.data(), device.memory[b], is.size(), cudaMemcpyDeviceToHost), "copy from the device");
    if (is != wanted[b]) return false;
  }
  return true;
}

void random_calls(std::uint64_t calls) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  std::uint64_t compared = 0;
  for (std::uint64_t seed = 1; seed <= calls; ++seed) {
    const RandomPrepare call(seed);
    Memory8 host = call.memory();
    const auto on = [](void* with) {
      return [with](const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec) {
        return prepare_attention(inputs, rotation, outputs, spec, {.stream = with});
      };
    };
    const Status by_cpu = call.run(host, on(nullptr));
    const OnDevice device(call.memory());
    const Status by_gpu = call.run(device.memory, {DeviceKind::cuda, 0}, on(stream));
    must(cudaStreamSynchronize(stream), "the stream");
    ++compared;
    if (by_cpu.ok() && by_gpu.ok() && is_same(device, host)) continue;
    if (++failures <= 20) {
      std::printf("FAIL: seed %llu: the CPU says '%s', the GPU '%s', or bytes differ\n", static_cast<unsigned long long>(seed),
                  by_cpu.message().c_str(), by_gpu.message().c_str());
    }
  }
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("%6llu calls\n", static_cast<unsigned long long>(compared));
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  random_calls(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000);
  std::printf("gpu_prepare: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
