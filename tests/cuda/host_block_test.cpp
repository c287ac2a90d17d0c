// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels compute, run by the host, is what the CPU's kernels compute, bit for bit: random calls of every rotary function.
#include <gtest/gtest.h>

#include <cstring>
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

/// Shapes of models, whose kernels know more before they run: positions in memory (int64, int32) or counted, with an amplitude or without.
void expect_plain_calls(DType dtype, Pairing pairing, std::int64_t width) {
  RotarySpec spec = {.head_dim = width, .pairing = pairing};
  if (width == 64) spec.scaling = YarnScaling{.factor = 4, .original_length = 4096};
  const Rotary rotary = *Rotary::make(spec);
  const std::vector<std::int64_t> wide = {0, 3, std::int64_t{1} << 41, -9, 131071};
  const std::vector<std::int32_t> narrow = {7, 0, -5, 1 << 30, 2};
  const Positions where[] = {positions(wide.data(), 1, 1, 5), positions(narrow.data(), 1, 1, 5), positions_from(123456789)};
  const Extents shape = {1, 5, 7, width};
  std::vector<std::byte> in(static_cast<std::size_t>(5 * 7 * width * bytes_of(dtype)));
  for (std::size_t i = 0; i + 2 <= in.size(); i += 2) {
    const auto bits = static_cast<std::uint16_t>(0x3c00U | (i * 2654435761U >> 13 & 0x83ffU));
    std::memcpy(in.data() + i, &bits, 2);
  }
  for (const Positions& at : where) {
    for (std::size_t kind = 0; kind < std::size(cuda::kTeamKinds); ++kind) {
      std::vector<std::byte> cpu = in;
      std::vector<std::byte> cuda = in;
      const auto apply = [&](std::vector<std::byte>& x) {
        return rotary.apply(TensorView{x.data(), dtype, shape, contiguous_strides(shape)}, at);
      };
      ASSERT_TRUE(apply(cpu).ok());
      const CudaKernels kernels;
      ASSERT_TRUE(apply(cuda).ok());
      ASSERT_EQ(cuda, cpu) << "width " << width << ", kind " << kind;
    }
  }
}

TEST(CudaOnHost, calls_of_models_are_plain_and_give_the_bits_of_the_cpu) {
  team_calls = 0;
  plain_calls = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t width : {64, 128, 256}) expect_plain_calls(dtype, pairing, width);
    }
  }
  EXPECT_EQ(team_calls, 4U * 2 * 3 * 3 * 4);
  EXPECT_GE(plain_calls, 4U * 2 * 2 * 3 * 4);  // slices of 64 pairs are not whole with 32
}

TEST(CudaOnHost, random_calls_give_the_bits_of_the_cpu) { expect_bits_of_the_cpu(1, 300, 10); }

TEST(CudaOnHost, thousands_of_random_calls_give_the_bits_of_the_cpu) {
  team_calls = 0;
  expect_bits_of_the_cpu(300, 4000, 100);
  EXPECT_GE(team_calls, 400U);  // of each kind of team a hundred
}

}  // namespace
}  // namespace phasor::test
