// SPDX-License-Identifier: Apache-2.0
// Which backward passes of attention go to the kernels of mma.sync, what is said of those that do not, and how they are cut.
#include <gtest/gtest.h>

#include <optional>
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

struct Tokens {
  std::int64_t batch = 2;
  std::int64_t queries = 300;
  std::int64_t keys = 700;
  std::int64_t heads = 8;
  std::int64_t key_heads = 4;
};
/// A call, as a test changes it before it is laid out.
struct Call {
  std::int64_t width = 64;
  int compute_major = 8;
  DType dtype = DType::bf16;
  bool wants_terms = true;
  AttentionSpec spec = {};
  TensorView out_gradient = {};             // without data: as it should be
  std::optional<DType> out = std::nullopt;  // of another dtype than q
  std::optional<DType> gradients = std::nullopt;
  Tokens tokens = {};
};
struct LaidOut {
  BackwardLayout layout;
  std::int64_t bytes;  // of the workspace
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
  const Tokens& t = of.tokens;
  const Extents q = {t.batch, t.queries, t.heads, of.width};
  const Extents k = {t.batch, t.keys, t.key_heads, of.width};
  const AttentionInputs inputs = {on_gpu(q, of.dtype), on_gpu(k, of.dtype), on_gpu(k, of.dtype)};
  const job::AttentionCall call = {&inputs, &of.spec, nullptr, "attention_backward"};
  std::vector<job::AttentionTermJob> terms;
  job::AttentionBackwardJob job;
  job::make_attention_job(call, terms, job.forward);
  for (job::AttentionTermJob& term : terms) {
    if (of.wants_terms) ask_for_term(term);
  }
  job.q = on_gpu(q, of.gradients.value_or(of.dtype));
  job.k = job.v = on_gpu(k, of.gradients.value_or(of.dtype));
  job.saved.out = on_gpu(q, of.out.value_or(of.dtype));
  job.saved.out_gradient = of.out_gradient.data == nullptr ? on_gpu(q, of.dtype) : of.out_gradient;
  job.saved.lse = on_gpu({t.batch, t.queries, t.heads, 1}, DType::f32);
  LaidOut result;
  attend::Arena measure;
  EXPECT_TRUE(cuda::attention::lay_out_backward(job, of.compute_major, measure, result.layout).ok());
  result.bytes = measure.needed();
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

TEST(MmaBackwardCall, takes_outputs_and_gradients_in_float32) {
  const TensorView wide = on_gpu({2, 300, 8, 64}, DType::f32);
  for (const int compute_major : {8, 9, 12}) {
    const LaidOut is = laid_out({.compute_major = compute_major, .out_gradient = wide});
    EXPECT_TRUE(is.layout.by_mma_backward);
    EXPECT_TRUE(is.layout.work.backward.rounds_out_gradient);
  }
  EXPECT_FALSE(laid_out({}).layout.work.backward.rounds_out_gradient);
  const BackwardLayout general = laid_out({.compute_major = 7, .out_gradient = wide}).layout;
  EXPECT_FALSE(general.by_mma_backward || general.work.backward.rounds_out_gradient);
  TensorView apart = wide;
  apart.strides[1] += 4;
  EXPECT_EQ(why_not([&](Call& c) { c.out_gradient = apart; }), "channels that do not lie in aligned pieces of 16 bytes");
  for (const DType dtype : {DType::bf16, DType::f16}) {
    EXPECT_TRUE(laid_out({.dtype = dtype, .out = DType::f32, .gradients = DType::f32}).layout.by_mma_backward);
    EXPECT_TRUE(
        laid_out({.compute_major = 9, .dtype = dtype, .gradients = DType::f32}).layout.by_mma_backward);  // Hopper's own write 16 bits
  }
}

TEST(MmaBackwardCall, takes_tables_by_distance_and_biases) {
  const auto taken = [](const std::vector<AttentionTerm>& terms) {
    Call call = {.compute_major = 8};  // on 9 some are Hopper's
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
  EXPECT_EQ(with(dense), "");
  const char* const shared_bias = "the gradient of a bias given in full that queries, keys or key heads share";
  for (const Extents& shape : {Extents{2, 1, 8, 700}, Extents{1, 300, 8, 1}, Extents{2, 300, 1, 700}}) {
    EXPECT_EQ(with(DenseTerm{on_gpu(shape, DType::f32)}), shared_bias);
  }
  EXPECT_EQ(why_not([&](Call& c) {
              c.spec.terms = {dense};
              c.wants_terms = false;
            }),
            "");
  EXPECT_EQ(why_not([](Call& c) { c.spec.key_positions = positions_from(5), c.spec.visibility.left = 9; }), "given positions");
  EXPECT_EQ(why_not([](Call& c) { c.spec.key_positions = positions_from(5); }), "");  // nothing goes by them
  for (const Numerics numerics : {Numerics::exact, Numerics::hf}) {
    const RotaryContent rotated = {*Rotary::make({.head_dim = 64, .numerics = numerics})};
    EXPECT_EQ(why_not([&](Call& c) { c.spec.content = rotated; }), "");
  }
  EXPECT_EQ(why_not([](Call& c) { c.spec.softcap = 0.01; }), "a soft cap near 0");
  EXPECT_EQ(why_not([](Call& c) {
              c.spec.terms = {table_of(TableSide::value)};
              c.spec.dropout.probability = 0.5;
            }),
            "dropout beside a value-side table");
  EXPECT_EQ(why_not([](Call& c) { c.out_gradient = on_gpu({2, 300, 8, 64}, DType::f16); }), "a gradient of another dtype");
  EXPECT_EQ(why_not([](Call& c) {
              c.dtype = DType::f16;
              c.out_gradient = on_gpu({2, 300, 8, 64}, DType::f32);
            }),
            "a float32 gradient of what is computed in float16's range");
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

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A square call of 128 channels with these terms.
LaidOut long_call(std::int64_t tokens, std::int64_t heads, std::int64_t key_heads, const std::vector<AttentionTerm>& terms = {}) {
  Call call = {.width = 128, .tokens = {.batch = 1, .queries = tokens, .keys = tokens, .heads = heads, .key_heads = key_heads}};
  call.spec.terms = terms;
  return laid_out(call);
}
/// Rows of 128 channels by distance, at most as many to either side.
TableTerm rows_of(TableSide side, std::int64_t left, std::int64_t heads) {
  return {.side = side, .table = on_gpu({1, 2 * left + 1, heads, 128}), .rows = ClipRows{left, left}};
}
/// What the sums of dk and dv and the slots take, without the rows of the call, whatever is kept for queries and alignment.
std::int64_t bytes_apart(const cuda::attention::AttentionWork& work) {
  const cuda::attention::BackwardWork& b = work.backward;
  const std::int64_t rows = cuda::attention::key_rows(work) - work.shape.batch * work.shape.keys;
  return 4 * (rows * work.shape.key_heads * (work.shape.width + work.shape.value_width) + backward_blocks(work) * b.slot_size);
}

/// Long sequences keep a GPU busy: keys go by chunks, so that there is memory for as many parts as are wanted.
TEST(MmaBackwardCall, is_cut_by_keys_where_memory_has_no_room_for_parts_of_all) {
  struct Case {
    std::int64_t tokens;
    std::int64_t heads;
    std::int64_t key_heads;
    std::vector<AttentionTerm> terms;
    std::int64_t most_bytes;  // beside the rows of all keys
  };
  const TableTerm shaw = rows_of(TableSide::query, 64, 1);
  const std::vector<Case> cases = {{32768, 4, 1, {shaw}, 480 * kMiB}, {32768, 4, 1, {}, 480 * kMiB},  {16384, 32, 32, {shaw}, 256 * kMiB},
                                   {32768, 32, 8, {}, 256 * kMiB},    {131072, 8, 8, {}, 256 * kMiB}, {5000, 16, 1, {shaw}, 512 * kMiB}};
  for (const Case& one : cases) {
    const LaidOut is = long_call(one.tokens, one.heads, one.key_heads, one.terms);
    const cuda::attention::AttentionWork& work = is.layout.work;
    const cuda::attention::KeyChunk& chunk = work.backward.chunk;
    ASSERT_TRUE(is.layout.by_mma_backward) << is.why_not;
    EXPECT_EQ(backward_blocks(work), std::min<std::int64_t>(256, (one.tokens + 31) / 32 * one.key_heads)) << one.tokens;
    EXPECT_LE(bytes_apart(work), one.most_bytes) << one.tokens;
    EXPECT_GE(2 * bytes_apart(work), one.most_bytes) << one.tokens << ": more chunks than are needed";
    EXPECT_EQ(chunk.keys % 64, 0);
    EXPECT_GE(chunk.keys, 576);  // least_keys, made equal
    EXPECT_GT(key_chunks(work), 1);
    EXPECT_LT((key_chunks(work) - 1) * chunk.keys, one.tokens);
    EXPECT_GE(key_chunks(work) * chunk.keys, one.tokens);
    const std::int64_t of_keys = one.tokens * one.key_heads * 256 * 4;
    const std::int64_t of_queries = one.tokens * one.heads * 129 * 4;
    EXPECT_LE(is.bytes, of_keys + of_queries + one.most_bytes + kMiB);
  }
}

/// Rows for every distance, or many: what blocks keep of a table is not by keys, and bounds the parts.
TEST(MmaBackwardCall, has_as_many_parts_as_slots_allow) {
  const LaidOut buckets = long_call(32768, 4, 1, {rows_of(TableSide::query, 256, 4), rows_of(TableSide::key, 256, 4)});
  EXPECT_GT(backward_blocks(buckets.layout.work), 128);
  EXPECT_LE(bytes_apart(buckets.layout.work), 480 * kMiB);
  const LaidOut whole = long_call(32768, 4, 1, {rows_of(TableSide::query, 32768, 4)});
  EXPECT_EQ(backward_blocks(whole.layout.work), 3);
  EXPECT_EQ(key_chunks(whole.layout.work), 1);
}

TEST(MmaBackwardCall, has_all_keys_in_one_chunk_where_they_fit) {
  const auto expect_one = [](const LaidOut& is, std::int64_t parts) {
    const cuda::attention::AttentionWork& work = is.layout.work;
    EXPECT_EQ(key_chunks(work), 1);
    EXPECT_EQ(work.backward.parts, parts);
    EXPECT_EQ(work.backward.chunk.keys, work.shape.keys);
    EXPECT_EQ(key_rows(work), parts * work.shape.batch * work.shape.keys);
  };
  expect_one(laid_out({}), 5);
  expect_one(laid_out({.compute_major = 0}), 10);
  expect_one(long_call(2048, 16, 16), 15);  // one more is not worth a launch more
  expect_one(long_call(2000, 4, 1), 63);
  expect_one(long_call(16384, 256, 256), 1);  // enough blocks without parts
  Call ragged = {.tokens = {.batch = 1, .queries = 32768, .keys = 32768, .heads = 4, .key_heads = 1}};
  const std::int32_t starts[] = {0, 20000, 32768};
  ragged.spec.visibility.query_starts = ragged.spec.visibility.key_starts = Integers(starts, 3, kGpu);
  expect_one(laid_out(ragged), 31);
  Call counted = {.tokens = {.batch = 1, .queries = 32768, .keys = 32768, .heads = 4, .key_heads = 1}};
  counted.spec.visibility.mask = Mask::causal;
  counted.spec.terms = {CopeTerm{.table = on_gpu({1, 64, 1, 64})}};
  expect_one(laid_out(counted), 31);
}

}  // namespace
}  // namespace phasor::test
