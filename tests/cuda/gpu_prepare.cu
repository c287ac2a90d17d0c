// SPDX-License-Identifier: Apache-2.0
// prepare_attention and its gradients on a GPU: random calls give the bytes of the CPU. `gpu_prepare [CALLS]` exits non-zero where
// something differs.
#include <algorithm>

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

void random_calls(std::uint64_t calls) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  std::uint64_t compared = 0;
  for (std::uint64_t seed = 1; seed <= calls; ++seed) {
    const RandomPrepare call(seed, seed % 2 == 0);  // every other one for squads
    Memory8 host = call.memory();
    const auto on = [](void* with) {
      return [with](const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec) {
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
void random_gradients(std::uint64_t calls) {
  cudaStream_t stream = nullptr;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  for (std::uint64_t seed = 1; seed <= calls; ++seed) {
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
  std::printf("%6llu calls of gradients\n", static_cast<unsigned long long>(calls));
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const std::uint64_t calls = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
  random_calls(calls);
  random_gradients(calls);
  std::printf("gpu_prepare: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
