// SPDX-License-Identifier: Apache-2.0
// What CUDA's kernels of prepare_attention_backward compute, run by the host, is what the CPU computes, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "backend/replaced.hpp"
#include "cuda/host/warps.hpp"
#include "cuda/many_specs.hpp"
#include "cuda/prepare/backward.hpp"
#include "cuda/specs.hpp"
#include "prepare/random_backward.hpp"
#include "tensor.hpp"

namespace phasor::test {
namespace {

using GradientThreads = HostBlockOfWarps<job::BackwardOneByOne>;

template <class Body>
void each_block(const cuda::BackwardAt& work, const cuda::PrepareLaunch& shape, const Body& body) {
  GradientThreads block{shape.threads};
  for (std::int64_t index = shape.blocks - 1; index >= 0; --index) {
    std::vector<double> memory(shape.shared_bytes / sizeof(double) + 1, NAN);
    body(cuda::BackwardBlock<GradientThreads>{work, memory.data(), block}, index);
  }
}

void launch_on_host(const cuda::BackwardAt& work) {
  each_block(work, cuda::of_all_shape(*work.work), [](const auto& block, std::int64_t row) { block.make_of_all(row); });
  each_block(work, cuda::gradient_shape(*work.work), [](const auto& block, std::int64_t index) { block.make(index); });
}

/// How many launches took only some of a call's specs, and how many had their tables elsewhere.
std::size_t parted_launches = 0;
std::size_t launches_with_copies = 0;

/// As src/cuda/prepare/backward_run.cu: specs in the room of a parameter. Tables that do not fit stay where they are: this is their device.
void launch_all_on_host(cuda::BackwardWork& work) {
  if (!work.turns || work.job.step.specs.count == 0) return launch_on_host({&work, nullptr, {&work.job.step.specs, nullptr, nullptr}});
  const job::SpecList all = work.job.step.specs;
  const auto room = std::make_unique<cuda::TableRoom>();
  const auto stays = [](const auto& /*table*/, std::int64_t /*count*/, const plan::DeviceCopies* /*copies*/) {};
  (void)cuda::each_part(*room, all, stays, [&](const job::SpecList& some) {
    parted_launches += some.count < all.count ? 1 : 0;
    launches_with_copies += room->elsewhere ? 1 : 0;
    EXPECT_TRUE(some.count == all.count || cuda::may_take_parts(work));
    work.job.step.specs = some;
    launch_on_host({&work, room->data(), cuda::specs_in(*room, some)});
    return Status();
  });
}

Status backward_on_host(job::PrepareBackwardJob& job, const Execution& /*execution*/) {
  cuda::BackwardWork work = cuda::work_of(job);
  launch_all_on_host(work);
  for (std::int64_t row = 0; job.by_factors != nullptr && row < job.step.turn.batch * job.step.turn.tokens; ++row) {
    job::store_factor(job, row);
  }
  GradientThreads block{cuda::kWeightThreads};
  for (std::int64_t index = job::weight_spans(job) - 1; index >= 0; --index) {
    cuda::WeightRoom room;
    cuda::sum_weights(job, index, room, block);
  }
  return {};
}

struct CudaBackward : ReplacedBackend {
  CudaBackward() : ReplacedBackend([](backend::Backend& backend) { backend.prepare_backward = backward_on_host; }) {}
};

Status library(const PrepareInputs& inputs, const PrepareRotation& rotation, const PrepareGradients& gradients, const PrepareSpec& spec) {
  return prepare_attention_backward(inputs, rotation, gradients, spec);
}

void expect_bytes_of_the_cpu(std::uint64_t first, std::uint64_t end) {
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const RandomBackward call(seed);
    RandomBackward::Memory cpu = call.memory();
    ASSERT_TRUE(call.run(cpu, library).ok());
    RandomBackward::Memory gpu = call.memory();
    const CudaBackward kernels;
    const Status status = call.run(gpu, library);
    ASSERT_TRUE(status.ok()) << status.message();
    for (std::size_t b = 0; b < RandomBackward::kWorkspace; ++b) ASSERT_EQ(gpu[b], cpu[b]) << "seed " << seed << ", buffer " << b;
  }
}

TEST(CudaBackwardOnHost, random_calls_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(1, 30); }
TEST(CudaBackwardOnHost, hundreds_of_random_calls_give_the_bytes_of_the_cpu) { expect_bytes_of_the_cpu(30, 400); }

TEST(CudaBackwardOnHost, lists_of_any_length_give_the_bytes_of_the_cpu) {
  launches_with_copies = parted_launches = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const ManySpecs call(seed);
    ManySpecs::Memory cpu = call.memory();
    ASSERT_TRUE(call.run(cpu.data(), {}, library).ok());
    ManySpecs::Memory gpu = call.memory();
    const CudaBackward kernels;
    const Status status = call.run(gpu.data(), {}, library);
    ASSERT_TRUE(status.ok()) << status.message();
    for (ManySpecs::Memory* const memory : {&cpu, &gpu}) memory->resize(static_cast<std::size_t>(call.compared()));
    ASSERT_TRUE(same_bits(gpu, cpu)) << "seed " << seed;
  }
  EXPECT_GE(launches_with_copies, 8U);
  EXPECT_GE(parted_launches, 8U);
}

