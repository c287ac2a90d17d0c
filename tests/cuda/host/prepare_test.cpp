// SPDX-License-Identifier: Apache-2.0
// What CUDA's kernel of prepare_attention computes, run by the host, is what the CPU computes, byte for byte.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "backend/replaced.hpp"
#include "cuda/host/latent.hpp"
#include "cuda/host/plain.hpp"
#include "cuda/host/warps.hpp"
#include "cuda/prepare/prepare.hpp"
#include "prepare/random_prepare.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

using HostThreads = HostBlockOfWarps<job::OneByOne>;

/// Plain calls by kernels of their own, cut as if they had few tokens or many.
bool by_plain_kernels = true;
bool as_few = true;

/// As run_prepare does it.
void common_on_host(const job::PrepareJob& job) {
  if (cuda::has_columns(job)) {
    job::PrepareJob others = job;
    if (--others.operand_count > 0) common_on_host(others);
    return columns_on_host(job);
  }
  const cuda::SquadWork work = cuda::squad_work(job);
  if (by_plain_kernels && cuda::is_plain(work)) {
    plain_on_host(work, as_few);
  } else {
    squads_on_host(job);
  }
}

Status prepare_on_host(job::PrepareJob& job, const Execution& /*execution*/) {
  if (cuda::is_for_squads(job)) {
    common_on_host(job);
    return {};
  }
  if (cuda::is_latent(job)) {
    latent_on_host(job);
    return {};
  }
  const cuda::PrepareWork work = cuda::work_of(job);
  const cuda::PrepareLaunch shape = cuda::launch_shape(work);
  std::vector<float> memory(shape.shared_bytes / sizeof(float), NAN);
  HostThreads block{shape.threads};
  const cuda::PreparingBlock<HostThreads> preparing = {
      {&work, nullptr, {&work.job.specs, work.job.specs.rows, nullptr}}, memory.data(), block};
  for (std::int64_t row = 0; row < job.turn.batch * job.turn.tokens; ++row) preparing.make(row);
  return {};
}

struct CudaPrepare : ReplacedBackend {
  CudaPrepare() : ReplacedBackend([](backend::Backend& backend) { backend.prepare = prepare_on_host; }) {}
};

Status prepared(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec) {
  return prepare_attention(inputs, rotation, outputs, spec);
}

void expect_bytes_of_the_cpu(std::uint64_t first, std::uint64_t end, CallsOf calls = CallsOf::any) {
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const RandomPrepare call(seed, calls);
    Memory8 cpu = call.memory();
    ASSERT_TRUE(call.run(cpu, prepared).ok());
    Memory8 gpu = call.memory();
    const CudaPrepare kernel;
    ASSERT_TRUE(call.run(gpu, prepared).ok());
    for (std::size_t b = 0; b < cpu.size(); ++b) ASSERT_TRUE(cpu[b] == gpu[b]) << "seed " << seed << ", buffer " << b;
  }
}

TEST(CudaPrepareOnHost, random_calls_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(1, 60); }
TEST(CudaPrepareOnHost, hundreds_of_random_calls_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(60, 1000); }

TEST(CudaPrepareOnHost, calls_of_models_are_for_squads_and_give_the_bytes_of_the_cpu) {
  squad_calls = 0;
  squad_rows_again = 0;
  expect_bytes_of_the_cpu(1, 40, CallsOf::models);
  EXPECT_GE(squad_calls, 30U);
  EXPECT_GE(squad_rows_again, 10U);  // at position 0 nothing is proven
}
TEST(CudaPrepareOnHost, hundreds_of_calls_of_models_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(40, 400, CallsOf::models); }

TEST(CudaPrepareOnHost, plain_calls_have_kernels_of_their_own_and_give_the_bytes_of_the_cpu) {
  plain_prepare_calls = walking_calls = 0;
  squad_rows_again = 0;
  for (const bool few : {true, false}) {
    as_few = few;
    expect_bytes_of_the_cpu(1, 40, CallsOf::plain);
  }
  as_few = true;
  EXPECT_GE(plain_prepare_calls, 70U);
  EXPECT_GE(walking_calls, 10U);
  EXPECT_GE(squad_rows_again, 10U);
}
TEST(CudaPrepareOnHost, values_by_channels_have_a_kernel_of_their_own_and_give_the_bytes_of_the_cpu) {
  column_calls = column_cells = columns_alone = 0;
  for (const bool few : {true, false}) {
    as_few = few;
    expect_bytes_of_the_cpu(1, 60, CallsOf::columns);
  }
  as_few = true;
  EXPECT_GE(column_calls, 110U);
  EXPECT_GE(column_cells, 300U);
  EXPECT_GE(columns_alone, 60U);
}
TEST(CudaPrepareOnHost, calls_of_mla_have_kernels_of_their_own_and_give_the_bytes_of_the_cpu) {
  latent_calls = 0;
  squad_rows_again = 0;
  expect_bytes_of_the_cpu(1, 60, CallsOf::latent);
  EXPECT_GE(latent_calls, 50U);
  EXPECT_GE(squad_rows_again, 10U);
}
TEST(CudaPrepareOnHost, hundreds_of_calls_of_mla_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(60, 600, CallsOf::latent); }
TEST(CudaPrepareOnHost, squads_give_plain_calls_the_bytes_of_the_cpu_too) {
  by_plain_kernels = false;
  expect_bytes_of_the_cpu(60, 90, CallsOf::plain);
  by_plain_kernels = true;
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
