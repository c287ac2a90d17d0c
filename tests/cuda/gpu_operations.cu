// SPDX-License-Identifier: Apache-2.0
// Everything but rotation and attention on a GPU: random calls give the bits of the CPU; lists that do not fit into a kernel's parameter
// are copied to the device once, even while a graph is captured. `gpu_operations [CALLS [FIRST]]` prints a table and exits non-zero where
// something differs.
#include <cstring>
#include <map>

#include "cuda/long_sums.hpp"
#include "cuda/on_device.cuh"
#include "cuda/random_operations.hpp"

namespace phasor::test {
namespace {

void random_operations(const Seeds& seeds) {
  const std::map<std::string, int> compared = compare_random_calls(seeds, random_operation);
  for (const char* const name : kOperations) expect(seeds.calls < 1000 || compared.contains(name), std::string("no call of ") + name);
}

template <class T>
std::vector<std::byte> bytes_of_list(const std::vector<T>& list) {
  std::vector<std::byte> bytes(list.size() * sizeof(T));
  std::memcpy(bytes.data(), list.data(), bytes.size());
  return bytes;
}

/// Directions of 32 heads on 3 axes are 6144 steps, 192 KiB: the first call of the rotation is the one that is captured.
void wide_rotation_in_a_graph() {
  constexpr std::int64_t kHeads = 32;
  constexpr std::int64_t kPairs = 64;
  std::vector<double> frequencies(3 * kHeads * kPairs);
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = static_cast<double>(i % 101) / 50 - 1;
  const Result<Rotary> rotary =
      Rotary::make({.head_dim = 2 * kPairs, .scaling = GivenDirections{.axes = 3, .heads = kHeads, .frequencies = frequencies}});
  if (!rotary) return expect(false, "directions: " + rotary.status().message());
  std::vector<float> q(kHeads * 2 * kPairs);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 17) - 8;
  const OnDevice device({bytes_of_list(q), bytes_of_list(q), std::vector<std::byte>(24)});
  const Extents shape = {1, 1, kHeads, 2 * kPairs};
  const ConstTensorView in = {device.memory[0], DType::f32, shape, contiguous_strides(shape), kGpu};
  const TensorView out = {device.memory[1], DType::f32, shape, contiguous_strides(shape), kGpu};
  Positions at = positions(reinterpret_cast<const std::int64_t*>(device.memory[2]), 3, 1, 1);
  at.device = kGpu;
  Captured graph;
  const Status status = rotary->apply(InOut(in, out), at, {.execution = {.stream = graph.stream}});
  graph.end();
  expect(status.ok(), "capture of a wide rotation: " + status.message());
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 40}) {
    const std::int64_t position[3] = {first, 3, -7};
    must(cudaMemcpy(device.memory[2], position, 24, cudaMemcpyHostToDevice), "positions");
    graph.replay();
    std::vector<float> want = q;
    expect(rotary->apply(view(want.data(), shape), positions(position, 3, 1, 1)).ok(), "the CPU");
    const std::string difference = first_difference(device.read(1, q.size() * 4), bytes_of_list(want), DType::f32);
    expect(difference.empty(), "wide rotation at " + std::to_string(first) + ": " + difference);
  }
  std::printf("     3 replays of a graph whose lists were copied while it was captured\n");
}

/// A table of 96 KiB: every call and copy of the Bias takes the same memory, and another Bias takes its own.
void wide_table() {
  std::vector<double> table(12 * 1024);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<double>(i);
  const Result<Bias> bias = Bias::make(DebertaBuckets{.heads = 12, .buckets = 512, .max_distance = 1024, .table = table});
  if (!bias) return expect(false, "wide table: " + bias.status().message());
  std::vector<double> twice(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) twice[i] = 2 * table[i];
  const Bias other = *bias->with_parameters(twice);
  const Extents shape = {1, 12, 1, 601};
  std::vector<float> want(12 * 601);
  for (const Bias& one : {*bias, Bias(*bias), other}) {
    const OnDevice device({bytes_of_list(want)});
    const TensorView out = {device.memory[0], DType::f32, shape, contiguous_strides(shape), kGpu};
    const Status status = one.diagonal(out, -300);
    expect(status.ok(), "wide table: " + status.message());
    must(cudaDeviceSynchronize(), "wide table");
    expect(one.diagonal(view(want.data(), shape), -300).ok(), "the CPU");
    expect(first_difference(device.read(0, want.size() * 4), bytes_of_list(want), DType::f32).empty(), "wide table: other bits");
  }
  std::printf("     3 calls of tables that are copied to the device\n");
}

}  // namespace
}  // namespace phasor::test

int main(int argc, char** argv) {
  using namespace phasor::test;
  const Seeds seeds = seeds_of(argc, argv, 20000);
  random_operations(seeds);
  if (seeds.has_first()) {
    compare_random_calls({60}, long_sum);
    wide_rotation_in_a_graph();
    wide_table();
  }
  std::printf("gpu_operations: %s\n", failures == 0 ? "PASS" : "FAIL");
  return failures == 0 ? 0 : 1;
}
