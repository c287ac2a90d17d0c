// SPDX-License-Identifier: Apache-2.0
// Tensors of more than 2^31 elements on a GPU: every token is the same, so that the CPU computes one of them, and each of the others must
// have its bytes, as must nothing behind the last. `gpu_large` exits non-zero where something differs. Takes 18 GB of the GPU's memory.
#include <cstring>

#include "cuda/on_device.cuh"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 31;

/// How many words of `count` are not those of a token of `words`.
__global__ void count_others(const std::uint32_t* data, std::uint64_t count, const std::uint32_t* token, unsigned words,
                             unsigned long long* others) {
  unsigned long long own = 0;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    if (data[i] != token[i % words]) ++own;
  }
  if (own != 0) atomicAdd(others, own);
}

/// Tokens of so many bytes, full of one byte, with a stretch behind them; in memory of the device, and one of them on the host.
class Tokens {
 public:
  static constexpr int kByte = 0x3c;
  static constexpr std::size_t kBehind = 4096;

  Tokens(std::int64_t count, std::int64_t token_bytes)
      : one(static_cast<std::size_t>(token_bytes), std::byte{kByte}), bytes_(static_cast<std::size_t>(count * token_bytes)) {
    void* memory = nullptr;
    must(cudaMalloc(&memory, bytes_ + kBehind), "cudaMalloc of a large tensor");
    must(cudaMemset(memory, kByte, bytes_ + kBehind), "cudaMemset");
    data = static_cast<std::byte*>(memory);
  }
  Tokens(const Tokens&) = delete;
  Tokens& operator=(const Tokens&) = delete;
  ~Tokens() { cudaFree(data); }

  /// Each token has the bytes of `one`, and what is behind them its own.
  void check(const char* name) const {
    std::vector<std::byte> behind(kBehind, std::byte{kByte});
    const OnDevice wanted({one, std::vector<std::byte>(8)});
    auto* const others = reinterpret_cast<unsigned long long*>(wanted.memory[1]);
    count_others<<<4096, 256>>>(reinterpret_cast<const std::uint32_t*>(data), bytes_ / 4,
                                reinterpret_cast<const std::uint32_t*>(wanted.memory[0]), static_cast<unsigned>(one.size() / 4), others);
    must(cudaGetLastError(), "count_others");
    unsigned long long differ = 0;
    must(cudaMemcpy(&differ, others, 8, cudaMemcpyDeviceToHost), "the number of others");
    expect(differ == 0, std::string(name) + ": " + std::to_string(differ) + " of " + std::to_string(bytes_ / 4) + " words differ");
    expect(one != std::vector<std::byte>(one.size(), std::byte{kByte}), std::string(name) + ": nothing was done");
    std::vector<std::byte> is(kBehind);
    must(cudaMemcpy(is.data(), data + bytes_, kBehind, cudaMemcpyDeviceToHost), "what is behind");
    expect(is == behind, std::string(name) + ": written behind the last token");
  }

  std::byte* data = nullptr;
  std::vector<std::byte> one;

 private:
  std::size_t bytes_;
};

/// One position for every token: stride 0, on the device and on the host.
class OnePosition {
 public:
  OnePosition()
      : device_({std::vector<std::byte>(reinterpret_cast<const std::byte*>(&kAt), reinterpret_cast<const std::byte*>(&kAt) + 8)}) {}
  Positions of(std::int64_t tokens, bool on_gpu) const {
    Positions at = positions(on_gpu ? reinterpret_cast<const std::int64_t*>(device_.memory[0]) : &kAt, 1, 1, tokens);
    at.strides[2] = 0;
    if (on_gpu) at.device = kGpu;
    return at;
  }

 private:
  static constexpr std::int64_t kAt = 123456789;
  OnDevice device_;
};

constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kHeadDim = 128;

