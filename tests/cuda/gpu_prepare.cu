// SPDX-License-Identifier: Apache-2.0
// prepare_attention on a GPU: random calls give the bytes of the CPU. `gpu_prepare [CALLS]` exits non-zero where something differs.
#include <algorithm>

#include "cuda/on_device.cuh"
#include "prepare/random_prepare.hpp"

namespace phasor::test {
namespace {

/// Which bytes differ, or nothing.
std::string difference(const OnDevice& device, const Memory8& wanted) {
  std::string text;
  for (std::size_t b = 0; b < wanted.size(); ++b) {
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
    const std::string differs = difference(device, host);
    expect(by_cpu.ok() && by_gpu.ok() && differs.empty(),
           "seed " + std::to_string(seed) + ": the CPU says '" + by_cpu.message() + "', the GPU '" + by_gpu.message() + "'" + differs);
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
