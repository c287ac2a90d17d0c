// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels compute, run by the host, is what the CPU computes, bit for bit: random calls of everything but rotation and
// attention.
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "backend/replaced.hpp"
#include "cuda/host/operations.hpp"
#include "cuda/long_sums.hpp"
#include "cuda/random_operations.hpp"

namespace phasor::test {
namespace {

struct CudaOperations : ReplacedBackend {
  CudaOperations() : ReplacedBackend(replace_operations) {}

 private:
  static void replace_operations(backend::Backend& backend) {
    backend.add = add_on_host;
    backend.lookup = lookup_on_host;
    backend.scatter = scatter_on_host;
    backend.phase_gradient = phase_gradient_on_host;
    backend.frequency_gradient = frequency_gradient_on_host;
    backend.position_gradient = position_gradient_on_host;
    backend.bias_diagonal = diagonal_on_host;
    backend.bias_gradient = bias_gradient_on_host;
    backend.bias_fill = block_on_host;
    backend.build_positions = build_on_host;
    backend.temperature = temperature_on_host;
  }
};

Status run_on(const RandomCall& call, std::vector<std::vector<std::byte>>& buffers) {
  std::vector<std::byte*> memory;
  for (auto& buffer : buffers) memory.push_back(buffer.data());
  return call.run(memory, {}, {});
}

/// More tokens than a block takes at a time.
TEST(CudaOperationsOnHost, sums_over_many_tokens_have_the_bits_of_the_cpu) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const RandomCall call = *long_sum(seed);
    auto by_cpu = call.buffers;
    auto by_cuda = call.buffers;
    ASSERT_EQ(run_on(call, by_cpu).message(), "") << call.name << ", seed " << seed;
    const CudaOperations operations;
    ASSERT_EQ(run_on(call, by_cuda).message(), "") << call.name << ", seed " << seed;
    for (std::size_t b = 0; b < by_cpu.size(); ++b) {
      EXPECT_EQ(first_difference(call, b, by_cuda[b], by_cpu[b]), "") << call.name << ", seed " << seed << ", buffer " << b;
    }
  }
}

/// A graph has tokens that are of no sequence: queries there stay what they are.
TEST(CudaOperationsOnHost, a_position_without_a_temperature_has_factor_1) {
  const QueryTemperature log_n = {.length = 4};
  const QueryTemperature shifted = {.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 4, .shift = 1};
  const std::vector<std::int64_t> whole = {100, -1, -2, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  const std::vector<double> fractions = {100.5, -1, std::numeric_limits<double>::quiet_NaN(), 1e300, -0x1p63};
  const CudaOperations operations;
  for (const QueryTemperature& t : {log_n, shifted}) {
    for (const Positions& at : {Positions(positions(whole.data(), 5)), Positions(positions(fractions.data(), 5))}) {
      const bool far_is_there = at.type == PositionType::i64 && t.shift == 0;  // shifted, int64 does not hold it
      std::vector<float> factors(5, -7);
      ASSERT_TRUE(fill_temperature(view(factors.data(), {1, 5, 1, 1}), t, at).ok());
      EXPECT_GT(factors[0], 1);
      for (const std::size_t i : {1, 2, 4}) EXPECT_EQ(factors[i], 1) << i;
      EXPECT_EQ(factors[3] > 1, far_is_there);
      EXPECT_GE(factors[3], 1);
    }
  }
}

/// Of each kind, `least` or more are compared.
void expect_bits_of_the_cpu(std::uint64_t first, std::uint64_t end, int least) {
  std::map<std::string, int> compared;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const auto call = random_operation(seed);
    if (!call) continue;
    auto by_cpu = call->buffers;
    auto by_cuda = call->buffers;
    const Status cpu = run_on(*call, by_cpu);
    Status cuda;
    {
      const CudaOperations operations;
      cuda = run_on(*call, by_cuda);
    }
    ASSERT_EQ(cuda.message(), cpu.message()) << call->name << ", seed " << seed;
    if (!cpu.ok()) continue;
    ++compared[call->name];
    for (std::size_t b = 0; b < by_cpu.size(); ++b) {
      ASSERT_EQ(first_difference(*call, b, by_cuda[b], by_cpu[b]), "") << call->name << ", seed " << seed << ", buffer " << b;
    }
  }
  for (const char* const name : kOperations) EXPECT_GE(compared[name], least) << name;
}

TEST(CudaOperationsOnHost, random_calls_give_the_bits_of_the_cpu) { expect_bits_of_the_cpu(1, 300, 3); }

TEST(CudaOperationsOnHost, thousands_of_random_calls_give_the_bits_of_the_cpu) {
  for (std::size_t& calls : quick_calls) calls = 0;
  quick_pairs_made = quick_pairs_settled = 0;
  add_walk_calls = lookup_vector_calls = scatter_vector_calls = phase_vector_calls = tile_calls = tile_vector_calls = 0;
  expect_bits_of_the_cpu(300, 2300, 30);
  EXPECT_GE(add_walk_calls, 20U);
  for (const std::size_t calls : quick_calls) EXPECT_GE(calls, 10U);
  EXPECT_GE(quick_pairs_settled, 100U);  // both ways were taken
  EXPECT_LT(quick_pairs_settled, quick_pairs_made / 2);
  EXPECT_GE(lookup_vector_calls, 20U);
  EXPECT_GE(scatter_vector_calls, 20U);
  EXPECT_GE(phase_vector_calls, 20U);
  EXPECT_GE(tile_calls, 50U);
  EXPECT_GE(tile_vector_calls, 10U);
}

}  // namespace
}  // namespace phasor::test
