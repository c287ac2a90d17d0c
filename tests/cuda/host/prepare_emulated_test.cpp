// SPDX-License-Identifier: Apache-2.0
// Kernels of prepare_attention whose threads wait for each other, run by the host as contexts that go on in one order and in the other,
// with copies that arrive when they are waited for: the bytes are the CPU's.
#include <gtest/gtest.h>

#include "backend/replaced.hpp"
#include "cuda/host/emulated_prepare.hpp"
#include "cuda/host/prepare_on_host.hpp"
#include "prepare/random_prepare.hpp"

namespace phasor::test {
namespace {

HostPrepare host;
/// Which jobs are emulated, and how many were.
using IsWanted = bool (*)(const job::PrepareJob& job);
IsWanted is_wanted = nullptr;
unsigned emulated_calls = 0;

Status prepare_emulated(job::PrepareJob& job, const Execution& /*execution*/) {
  if (is_wanted(job)) emulated_calls += host.run<Emulated>(job) ? 1 : 0;
  return {};
}
Status prepared(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareOutputs& outputs, const PrepareSpec& spec) {
  return prepare_attention(inputs, rotation, outputs, spec);
}

/// So many calls that are wanted, in both orders of threads.
void expect_bytes_of_the_cpu(unsigned calls, CallsOf kind, IsWanted wanted) {
  is_wanted = wanted;
  unsigned done = 0;
  for (std::uint64_t seed = 1; done < calls && seed < 2000; ++seed) {
    const RandomPrepare call(seed, kind, SizeOf::small);
    emulated_calls = 0;
    Memory8 emulated = call.memory();
    emulated_backwards = done % 2 == 0;
    {
      const ReplacedBackend kernel([](backend::Backend& backend) { backend.prepare = prepare_emulated; });
      ASSERT_TRUE(call.run(emulated, prepared).ok());
    }
    if (emulated_calls == 0) continue;
    ++done;
    Memory8 cpu = call.memory();
    ASSERT_TRUE(call.run(cpu, prepared).ok());
    call.forget_nans(cpu, emulated);
    for (std::size_t b = 0; b < cpu.size(); ++b) ASSERT_TRUE(cpu[b] == emulated[b]) << "seed " << seed << ", buffer " << b;
  }
  EXPECT_EQ(done, calls);
}

/// Vectors of 16 bytes of all heads, of which a thread has one to eight.
std::int64_t vectors_of(const job::PrepareJob& job) {
  std::int64_t channels = 0;
  for (int o = 0; o < job.operand_count; ++o) channels += job.operands[o].heads * job.operands[o].head_dim;
  return job.turn.batch * job.turn.tokens * channels / 8;
}
bool is_small(const job::PrepareJob& job) { return vectors_of(job) < 8000; }
/// Values by channels behind others that walk further than both places for rows.
bool is_short_walk(const job::PrepareJob& job) {
  if (!cuda::is_for_squads(job) || !cuda::has_columns(job) || job.turn.tokens <= 3 * cuda::kMostTogether) return false;
  job::PrepareJob others = job;
  --others.operand_count;
  cuda::SquadWork work = cuda::squad_work(others);
  return cuda::is_plain(work) && cuda::plain_call(work, false).each == 2;
}

void expect_all_wait(unsigned calls) {
  host = {};
  expect_bytes_of_the_cpu(calls, CallsOf::models, is_small);
  expect_bytes_of_the_cpu(calls, CallsOf::plain, is_small);
  host.as_few = false;
  expect_bytes_of_the_cpu(calls, CallsOf::plain, is_small);
  expect_bytes_of_the_cpu(calls, CallsOf::columns, is_small);
  host.walkers = 1;
  expect_bytes_of_the_cpu((calls + 1) / 2, CallsOf::columns, is_short_walk);
  expect_bytes_of_the_cpu(2 * calls, CallsOf::latent, is_small);
  expect_bytes_of_the_cpu(3 * calls, CallsOf::plain_latent, is_small);
}
TEST(EmulatedPrepare, threads_wait_for_what_others_write) {
  walking_calls = column_cells = columns_alone = 0;
  latent_cuts = plain_latent_cuts = {};
  expect_all_wait(4);
  EXPECT_GE(walking_calls, 2U);
  EXPECT_GE(column_cells, 3U);
  EXPECT_GE(columns_alone, 3U);
  for (const unsigned cut : latent_cuts) EXPECT_GE(cut, 2U);
  for (const unsigned cut : plain_latent_cuts) EXPECT_GE(cut, 2U);
}
TEST(EmulatedPrepare, threads_of_many_calls_wait_for_what_others_write) { expect_all_wait(40); }

}  // namespace
}  // namespace phasor::test
