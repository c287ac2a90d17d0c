// SPDX-License-Identifier: Apache-2.0
// prepare_attention and its gradients on a GPU: random calls give the bytes of the CPU. `gpu_prepare [CALLS [FIRST]]` exits non-zero where
// something differs.
#include <algorithm>

#include "cuda/many_specs.hpp"
#include "cuda/on_device.cuh"
#include "prepare/random_backward.hpp"
#include "prepare/random_prepare.hpp"

namespace phasor::test {
namespace {

/// Which bytes of the first buffers differ, or nothing.
std::string difference(const OnDevice& device, const Memory8& wanted, std::size_t buffers) {
  std::string text;
  for (std::size_t b = 0; b < buffers; ++b) {
    const std::vector<std::byte> is = device.read(b, wanted[b].size());
    std::size_t first = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i < is.size(); ++i) {
      if (is[i] == wanted[b][i]) continue;
      if (count++ == 0) first = i;
    }
    if (count == 0) continue;
    text += ", buffer " + std::to_string(b) + ": " + std::to_string(count) + " bytes of " + std::to_string(is.size()) + ", the first at " +
            std::to_string(first) + ": " + std::to_string(static_cast<int>(is[first])) + ", wanted " +
            std::to_string(static_cast<int>(wanted[b][first]));
  }
  return text;
}
void expect_same(const std::string& name, const Status& by_cpu, const Status& by_gpu, const std::string& differs) {
  expect(by_cpu.ok() && by_gpu.ok() && differs.empty(),
         name + ": the CPU says '" + by_cpu.message() + "', the GPU '" + by_gpu.message() + "'" + differs);
}

void random_calls(const Seeds& seeds) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  std::uint64_t compared = 0;
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    constexpr CallsOf kKinds[] = {CallsOf::plain, CallsOf::any, CallsOf::models, CallsOf::any, CallsOf::latent, CallsOf::columns};
    const RandomPrepare call(seed, kKinds[seed % std::size(kKinds)]);
    Memory8 host = call.memory();
    const auto on = [seed](void* with) {
      return [seed, with](const PrepareInputs& inputs, const PrepareRotation& rotation, PrepareOutputs outputs, const PrepareSpec& spec) {
        if (seed % 3 == 0) outputs.places.on_gpu = TokenPlaces::OnGpu::checked;
        return prepare_attention(inputs, rotation, outputs, spec, {.stream = with});
      };
    };
    const Status by_cpu = call.run(host, on(nullptr));
    const OnDevice device(call.memory());
    RandomPrepare::Pointers memory{};
    std::copy(device.memory.begin(), device.memory.end(), memory.begin());
    const Status by_gpu = call.run(memory, kGpu, on(stream));
    must(cudaStreamSynchronize(stream), "the stream");
    ++compared;
    expect_same("seed " + std::to_string(seed), by_cpu, by_gpu, difference(device, host, host.size()));
  }
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("%6llu calls\n", static_cast<unsigned long long>(compared));
}

/// The workspace is not compared: a GPU has other things in it.
void random_gradients(const Seeds& seeds) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    const RandomBackward call(seed);
    Memory8 host = call.memory();
    const auto on = [](void* with) {
      return [with](const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients,
                    const PrepareSpec& spec) { return prepare_attention_backward(inputs, rotation, gradients, spec, {.stream = with}); };
    };
    const Status by_cpu = call.run(host, on(nullptr));
    const OnDevice device(call.memory());
    RandomBackward::Pointers memory{};
    std::copy(device.memory.begin(), device.memory.end(), memory.begin());
    const Status by_gpu = call.run(memory, kGpu, on(stream));
    must(cudaStreamSynchronize(stream), "the stream");
    expect_same("gradients, seed " + std::to_string(seed), by_cpu, by_gpu, difference(device, host, RandomBackward::kWorkspace));
  }
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("%6llu calls of gradients\n", static_cast<unsigned long long>(seeds.calls));
}

