// SPDX-License-Identifier: Apache-2.0
// Rotation on a GPU beside a kernel that copies as many bytes: microseconds of a graph's replay, and their ratio. The result is checked
// against the CPU before anything is timed. `rotary_bench [JSON]` prints a table and writes JSON.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "phasor/phasor.hpp"

namespace phasor::bench {
namespace {

constexpr Device kGpu = {DeviceKind::cuda, 0};
constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;
constexpr std::int64_t kWidth = 128;

void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAIL: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}
void must(const Status& status) {
  if (status.ok()) return;
  std::printf("FAIL: %s\n", status.message().c_str());
  std::exit(2);
}

__global__ void copy_kernel(const uint4* from, uint4* to, std::size_t count) {
  constexpr int kEach = 4;
  const std::size_t first = std::size_t{blockIdx.x} * blockDim.x * kEach + threadIdx.x;
  uint4 values[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (first + i * blockDim.x < count) values[i] = __ldcs(from + first + i * blockDim.x);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (first + i * blockDim.x < count) __stcs(to + first + i * blockDim.x, values[i]);
  }
}

/// The median of several replays of a graph of twenty calls, in microseconds per call.
double microseconds(cudaStream_t stream, const std::function<void()>& call) {
  constexpr int kCalls = 20;
  constexpr int kReplays = 15;
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
  for (int i = 0; i < kReplays; ++i) {
    must(cudaEventRecord(begin, stream), "record");
    must(cudaGraphLaunch(program, stream), "launch");
    must(cudaEventRecord(end, stream), "record");
    must(cudaEventSynchronize(end), "replay");
    float milliseconds = 0;
    must(cudaEventElapsedTime(&milliseconds, begin, end), "time");
    times.push_back(milliseconds * 1e3 / kCalls);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(program);
  cudaGraphDestroy(graph);
  return times[times.size() / 2];
}

struct Case {
  const char* name;
  DType dtype;
  Pairing pairing;
  bool in_place;
};

/// q and k of so many tokens, twice, on the device.
class Operands {
 public:
  Operands(const Case& c, std::int64_t tokens) : case_(c), tokens_(tokens) {
    bytes = static_cast<std::size_t>(tokens * (kQueryHeads + kKeyHeads) * kWidth * bytes_of(c.dtype));
    must(cudaMalloc(&from, bytes), "cudaMalloc");
    must(cudaMalloc(&to, bytes), "cudaMalloc");
    host.resize(bytes);
    for (std::size_t i = 0; i + 2 <= bytes; i += 2) {  // small numbers of any dtype: the exponent's low bits at random
      const auto bits = static_cast<std::uint16_t>(0x3c00U | (i * 2654435761U >> 13 & 0x83ffU));
      std::memcpy(host.data() + i, &bits, 2);
    }
    must(cudaMemcpy(from, host.data(), bytes, cudaMemcpyHostToDevice), "copy");
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  ~Operands() {
    cudaFree(from);
    cudaFree(to);
  }
  TensorView view_of(void* data, bool keys, Device device) const {
    const std::int64_t heads = keys ? kKeyHeads : kQueryHeads;
    const Extents shape = {1, tokens_, heads, kWidth};
    std::byte* const first = static_cast<std::byte*>(data) + (keys ? tokens_ * kQueryHeads * kWidth * bytes_of(case_.dtype) : 0);
    return {first, case_.dtype, shape, contiguous_strides(shape), device};
  }
  void rotate(const Rotary& rotary, std::int64_t position, cudaStream_t stream) const {
    void* const out = case_.in_place ? from : to;
    must(rotary.apply(InOut(ConstTensorView(view_of(from, false, kGpu)), view_of(out, false, kGpu)),
                      InOut(ConstTensorView(view_of(from, true, kGpu)), view_of(out, true, kGpu)), positions_from(position),
                      {.execution = {.stream = stream}}));
  }
  /// Whether the GPU gives the CPU's bits.
  bool holds(const Rotary& rotary, std::int64_t position, cudaStream_t stream) {
    std::vector<std::byte> want = host;
    must(rotary.apply(view_of(want.data(), false, {}), view_of(want.data(), true, {}), positions_from(position)));
    rotate(rotary, position, stream);
    std::vector<std::byte> is(bytes);
    must(cudaMemcpyAsync(is.data(), case_.in_place ? from : to, bytes, cudaMemcpyDeviceToHost, stream), "copy");
    must(cudaStreamSynchronize(stream), "rotation");
    return is == want;
  }

  void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
  std::vector<std::byte> host;

 private:
  const Case& case_;
  std::int64_t tokens_;
};

int run(const char* json) {
  constexpr Case kCases[] = {{"bf16 half", DType::bf16, Pairing::half, true},
                             {"bf16 interleaved", DType::bf16, Pairing::interleaved, true},
                             {"bf16 half, out of place", DType::bf16, Pairing::half, false},
                             {"f16 half", DType::f16, Pairing::half, true},
                             {"f32 half", DType::f32, Pairing::half, true},
                             {"f64 half", DType::f64, Pairing::half, true}};
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "stream");
  std::string lines;
  std::printf("%-26s %8s %10s %10s %8s\n", "rotation, 32 + 8 heads", "tokens", "us", "copy us", "of copy");
  for (const Case& c : kCases) {
    const Rotary rotary = *Rotary::make({.head_dim = kWidth, .pairing = c.pairing});
    for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{64}, std::int64_t{1024}, std::int64_t{16384}, std::int64_t{65536}}) {
      constexpr std::int64_t kPosition = 10000000;
      Operands x(c, tokens);
      if (tokens <= 1024 && !x.holds(rotary, kPosition, stream)) {
        std::printf("FAIL: %s, %lld tokens: other bits than the CPU's\n", c.name, static_cast<long long>(tokens));
        return 1;
      }
      const std::size_t vectors = x.bytes / sizeof(uint4);
      const double ours = microseconds(stream, [&] { x.rotate(rotary, kPosition, stream); });
      const double copy = microseconds(stream, [&] {
        copy_kernel<<<static_cast<unsigned>((vectors + 1023) / 1024), 256, 0, stream>>>(static_cast<const uint4*>(x.from),
                                                                                        static_cast<uint4*>(x.to), vectors);
      });
      std::printf("%-26s %8lld %10.2f %10.2f %8.3f\n", c.name, static_cast<long long>(tokens), ours, copy, copy / ours);
      lines += std::string(lines.empty() ? "" : ",\n") + "{\"case\":\"" + c.name + "\",\"tokens\":" + std::to_string(tokens) +
               ",\"us\":" + std::to_string(ours) + ",\"copy_us\":" + std::to_string(copy) + "}";
    }
  }
  if (json == nullptr) return 0;
  std::FILE* const file = std::fopen(json, "w");
  if (file == nullptr) return 2;
  std::fprintf(file, "[%s]\n", lines.c_str());
  return std::fclose(file);
}

}  // namespace
}  // namespace phasor::bench

int main(int argc, char** argv) { return phasor::bench::run(argc > 1 ? argv[1] : nullptr); }
