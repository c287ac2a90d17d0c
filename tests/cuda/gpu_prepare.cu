// SPDX-License-Identifier: Apache-2.0
// prepare_attention and its gradients on a GPU: random calls give the bytes of the CPU. `gpu_prepare [CALLS [FIRST]]` exits non-zero where
// something differs. `gpu_prepare few` is a call or two by each kernel whose threads wait for each other: sanitizers take minutes for many.
#include <algorithm>
#include <string_view>

#include "cuda/many_specs.hpp"
#include "cuda/on_device.cuh"
#include "prepare/random_backward.hpp"
#include "prepare/random_prepare.hpp"

namespace phasor::test {
namespace {

/// Which bytes of the first buffers differ, or nothing.
std::string difference(const Memory8& made, const Memory8& wanted, std::size_t buffers) {
  std::string text;
  for (std::size_t b = 0; b < buffers; ++b) {
    const std::vector<std::byte>& is = made[b];
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
Memory8 read_all(const OnDevice& device, const Memory8& like) {
  Memory8 is;
  for (std::size_t b = 0; b < like.size(); ++b) is.push_back(device.read(b, like[b].size()));
  return is;
}
void expect_same(const std::string& name, const Status& by_cpu, const Status& by_gpu, const std::string& differs) {
  expect(by_cpu.ok() && by_gpu.ok() && differs.empty(),
         name + ": the CPU says '" + by_cpu.message() + "', the GPU '" + by_gpu.message() + "'" + differs);
}

/// A call on the CPU and on the GPU, places checked there or not.
void compare(const RandomPrepare& call, const std::string& name, bool checked, cudaStream_t stream) {
  Memory8 host = call.memory();
  const auto on = [checked](void* with) {
    return [checked, with](const PrepareInputs& inputs, const PrepareRotation& rotation, PrepareOutputs outputs, const PrepareSpec& spec) {
      if (checked) outputs.places.on_gpu = TokenPlaces::OnGpu::checked;
      return prepare_attention(inputs, rotation, outputs, spec, {.stream = with});
    };
  };
  const Status by_cpu = call.run(host, on(nullptr));
  const OnDevice device(call.memory());
  RandomPrepare::Pointers memory{};
  std::copy(device.memory.begin(), device.memory.end(), memory.begin());
  const Status by_gpu = call.run(memory, kGpu, on(stream));
  must(cudaStreamSynchronize(stream), "the stream");
  Memory8 is = read_all(device, host);
  call.forget_nans(is, host);
  expect_same(name, by_cpu, by_gpu, difference(is, host, host.size()));
}

void random_calls(const Seeds& seeds) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (std::uint64_t seed = seeds.first; seed < seeds.end(); ++seed) {
    constexpr CallsOf kKinds[] = {CallsOf::plain,  CallsOf::any,     CallsOf::models,      CallsOf::any,
                                  CallsOf::latent, CallsOf::columns, CallsOf::plain_latent};
    constexpr std::uint64_t kCount = std::size(kKinds);
    compare(RandomPrepare(seed, kKinds[seed % kCount]), "seed " + std::to_string(seed), seed / kCount % 3 == 0, stream);
  }
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  std::printf("%6llu calls\n", static_cast<unsigned long long>(seeds.calls));
}

/// The first random calls of a kind that are wanted.
template <class Wanted>
void first_calls(int count, CallsOf kind, SizeOf size, const char* name, const Wanted& is_wanted) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  int done = 0;
  for (std::uint64_t seed = 1; done < count && seed < 20000; ++seed) {
    if (!is_wanted(PrepareChoices(seed, kind, size))) continue;
    ++done;
    compare(RandomPrepare(seed, kind, size), std::string(name) + ", seed " + std::to_string(seed), false, stream);
  }
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  expect(done == count, std::string(name) + ": " + std::to_string(done) + " calls");
  std::printf("%6d calls: %s\n", done, name);
}
void few_calls() {
  const auto any = [](const PrepareChoices& /*call*/) { return true; };
  first_calls(1, CallsOf::plain, SizeOf::any, "walks", [](const PrepareChoices& call) { return call.walks_on_gpu(); });
  first_calls(4, CallsOf::plain, SizeOf::small, "plain calls of few tokens", any);
  first_calls(2, CallsOf::plain, SizeOf::any, "plain calls of many tokens",
              [](const PrepareChoices& call) { return call.all_tokens() > 512 && call.all_tokens() < 1000; });
  first_calls(4, CallsOf::models, SizeOf::small, "squads", any);
  first_calls(4, CallsOf::latent, SizeOf::small, "MLA, few tokens", any);
  first_calls(2, CallsOf::latent, SizeOf::any, "MLA, some tokens",
              [](const PrepareChoices& call) { return call.all_tokens() > 512 && call.all_tokens() <= 2048; });
  first_calls(1, CallsOf::latent, SizeOf::any, "MLA, many tokens", [](const PrepareChoices& call) { return call.all_tokens() > 2048; });
  first_calls(4, CallsOf::plain_latent, SizeOf::small, "plain MLA, few tokens", any);
  first_calls(2, CallsOf::plain_latent, SizeOf::any, "plain MLA, some tokens",
              [](const PrepareChoices& call) { return call.all_tokens() > 512 && call.all_tokens() <= 2048; });
  first_calls(2, CallsOf::plain_latent, SizeOf::any, "plain MLA, many tokens",
              [](const PrepareChoices& call) { return call.all_tokens() > 4096; });
  first_calls(2, CallsOf::columns, SizeOf::any, "values by channels",
              [](const PrepareChoices& call) { return call.all_tokens() > 128 && call.all_tokens() < 300; });
  first_calls(10, CallsOf::any, SizeOf::small, "any calls", any);
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
    expect_same("gradients, seed " + std::to_string(seed), by_cpu, by_gpu,
                difference(read_all(device, host), host, RandomBackward::kWorkspace));
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

/// Which kernels a chain is of: plain ones, those of MLA, or plain ones whose results go to a cache by channels.
enum class ChainOf { plain, latent, columns };

/// Heads in place, again and again, at positions that go on: a call that began too early would read what is not there yet.
struct Chain {
  static constexpr int kCalls = 30;
  static constexpr std::int64_t kRow = 12 * 128;
  static constexpr std::int64_t kBlock = 16;
  static constexpr std::int64_t kLayers = 4;  // of the cache, which take turns
  static constexpr std::size_t kHeads = 0, kPositions = 1, kSlots = 2, kCache = 3;
  ChainOf kind;
  std::int64_t tokens;
  Rotary halves = *Rotary::make({.head_dim = 128});
  Rotary of_latent = *Rotary::make({.head_dim = 512, .rotary_width = 64, .rotary_offset = 448, .pairing = Pairing::interleaved});
  std::vector<std::vector<std::byte>> buffers;

  Chain(ChainOf of, std::int64_t count) : kind(of), tokens(count), buffers(4) {
    Draw random(5);
    for (std::int64_t i = 0; i < tokens * kRow; ++i) {
      const std::uint16_t bits = reference::Element<BFloat16>::narrow(static_cast<float>(random.real()) - 0.5F).bits;
      add(kHeads, &bits, 2);
    }
    for (std::int64_t i = 0; i < tokens; ++i) {
      const std::int64_t position = 1000 + 3 * i;
      add(kPositions, &position, 8);
      add(kSlots, &i, 8);
    }
    if (kind == ChainOf::columns) buffers[kCache].resize(static_cast<std::size_t>(kLayers * layer_bytes()));
  }
  void add(std::size_t buffer, const void* data, std::size_t bytes) {
    const auto* const from = static_cast<const std::byte*>(data);
    buffers[buffer].insert(buffers[buffer].end(), from, from + bytes);
  }
  std::int64_t blocks() const { return (tokens + kBlock - 1) / kBlock; }
  std::int64_t layer_bytes() const { return blocks() * kBlock * 2 * 128 * 2; }
  TensorView heads(std::byte* memory, std::int64_t first, std::int64_t count, std::int64_t head_dim, Device device) const {
    return {memory + first * 2, DType::bf16, {1, tokens, count, head_dim}, {tokens * kRow, kRow, head_dim, 1}, device};
  }
  Status prepare(int call, const std::vector<std::byte*>& memory, Device device, void* stream) const {
    Positions at = positions(reinterpret_cast<const std::int64_t*>(memory[kPositions]), 1, 1, tokens);
    at.device = device;
    PrepareInputs inputs;
    PrepareOutputs outputs;
    if (kind == ChainOf::latent) {  // two heads beside a wide one
      const TensorView q = heads(memory[kHeads], 0, 2, 512, device);
      const TensorView k = heads(memory[kHeads], 1024, 1, 512, device);
      inputs.q = q, inputs.k = k;
      outputs.q = tensor_cache(q), outputs.k = tensor_cache(k);
      return prepare_attention(inputs, {{&of_latent, 1}, at, {}}, outputs, {}, {.stream = stream});
    }
    const TensorView q = heads(memory[kHeads], 0, 12, 128, device);
    inputs.q = q, outputs.q = tensor_cache(q);
    if (Status s = prepare_attention(inputs, {{&halves, 1}, at, {}}, outputs, {}, {.stream = stream}); !s) return s;
    if (kind == ChainOf::plain) return {};
    CacheView cache = vllm_value_cache(memory[kCache] + call % kLayers * layer_bytes(), Storage::bf16, {blocks(), kBlock, 2, 128});
    cache.device = device;
    inputs = {}, outputs = {};
    inputs.v = heads(memory[kHeads], 256, 2, 128, device);
    outputs.v = cache;
    outputs.places.kind = TokenPlaces::Kind::slots;
    outputs.places.slots = {memory[kSlots], PositionType::i64, tokens, device};
    return prepare_attention(inputs, {}, outputs, {}, {.stream = stream});
  }
  /// Every third call is followed by a kernel on its stream, every third by one on another stream, which it waits for.
  void put(const OnDevice& device, cudaStream_t stream, cudaStream_t other) const {
    auto* const list = reinterpret_cast<std::int64_t*>(device.memory[kPositions]);
    cudaEvent_t event = nullptr;
    must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    for (int i = 0; i < kCalls; ++i) {
      const Status status = prepare(i, device.memory, kGpu, stream);
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
    auto* const list = reinterpret_cast<std::int64_t*>(memory[kPositions].data());
    for (int i = 0; i < kCalls; ++i) {
      expect(prepare(i, pointers(memory), {}, nullptr).ok(), "a chain of calls on the CPU");
      for (std::int64_t t = 0; i % 3 != 2 && t < tokens; ++t) ++list[t];
    }
  }
  void expect_bytes(const OnDevice& device, const std::vector<std::vector<std::byte>>& wanted, const std::string& where) const {
    constexpr const char* kNames[] = {"plain", "MLA", "by channels"};
    for (const std::size_t buffer : {kHeads, kCache}) {
      expect(device.read(buffer, wanted[buffer].size()) == wanted[buffer],
             "a chain of calls, " + std::string(kNames[static_cast<int>(kind)]) + ", of " + std::to_string(tokens) + " tokens " + where);
    }
  }
};

/// Kernels that begin while others end find what those write, on streams and in graphs.
void early_launches() {
  cudaStream_t other = nullptr;
  must(cudaStreamCreate(&other), "cudaStreamCreate");
  int chains = 0;
  for (const ChainOf kind : {ChainOf::plain, ChainOf::latent, ChainOf::columns}) {
    for (const std::int64_t tokens : {1, 7, 700, 9000}) {
      const Chain chain(kind, tokens);
      auto wanted = chain.buffers;
      chain.put_on_host(wanted);
      {
        const OnDevice device(chain.buffers);
        cudaStream_t stream = nullptr;
        must(cudaStreamCreate(&stream), "cudaStreamCreate");
        chain.put(device, stream, other);
        must(cudaStreamSynchronize(stream), "a chain of calls");
        must(cudaStreamDestroy(stream), "cudaStreamDestroy");
        chain.expect_bytes(device, wanted, "on a stream");
      }
      const OnDevice device(chain.buffers);
      Captured captured;
      chain.put(device, captured.stream, other);
      captured.end();
      captured.replay();
      chain.expect_bytes(device, wanted, "in a graph");
      chain.put_on_host(wanted);
      captured.replay();
      chain.expect_bytes(device, wanted, "in a graph, replayed");
      chains += 3;
    }
  }
  must(cudaStreamDestroy(other), "cudaStreamDestroy");
  std::printf("%6d chains of %d calls\n", chains, Chain::kCalls);
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const bool few = argc > 1 && std::string_view(argv[1]) == "few";
  const Seeds seeds = few ? Seeds{10} : seeds_of(argc, argv, 20000);
  few ? few_calls() : random_calls(seeds);
  random_gradients(seeds);
  if (!few && seeds.has_first()) {
    many_specs();
    checked_places();
    early_launches();
  }
  std::printf("gpu_prepare: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
