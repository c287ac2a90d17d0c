// SPDX-License-Identifier: Apache-2.0
// Rotation on a GPU beside a kernel that copies as many bytes: microseconds of a graph's replay, and their ratio. The result is checked
// against the CPU before anything is timed. `rotary_bench [JSON [NAME]]` prints a table and writes JSON, of the cases with NAME in theirs.
#include <cmath>
#include <cstring>
#include <utility>

#include "phasor/phasor.hpp"
#include "timing.cuh"

namespace phasor::bench {
namespace {

constexpr std::int64_t kQueryHeads = 32;
constexpr std::int64_t kKeyHeads = 8;
constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kPosition = 10000000;

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

  /// A copy between the same memory.
  double ceiling_microseconds(cudaStream_t stream) const {
    return microseconds(stream, [&] { launch_copy(stream, {from, bytes}, {to, bytes}); });
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
  const cudaStream_t stream = make_stream();
  Table table("rotation, 32 + 8 heads of 128", false);
  for (const Case& c : kCases) {
    if (std::string(c.name).find(wanted) == std::string::npos) continue;
    const Rotary rotary = *Rotary::make(spec_of(c));
    for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{64}, std::int64_t{1024}, std::int64_t{16384}, std::int64_t{65536}}) {
      Operands x(c, tokens);
      if (tokens <= 1024 && !x.holds(rotary, stream)) {
        std::printf("FAIL: %s, %lld tokens: other bits than the CPU's\n", c.name, static_cast<long long>(tokens));
        return 1;
      }
      const double ours = microseconds(stream, [&] { x.rotate(rotary, stream); });
      const double copy = x.ceiling_microseconds(stream);
      table.add({c.name, tokens, ours, copy});
    }
  }
  return table.write(json);
}

}  // namespace
}  // namespace phasor::bench

int main(int argc, char** argv) { return phasor::bench::run(argc > 1 ? argv[1] : nullptr, argc > 2 ? argv[2] : ""); }
