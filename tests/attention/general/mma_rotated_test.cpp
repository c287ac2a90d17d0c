// SPDX-License-Identifier: Apache-2.0
// Queries, and keys, that the call rotates, by mma.sync: blocks of the forward and of the backward run by the host, against the double
// reference, and beside rotating before the call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "attention/general/gathered.hpp"
#include "attention/general/hidden_keys.hpp"
#include "attention/general/mma_machine.hpp"
#include "attention/support/caches.hpp"
#include "attention/support/rotated_problems.hpp"
#include "cuda/attention/mma/call.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

using cuda::attention::mma::ScoresIn;

/// How many forwards and backward passes were the emulated kernels', how many forwards had their keys in parts, and where scores were.
int taken = 0;
int taken_back = 0;
int in_parts = 0;
std::set<ScoresIn> scores_were;

struct MmaMachine : AttentionMachine {
  static int compute_major() { return cuda::attention::mma::kComputeMajor; }
  Status forward(const cuda::attention::Layout& layout) const {
    if (!layout.by_mma) return AttentionMachine::forward(layout);
    ++taken;
    in_parts += layout.work.partial.splits > 1 ? 1 : 0;
    scores_were.insert(cuda::attention::mma::cut_of(layout.work).scores);
    run_mma_forward(layout.work);
    return {};
  }
  Status backward(const cuda::attention::BackwardLayout& layout) const {
    if (!layout.by_mma_backward) return AttentionMachine::backward(layout);
    ++taken_back;
    run_mma_backward(layout.work);
    return {};
  }
};

/// While it lives, calls are laid out for tensor cores.
class MmaRotated : public testing::Test {
 protected:
  MmaRotated() {
    weights_are_rounded = true;
    taken = taken_back = in_parts = 0;
    scores_were.clear();
  }
  ~MmaRotated() override { weights_are_rounded = false; }

  static void expect_all(const std::vector<NarrowProblem>& problems, DType dtype) {
    for (const NarrowProblem& one : problems) {
      const int before = taken;
      expect_forward(one.problem, dtype, one.name);
      EXPECT_EQ(taken, before + 1) << one.name << " is not taken";
    }
  }
  /// At given positions that something goes by the backward is the general one.
  static void expect_gradients_of_all(const std::vector<NarrowProblem>& problems, DType dtype) {
    for (const NarrowProblem& one : problems) {
      const int before = taken_back;
      expect_as_reference(one.problem, dtype, one.name);
      const bool placed = one.name.find("causal positions") != std::string::npos;
      EXPECT_EQ(taken_back, before + (placed ? 0 : 1)) << one.name;
    }
  }
  NarrowParameters narrow_;
  std::optional<ReplacedBackend> backend_ = std::optional<ReplacedBackend>(std::in_place, [](backend::Backend& backend) {
    forward_by<MmaMachine>(backend);
    backward_by<MmaMachine>(backend);
    cached_by<MmaMachine>(backend);
  });
};

TEST_F(MmaRotated, is_the_reference) {
  expect_all(rotated_problems(kNarrow), DType::bf16);
  EXPECT_EQ(scores_were.size(), 3);  // in registers, changed there, in shared memory
}
TEST_F(MmaRotated, is_the_reference_in_f16) { expect_all(rotated_problems(kNarrow), DType::f16); }
TEST_F(MmaRotated, of_wide_heads_is_the_reference) { expect_all(rotated_problems(kNarrowWide), DType::bf16); }
TEST_F(MmaRotated, has_any_length) {
  expect_all(rotated_lengths(), DType::bf16);
  EXPECT_GT(in_parts, 0);
  expect_all(rotated_lengths(), DType::f16);
}
TEST_F(MmaRotated, is_the_reference_beside_tables) {
  for (const DType dtype : {DType::bf16, DType::f16}) expect_gradients_of_all(rotated_beside_tables(kNarrow), dtype);
  EXPECT_TRUE(scores_were.contains(ScoresIn::tabled));
}

