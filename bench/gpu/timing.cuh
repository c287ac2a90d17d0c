// SPDX-License-Identifier: Apache-2.0
// What the benchmarks of a GPU share: the time of a call by replays of a graph, the copy that is its ceiling, memory there, and rows of a
// table that are printed and written as JSON.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "memory.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::bench {

constexpr Device kGpu = {DeviceKind::cuda, 0};

inline void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAIL: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}
inline void must(const Status& status) {
  if (status.ok()) return;
  std::printf("FAIL: %s\n", status.message().c_str());
  std::exit(2);
}

inline cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "stream");
  return stream;
}

/// Reads and writes so many vectors of 16 bytes. A kernel of its own where they are as many, so that nothing is asked twice there.
template <bool kAsMany>
__global__ void copy_kernel(const uint4* from, std::size_t reads, uint4* to, std::size_t writes) {
  constexpr int kEach = 4;
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x * kEach + threadIdx.x;
  uint4 values[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (!kAsMany) values[i] = uint4{};
    if (first + i * blockDim.x < reads) values[i] = __ldcs(from + first + i * blockDim.x);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (!kAsMany) asm volatile("" ::"r"(values[i].x), "r"(values[i].y), "r"(values[i].z), "r"(values[i].w));  // read, whoever wants it
    if (first + i * blockDim.x < (kAsMany ? reads : writes)) __stcs(to + first + i * blockDim.x, values[i]);
  }
}

/// Memory of the device.
struct Span {
  void* data = nullptr;
  std::size_t bytes = 0;
};
/// Puts a copy on a stream: the least that a kernel does which moves as many bytes.
inline void launch_copy(cudaStream_t stream, const Span& from, const Span& to) {
  const std::size_t reads = (from.bytes + sizeof(uint4) - 1) / sizeof(uint4);
  const std::size_t writes = (to.bytes + sizeof(uint4) - 1) / sizeof(uint4);
  const auto blocks = static_cast<unsigned>((std::max(reads, writes) + 1023) / 1024);
  const auto kernel = reads == writes ? copy_kernel<true> : copy_kernel<false>;
  kernel<<<blocks, 256, 0, stream>>>(static_cast<const uint4*>(from.data), reads, static_cast<uint4*>(to.data), writes);
}

/// The median of several replays of a graph of twenty calls, in microseconds per call. Slow calls are replayed less often.
inline double microseconds(cudaStream_t stream, const std::function<void()>& call) {
  constexpr int kCalls = 20;
  constexpr int kReplays = 15;
  constexpr int kLeastReplays = 3;
  constexpr double kEnough = 60;  // milliseconds
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t program = nullptr;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < kCalls; ++i) call();
  must(cudaStreamEndCapture(stream, &graph), "end of capture");
  must(cudaGraphInstantiate(&program, graph, 0), "cudaGraphInstantiate");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<double> times;
  double spent = 0;
  for (int i = 0; i < kReplays && (i < kLeastReplays || spent < kEnough); ++i) {
    must(cudaEventRecord(begin, stream), "record");
    must(cudaGraphLaunch(program, stream), "launch");
    must(cudaEventRecord(end, stream), "record");
    must(cudaEventSynchronize(end), "replay");
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin, end), "time");
    times.push_back(milliseconds * 1e3 / kCalls);
    spent += milliseconds;
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(program);
  cudaGraphDestroy(graph);
  return times[times.size() / 2];
}

/// Copies of buffers on the device.
class OnDevice {
 public:
  explicit OnDevice(const HostBuffers& buffers) {
    for (const auto& buffer : buffers) {
      void* data = nullptr;
      must(cudaMalloc(&data, buffer.size() + 16), "cudaMalloc");
      if (!buffer.empty()) must(cudaMemcpy(data, buffer.data(), buffer.size(), cudaMemcpyHostToDevice), "copy to the device");
      memory.push_back(data);
    }
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    for (void* const data : memory) cudaFree(data);
  }
  std::vector<std::byte> read(std::size_t n, std::size_t bytes) const {
    std::vector<std::byte> result(bytes);
    must(cudaMemcpy(result.data(), memory[n], bytes, cudaMemcpyDeviceToHost), "copy from the device");
    return result;
  }
  Pointers memory;
};

/// Two buffers that a copy goes between: the ceiling of a call that must move as many bytes.
class Ceiling {
 public:
  explicit Ceiling(const Moved& most) {
    must(cudaMalloc(&from_, most.read + sizeof(uint4)), "cudaMalloc");
    must(cudaMalloc(&to_, most.written + sizeof(uint4)), "cudaMalloc");
    must(cudaMemset(from_, 1, most.read + sizeof(uint4)), "cudaMemset");
  }
  Ceiling(const Ceiling&) = delete;
  Ceiling& operator=(const Ceiling&) = delete;
  ~Ceiling() {
    cudaFree(from_);
    cudaFree(to_);
  }
  /// Of so many bytes, not more than it was made for.
  double microseconds(cudaStream_t stream, const Moved& moved) const {
    return bench::microseconds(stream, [&] { launch_copy(stream, {from_, moved.read}, {to_, moved.written}); });
  }

 private:
  void* from_ = nullptr;
  void* to_ = nullptr;
};

/// What one case took. `steps` is 0 where nothing is to be compared with.
struct Times {
  std::string name;
  std::int64_t tokens = 0;
  double ours = 0;
  double copy = 0;
  double steps = 0;  // the same by calls of their own
};

/// A table that grows line by line, and its JSON.
class Table {
 public:
  Table(const char* title, bool with_steps) : with_steps_(with_steps) {
    std::printf("%-40s %8s %10s %10s %8s", title, "tokens", "us", "copy us", "of copy");
    if (with_steps) std::printf(" %10s %8s", "steps us", "faster");
    std::printf("\n");
  }
  void add(const Times& t) {
    std::printf("%-40s %8lld %10.2f %10.2f %8.3f", t.name.c_str(), static_cast<long long>(t.tokens), t.ours, t.copy, t.copy / t.ours);
    if (with_steps_) std::printf(" %10.2f %8.2f", t.steps, t.steps / t.ours);
    std::printf("\n");
    std::fflush(stdout);
    lines_ += std::string(lines_.empty() ? "" : ",\n") + "{\"case\":\"" + t.name + "\",\"tokens\":" + std::to_string(t.tokens) +
              ",\"us\":" + std::to_string(t.ours) + ",\"copy_us\":" + std::to_string(t.copy) +
              (with_steps_ ? ",\"steps_us\":" + std::to_string(t.steps) : std::string()) + "}";
  }
  /// To a file, unless `path` is null; what main returns.
  int write(const char* path) const {
    if (lines_.empty()) std::printf("no case has that name\n");
    if (path == nullptr) return 0;
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr) {
      std::printf("FAIL: %s cannot be written\n", path);
      return 2;
    }
    std::fprintf(file, "[%s]\n", lines_.c_str());
    return std::fclose(file) == 0 ? 0 : 2;
  }

 private:
  bool with_steps_;
  std::string lines_;
};

}  // namespace phasor::bench
