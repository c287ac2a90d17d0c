// SPDX-License-Identifier: Apache-2.0
// What CUDA's kernel of prepare_attention computes, run by the host, is what the CPU computes, byte for byte.
#include <gtest/gtest.h>

#include <optional>

#include "backend/replaced.hpp"
#include "cuda/host/prepare_on_host.hpp"
#include "prepare/random_prepare.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

HostPrepare host;

Status prepare_on_host(job::PrepareJob& job, const Execution& /*execution*/) {
  if (!host.run<StepByStep>(job)) prepare_any_on_host(job);
  return {};
}

struct CudaPrepare : ReplacedBackend {
  CudaPrepare() : ReplacedBackend([](backend::Backend& backend) { backend.prepare = prepare_on_host; }) {}
};

Status prepared(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec) {
  return prepare_attention(inputs, rotation, outputs, spec);
}

void expect_bytes_of_the_cpu(std::uint64_t first, std::uint64_t end, CallsOf calls = CallsOf::any, SizeOf size = SizeOf::any) {
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const RandomPrepare call(seed, calls, size);
    Memory8 cpu = call.memory();
    ASSERT_TRUE(call.run(cpu, prepared).ok());
    Memory8 gpu = call.memory();
    const CudaPrepare kernel;
    ASSERT_TRUE(call.run(gpu, prepared).ok());
    call.forget_nans(cpu, gpu);
    for (std::size_t b = 0; b < cpu.size(); ++b) ASSERT_TRUE(cpu[b] == gpu[b]) << "seed " << seed << ", buffer " << b;
  }
}

// Every kernel is reached by so many of these calls: draws that change must not leave one out.
TEST(CudaPrepareOnHost, random_calls_give_the_bytes_of_the_cpu) {
  general_calls = 0;
  expect_bytes_of_the_cpu(1, 60);
  EXPECT_GE(general_calls, 45U);
}
TEST(CudaPrepareOnHost, hundreds_of_random_calls_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(60, 1000); }

TEST(CudaPrepareOnHost, calls_of_models_are_for_squads_and_give_the_bytes_of_the_cpu) {
  squad_calls = squad_calls_with_norms = squad_calls_without = 0;
  squad_rows_again = 0;
  expect_bytes_of_the_cpu(1, 40, CallsOf::models);
  EXPECT_GE(squad_calls, 30U);
  EXPECT_GE(squad_calls_with_norms, 20U);
  EXPECT_GE(squad_calls_without, 1U);
  EXPECT_GE(squad_rows_again, 10U);  // at position 0 nothing is proven
}
TEST(CudaPrepareOnHost, hundreds_of_calls_of_models_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(40, 400, CallsOf::models); }