/// One of `of` problems: emulated instructions take their time.
std::vector<NarrowProblem> some_of(const std::vector<NarrowProblem>& all, std::size_t of) {
  std::vector<NarrowProblem> some;
  for (std::size_t n = 0; n < all.size(); n += of) some.push_back(all[n]);
  return some;
}
TEST_F(MmaRotated, has_the_gradients_of_the_reference) { expect_gradients_of_all(some_of(rotated_problems(kNarrow), 2), DType::bf16); }
TEST_F(MmaRotated, of_wide_heads_has_the_gradients_of_the_reference) {
  expect_gradients_of_all(some_of(rotated_problems(kNarrowWide), 3), DType::f16);
}
TEST_F(MmaRotated, has_the_gradients_of_any_length) { expect_gradients_of_all(some_of(rotated_lengths(), 2), DType::bf16); }

/// Queries and keys of the call turned in their memory.
void rotate_before(Bridge& bridge, const Rotary& rotary) {
  const auto in_place = [](const ConstTensorView& v) { return TensorView{const_cast<void*>(v.data), v.dtype, v.shape, v.strides}; };
  const std::int64_t first = bridge.inputs.k.shape[1] - bridge.inputs.q.shape[1];
  EXPECT_TRUE(rotary.apply(in_place(bridge.inputs.q), positions_from(first)).ok());
  EXPECT_TRUE(rotary.apply(in_place(bridge.inputs.k), positions_from(0)).ok());
}

/// The same kernels get the same numbers. As many queries as keys: both sides are rotated by one job.
TEST_F(MmaRotated, is_what_rotating_before_gives_to_the_bit) {
  const Rotary rotary = *Rotary::make({.head_dim = kNarrow.width});
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const std::int64_t queries : {kNarrow.queries, kNarrow.keys}) {
      ref::Shape s = kNarrow;
      s.queries = queries;
      ref::Problem p = random_problem(s, 5);
      p.visibility.causal = true;
      Bridge inside(p, dtype);
      Bridge before(p, dtype);
      Bridge plain(p, dtype);
      inside.spec.content = RotaryContent{rotary};
      rotate_before(before, rotary);
      const int already = taken;
      for (Bridge* const one : {&inside, &before, &plain}) ASSERT_TRUE(one->forward().ok());
      EXPECT_EQ(taken, already + 3);
      EXPECT_EQ(inside.output().out, before.output().out);
      EXPECT_EQ(inside.output().lse, before.output().lse);
      EXPECT_NE(inside.output().out, plain.output().out);
    }
  }
}

/// A turn takes numbers beyond float16's greatest to infinity, wherever it is made.
TEST_F(MmaRotated, has_infinities_where_rotating_before_has_them) {
  const Rotary rotary = *Rotary::make({.head_dim = kNarrow.width});
  ref::Problem p = random_problem(kNarrow, 5);
  for (double& x : p.q) x = x < 0 ? -65504 : 65504;
  for (double& x : p.k) x *= 0x1p-13;
  Bridge inside(p, DType::f16);
  Bridge before(p, DType::f16);
  inside.spec.content = RotaryContent{rotary};
  rotate_before(before, rotary);
  const int already = taken;
  ASSERT_TRUE(inside.forward().ok() && before.forward().ok());
  EXPECT_EQ(taken, already + 2);
  EXPECT_EQ(bytes_of_view(inside.outputs.out), bytes_of_view(before.outputs.out));
  const ref::Values out = inside.output().out;
  EXPECT_TRUE(std::any_of(out.begin(), out.end(), [](double x) { return std::isnan(x); }));
}

/// Keys and values of padding, which may be anything.
TEST_F(MmaRotated, what_nobody_sees_takes_no_part) {
  for (const NarrowProblem& one : rotated_problems(kNarrow)) {
    if (one.name.find("padding") == std::string::npos && one.name.find("causal positions") == std::string::npos) continue;
    ref::Problem p = one.problem;
    hide_keys_of_nan(p, 40);
    const int before = taken;
    for (const DType dtype : {DType::bf16, DType::f16}) expect_finite_gradients(p, dtype);
    EXPECT_EQ(taken, before + 2);
  }
}

/// A sequence has the same bits in a batch of one.
TEST_F(MmaRotated, does_not_depend_on_others) {
  for (const ref::Shape& shape : {kNarrow, kNarrowWide}) {
    ref::Shape s = shape;
    s.batch = 2;
    const ref::Problem both = rotated_problems(s).front().problem;
    const auto out = [&](std::int64_t batch) {
      ref::Problem some = both;
      some.shape.batch = batch;
      for (ref::Values* const x : {&some.q, &some.k, &some.v}) {
        x->resize(x->size() / static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(batch));
      }
      Bridge bridge(some, DType::bf16);
      EXPECT_TRUE(bridge.forward().ok());
      return bridge.output();
    };
    const ref::Output all = out(2);
    const ref::Output first = out(1);
    EXPECT_TRUE(std::equal(first.out.begin(), first.out.end(), all.out.begin()));
    EXPECT_TRUE(std::equal(first.lse.begin(), first.lse.end(), all.lse.begin()));
  }
}

