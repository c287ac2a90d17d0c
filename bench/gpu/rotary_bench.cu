// SPDX-License-Identifier: Apache-2.0
// Rotation on a GPU beside a kernel that copies as many bytes: microseconds of a graph's replay, and their ratio. The result is checked
// against the CPU before anything is timed. `rotary_bench [JSON [NAME]]` prints a table and writes JSON, of the cases with NAME in theirs.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "phasor/phasor.hpp"

namespace phasor::bench {
namespace {

constexpr Device kGpu = {DeviceKind::cuda, 0};
constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;
constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kPosition = 10000000;

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

/// What gives the cosines and sines.
enum class Source { positions, counted, axes, table, wide_table };

struct Case {
  const char* name;
  DType dtype;
  Pairing pairing = Pairing::half;
  bool in_place = true;
  Source source = Source::positions;
  Direction direction = Direction::forward;
};

RotarySpec spec_of(const Case& c) {
  RotarySpec spec = {.head_dim = kWidth, .pairing = c.pairing};
  if (c.source == Source::axes) spec.axes = {.sections = {16, 24, 24}};  // Qwen2-VL's
  return spec;
}

/// q and k of so many tokens, twice, on the device.
class Operands {
 public:
  Operands(const Case& c, std::int64_t tokens) : case_(c), tokens_(tokens) {
    const std::int64_t axes = c.source == Source::axes ? 3 : 1;
    for (std::int64_t i = 0; i < axes * tokens; ++i) at.push_back(kPosition + i);
    must(cudaMalloc(&device_at, at.size() * sizeof(at[0])), "cudaMalloc");
    must(cudaMemcpy(device_at, at.data(), at.size() * sizeof(at[0]), cudaMemcpyHostToDevice), "copy");
    make_tables();

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
    for (void* const memory : {from, to, device_at, device_cos, device_sin}) cudaFree(memory);
  }
  TensorView view_of(void* data, bool keys, Device device) const {
    const std::int64_t heads = keys ? kKeyHeads : kQueryHeads;
    const Extents shape = {1, tokens_, heads, kWidth};
    std::byte* const first = static_cast<std::byte*>(data) + (keys ? tokens_ * kQueryHeads * kWidth * bytes_of(case_.dtype) : 0);
    return {first, case_.dtype, shape, contiguous_strides(shape), device};
  }
  void rotate(const Rotary& rotary, Device device, void* in, void* out, cudaStream_t stream) const {
    const InOut q(ConstTensorView(view_of(in, false, device)), view_of(out, false, device));
    const InOut k(ConstTensorView(view_of(in, true, device)), view_of(out, true, device));
    const ApplyOptions options = {case_.direction, {.stream = stream}};
    const bool on_gpu = device == kGpu;
    if (case_.source == Source::table || case_.source == Source::wide_table) {
      const Extents shape = {1, tokens_, 1, table_width()};
      const auto table = [&](const std::vector<float>& host_table, void* device_table) {
        return ConstTensorView(TensorView{on_gpu ? device_table : const_cast<float*>(host_table.data()), DType::f32, shape,
                                          contiguous_strides(shape), device});
      };
      must(apply_rotary(q, k, table(cos, device_cos), table(sin, device_sin), {.rotary_width = kWidth, .pairing = case_.pairing}, options));
      return;
    }
    Positions where = positions(on_gpu ? static_cast<const std::int64_t*>(device_at) : at.data(),
                                static_cast<std::int64_t>(at.size()) / tokens_, 1, tokens_);
    where.device = device;
    must(rotary.apply(q, k, case_.source == Source::counted ? positions_from(kPosition) : where, options));
  }
  void rotate(const Rotary& rotary, cudaStream_t stream) const { rotate(rotary, kGpu, from, case_.in_place ? from : to, stream); }
  /// Whether the GPU gives the CPU's bits.
  bool holds(const Rotary& rotary, cudaStream_t stream) {
    std::vector<std::byte> want = host;
    rotate(rotary, {}, want.data(), want.data(), nullptr);
    rotate(rotary, stream);
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
  std::int64_t table_width() const { return case_.source == Source::wide_table ? kWidth : kWidth / 2; }
  void make_tables() {
    if (case_.source != Source::table && case_.source != Source::wide_table) return;
    const auto pairs = static_cast<std::size_t>(kWidth / 2);
    const auto width = static_cast<std::size_t>(table_width());
    for (std::size_t i = 0; i < static_cast<std::size_t>(tokens_) * width; ++i) {
      const double angle =
          static_cast<double>(i / width) * std::pow(1e4, -static_cast<double>(i % width % pairs) / static_cast<double>(pairs)) + 1;
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
    for (const auto& [table, data] : {std::pair(&cos, &device_cos), std::pair(&sin, &device_sin)}) {
      must(cudaMalloc(data, table->size() * sizeof(float)), "cudaMalloc");
      must(cudaMemcpy(*data, table->data(), table->size() * sizeof(float), cudaMemcpyHostToDevice), "copy");
    }
  }

  std::vector<std::int64_t> at;
  std::vector<float> cos;
  std::vector<float> sin;
  void* device_at = nullptr;
  void* device_cos = nullptr;
  void* device_sin = nullptr;
  const Case& case_;
  std::int64_t tokens_;
};

int run(const char* json, const std::string& wanted) {
  const Case kCases[] = {{.name = "bf16 half", .dtype = DType::bf16},
                         {.name = "bf16 half, counted", .dtype = DType::bf16, .source = Source::counted},
                         {.name = "bf16 interleaved", .dtype = DType::bf16, .pairing = Pairing::interleaved},
                         {.name = "bf16 half, out of place", .dtype = DType::bf16, .in_place = false},
                         {.name = "bf16 half, backward", .dtype = DType::bf16, .direction = Direction::transpose},
                         {.name = "bf16 half, three axes", .dtype = DType::bf16, .source = Source::axes},
                         {.name = "bf16 half, f32 table", .dtype = DType::bf16, .source = Source::table},
                         {.name = "bf16 half, wide f32 table", .dtype = DType::bf16, .source = Source::wide_table},
                         {.name = "f16 half", .dtype = DType::f16},
                         {.name = "f32 half", .dtype = DType::f32},
                         {.name = "f32 interleaved", .dtype = DType::f32, .pairing = Pairing::interleaved},
                         {.name = "f64 half", .dtype = DType::f64}};
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "stream");
  std::string lines;
  std::printf("%-26s %8s %10s %10s %8s\n", "rotation, 32 + 8 heads", "tokens", "us", "copy us", "of copy");
  for (const Case& c : kCases) {
    if (std::string(c.name).find(wanted) == std::string::npos) continue;
    const Rotary rotary = *Rotary::make(spec_of(c));
    for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{64}, std::int64_t{1024}, std::int64_t{16384}, std::int64_t{65536}}) {
      Operands x(c, tokens);
      if (tokens <= 1024 && !x.holds(rotary, stream)) {
        std::printf("FAIL: %s, %lld tokens: other bits than the CPU's\n", c.name, static_cast<long long>(tokens));
        return 1;
      }
      const std::size_t vectors = x.bytes / sizeof(uint4);
      const double ours = microseconds(stream, [&] { x.rotate(rotary, stream); });
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

int main(int argc, char** argv) { return phasor::bench::run(argc > 1 ? argv[1] : nullptr, argc > 2 ? argv[2] : ""); }
