// SPDX-License-Identifier: Apache-2.0
// prepare_attention on a GPU beside a kernel that copies as many bytes, and beside its steps as calls of their own: microseconds of a
// graph's replay. `prepare_bench [JSON [NAME [TOKENS]]]` prints a table and writes JSON, of the cases with NAME in theirs and of all sizes,
// or of one (a profiler's first kernel is then the call's). A result is checked before it is timed: against the CPU up to 1024 tokens,
// against the steps on the GPU at every size.
#include <algorithm>

#include "prepare_case.hpp"
#include "timing.cuh"

namespace phasor::bench {
namespace {

constexpr std::int64_t kTokens[] = {1, 64, 1024, 16384};
constexpr std::int64_t kCheckedByCpu = 1024;

__global__ void count_differences(const std::byte* a, const std::byte* b, std::size_t bytes, unsigned long long* differences) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += step) mine += a[i] != b[i] ? 1 : 0;
  if (mine != 0) atomicAdd(differences, mine);
}

bool same_on_device(const OnDevice& device, Buffer a, Buffer b, std::size_t bytes) {
  const OnDevice counter(HostBuffers{std::vector<std::byte>(sizeof(unsigned long long))});
  count_differences<<<1024, 256>>>(static_cast<const std::byte*>(device.memory[a]), static_cast<const std::byte*>(device.memory[b]), bytes,
                                   static_cast<unsigned long long*>(counter.memory[0]));
  must(cudaGetLastError(), "comparison");
  const std::vector<std::byte> count = counter.read(0, sizeof(unsigned long long));
  return std::all_of(count.begin(), count.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// What is wrong with the results on the device, or nothing.
std::string difference(const PrepareCall& call, HostBuffers& host, const OnDevice& device, bool by_cpu) {
  if (!same_on_device(device, kQuery, kStepsQuery, host[kQuery].size())) return "q differs from that of the steps";
  if (!same_on_device(device, kCache, kStepsCache, host[kCache].size())) return "the cache differs from that of the steps";
  if (!same_on_device(device, kScales, kStepsScales, host[kScales].size())) return "scales differ from those of the steps";
  if (!by_cpu) return "";
  const Pointers memory = pointers_of(host);
  must(call.fused({memory}));
  if (device.read(kQuery, host[kQuery].size()) != host[kQuery]) return "q has other bits than the CPU's";
  if (device.read(kCache, host[kCache].size()) != host[kCache]) return "the cache has other bits than the CPU's";
  if (device.read(kScales, host[kScales].size()) != host[kScales]) return "scales have other bits than the CPU's";
  return "";
}

/// only_tokens: 0 for all sizes.
int run(const char* json, const std::string& wanted, std::int64_t only_tokens) {
  const cudaStream_t stream = make_stream();
  const std::vector<PrepareCase> cases = prepare_cases();
  Moved most;
  for (const PrepareCase& c : cases) {
    const Moved moved = PrepareCall(c, *std::max_element(std::begin(kTokens), std::end(kTokens))).moved();
    most = {std::max(most.read, moved.read), std::max(most.written, moved.written)};
  }
  const Ceiling ceiling(most);
  Table table("prepare_attention, bf16", true);
  for (const PrepareCase& c : cases) {
    if (c.name().find(wanted) == std::string::npos) continue;
    for (const std::int64_t tokens : kTokens) {
      if (only_tokens != 0 && tokens != only_tokens) continue;
      const PrepareCall call(c, tokens);
      HostBuffers host = call.buffers();
      const OnDevice device(host);
      const On on = {device.memory, kGpu, {.stream = stream}};
      must(call.fused(on));
      must(call.in_steps(on));
      must(cudaStreamSynchronize(stream), "prepare_attention");
      if (const std::string what = difference(call, host, device, tokens <= kCheckedByCpu); !what.empty()) {
        std::printf("FAIL: %s, %lld tokens: %s\n", c.name().c_str(), static_cast<long long>(tokens), what.c_str());
        return 1;
      }
      const double ours = microseconds(stream, [&] { must(call.fused(on)); });
      const double copy = ceiling.microseconds(stream, call.moved());
      const double steps = microseconds(stream, [&] { must(call.in_steps(on)); });
      table.add({c.name(), tokens, ours, copy, steps});
    }
  }
  return table.write(json);
}

}  // namespace
}  // namespace phasor::bench

int main(int argc, char** argv) {
  return phasor::bench::run(argc > 1 ? argv[1] : nullptr, argc > 2 ? argv[2] : "", argc > 3 ? std::strtoll(argv[3], nullptr, 10) : 0);
}