std::vector<std::uint16_t> narrow_numbers(std::int64_t count, std::uint64_t seed) {
  Numbers random(seed);
  std::vector<std::uint16_t> list(static_cast<std::size_t>(count));
  for (std::uint16_t& x : list) x = math::bf16_of(random.uniform());
  return list;
}

/// What cached attention gives for three sequences of a cache in pages, queries and outputs in bfloat16.
struct Cached {
  std::vector<std::uint16_t> q = narrow_numbers(3 * 4 * 4 * 64, 1);
  std::vector<std::uint16_t> k = narrow_numbers(8 * 16 * 2 * 64, 2);
  std::vector<std::uint16_t> v = narrow_numbers(8 * 16 * 2 * 64, 3);
  std::vector<std::int32_t> table = {3, 1, 7, 0, 2, 5};
  std::vector<std::int32_t> lengths = {19, 4, 32};

  static TensorView seen(std::vector<std::uint16_t>& list) {
    const Extents shape = {3, 4, 4, 64};
    return {list.data(), DType::bf16, shape, contiguous_strides(shape)};
  }
  ref::Values run(Storage storage, const AttentionSpec& spec) {
    CachedInputs inputs;
    inputs.q = seen(q);
    inputs.k = contiguous_cache(k.data(), storage, {8, 16, 2, 64});
    inputs.v = contiguous_cache(v.data(), storage, {8, 16, 2, 64});
    inputs.pages = {table, lengths, 16};
    std::vector<std::uint16_t> out(q.size());
    const Result<std::int64_t> needed = cached_attention_workspace(inputs, spec);
    EXPECT_TRUE(needed.ok()) << needed.status().message();
    std::vector<std::byte> workspace(needed.ok() ? static_cast<std::size_t>(*needed) : 0);
    EXPECT_TRUE(cached_attention(inputs, spec, {seen(out)}, workspace).ok());
    ref::Values numbers;
    for (const std::uint16_t x : out) numbers.push_back(job::load_element(&x, DType::bf16, 0));
    return numbers;
  }
};

/// Unrotated keys of a cache are gathered one sequence behind another, so queries and keys stand where tokens do. Against the CPU: each
/// side rounds its outputs and this one its weights, by 2^-8 of numbers up to 1.
TEST_F(MmaRotated, takes_gathered_keys_of_a_cache) {
  const AttentionSpec spec = {.content = RotaryContent{*Rotary::make({.head_dim = 64})}, .visibility = {.mask = Mask::causal}};
  Cached call;
  const ref::Values is = call.run(Storage::bf16, spec);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(scores_were, std::set<ScoresIn>{ScoresIn::registers});
  backend_.reset();  // by the CPU
  const ref::Values wanted = call.run(Storage::bf16, spec);
  for (std::size_t n = 0; n < is.size(); ++n) ASSERT_NEAR(is[n], wanted[n], 3.5 * 0x1p-8) << n;
}

/// Keys of 8 bits are gathered in float32, beside queries of 16 bits: not for these kernels. Both sides round their outputs alone.
TEST_F(MmaRotated, leaves_gathered_keys_of_8_bits_to_the_general_kernels) {
  Cached call;
  for (std::vector<std::uint16_t>* const list : {&call.k, &call.v}) {
    for (std::uint16_t& x : *list) x = static_cast<std::uint16_t>((x & 0x8080U) | 0x3025U);  // 1/2 and 13/64 in e4m3, of either sign
  }
  const AttentionSpec spec = {.visibility = {.mask = Mask::causal}};
  const ref::Values is = call.run(Storage::f8_e4m3, spec);
  EXPECT_TRUE(scores_were.empty());
  backend_.reset();  // by the CPU
  const ref::Values wanted = call.run(Storage::f8_e4m3, spec);
  for (std::size_t n = 0; n < is.size(); ++n) ASSERT_NEAR(is[n], wanted[n], 0x1p-8) << n;
}

}  // namespace
}  // namespace phasor::test