/// Plans whose lists do not fit a parameter: copied to the device, several launches where there are hundreds of specs.
void many_specs() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    ManySpecs call(seed);
    const auto on = [](void* with) {
      return [with](const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients,
                    const PrepareSpec& spec) { return prepare_attention_backward(inputs, rotation, gradients, spec, {.stream = with}); };
    };
    ManySpecs::Memory host = call.memory();
    const auto* const bytes = reinterpret_cast<const std::byte*>(call.memory().data());
    const OnDevice device({std::vector<std::byte>(bytes, bytes + call.memory().size() * 4)});
    auto* const numbers = reinterpret_cast<float*>(device.memory[0]);
    const Status by_cpu = call.run(host.data(), {}, on(nullptr));
    const Status by_gpu = call.run(numbers, kGpu, on(stream));
    must(cudaStreamSynchronize(stream), "the stream");
    const auto* const made = reinterpret_cast<const std::byte*>(host.data());
    const std::vector<std::byte> wanted(made, made + call.compared() * 4);
    const std::vector<std::byte> is = device.read(0, wanted.size());
    expect_same("many specs, seed " + std::to_string(seed), by_cpu, by_gpu, is == wanted ? "" : ", other bytes");
    if (!call.has_hundreds()) continue;
    call.want_weights();
    const Status refused = call.run(numbers, kGpu, on(stream));
    must(cudaStreamSynchronize(stream), "the stream");
    expect(refused.kind() == ErrorKind::unsupported && refused.message().find("wanted at most") != std::string::npos,
           "weights of hundreds of specs say '" + refused.message() + "'");
    expect(device.read(0, wanted.size()) == wanted, "what is refused was written");
  }
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("    60 calls of gradients with many specs\n");
}

/// k of four tokens to a cache of three blocks of two, by slots, or by pages of two requests.
struct Placed {
  OnDevice device{{std::vector<std::byte>(4 * 8 * 4, std::byte{0x3f}), std::vector<std::byte>(6 * 8 * 4), std::vector<std::byte>(8 * 8)}};
  PrepareInputs inputs;
  PrepareOutputs outputs;

  explicit Placed(const std::vector<std::int64_t>& list) {
    inputs.k = TensorView{device.memory[0], DType::f32, {1, 4, 1, 8}, {32, 8, 8, 1}, kGpu};
    CacheView cache = contiguous_cache(device.memory[1], Storage::f32, {3, 2, 1, 8});
    cache.device = kGpu;
    outputs.k = cache;
    must(cudaMemcpy(device.memory[2], list.data(), list.size() * 8, cudaMemcpyHostToDevice), "a list");
    outputs.places.kind = TokenPlaces::Kind::slots;
    outputs.places.slots = at(0, 4);
    outputs.places.on_gpu = TokenPlaces::OnGpu::checked;
  }
  IntegerList at(std::int64_t first, std::int64_t count) const { return {device.memory[2] + first * 8, PositionType::i64, count, kGpu}; }
  std::string run(cudaStream_t stream) const { return prepare_attention(inputs, {}, outputs, {}, {.stream = stream}).message(); }
  bool is_untouched() const { return device.read(1, 6 * 8 * 4) == std::vector<std::byte>(6 * 8 * 4); }
};

/// Places outside of a cache are refused before anything is written, where that is asked for.
void checked_places() {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  const auto refuses = [&](const Placed& call, const std::string& wanted) {
    const std::string says = call.run(stream);
    expect(says == "prepare_attention: " + wanted, "checked places say '" + says + "', wanted '" + wanted + "'");
    must(cudaStreamSynchronize(stream), "checked places");
    expect(call.is_untouched(), wanted + ": something was written");
  };
  refuses(Placed({0, -1, 6, 99}), "token 2 goes to token 0 of block 3, wanted one of 3 blocks of 2");
  Placed pages({0, 1, 2, 0, 1, 4, 2, 5});
  pages.outputs.places = {.kind = TokenPlaces::Kind::pages,
                          .indices = pages.at(0, 4),
                          .places = pages.at(4, 4),
                          .pages_per_request = 2,
                          .on_gpu = TokenPlaces::OnGpu::checked};
  refuses(pages, "places[1] is 4, beyond the 2 pages of request 0");

  // A stream that is being captured cannot wait: refused, and the capture goes on.
  const Placed sound({5, 0, -1, 3});
  Captured captured;
  const std::string says = sound.run(captured.stream);
  expect(says.find("prepare_attention: places are to be checked on a stream that is being captured") == 0, "a capture says '" + says + "'");
  captured.end();
  expect(cudaGetLastError() == cudaSuccess && sound.is_untouched(), "a capture is left alone");

  expect(sound.run(stream).empty(), "sound places are taken");
  must(cudaStreamSynchronize(stream), "sound places");
  expect(!sound.is_untouched(), "sound places are written");
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("     4 calls with places that are checked\n");
}

/// Takes its time before it writes.
__global__ void advance(std::int64_t* positions, int count) {
  const long long begin = clock64();
  while (clock64() - begin < 40000) {
  }
  for (int i = 0; i < count; ++i) ++positions[i];
}

/// Heads in place, again and again, at positions that go on: a call that began too early would read what is not there yet.
struct Chain {
  static constexpr int kCalls = 30;
  std::int64_t tokens;
  Rotary rotary = *Rotary::make({.head_dim = 128});
  std::vector<std::vector<std::byte>> buffers;

