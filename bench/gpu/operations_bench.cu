// SPDX-License-Identifier: Apache-2.0
// Everything but rotation and the step before attention on a GPU, beside a kernel that copies as many bytes: microseconds of a graph's
// replay. `operations_bench [JSON [NAME...]]` prints a table and writes JSON, of the cases with a NAME in theirs. Results up to 1024 tokens
// are checked against the CPU before they are timed.
#include <algorithm>

#include "operations_case.hpp"
#include "timing.cuh"

namespace phasor::bench {
namespace {

constexpr std::int64_t kCheckedByCpu = 1024;

/// Whether every buffer has the CPU's bits after one call.
bool holds(OperationCall& call, const OnDevice& device) {
  const Pointers memory = pointers_of(call.buffers);
  must(call.run({memory}));
  for (std::size_t b = 0; b < call.buffers.size(); ++b) {
    if (device.read(b, call.buffers[b].size()) != call.buffers[b]) return false;
  }
  return true;
}

bool is_wanted(const Operation& operation, const std::vector<std::string>& names) {
  const auto is_in = [&](const std::string& name) { return std::string(operation.name).find(name) != std::string::npos; };
  return names.empty() || std::any_of(names.begin(), names.end(), is_in);
}

int run(const char* json, const std::vector<std::string>& names) {
  const cudaStream_t stream = make_stream();
  Table table("other operations", false);
  for (const Operation& operation : operations()) {
    if (!is_wanted(operation, names)) continue;
    for (const std::int64_t tokens : operation.tokens) {
      OperationCall call = operation.make(tokens);
      const OnDevice device(call.buffers);
      const On on = {device.memory, kGpu, {.stream = stream}};
      must(call.run(on));
      must(cudaStreamSynchronize(stream), operation.name);
      if (tokens <= kCheckedByCpu && !holds(call, device)) {
        std::printf("FAIL: %s, %lld tokens: other bits than the CPU's\n", operation.name, static_cast<long long>(tokens));
        return 1;
      }
      const double ours = microseconds(stream, [&] { must(call.run(on)); });
      table.add({operation.name, tokens, ours, Ceiling(call.moved).microseconds(stream, call.moved)});
    }
  }
  return table.write(json);
}

}  // namespace
}  // namespace phasor::bench

int main(int argc, char** argv) { return phasor::bench::run(argc > 1 ? argv[1] : nullptr, {argv + std::min(argc, 2), argv + argc}); }
