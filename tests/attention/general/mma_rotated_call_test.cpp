// SPDX-License-Identifier: Apache-2.0
// Which calls that rotate queries and keys go to the kernels of mma.sync, how they are laid out, and what is said of those that do not.
#include <gtest/gtest.h>

#include <string>

#include "cuda/attention/mma/call.hpp"
#include "cuda/host/mma_call.hpp"

namespace phasor::test {
namespace {

using cuda::attention::Layout;
using cuda::attention::mma::ScoresIn;

/// Copies that the call rotates have 16 bits, and are q and k of plain calls.
TEST(MmaRotatedCall, takes_queries_that_are_rotated_here) {
  const auto laid = [](const auto& change, const MmaCase& of = {}, KeyState keys = KeyState::unrotated) {
    AttentionSpec spec;
    spec.content = RotaryContent{*Rotary::make({.head_dim = of.width}), keys};
    change(spec);
    Layout layout = laid_out(spec, of);
    EXPECT_TRUE(layout.by_mma) << cuda::attention::mma::why_not(layout.work);
    return layout;
  };
  const auto cut = [&](const auto& change, const MmaCase& of = {}) { return cuda::attention::mma::cut_of(laid(change, of).work); };
  const auto nothing = [](AttentionSpec&) {};
  for (const int compute_major : {8, 12}) {
    for (const std::int64_t width : {64, 128, 256}) {
      EXPECT_EQ(cut(nothing, {.compute_major = compute_major, .width = width}).scores, ScoresIn::registers);
    }
  }
  const BiasTerm alibi = {*Bias::make(Alibi{.heads = 8})};
  EXPECT_EQ(cut([&](AttentionSpec& s) { s.terms = {alibi}; }).scores, ScoresIn::changed_in_registers);
  EXPECT_EQ(cut([](AttentionSpec& s) { s.dropout.probability = 0.5; }).scores, ScoresIn::shared);
  EXPECT_EQ(cut([](AttentionSpec& s) { s.terms = {table_on(TableSide::value)}; }).scores, ScoresIn::tabled);
  const auto placed = [](AttentionSpec& s) { s.query_positions = positions_from(5); };
  EXPECT_EQ(cut(placed).scores, ScoresIn::registers);  // nothing goes by them
  EXPECT_EQ(cut([](AttentionSpec& s) { s.query_positions = positions_from(5), s.visibility.left = 9; }).scores, ScoresIn::shared);

  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Layout both = laid(nothing, {.dtype = dtype, .out = dtype});
    ASSERT_EQ(both.copies.size(), 2);
    EXPECT_EQ(both.copies[0].to.data, both.work.contents[0].q.data);
    EXPECT_EQ(both.copies[1].to.data, both.work.contents[0].k.data);
    for (const cuda::attention::RotatedCopy& copy : both.copies) EXPECT_TRUE(copy.to.dtype == dtype && copy.dtype == dtype);
    const Layout queries = laid(nothing, {.dtype = dtype, .out = dtype}, KeyState::rotated);
    EXPECT_EQ(queries.copies.size(), 1);
    EXPECT_EQ(queries.work.contents[0].k.data, memory_of_device);
  }
}

TEST(MmaRotatedCall, says_what_rotated_queries_may_not_have) {
  const auto why_not = [](const auto& change, const MmaCase& of = {}) {
    AttentionSpec spec;
    spec.visibility.mask = Mask::causal;
    spec.content = RotaryContent{*Rotary::make({.head_dim = of.width})};
    change(spec);
    const Layout layout = laid_out(spec, of);
    const char* const why = cuda::attention::mma::why_not(layout.work);
    EXPECT_EQ(layout.by_mma, why == nullptr);
    return std::string(why == nullptr ? "" : why);
  };
  const auto with = [&](const AttentionTerm& term) { return why_not([&](AttentionSpec& s) { s.terms = {term}; }); };
  const Rotary rotary = *Rotary::make({.head_dim = 128});
  EXPECT_EQ(why_not([](AttentionSpec&) {}), "");
  EXPECT_EQ(why_not([](AttentionSpec&) {}, {.width = 256}), "");
  EXPECT_EQ(why_not([&](AttentionSpec& s) { s.content = RotaryContent{rotary, KeyState::unrotated, ReRope{.window = 8}}; }),
            "queries and keys that are rotated to several positions");
  EXPECT_EQ(why_not([&](AttentionSpec& s) { s.content = XposContent{rotary}; }), "rotated queries and keys that decay");
  for (const TableSide side : {TableSide::query, TableSide::key}) {
    EXPECT_EQ(with(table_on(side)), "a table that meets queries or keys, beside those that are rotated here");
  }
  EXPECT_EQ(with(table_on(TableSide::value)), "");
  TableTerm features = table_on(TableSide::query, 8, 16);
  features.features = on_gpu({2, 33, 8, 16});
  EXPECT_EQ(with(features), "");
  EXPECT_EQ(with(CopeTerm{.table = on_gpu({1, 64, 1, 128})}), "CoPE beside queries that are rotated here");
  Layout gathered = laid_out({});  // of a cache of 8 bits, in float32
  gathered.work.k.dtype = gathered.work.v.dtype = DType::f32;
  EXPECT_STREQ(cuda::attention::mma::why_not(gathered.work), "keys or values of another dtype");
}

TEST(MmaRotatedCall, is_what_is_said_of_rotated_queries) {
  const auto report = [](int compute_major) {
    AttentionSpec spec;
    spec.content = RotaryContent{*Rotary::make({.head_dim = 128})};
    const AttentionInputs inputs = {on_gpu({2, 33, 8, 128}), on_gpu({2, 700, 4, 128}), on_gpu({2, 700, 4, 128})};
    const job::AttentionCall call = {&inputs, &spec, nullptr, "explain_attention"};
    std::vector<job::AttentionTermJob> terms;
    job::AttentionJob job;
    job::make_attention_job(call, terms, job);
    return *cuda::attention::explain(job, compute_major);
  };
  const auto says = [&](int compute_major, const char* words) {
    const AttentionReport is = report(compute_major);
    EXPECT_NE(is.words.find(words), std::string::npos) << is.words;
    EXPECT_EQ(is.operations, is.plain_operations);
  };
  says(9, "CUDA's kernel for Hopper, on tensor cores");
  says(9, "gradients by kernels for Hopper");
  says(8, "CUDA's kernel of mma.sync, on tensor cores, in float32: 176 tiles of 128 x 64 scores");
  says(8, "gradients by mma.sync");
  says(7, "CUDA's general kernel");
}

}  // namespace
}  // namespace phasor::test
