// SPDX-License-Identifier: Apache-2.0
// Attention in C, forward: sequences, masks and dropout bitwise as in C++; workspace, report, bad arguments.
#include "c/attention_support.hpp"

namespace phasor::test {
namespace {

TEST(CAttention, sequences_prefixes_masks_and_dropout) {
  const Problem rows;
  const CTensor<std::int64_t> prefix({2}, {3, 0});
  CTensor<std::uint8_t> mask({2, 7}, {1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1});
  auto tensors = sized<phasor_attention_tensors>();
  tensors.prefix = prefix.get();
  tensors.key_mask = mask.get();
  tensors.dropout_seed = 0x123456789abcdef0;
  tensors.dropout_offset = 7;
  tensors.dropout_first_head = 3;
  tensors.dropout_first_sequence = 5;
  auto scheme = sized<phasor_attention_scheme>();
  scheme.mask = PHASOR_MASK_CAUSAL;
  scheme.dropout = 0.25;
  AttentionSpec spec{.dropout = {.probability = 0.25, .seed = 0x123456789abcdef0, .offset = 7, .first_head = 3, .first_sequence = 5}};
  spec.visibility = {.mask = Mask::causal, .prefix = prefix.values, .key_mask = {mask.values.data(), {7, 1}, {}}};
  expect_same(rows, scheme, &tensors, spec);

  CTensor<std::uint8_t> one({14}, mask.values);  // every second byte, shared by all rows
  phasor_tensor spread = *one.get();
  std::int64_t shape[] = {7}, strides[] = {2};
  spread.shape = shape;
  spread.strides = strides;
  tensors.key_mask = &spread;
  spec.visibility.key_mask = {one.values.data(), {0, 2}, {}};
  expect_same(rows, scheme, &tensors, spec);

  const Problem packed({.batch = 1, .queries = 8, .keys = 9, .heads = 6, .key_heads = 2, .head_dim = 10, .value_dim = 7});
  const CTensor<std::int32_t> query_starts({3}, {0, 3, 8}), key_starts({3}, {0, 4, 9});
  auto sequences = sized<phasor_attention_tensors>();
  sequences.query_starts = query_starts.get();
  sequences.key_starts = key_starts.get();
  AttentionSpec varlen;
  varlen.visibility = {.mask = Mask::causal, .query_starts = query_starts.values, .key_starts = key_starts.values};
  scheme.dropout = 0;
  expect_same(packed, scheme, &sequences, varlen);
}

/// Blocks that live until the test ends, and how many were asked for.
struct Blocks {
  std::vector<std::vector<std::byte>> list;
  static void* give(void* context, std::int64_t bytes) {
    auto& list = static_cast<Blocks*>(context)->list;
    return list.emplace_back(static_cast<std::size_t>(bytes)).data();
  }
  static void* refuse(void* /*context*/, std::int64_t /*bytes*/) { return nullptr; }
};

TEST(CAttention, memory_is_asked_for_where_the_workspace_lacks_it) {
  const Problem problem;
  const SchemePointer scheme = made(sized<phasor_attention_scheme>());
  const phasor_attention_inputs inputs = problem.inputs();
  const Numbered out(problem.out_shape(), 9);
  const std::vector<float> before = out.tensor.values;
  auto outputs = sized<phasor_attention_outputs>();
  outputs.out = out.get();
  Blocks blocks;
  phasor_workspace workspace = {nullptr, 0, Blocks::refuse, nullptr};
  const auto run = [&](phasor_error* error) { return phasor_attention(scheme.get(), &inputs, &outputs, &workspace, error); };
  phasor_error error = {};
  EXPECT_NE(run(&error), PHASOR_OK);
  EXPECT_NE(phasor_attention(scheme.get(), &inputs, &outputs, nullptr, &error), PHASOR_OK);
  EXPECT_EQ(out.tensor.values, before);
  workspace = {nullptr, 0, Blocks::give, &blocks};
  succeeds(run);
  EXPECT_FALSE(blocks.list.empty());
  EXPECT_TRUE(equal_bits(out.tensor.values, forward_of(problem, AttentionSpec{}).out));
}

TEST(CAttention, a_report_has_the_numbers_and_the_words) {
  const Problem problem;
  const SchemePointer scheme = made(sized<phasor_attention_scheme>());
  const phasor_attention_inputs inputs = problem.inputs();
  const AttentionReport want = *explain_attention(problem.same(), {});
  auto report = sized<phasor_attention_report>();
  EXPECT_EQ(text_by([&](phasor_text* text, phasor_error* error) {
              return phasor_explain_attention(scheme.get(), &inputs, &report, text, error);
            }),
            want.words);
  EXPECT_EQ(report.size, sizeof report);
  EXPECT_EQ(report.query_tile, want.query_tile);
  EXPECT_EQ(report.key_tile, want.key_tile);
  EXPECT_EQ(report.band_tiles, want.band_tiles);
  EXPECT_EQ(report.far_tiles, want.far_tiles);
  EXPECT_EQ(report.unseen_tiles, want.unseen_tiles);
  EXPECT_EQ(report.operations, want.operations);
  EXPECT_EQ(report.plain_operations, want.plain_operations);
  EXPECT_EQ(report.bytes, want.bytes);
  EXPECT_EQ(report.workspace, want.workspace);
  auto alone = sized<phasor_attention_report>();
  phasor_text small = {};
  EXPECT_EQ(phasor_explain_attention(scheme.get(), &inputs, &alone, &small, nullptr), PHASOR_TOO_SMALL);
  EXPECT_EQ(alone.operations, 0);
  succeeds([&](phasor_error* error) { return phasor_explain_attention(scheme.get(), &inputs, &alone, nullptr, error); });
  EXPECT_EQ(alone.operations, want.operations);
}

TEST(CAttention, segments_of_a_term_that_has_none_are_refused) {
  const Problem problem;
  const std::vector<phasor_term_scheme> terms = {term_of(PHASOR_TERM_DENSE)};
  const SchemePointer scheme = made(scheme_of_terms(terms));
  const Numbered dense({1, 5, 1, 7}, 4);
  const CTensor<std::int32_t> segments({5});
  std::vector<phasor_term_tensors> tensors(1, sized<phasor_term_tensors>());
  tensors[0].table = dense.get();
  const phasor_attention_tensors given = tensors_of_terms(tensors);
  const phasor_attention_inputs inputs = problem.inputs(&given);
  std::int64_t bytes = -1;
  const auto run = [&](phasor_error* error) { return phasor_attention_workspace(scheme.get(), &inputs, &bytes, error); };
  succeeds(run);
  tensors[0].query_segments.tensor = segments.get();
  EXPECT_EQ(failure(PHASOR_INVALID, run), "attention_workspace: terms[0].query_segments is given, wanted none by the scheme");
  tensors[0].query_segments.tensor = nullptr;
  tensors[0].key_segments.offset = 3;
  EXPECT_EQ(failure(PHASOR_INVALID, run), "attention_workspace: terms[0].key_segments is given, wanted none by the scheme");
}

TEST(CAttention, bad_arguments_are_refused_and_nothing_is_written) {
  const Problem problem;
  const Numbered out(problem.out_shape(), 9);
  const std::vector<float> before = out.tensor.values;
  auto outputs = sized<phasor_attention_outputs>();
  outputs.out = out.get();
  phasor_attention_inputs inputs = problem.inputs();
  std::vector<std::byte> memory(1 << 20);
  phasor_workspace workspace = {memory.data(), memory.size(), nullptr, nullptr};
  const SchemePointer scheme = made(sized<phasor_attention_scheme>());
  const auto refused = [&] {
    return failure(PHASOR_INVALID,
                   [&](phasor_error* error) { return phasor_attention(scheme.get(), &inputs, &outputs, &workspace, error); });
  };
  auto tensors = sized<phasor_attention_tensors>();
  inputs.tensors = &tensors;
  const Numbered sinks({1, 1, 6, 1}, 6);
  tensors.sinks = sinks.get();
  EXPECT_EQ(refused(), "Attention::spec: sinks is given, wanted none by the scheme");
  tensors.sinks = nullptr;
  const CTensor<std::uint8_t> mask({2, 6});
  tensors.key_mask = mask.get();
  EXPECT_EQ(refused(), "attention: key_mask has shape (2, 6), wanted (2, 7)");
  const CTensor<std::int32_t> wide({2, 7});
  tensors.key_mask = wide.get();
  EXPECT_EQ(refused(), "attention: key_mask has a dtype of code 0, 32 bits, 1 lanes, wanted uint8 or bool");
  tensors.key_mask = nullptr;
  auto term = sized<phasor_term_tensors>();
  tensors.terms = &term;
  tensors.term_count = 1;
  EXPECT_EQ(refused(), "Attention::spec: terms has 1 elements, wanted 0");
  const CTensor<std::int32_t> integers({2, 7});
  term.table = integers.get();
  EXPECT_EQ(refused(), "attention: terms[0].table has a dtype of code 0, 32 bits, 1 lanes, wanted float32, float64, float16 or bfloat16");
  tensors.terms = nullptr;
  EXPECT_EQ(refused(), "attention: terms is null, wanted one");
  tensors.term_count = 0;
  workspace.memory = nullptr;
  EXPECT_EQ(refused(), "attention: the workspace has 1048576 bytes and null memory, wanted memory");
  workspace.memory = memory.data();
  outputs.out = nullptr;
  EXPECT_EQ(refused(), "attention: out is null, wanted one");
  inputs.v = nullptr;
  EXPECT_EQ(refused(), "attention: v is null, wanted one");
  inputs.size = 1;
  EXPECT_NE(refused().find("the size of the inputs is 1"), std::string::npos);
  inputs = problem.inputs();
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_attention(nullptr, &inputs, &outputs, &workspace, error); }),
            "attention: scheme is null, wanted one");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_attention_workspace(scheme.get(), &inputs, nullptr, error); }),
            "attention_workspace: bytes is null, wanted one");
  EXPECT_EQ(out.tensor.values, before);
}

}  // namespace
}  // namespace phasor::test
