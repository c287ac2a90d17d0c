// SPDX-License-Identifier: Apache-2.0
// What the programs that run on a GPU share: memory there, and failures that are counted and shown.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cuda/random_calls.hpp"
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

/// Cases that this machine cannot show; a program says them in its last line.
inline std::vector<std::string> cases_not_run;
inline void not_run(const char* what) { cases_not_run.emplace_back(what); }
inline std::string words_of_not_run() {
  std::string words;
  for (const std::string& what : cases_not_run) words += (words.empty() ? " (NOT RUN here: " : ", ") + what;
  return words.empty() ? words : words + ")";
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

/// Which seeds a program of random calls is to draw: PROGRAM [CALLS [FIRST]], so that several processes may share the work. What is not
/// random is tested by the process that has the first seed.
struct Seeds {
  std::uint64_t calls;
  std::uint64_t first = 1;

  std::uint64_t end() const { return first + calls; }
  bool has_first() const { return first == 1; }
};
inline Seeds seeds_of(int argc, char** argv, std::uint64_t calls) {
  Seeds seeds = {calls};
  if (argc > 1) seeds.calls = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) seeds.first = std::strtoull(argv[2], nullptr, 10);
  return seeds;
}

/// Random calls of `make`, each on the CPU and on the GPU: the same words, and where both do it the same bits. How many of each name were
/// compared is printed and returned.
template <class Make>
std::map<std::string, int> compare_random_calls(const Seeds& seeds, const Make& make) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  std::map<std::string, int> compared;
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    const auto call = make(seed);
    if (!call) continue;
    auto host = call->buffers;
    const Status by_cpu = call->run(pointers(host), {}, {});
    const OnDevice device(call->buffers);
    const Status by_gpu = call->run(device.memory, {.stream = stream}, kGpu);
    const std::string name = call->name + ", seed " + std::to_string(seed);
    expect(by_cpu.message() == by_gpu.message(), name + ": the CPU says '" + by_cpu.message() + "', the GPU '" + by_gpu.message() + "'");
    if (!by_cpu.ok() || !by_gpu.ok()) continue;
    must(cudaStreamSynchronize(stream), name.c_str());
    ++compared[call->name];
    for (std::size_t b = 0; b < host.size(); ++b) {
      const std::string difference = first_difference(*call, b, device.read(b, host[b].size()), host[b]);
      expect(difference.empty(), name + ", buffer " + std::to_string(b) + ": " + difference);
    }
  }
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  for (const auto& [name, count] : compared) std::printf("%6d calls of %s\n", count, name.c_str());
  return compared;
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
