// SPDX-License-Identifier: Apache-2.0
// Which backward passes of attention go to the kernels of mma.sync, what is said of those that do not, and how they are cut.
#include <gtest/gtest.h>

#include <string>

#include "cuda/attention/backward/layout.hpp"
#include "cuda/attention/mma/backward/call.hpp"
#include "job/attention/make_job.hpp"

namespace phasor::test {
namespace {

using cuda::attention::BackwardLayout;

alignas(64) std::byte memory_of_device[256];
constexpr Device kGpu = {DeviceKind::cuda, 0};

TensorView on_gpu(const Extents& shape, DType dtype = DType::bf16) {
  return {memory_of_device, dtype, shape, contiguous_strides(shape), kGpu};
}

/// A call, as a test changes it before it is laid out.
struct Call {
  std::int64_t width = 64;
  int compute_major = 8;
  DType dtype = DType::bf16;
  bool wants_terms = true;
  AttentionSpec spec = {};
  TensorView out_gradient = {};  // without data: as it should be
};
struct LaidOut {
  BackwardLayout layout;
  std::string why_not;
};
/// Everything of the term at hand that a call may want.
void ask_for_term(job::AttentionTermJob& term) {
  if (term.kind == job::TermKind::table) {
    term.gradient.table = on_gpu(term.table.table.shape, DType::f32);
    if (term.table.features.data != nullptr) term.gradient.features = on_gpu(term.table.features.shape, DType::f32);
    if (term.table.shift.data != nullptr) term.gradient.shift = on_gpu(term.table.shift.shape, DType::f32);
  }
  if (term.kind == job::TermKind::cope) term.gradient.table = on_gpu(term.cope.table.shape, DType::f32);
  if (term.kind == job::TermKind::dense) term.gradient.table = on_gpu(term.dense.bias.shape, DType::f32);
}
LaidOut laid_out(const Call& of) {
  const Extents q = {2, 300, 8, of.width};
  const Extents k = {2, 700, 4, of.width};
  const AttentionInputs inputs = {on_gpu(q, of.dtype), on_gpu(k, of.dtype), on_gpu(k, of.dtype)};
  const job::AttentionCall call = {&inputs, &of.spec, nullptr, "attention_backward"};
  std::vector<job::AttentionTermJob> terms;
  job::AttentionBackwardJob job;
  job::make_attention_job(call, terms, job.forward);
  for (job::AttentionTermJob& term : terms) {
    if (of.wants_terms) ask_for_term(term);
  }
  job.q = on_gpu(q, of.dtype);
  job.k = job.v = on_gpu(k, of.dtype);
  job.saved.out = on_gpu(q, of.dtype);
  job.saved.out_gradient = of.out_gradient.data == nullptr ? on_gpu(q, of.dtype) : of.out_gradient;
  job.saved.lse = on_gpu({2, 300, 8, 1}, DType::f32);
  LaidOut result;
  attend::Arena measure;
  EXPECT_TRUE(cuda::attention::lay_out_backward(job, of.compute_major, measure, result.layout).ok());
  const Result<std::int64_t> wanted = cuda::attention::backward_workspace(job);
  EXPECT_TRUE(wanted.ok() && measure.needed() <= *wanted);
  const char* const why = cuda::attention::mma::backward::why_not(result.layout.work, job);
  result.why_not = why == nullptr ? "" : why;
  if (of.compute_major == 8) {
    EXPECT_EQ(result.layout.by_mma_backward, why == nullptr);
  }
  return result;
}
template <class Change>
std::string why_not(const Change& change) {
  Call call;
  change(call);
  return laid_out(call).why_not;
}
TableTerm table_of(TableSide side, std::int64_t rows = 9) {
  return {.side = side, .table = on_gpu({1, rows, 8, 64}), .rows = ClipRows{4, rows - 5}};
}

TEST(MmaBackwardCall, is_of_16_bits_on_devices_that_have_the_instructions) {
  EXPECT_TRUE(laid_out({}).layout.by_mma_backward);
  EXPECT_TRUE(laid_out({.width = 128, .dtype = DType::f16}).layout.by_mma_backward);
  EXPECT_TRUE(laid_out({.compute_major = 12}).layout.by_mma_backward);
  EXPECT_FALSE(laid_out({.compute_major = 9}).layout.by_mma_backward);  // Hopper's own
  EXPECT_FALSE(laid_out({.compute_major = 7}).layout.by_mma_backward);
  EXPECT_FALSE(laid_out({.compute_major = 0}).layout.by_mma_backward);
  EXPECT_EQ(why_not([](Call& c) { c.dtype = DType::f32; }), "tensors of more than 16 bits");
  EXPECT_EQ(why_not([](Call& c) { c.width = 136; }), "heads of more than 128 channels");
}

TEST(MmaBackwardCall, takes_tables_by_distance_and_biases) {
  const auto taken = [](const std::vector<AttentionTerm>& terms) {
    Call call = {.compute_major = 9};
    call.spec.terms = terms;
    return laid_out(call).layout.by_mma_backward;
  };
  TableTerm shifted = table_of(TableSide::query, 1399);
  shifted.shift = on_gpu({1, 1, 8, 64}, DType::f32);
  TableTerm buckets = table_of(TableSide::key, 512);
  buckets.rows = *Bias::make(DebertaBuckets{.heads = 8});
  EXPECT_TRUE(taken({shifted}));
  EXPECT_TRUE(taken({buckets}));
  EXPECT_TRUE(taken({table_of(TableSide::query), table_of(TableSide::key)}));
  EXPECT_TRUE(taken({BiasTerm{*Bias::make(Alibi{.heads = 8})}, table_of(TableSide::query)}));
  EXPECT_TRUE(taken({table_of(TableSide::value)}));
  EXPECT_EQ(why_not([](Call& c) { c.spec.dropout.probability = 0.5; }), "");
  EXPECT_EQ(why_not([](Call& c) { c.spec.softcap = 30; }), "");
  EXPECT_TRUE(taken({table_of(TableSide::query), table_of(TableSide::value, 1399)}));
}

TEST(MmaBackwardCall, says_what_it_leaves_to_the_general_kernels) {
  const auto with = [](const AttentionTerm& term) { return why_not([&](Call& c) { c.spec.terms = {term}; }); };
  TableTerm values = table_of(TableSide::value);
  values.table.strides[1] += 4;
  EXPECT_EQ(with(values), "a value-side table whose channels do not lie in aligned pieces of 16 bytes");
  TableTerm wide = table_of(TableSide::query);
  wide.table = on_gpu({1, 9, 8, 64}, DType::f32);
  EXPECT_EQ(with(wide), "a table of another dtype");
  TableTerm apart = table_of(TableSide::query);
  apart.table.strides[1] += 4;
  EXPECT_EQ(with(apart), "a table whose channels do not lie in aligned pieces of 16 bytes");
  TableTerm swapped = table_of(TableSide::key, 512);
  swapped.rows = *Bias::make(DebertaBuckets{.heads = 8, .reading = DebertaReading::hf_swapped});
  EXPECT_EQ(with(swapped), "buckets whose rows come again");
  EXPECT_EQ(with(BiasTerm{*Bias::make(Alibi{.heads = 8, .form = AlibiForm::key_position})}), "ALiBi by the key's position");
  BiasTerm gated = {*Bias::make(Alibi{.heads = 8})};
  gated.gate = on_gpu({2, 300, 8, 1});
  EXPECT_EQ(with(gated), "a gate");
  const DenseTerm dense{on_gpu({1, 300, 8, 700}, DType::f32)};
  EXPECT_EQ(with(dense), "the gradient of a bias given in full");
  EXPECT_EQ(why_not([&](Call& c) {
              c.spec.terms = {dense};
              c.wants_terms = false;
            }),
            "");
  EXPECT_EQ(why_not([](Call& c) { c.spec.key_positions = positions_from(5); }), "given positions");
  for (const Numerics numerics : {Numerics::exact, Numerics::hf}) {
    const RotaryContent rotated = {*Rotary::make({.head_dim = 64, .numerics = numerics})};
    EXPECT_EQ(why_not([&](Call& c) { c.spec.content = rotated; }), "queries or keys that are rotated here");
  }
  EXPECT_EQ(why_not([](Call& c) { c.spec.softcap = 0.01; }), "a soft cap near 0");
  EXPECT_EQ(why_not([](Call& c) {
              c.spec.terms = {table_of(TableSide::value)};
              c.spec.dropout.probability = 0.5;
            }),
            "dropout beside a value-side table");
  EXPECT_EQ(why_not([](Call& c) { c.out_gradient = on_gpu({2, 300, 8, 64}, DType::f32); }), "a gradient of another dtype");
  EXPECT_EQ(why_not([](Call& c) {
              c.out_gradient = on_gpu({2, 300, 8, 64});
              c.out_gradient.strides[3] = 0;
            }),
            "channels that do not lie in aligned pieces of 16 bytes");
  TableTerm shifted = table_of(TableSide::query);
  shifted.shift = on_gpu({1, 1, 8, 64}, DType::f32);
  EXPECT_EQ(why_not([&](Call& c) { c.spec.terms = {shifted, shifted, shifted}; }), "gradients of more than two shifts");
}

TableTerm inkling_of(std::int64_t width, const Extents& features) {
  return {.side = TableSide::query,
          .table = on_gpu({1, 100, 1, width}),
          .rows = ClipRows{99, 0, OutsideRows::zero},
          .features = on_gpu(features),
          .scale = 1};
}
TEST(MmaBackwardCall, takes_features_of_their_own) {
  const auto with = [](std::int64_t heads, const std::vector<AttentionTerm>& terms, int compute_major = 8) {
    Call call = {.width = heads, .compute_major = compute_major};
    call.spec.visibility.mask = Mask::causal;
    call.spec.terms = terms;
    return laid_out(call);
  };
  for (const std::int64_t heads : {64, 128}) {
    for (const std::int64_t width : {8, 16, 24, 64}) {
      for (const int compute_major : {8, 9, 12}) {
        EXPECT_TRUE(with(heads, {inkling_of(width, {2, 300, 8, width})}, compute_major).layout.by_mma_backward);
      }
      EXPECT_EQ(with(heads, {inkling_of(width, {1, 300, 1, width})}).why_not, "");
    }
    EXPECT_EQ(with(heads, {inkling_of(16, {2, 300, 8, 16}), BiasTerm{*Bias::make(Alibi{.heads = 8})}}).why_not, "");
  }
}

TEST(MmaBackwardCall, says_which_features_it_leaves_to_the_general_kernels) {
  const auto with = [](const std::vector<AttentionTerm>& terms) { return why_not([&](Call& c) { c.spec.terms = terms; }); };
  const TableTerm plain = inkling_of(16, {2, 300, 8, 16});
  EXPECT_EQ(with({plain}), "");
  const char* const beside = "features of their own beside another table";
  EXPECT_EQ(with({plain, table_of(TableSide::key)}), beside);
  EXPECT_EQ(with({table_of(TableSide::value), plain}), beside);
  EXPECT_EQ(with({plain, plain}), beside);
  TableTerm shifted = plain;
  shifted.shift = on_gpu({1, 1, 8, 16}, DType::f32);
  EXPECT_EQ(with({shifted}), "features of their own with a shift");
  EXPECT_EQ(with({inkling_of(72, {2, 300, 8, 72})}), "features of their own of more than 64 channels");
  const char* const apart = "features whose channels do not lie in aligned pieces of 16 bytes";
  EXPECT_EQ(with({inkling_of(20, {2, 300, 8, 20})}), apart);
  TableTerm strided = plain;
  strided.features.strides[1] += 4;
  EXPECT_EQ(with({strided}), apart);
  TableTerm moved = plain;
  moved.features.data = memory_of_device + 2;
  EXPECT_EQ(with({moved}), apart);
  TableTerm rows = plain;
  rows.table.strides[1] += 4;
  EXPECT_EQ(with({rows}), "a table whose channels do not lie in aligned pieces of 16 bytes");
  TableTerm wide = plain;
  wide.features = on_gpu({2, 300, 8, 16}, DType::f32);
  EXPECT_EQ(with({wide}), "a table of another dtype");
  TableTerm keys = table_of(TableSide::key);
  keys.features = on_gpu({2, 700, 4, 64});
  EXPECT_EQ(with({keys}), "features of their own in the place of keys");
}

TEST(MmaBackwardCall, takes_cope_alone) {
  const auto with = [](std::int64_t width, std::int64_t rows, int compute_major = 8) {
    Call call = {.width = width, .compute_major = compute_major};
    call.spec.visibility.mask = Mask::causal;
    call.spec.terms = {CopeTerm{.table = on_gpu({1, rows, 1, width})}};
    return laid_out(call);
  };
  for (const std::int64_t width : {64, 128}) {
    for (const int compute_major : {8, 9, 12}) EXPECT_TRUE(with(width, 64, compute_major).layout.by_mma_backward);
    EXPECT_EQ(with(width, 64).layout.work.backward.parts, 5);  // tiles of 64 queries
  }
  const char* const too_many = "CoPE with a table of more rows than shared memory has room for";
  EXPECT_EQ(with(64, 128).why_not, "");
  EXPECT_EQ(with(64, 129).why_not, too_many);
  EXPECT_EQ(with(128, 64).why_not, "");
  EXPECT_EQ(with(128, 65).why_not, too_many);
  EXPECT_EQ(with(136, 16).why_not, "heads of more than 128 channels");
  EXPECT_EQ(why_not([](Call& c) {
              c.spec.visibility.mask = Mask::causal;
              c.spec.terms = {CopeTerm{.table = on_gpu({1, 16, 1, 64})}};
              c.spec.softcap = 30;
            }),
            "CoPE with a soft cap");
}

/// Blocks that run at once: no more than those, and no more parts than there are tiles of queries.
TEST(MmaBackwardCall, is_cut_into_blocks_that_run_at_once) {
  const cuda::attention::BackwardWork narrow = laid_out({}).layout.work.backward;
  EXPECT_EQ(narrow.groups * narrow.key_groups, 8);
  EXPECT_EQ(narrow.parts, 5);  // tiles of 64 queries
  const cuda::attention::BackwardWork wide = laid_out({.width = 128}).layout.work.backward;
  EXPECT_EQ(wide.parts, 10);  // of 32
  const cuda::attention::BackwardWork general = laid_out({.compute_major = 0}).layout.work.backward;
  EXPECT_EQ(general.parts, 10);
}

}  // namespace
}  // namespace phasor::test