TEST(CudaBackwardOnHost, sums_are_added_in_the_order_of_the_cpu) {
  for (const std::int64_t weight_heads : {1, 3}) {
    LargeAndSmall cpu;
    ASSERT_TRUE(cpu.run(weight_heads, library).ok());
    LargeAndSmall gpu;
    const CudaBackward kernels;
    ASSERT_TRUE(gpu.run(weight_heads, library).ok());
    EXPECT_EQ(gpu.by_weight, cpu.by_weight);
    EXPECT_EQ(gpu.workspace, cpu.workspace);
  }
}

/// On a GPU nobody looks at indices: a token whose spec is not in the list is left alone, the others are as they are.
TEST(CudaBackwardOnHost, a_token_of_no_spec_is_left_alone) {
  const std::vector<Rotary> rotaries = {*Rotary::make({.head_dim = 16}), *Rotary::make({.head_dim = 16, .base = 100})};
  const std::vector<std::int64_t> right = {0, 1};
  static const std::vector<std::int64_t> wrong = {0, 7};
  const auto gradients_of = [&] {
    std::vector<float> memory(2 * 3 * 16 * 3, 0.5F);  // x, the gradient, the result: two rows of three tokens each
    for (std::size_t i = 0; i < 2 * 2 * 3 * 16; ++i) memory[i] = static_cast<float>(i % 7) - 3;
    PrepareGradients gradients;
    gradients.q = {view(memory.data() + 96, {2, 3, 1, 16}), view(memory.data() + 192, {2, 3, 1, 16}), {}};
    PrepareSpec spec;
    spec.q_norm.kind = HeadNorm::Kind::rms;
    const PrepareInputs inputs = {view(memory.data(), {2, 3, 1, 16}), {}, {}, {}};
    EXPECT_TRUE(prepare_attention_backward(inputs, {rotaries, positions_from(5), integers(right.data(), 2)}, gradients, spec).ok());
    return memory;
  };
  const std::vector<float> cpu = gradients_of();
  const ReplacedBackend kernels([](backend::Backend& backend) {
    backend.prepare_backward = [](job::PrepareBackwardJob& job, const Execution& execution) {
      job.step.specs.spec_of.data = wrong.data();
      return backward_on_host(job, execution);
    };
  });
  const std::vector<float> gpu = gradients_of();
  EXPECT_TRUE(std::equal(cpu.begin(), cpu.begin() + 240, gpu.begin()));
  EXPECT_NE(cpu[240], 0.5F);
  EXPECT_EQ(std::vector<float>(gpu.begin() + 240, gpu.end()), std::vector<float>(48, 0.5F));
}

/// Rows per head, lanes that differ, a profile that rounds: with norms before and after, over a head and over all of them.
TEST(CudaBackwardOnHost, every_kind_of_row_gives_the_bits_of_the_cpu) {
  GivenDirections directions{.heads = 3};
  for (int i = 0; i < 2 * 3 * 8; ++i) directions.frequencies.push_back(0.1 + 0.01 * i);
  for (const RotarySpec& spec : {RotarySpec{.head_dim = 16, .scaling = directions},
                                 RotarySpec{.head_dim = 16, .pairing = Pairing::interleaved, .lanes = Lanes::per_channel_frequencies},
                                 RotarySpec{.head_dim = 16, .numerics = Numerics::hf}}) {
    for (const auto over : {HeadNorm::Over::all_heads, HeadNorm::Over::head}) {
      for (const auto order : {PrepareSpec::Order::norm_first, PrepareSpec::Order::rotation_first}) {
        if (over == HeadNorm::Over::all_heads && order == PrepareSpec::Order::rotation_first) continue;
        const Rotary rotary = *Rotary::make(spec);
        std::vector<float> results[2];
        for (int cuda = 0; cuda < 2; ++cuda) {
          Random random(3);
          std::vector<float> x(2 * 5 * 3 * 16);
          std::vector<float> gradient(x.size());
          std::vector<float> weight(16);
          for (std::vector<float>* const list : {&x, &gradient, &weight}) {
            for (float& number : *list) number = random.number();
          }
          std::vector<double> workspace(100);
          results[cuda].resize(x.size() + 16);
          const PrepareInputs inputs = {view(x.data(), {2, 5, 3, 16}), {}, {}, {}};
          PrepareGradients gradients;
          gradients.q = {view(gradient.data(), {2, 5, 3, 16}), view(results[cuda].data(), {2, 5, 3, 16}),
                         view(results[cuda].data() + x.size(), {1, 1, 1, 16})};
          gradients.workspace = view(workspace.data(), {1, 1, 1, 100});
          PrepareSpec norm = {.order = order};
          norm.q_norm = {.kind = HeadNorm::Kind::rms, .over = over, .weight = view(weight.data(), {1, 1, 1, 16})};
          std::optional<CudaBackward> kernels;
          if (cuda == 1) kernels.emplace();
          const Status status = prepare_attention_backward(inputs, {{&rotary, 1}, positions_from(77), {}}, gradients, norm);
          ASSERT_TRUE(status.ok()) << status.message();
        }
        EXPECT_TRUE(same_bits(results[0], results[1]));
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
