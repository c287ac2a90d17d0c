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

/// Copies in float32 that the call rotates are two numbers of 16 bits each; those of a numerics profile have 16 bits anyway.
TEST(MmaRotatedCall, takes_queries_that_are_rotated_here) {
  using cuda::attention::ItemKind;
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
  for (const int compute_major : {8, 9, 12}) {
    const cuda::attention::mma::Cut wide = cut(nothing, {.compute_major = compute_major});
    EXPECT_TRUE(wide.high_low && wide.scores == ScoresIn::registers && wide.queries == 128 && wide.keys == 32);
    const cuda::attention::mma::Cut narrow = cut(nothing, {.compute_major = compute_major, .width = 64});
    EXPECT_TRUE(narrow.high_low && narrow.queries == 128 && narrow.keys == 64);
  }
  const BiasTerm alibi = {*Bias::make(Alibi{.heads = 8})};
  EXPECT_EQ(cut([&](AttentionSpec& s) { s.terms = {alibi}; }).scores, ScoresIn::changed_in_registers);
  EXPECT_EQ(cut([](AttentionSpec& s) { s.dropout.probability = 0.5; }).scores, ScoresIn::shared);
  const auto placed = [](AttentionSpec& s) { s.query_positions = positions_from(5); };
  EXPECT_EQ(cut(placed).scores, ScoresIn::registers);  // nothing goes by them
  EXPECT_EQ(cut([](AttentionSpec& s) { s.query_positions = positions_from(5), s.visibility.left = 9; }).scores, ScoresIn::shared);

  const Layout both = laid(nothing);
  ASSERT_EQ(both.after_copies.size(), 2);
  EXPECT_EQ(both.after_copies[0].copy.data, both.work.contents[0].q.data);
  EXPECT_EQ(both.after_copies[1].copy.data, both.work.contents[0].k.data);
  for (const cuda::attention::ItemWork& item : both.after_copies) EXPECT_EQ(item.kind, ItemKind::high_low);
  const Layout queries = laid(nothing, {}, KeyState::rotated);
  EXPECT_EQ(queries.after_copies.size(), 1);
  EXPECT_EQ(queries.work.contents[0].k.data, memory_of_device);
  const Layout in_f16 = laid(nothing, {.dtype = DType::f16, .out = DType::f16}, KeyState::rotated);
  ASSERT_EQ(in_f16.after_copies.size(), 3);  // bfloat16 meets no f16: keys are copied
  EXPECT_EQ(in_f16.after_copies[0].kind, ItemKind::copy);
  EXPECT_EQ(in_f16.after_copies[0].copy.data, in_f16.work.contents[0].k.data);
  const RotaryContent in_hf = {*Rotary::make({.head_dim = 128, .numerics = Numerics::hf})};
  const Layout profile = laid([&](AttentionSpec& s) { s.content = in_hf; });
  EXPECT_TRUE(profile.after_copies.empty() && !cuda::attention::mma::cut_of(profile.work).high_low);
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
  const RotaryContent in_hf = {*Rotary::make({.head_dim = 256, .numerics = Numerics::hf})};
  EXPECT_EQ(why_not([](AttentionSpec&) {}), "");
  EXPECT_EQ(why_not([](AttentionSpec&) {}, {.width = 256}), "heads of more than 128 channels that are rotated here");
  EXPECT_EQ(why_not([&](AttentionSpec& s) { s.content = in_hf; }, {.width = 256}), "");
  EXPECT_EQ(why_not([&](AttentionSpec& s) { s.content = RotaryContent{rotary, KeyState::unrotated, ReRope{.window = 8}}; }),
            "queries and keys that are rotated to several positions");
  EXPECT_EQ(why_not([&](AttentionSpec& s) { s.content = XposContent{rotary}; }), "rotated queries and keys that decay");
  EXPECT_EQ(with(table_on(TableSide::query)), "tables of rows beside queries that are rotated here");
  EXPECT_EQ(with(table_on(TableSide::value)), "tables of rows beside queries that are rotated here");
  EXPECT_EQ(with(CopeTerm{.table = on_gpu({1, 64, 1, 128})}), "CoPE beside queries that are rotated here");
  Layout gathered = laid_out({});  // of a cache of 8 bits, in float32
  gathered.work.k.dtype = gathered.work.v.dtype = DType::f32;
  EXPECT_STREQ(cuda::attention::mma::why_not(gathered.work), "keys or values of another dtype");
}

TEST(MmaRotatedCall, is_what_is_said_of_rotated_queries) {
  const auto report = [](KeyState keys, int compute_major) {
    AttentionSpec spec;
    spec.content = RotaryContent{*Rotary::make({.head_dim = 128}), keys};
    const AttentionInputs inputs = {on_gpu({2, 33, 8, 128}), on_gpu({2, 700, 4, 128}), on_gpu({2, 700, 4, 128})};
    const job::AttentionCall call = {&inputs, &spec, nullptr, "explain_attention"};
    std::vector<job::AttentionTermJob> terms;
    job::AttentionJob job;
    job::make_attention_job(call, terms, job);
    return *cuda::attention::explain(job, compute_major);
  };
  const AttentionReport both = report(KeyState::unrotated, 9);
  EXPECT_EQ(both.words.find("CUDA's kernel of mma.sync, on tensor cores, two numbers of bfloat16 for each that is rotated, in float32: 352 "
                            "tiles of 128 x 32 scores"),
            0)
      << both.words;
  EXPECT_NE(both.words.find("gradients by general kernels: tensor cores do not take queries or keys that are rotated here"),
            std::string::npos)
      << both.words;
  EXPECT_EQ(both.operations, 2 * both.plain_operations);  // three products for scores, one for outputs
  EXPECT_EQ(report(KeyState::rotated, 8).operations, 1.5 * both.plain_operations);
  EXPECT_EQ(report(KeyState::unrotated, 7).words.find("CUDA's general kernel"), 0);
}

}  // namespace
}  // namespace phasor::test
