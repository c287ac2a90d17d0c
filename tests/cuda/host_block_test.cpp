// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels compute, run by the host, is what the CPU's kernels compute, bit for bit: random calls of every rotary function.
#include <gtest/gtest.h>

#include <map>

#include "backend/backend.hpp"
#include "cuda/host_block.hpp"
#include "cuda/random_calls.hpp"

namespace phasor::test {
namespace {

/// The CPU's backend, with the kernels of CUDA in the place of its rotations, while it lives.
class CudaKernels {
 public:
  CudaKernels() : backend_(**backend::choose({})) {
    backend_.rotate = [](job::RotateJob& job, const Execution& execution) { return rotate_on_host(job, execution); };
    backend_.rerotate = rerotate_on_host;
    backend_.rows = rows_on_host;
    before_ = backend::replace(DeviceKind::cpu, &backend_);
  }
  ~CudaKernels() { backend::replace(DeviceKind::cpu, before_); }
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

 private:
  backend::Backend backend_;
  const backend::Backend* before_;
};

struct Outcome {
  Status status;
  std::vector<std::vector<std::byte>> buffers;
};
Outcome run(const RandomCall& call) {
  Outcome outcome = {{}, call.buffers};
  std::vector<std::byte*> memory;
  for (auto& buffer : outcome.buffers) memory.push_back(buffer.data());
  outcome.status = call.run(memory, {}, {});
  return outcome;
}

/// Of each kind, `least` or more are compared.
void expect_bits_of_the_cpu(std::uint64_t first, std::uint64_t end, int least) {
  std::map<std::string, int> compared;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const auto call = random_call(seed);
    if (!call) continue;
    const Outcome cpu = run(*call);
    Outcome cuda;
    {
      const CudaKernels kernels;
      cuda = run(*call);
    }
    ASSERT_EQ(cuda.status.message(), cpu.status.message()) << "seed " << seed;
    if (!cpu.status.ok()) continue;
    ++compared[call->name];
    for (std::size_t b = 0; b < cpu.buffers.size(); ++b) {
      ASSERT_EQ(first_difference(*call, b, cuda.buffers[b], cpu.buffers[b]), "") << call->name << ", seed " << seed << ", buffer " << b;
    }
  }
  for (const char* const name : {"rotation", "cos_sin", "tables", "rerotate"}) EXPECT_GE(compared[name], least) << name;
}

TEST(CudaOnHost, random_calls_give_the_bits_of_the_cpu) { expect_bits_of_the_cpu(1, 300, 10); }

TEST(CudaOnHost, thousands_of_random_calls_give_the_bits_of_the_cpu) {
  team_calls = 0;
  expect_bits_of_the_cpu(300, 4000, 100);
  EXPECT_GE(team_calls, 400U);  // of each kind of team a hundred
}

}  // namespace
}  // namespace phasor::test
