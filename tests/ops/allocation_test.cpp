// SPDX-License-Identifier: Apache-2.0
// The hot path does not allocate: global operator new counts, and after a warm-up call the count stands still.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "ops/rotary/rotary_call.hpp"
#include "phasor/prepare.hpp"

namespace {

std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void* counted(std::size_t size, std::align_val_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  const std::size_t to = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(to, (size + to - 1) / to * to)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// The other forms of new and delete end in these.
void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return counted(size, alignment); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return counted(size, alignment); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace phasor::test {
namespace {

using Allocation = EveryTarget;

/// Allocations of the second of two calls.
template <class Body>
std::int64_t allocations_of(Body body) {
  body();
  const std::int64_t before = allocations.load();
  body();
  return allocations.load() - before;
}

TEST(AllocationCounter, sees_an_allocation) {
  EXPECT_GT(allocations_of([] { std::vector<int>(3).swap(*std::make_unique<std::vector<int>>()); }), 0);
}

template <class T>
void check_no_allocation(std::int64_t width, Pairing output) {
  using V = typename Element<T>::Value;
  RotarySpec spec;
  spec.head_dim = width + 1;
  spec.rotary_width = width;
  spec.output_pairing = output;
  const Rotary rotary = make_rotary(spec);
  Tensor<T> q({2, 97, 3, width + 1}, 1);
  Tensor<T> k({2, 97, 1, width + 1}, 2);
  Tensor<V> cos({1, 97, 1, width / 2}, 3);
  Tensor<V> sin({1, 97, 1, width / 2}, 4);
  const std::vector<double> fractions(97, 0.25);
  const TableLayout layout = {.rotary_width = width, .rotary_offset = 0, .pairing = Pairing::half, .output_pairing = output};
  bool ok = true;
  EXPECT_EQ(allocations_of([&] { ok &= rotary.apply(q.view(), k.view(), positions_from(5)).ok(); }), 0) << "phases";
  EXPECT_EQ(allocations_of([&] { ok &= rotary.apply(q.view(), positions(fractions.data(), 97)).ok(); }), 0) << "fractions";
  EXPECT_EQ(allocations_of([&] { ok &= rotary.cos_sin(positions_from(5), cos.view(), sin.view()).ok(); }), 0) << "cos_sin";
  EXPECT_EQ(allocations_of([&] { ok &= apply_rotary(q.view(), k.view(), cos.view(), sin.view(), layout).ok(); }), 0) << "tables";
  const RotatedAt from = {rotary, positions_from(5)};
  const RotatedAt to = {make_rotary({.head_dim = width + 1, .rotary_width = width, .base = 500, .output_pairing = output}), from.positions};
  const std::vector<std::int64_t> slots = {3, 90, 100};
  EXPECT_EQ(allocations_of([&] { ok &= rerotate(q.view(), from, to).ok(); }), 0) << "rerotate";
  EXPECT_EQ(allocations_of([&] { ok &= rerotate(q.view(), slots, from, to).ok(); }), 0) << "rising slots";
  EXPECT_TRUE(ok);
}

TEST_F(Allocation, after_a_first_call_neither_apply_nor_cos_sin_nor_apply_rotary_nor_rerotate_allocates) {
  on_every_target([] {
    for (const Pairing output : {Pairing::half, Pairing::interleaved}) {
      for_each_dtype([&](auto tag) { check_no_allocation<typename decltype(tag)::type>(130, output); });
    }
  });
}

TEST(GradientAllocation, gradients_by_phase_and_by_position_do_not_allocate) {
  const Rotary rotary = make_rotary({.head_dim = 14});
  Tensor<float> y({2, 97, 3, 14}, 1);
  Tensor<float> g({2, 97, 3, 14}, 2);
  Tensor<double> phase({2, 97, 1, 7}, 3);
  std::vector<double> out(97);
  bool ok = true;
  EXPECT_EQ(allocations_of([&] { ok &= phase_gradient(phase.view(), y.view(), g.view()).ok(); }), 0);
  EXPECT_EQ(allocations_of([&] { ok &= rotary.position_gradient(positions(out.data(), 97), phase.view()).ok(); }), 0);
  EXPECT_TRUE(ok);
}

TEST(GradientAllocation, gradients_of_the_step_before_attention_do_not_allocate) {
  const Rotary rotary = make_rotary({.head_dim = 14});
  Tensor<float> q({2, 97, 3, 14}, 1);
  Tensor<float> g({2, 97, 3, 14}, 2);
  std::vector<float> weight(14, 1);
  std::vector<float> by_weight(14);
  std::vector<double> workspace(2 * 97 + 4 * 3 * 14);
  const PrepareInputs inputs = {q.view(), {}, {}, {}};
  const PrepareRotation rotation = {{&rotary, 1}, positions_from(5), {}};
  PrepareGradients gradients;
  gradients.q = {g.view(), g.view(), view(by_weight.data(), {1, 1, 1, 14})};
  gradients.workspace = view(workspace.data(), {1, 1, 1, static_cast<std::int64_t>(workspace.size())});
  PrepareSpec spec;
  spec.q_norm = {.kind = HeadNorm::Kind::rms, .over = HeadNorm::Over::all_heads, .weight = view(weight.data(), {1, 1, 1, 14})};
  bool ok = true;
  EXPECT_EQ(allocations_of([&] { ok &= prepare_attention_backward(inputs, rotation, gradients, spec).ok(); }), 0);
  EXPECT_TRUE(ok);
}

TEST_F(Allocation, copies_of_a_rotary_share_its_plan) {
  const Rotary rotary = make_rotary({.head_dim = 64});
  EXPECT_EQ(allocations_of([&] { const Rotary copy = rotary; }), 0);
}

}  // namespace
}  // namespace phasor::test