  explicit Chain(std::int64_t count) : tokens(count), buffers(2) {
    Draw random(5);
    for (std::int64_t i = 0; i < tokens * 12 * 128; ++i) {
      const std::uint16_t bits = reference::Element<BFloat16>::narrow(static_cast<float>(random.real()) - 0.5F).bits;
      const auto* const bytes = reinterpret_cast<const std::byte*>(&bits);
      buffers[0].insert(buffers[0].end(), bytes, bytes + 2);
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t position = 1000 + 3 * i;
      const auto* const bytes = reinterpret_cast<const std::byte*>(&position);
      buffers[1].insert(buffers[1].end(), bytes, bytes + 8);
    }
  }
  Status prepare(const std::vector<std::byte*>& memory, Device device, void* stream) const {
    const TensorView q = {memory[0], DType::bf16, {1, tokens, 12, 128}, {tokens * 1536, 1536, 128, 1}, device};
    Positions at = positions(reinterpret_cast<const std::int64_t*>(memory[1]), 1, 1, tokens);
    at.device = device;
    PrepareInputs inputs;
    inputs.q = q;
    return prepare_attention(inputs, {{&rotary, 1}, at, {}}, {tensor_cache(q), {}, {}, {}}, {}, {.stream = stream});
  }
  /// Every third call is followed by a kernel on its stream, every third by one on another stream, which it waits for.
  void put(const OnDevice& device, cudaStream_t stream, cudaStream_t other) const {
    auto* const list = reinterpret_cast<std::int64_t*>(device.memory[1]);
    cudaEvent_t event = nullptr;
    must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    for (int i = 0; i < kCalls; ++i) {
      const Status status = prepare(device.memory, kGpu, stream);
      expect(status.ok(), "a chain of calls: " + status.message());
      if (i % 3 == 0) advance<<<1, 1, 0, stream>>>(list, static_cast<int>(tokens));
      if (i % 3 != 1) continue;
      must(cudaEventRecord(event, stream), "record");
      must(cudaStreamWaitEvent(other, event), "wait");
      advance<<<1, 1, 0, other>>>(list, static_cast<int>(tokens));
      must(cudaEventRecord(event, other), "record");
      must(cudaStreamWaitEvent(stream, event), "wait");
    }
    must(cudaEventDestroy(event), "cudaEventDestroy");
  }
  void put_on_host(std::vector<std::vector<std::byte>>& memory) const {
    auto* const list = reinterpret_cast<std::int64_t*>(memory[1].data());
    for (int i = 0; i < kCalls; ++i) {
      expect(prepare(pointers(memory), {}, nullptr).ok(), "a chain of calls on the CPU");
      for (std::int64_t t = 0; i % 3 != 2 && t < tokens; ++t) ++list[t];
    }
  }
};

/// Kernels that begin while others end find what those write, on streams and in graphs.
void early_launches() {
  cudaStream_t other = nullptr;
  must(cudaStreamCreate(&other), "cudaStreamCreate");
  for (const std::int64_t tokens : {1, 7, 700, 9000}) {
    const Chain chain(tokens);
    auto wanted = chain.buffers;
    chain.put_on_host(wanted);
    {
      const OnDevice device(chain.buffers);
      cudaStream_t stream = nullptr;
      must(cudaStreamCreate(&stream), "cudaStreamCreate");
      chain.put(device, stream, other);
      must(cudaStreamSynchronize(stream), "a chain of calls");
      must(cudaStreamDestroy(stream), "cudaStreamDestroy");
      expect(device.read(0, wanted[0].size()) == wanted[0], "a chain of calls of " + std::to_string(tokens) + " tokens on a stream");
    }
    const OnDevice device(chain.buffers);
    Captured captured;
    chain.put(device, captured.stream, other);
    captured.end();
    captured.replay();
    expect(device.read(0, wanted[0].size()) == wanted[0], "a chain of calls of " + std::to_string(tokens) + " tokens in a graph");
    chain.put_on_host(wanted);
    captured.replay();
    expect(device.read(0, wanted[0].size()) == wanted[0], "a chain of calls of " + std::to_string(tokens) + " tokens in a graph, replayed");
  }
  must(cudaStreamDestroy(other), "cudaStreamDestroy");
  std::printf("    12 chains of %d calls\n", Chain::kCalls);
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const Seeds seeds = seeds_of(argc, argv, 20000);
  random_calls(seeds);
  random_gradients(seeds);
  if (seeds.has_first()) {
    many_specs();
    checked_places();
    early_launches();
  }
  std::printf("gpu_prepare: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