/// call(view, positions) for all tokens of bfloat16 on the device, and for one on the host.
template <class Call>
void check_bf16(const char* name, std::int64_t heads, std::int64_t head_dim, const Call& call) {
  const std::int64_t tokens = kElements / (heads * head_dim) + 5;
  Tokens memory(tokens, heads * head_dim * 2);
  const OnePosition position;
  const auto view_of = [&](std::byte* data, std::int64_t count, Device where) {
    const Extents shape = {1, count, heads, head_dim};
    return TensorView{data, DType::bf16, shape, contiguous_strides(shape), where};
  };
  const Status by_gpu = call(view_of(memory.data, tokens, kGpu), position.of(tokens, true));
  const Status by_cpu = call(view_of(memory.one.data(), 1, {}), position.of(1, false));
  expect(by_gpu.ok() && by_cpu.ok(), std::string(name) + ": '" + by_gpu.message() + "', the CPU '" + by_cpu.message() + "'");
  must(cudaDeviceSynchronize(), name);
  memory.check(name);
  std::printf("     %s: %lld elements\n", name, static_cast<long long>(tokens * heads * head_dim));
}

void rotations() {
  for (const Numerics numerics : {Numerics::exact, Numerics::hf}) {  // by teams, and by the kernel of any rotation
    const Rotary rotary = *Rotary::make({.head_dim = kHeadDim, .numerics = numerics});
    check_bf16(numerics == Numerics::exact ? "apply" : "apply in a profile", kHeads, kHeadDim,
               [&](const TensorView& x, const Positions& at) { return rotary.apply(x, at); });
  }
  const std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = kHeadDim}), *Rotary::make({.head_dim = kHeadDim, .base = 500000})};
  const std::vector<std::byte> second = {std::byte{1}, {}, {}, {}, {}, {}, {}, {}};
  const OnDevice list({second});
  check_bf16("apply_rotaries", kHeads, kHeadDim, [&](const TensorView& x, const Positions& at) {
    const bool on_gpu = x.device == kGpu;
    const IntegerList spec_of = {on_gpu ? list.memory[0] : second.data(), PositionType::i64, 1, x.device};
    return apply_rotaries({rotaries, spec_of}, x, at);
  });
}

void heads_made_ready() {
  const Rotary rotary = *Rotary::make({.head_dim = kHeadDim});
  for (const HeadNorm::Over over : {HeadNorm::Over::head, HeadNorm::Over::all_heads}) {  // by squads, and by a block per token
    const bool squads = over == HeadNorm::Over::head;
    check_bf16(squads ? "prepare_attention" : "prepare_attention over all heads", kHeads, kHeadDim,
               [&](const TensorView& x, const Positions& at) {
                 PrepareInputs inputs;
                 inputs.q = x;
                 PrepareSpec spec;
                 spec.q_norm.kind = HeadNorm::Kind::rms;
                 spec.q_norm.over = over;
                 return prepare_attention(inputs, {{&rotary, 1}, at, {}}, {tensor_cache(x), {}, {}, {}}, spec);
               });
  }
}

void additions() {
  const Sinusoidal sinusoidal = *Sinusoidal::make({.width = 1024});
  check_bf16("add_sinusoidal", 1, 1024, [&](const TensorView& x, const Positions& at) { return sinusoidal.add(x, at); });
}

/// cos and sin of more than 2^31 values each.
void rows() {
  constexpr std::int64_t kPairs = 16;
  const Rotary rotary = *Rotary::make({.head_dim = 2 * kPairs});
  const std::int64_t tokens = kElements / kPairs + 3;
  Tokens cos(tokens, kPairs * 4);
  Tokens sin(tokens, kPairs * 4);
  const OnePosition position;
  const auto view_of = [&](std::byte* data, std::int64_t count, Device where) {
    const Extents shape = {1, count, 1, kPairs};
    return TensorView{data, DType::f32, shape, contiguous_strides(shape), where};
  };
  const Status by_gpu = rotary.cos_sin(position.of(tokens, true), view_of(cos.data, tokens, kGpu), view_of(sin.data, tokens, kGpu));
  const Status by_cpu = rotary.cos_sin(position.of(1, false), view_of(cos.one.data(), 1, {}), view_of(sin.one.data(), 1, {}));
  expect(by_gpu.ok() && by_cpu.ok(), "cos_sin: '" + by_gpu.message() + "', the CPU '" + by_cpu.message() + "'");
  must(cudaDeviceSynchronize(), "cos_sin");
  cos.check("cos");
  sin.check("sin");
  std::printf("     cos_sin: %lld values each\n", static_cast<long long>(tokens * kPairs));
}

}  // namespace
}  // namespace phasor::test

int main() {
  using namespace phasor::test;
  rotations();
  heads_made_ready();
  additions();
  rows();
  std::printf("gpu_large: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