TEST(CudaPrepareOnHost, plain_calls_have_kernels_of_their_own_and_give_the_bytes_of_the_cpu) {
  plain_prepare_calls = walking_calls = 0;
  plain_kernels.clear();
  squad_rows_again = 0;
  for (const bool few : {true, false}) {
    host.as_few = few;
    expect_bytes_of_the_cpu(1, 40, CallsOf::plain);
    expect_bytes_of_the_cpu(1, 150, CallsOf::plain, SizeOf::small);
  }
  host.walkers = 1;
  expect_bytes_of_the_cpu(1, 300, CallsOf::plain, SizeOf::small);
  host = {};
  EXPECT_GE(plain_prepare_calls, 70U);
  EXPECT_GE(walking_calls, 10U);
  EXPECT_EQ(plain_kernels.size(), 24U);  // f16 or bf16, a head a thread or two or a walk, norms or none, codes or none
  EXPECT_GE(squad_rows_again, 10U);
}
TEST(CudaPrepareOnHost, values_by_channels_have_a_kernel_of_their_own_and_give_the_bytes_of_the_cpu) {
  column_calls = column_cells = columns_alone = 0;
  for (const bool few : {true, false}) {
    host.as_few = few;
    expect_bytes_of_the_cpu(1, 60, CallsOf::columns);
  }
  host.as_few = true;
  EXPECT_GE(column_calls, 110U);
  EXPECT_GE(column_cells, 300U);
  EXPECT_GE(columns_alone, 60U);
}
TEST(CudaPrepareOnHost, calls_of_mla_have_kernels_of_their_own_and_give_the_bytes_of_the_cpu) {
  latent_calls = latent_partial_groups = 0;
  latent_cuts = {};
  squad_rows_again = 0;
  expect_bytes_of_the_cpu(1, 60, CallsOf::latent, SizeOf::small);
  EXPECT_GE(latent_calls, 50U);
  for (const unsigned calls : latent_cuts) EXPECT_GE(calls, 15U);
  EXPECT_GE(latent_partial_groups, 5U);
  EXPECT_GE(squad_rows_again, 10U);
}
TEST(CudaPrepareOnHost, plain_calls_of_mla_have_kernels_of_their_own_and_give_the_bytes_of_the_cpu) {
  plain_latent_cuts = {};
  plain_latent_kernels.clear();
  squad_rows_again = 0;
  expect_bytes_of_the_cpu(1, 90, CallsOf::plain_latent, SizeOf::small);
  expect_bytes_of_the_cpu(1, 30, CallsOf::plain_latent);
  for (const unsigned calls : plain_latent_cuts) EXPECT_GE(calls, 30U);
  EXPECT_EQ(plain_latent_kernels.size(), 6U);  // rows of 656 bytes have no f16
  EXPECT_GE(squad_rows_again, 10U);
}
TEST(CudaPrepareOnHost, hundreds_of_plain_calls_of_mla_give_the_bytes_of_the_cpu) {
  expect_bytes_of_the_cpu(30, 300, CallsOf::plain_latent);
}
TEST(CudaPrepareOnHost, hundreds_of_calls_of_mla_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(1, 600, CallsOf::latent); }
TEST(CudaPrepareOnHost, squads_give_plain_calls_the_bytes_of_the_cpu_too) {
  host.by_plain_kernels = false;
  expect_bytes_of_the_cpu(60, 90, CallsOf::plain);
  host.by_plain_kernels = true;
}

/// Directions of heads of their own, per-channel frequencies, a norm over all heads in place.
TEST(CudaPrepareOnHost, rare_rows_give_the_bytes_of_the_cpu) {
  GivenDirections directions{.heads = 3};
  for (int i = 0; i < 2 * 3 * 8; ++i) directions.frequencies.push_back(0.1 + 0.01 * i);
  for (const RotarySpec& spec : {RotarySpec{.head_dim = 16, .scaling = directions},
                                 RotarySpec{.head_dim = 16, .pairing = Pairing::interleaved, .lanes = Lanes::per_channel_frequencies},
                                 RotarySpec{.head_dim = 16, .numerics = Numerics::hf}}) {
    const Rotary rotary = *Rotary::make(spec);
    std::vector<float> memory[2];
    for (int cuda = 0; cuda < 2; ++cuda) {
      Random random(3);
      for (int i = 0; i < 2 * 5 * 3 * 16; ++i) memory[cuda].push_back(random.number());
      const TensorView q = view(memory[cuda].data(), {2, 5, 3, 16});
      PrepareInputs inputs;
      inputs.q = q;
      PrepareSpec norm;
      norm.q_norm.kind = HeadNorm::Kind::rms;
      norm.q_norm.over = HeadNorm::Over::all_heads;
      std::optional<CudaPrepare> kernel;
      if (cuda == 1) kernel.emplace();
      const Status status = prepare_attention(inputs, {{&rotary, 1}, positions_from(77), {}}, {tensor_cache(q), {}, {}, {}}, norm);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    EXPECT_TRUE(same_bits(memory[0], memory[1]));
  }
}

}  // namespace
}  // namespace phasor::test
