// SPDX-License-Identifier: Apache-2.0
// Which gradients of attention go to Hopper's kernels.
#include <gtest/gtest.h>

#include "cuda/attention/backward/layout.hpp"
#include "cuda/host/hopper/laid_out.hpp"

namespace phasor::test {
namespace {

/// A backward laid out in as much memory as it asks for.
cuda::attention::BackwardLayout laid_out_backward(const AttentionSpec& spec, const AttentionGradients& gradients, int compute_major = 9,
                                                  DType dtype = DType::bf16) {
  const AttentionInputs inputs = {on_gpu({2, 33, 8, 128}, dtype), on_gpu({2, 70, 4, 128}, dtype), on_gpu({2, 70, 4, 128}, dtype)};
  const job::AttentionCall call = {&inputs, &spec, &gradients, "attention_backward"};
  std::vector<job::AttentionTermJob> terms;
  job::AttentionBackwardJob job;
  job::make_backward_job(call, terms, job);
  const Result<std::int64_t> wanted = cuda::attention::backward_workspace(job);
  EXPECT_TRUE(wanted.ok());
  job.saved = {on_gpu({2, 33, 8, 128}, dtype), on_gpu({2, 33, 8, 1}, DType::f32), on_gpu({2, 33, 8, 128}, dtype)};
  std::vector<std::byte> memory(static_cast<std::size_t>(wanted.ok() ? *wanted : 0));
  const Workspace workspace(memory);
  attend::Arena arena(workspace);
  cuda::attention::BackwardLayout layout;
  EXPECT_TRUE(cuda::attention::lay_out_backward(job, compute_major, arena, layout).ok());
  EXPECT_TRUE(arena.check("attention_backward").ok());
  return layout;
}
AttentionGradients all_gradients(DType dtype = DType::bf16) {
  AttentionGradients gradients;
  gradients.q = on_gpu({2, 33, 8, 128}, dtype);
  gradients.k = gradients.v = on_gpu({2, 70, 4, 128}, dtype);
  return gradients;
}

TEST(HopperCall, has_a_backward) {
  AttentionSpec spec;
  spec.visibility = {.mask = Mask::causal, .left = 20};
  AttentionGradients gradients = all_gradients();
  const auto layout = laid_out_backward(spec, gradients);
  ASSERT_TRUE(layout.hopper_backward.has_value());
  EXPECT_NE(layout.hopper_workspace, nullptr);
  EXPECT_TRUE(layout.hopper_backward->deterministic);
  EXPECT_EQ(layout.hopper_backward->forward.left, 20);
  EXPECT_EQ(layout.hopper_backward->diagonal, nullptr);
  gradients.deterministic = false;
  EXPECT_FALSE(laid_out_backward(spec, gradients).hopper_backward->deterministic);
  EXPECT_FALSE(laid_out_backward(spec, gradients, 8).hopper_backward.has_value());
  EXPECT_FALSE(laid_out_backward(spec, all_gradients(DType::f32), 9, DType::f32).hopper_backward.has_value());
  gradients.k = on_gpu({2, 70, 4, 128}, DType::f32);
  EXPECT_FALSE(laid_out_backward(spec, gradients).hopper_backward.has_value());
  spec.softcap = 20;
  EXPECT_FALSE(laid_out_backward(spec, all_gradients()).hopper_backward.has_value());
}

/// Gradients by the copies are written where the caller wants those by q and k, and are turned back there.
TEST(HopperCall, has_a_backward_of_rotated_copies) {
  for (const Numerics numerics : {Numerics::exact, Numerics::hf}) {
    AttentionSpec spec;
    spec.visibility.mask = Mask::causal;
    const Rotary rotary = *Rotary::make({.head_dim = 128, .numerics = numerics});
    spec.content = RotaryContent{rotary};
    AttentionGradients gradients = all_gradients();
    auto layout = laid_out_backward(spec, gradients);
    ASSERT_TRUE(layout.hopper_backward.has_value());
    EXPECT_EQ(layout.hopper_backward->forward.q.data, layout.copies.at(0).to.data);
    EXPECT_EQ(layout.hopper_backward->forward.k.data, layout.copies.at(1).to.data);
    EXPECT_TRUE(layout.hopper_backward->q.data == gradients.q.data && layout.hopper_backward->k.data == gradients.k.data);
    ASSERT_EQ(layout.turned.size(), 2u);
    EXPECT_TRUE(layout.turned[0].gradients.shape == gradients.q.shape && layout.turned[1].gradients.shape == gradients.k.shape);
    for (const auto& turned : layout.turned) EXPECT_TRUE(turned.gradients.data == some_memory && turned.gradients.dtype == DType::bf16);
    gradients.q = {};
    EXPECT_EQ(laid_out_backward(spec, gradients).turned.size(), 1u);
    spec.content = RotaryContent{rotary, KeyState::rotated};
    layout = laid_out_backward(spec, gradients);
    EXPECT_TRUE(layout.hopper_backward.has_value() && layout.turned.empty());
    spec.content = RotaryContent{rotary, KeyState::unrotated, ReRope{.window = 8}};
    EXPECT_FALSE(laid_out_backward(spec, gradients).hopper_backward.has_value());
  }
}

/// Shaw's keys; not what windows of rows are for in the forward.
TEST(HopperCall, has_the_gradient_of_a_table) {
  AttentionGradients gradients = all_gradients();
  const TableTerm shaw = {.table = on_gpu({1, 25, 8, 128}), .rows = ClipRows{.left = 16, .right = 8}};
  const auto laid_out_with = [&](const TableTerm& term) {
    AttentionSpec spec;
    spec.visibility.mask = Mask::causal;
    spec.terms = {term};
    return laid_out_backward(spec, gradients);
  };
  auto layout = laid_out_with(shaw);
  ASSERT_TRUE(layout.hopper_backward.has_value());
  EXPECT_EQ(layout.hopper_backward->table, nullptr);
  EXPECT_EQ(layout.hopper_backward->diagonal, nullptr);
  EXPECT_TRUE(layout.after.empty());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    gradients.terms = {TermGradient{.table = on_gpu({1, 25, 8, 128}, dtype)}};
    layout = laid_out_with(shaw);
    ASSERT_TRUE(layout.hopper_backward.has_value());
    ASSERT_NE(layout.hopper_backward->table, nullptr);
    EXPECT_NE(static_cast<void*>(layout.hopper_backward->table), gradients.terms[0].table.data);
    EXPECT_EQ(static_cast<void*>(layout.hopper_backward->table), layout.work.backward.sums);
    EXPECT_TRUE(layout.finish.empty());
    ASSERT_EQ(layout.after.size(), 1u);  // added to what the caller has
    EXPECT_EQ(layout.after[0].sum.to.data, gradients.terms[0].table.data);
  }
  gradients.terms = {};
  const auto refused = [&](const auto& change) {
    TableTerm term = shaw;
    change(term);
    return !laid_out_with(term).hopper_backward.has_value();
  };
  EXPECT_TRUE(refused([](TableTerm& t) { t.rows = ClipRows{.left = 16, .right = 8, .outside = OutsideRows::zero}; }));
  EXPECT_FALSE(refused([](TableTerm& t) { t.shift = on_gpu({1, 1, 8, 128}, DType::f32); }));
  EXPECT_FALSE(refused([](TableTerm& t) { t.table = on_gpu({1, 130, 8, 128}), t.rows = ClipRows{.left = 65, .right = 64}; }));
  EXPECT_FALSE(refused([](TableTerm& t) { t.table = on_gpu({1, 129, 1, 128}), t.rows = ClipRows{.left = 64, .right = 64}; }));
  EXPECT_FALSE(refused([](TableTerm& t) { t.side = TableSide::key; }));
  EXPECT_TRUE(refused([](TableTerm& t) { t.side = TableSide::value; }));  // what the forward takes
  gradients.terms = {};
  AttentionSpec both;
  both.terms = {shaw, TableTerm{.side = TableSide::value, .table = shaw.table, .rows = shaw.rows}};
  EXPECT_FALSE(laid_out_backward(both, gradients).hopper_backward.has_value());
}

/// DeBERTa: a table of queries and one of keys, by buckets; each gradient is added to the caller's.
TEST(HopperCall, has_the_gradients_of_tables_by_distance) {
  const Bias buckets = *Bias::make(DebertaBuckets{.heads = 1, .buckets = 16, .max_distance = 40});
  TableTerm queries = {.table = on_gpu({1, 32, 8, 128}), .rows = buckets, .scale = 0.5}, keys = queries;
  keys.side = TableSide::key;
  AttentionGradients gradients = all_gradients();
  const auto laid_out_with = [&](const std::vector<AttentionTerm>& terms) {
    AttentionSpec spec;
    spec.terms = terms;
    return laid_out_backward(spec, gradients);
  };
  auto layout = laid_out_with({keys, queries});
  ASSERT_TRUE(layout.hopper_backward.has_value());
  for (const cuda::hopper::DistanceTable& table : layout.hopper_backward->tables) {
    EXPECT_NE(table.rows.data, nullptr);
    EXPECT_EQ(table.gradient, nullptr);
    EXPECT_EQ(table.scale, 0.5);
    const auto row = [&](std::int64_t r) { return buckets.row(r); };
    EXPECT_EQ(row(table.left), row(100000));
    EXPECT_NE(row(table.left - 1), row(100000));
    EXPECT_EQ(row(-table.right), row(-100000));
    EXPECT_NE(row(1 - table.right), row(-100000));
  }
  gradients.terms = {TermGradient{.table = on_gpu({1, 32, 8, 128}, DType::f32)},
                     TermGradient{.table = on_gpu({1, 32, 8, 128}, DType::f32)}};
  layout = laid_out_with({keys, queries});
  ASSERT_TRUE(layout.hopper_backward.has_value());
  ASSERT_EQ(layout.after.size(), 2u);
  EXPECT_EQ(static_cast<void*>(layout.hopper_backward->tables[1].gradient), layout.work.backward.sums);  // the first term's
  EXPECT_GT(layout.hopper_backward->tables[0].gradient, layout.hopper_backward->tables[1].gradient);
  EXPECT_EQ(layout.hopper_backward->table, nullptr);
  gradients.terms = {};
  EXPECT_FALSE(laid_out_with({queries, queries}).hopper_backward.has_value());
  EXPECT_TRUE(laid_out_with({keys}).hopper_backward.has_value());
  keys.rows = *Bias::make(DebertaBuckets{.heads = 1, .reading = DebertaReading::hf_swapped});
  keys.table = on_gpu({1, 512, 8, 128});
  EXPECT_FALSE(laid_out_with({keys, queries}).hopper_backward.has_value());  // rows that come again
  keys.rows = *Bias::make(T5Buckets{.heads = 1, .buckets = 16});
  keys.table = on_gpu({1, 16, 8, 128});
  EXPECT_FALSE(laid_out_with({keys}).hopper_backward.has_value());  // that rise and fall
  keys.rows = *Bias::make(T5Buckets{.heads = 1, .buckets = 16, .sides = BucketSides::behind});
  EXPECT_TRUE(laid_out_with({keys}).hopper_backward.has_value());
}

/// Transformer-XL: a table of queries with a row for each distance, and what is added to queries; each gradient is added to the caller's.
TEST(HopperCall, has_the_gradients_of_shifts) {
  AttentionGradients gradients = all_gradients();
  AttentionSpec spec;
  spec.content_shift = on_gpu({1, 1, 8, 128}, DType::f32);
  const TableTerm xl = {
      .table = on_gpu({1, 102, 8, 128}), .rows = ClipRows{.left = 69, .right = 32}, .shift = on_gpu({1, 1, 1, 128}, DType::f32)};
  spec.terms = {xl};
  auto layout = laid_out_backward(spec, gradients);
  ASSERT_TRUE(layout.hopper_backward.has_value());
  const cuda::hopper::Backward& b = *layout.hopper_backward;
  EXPECT_EQ(b.forward.table.data, nullptr);
  EXPECT_EQ(b.forward.content_shift.data, nullptr);
  EXPECT_NE(b.tables[0].rows.data, nullptr);
  EXPECT_EQ(b.tables[1].rows.data, nullptr);
  EXPECT_EQ(b.tables[0].left, 69);
  EXPECT_EQ(b.tables[0].right, 32);
  for (const int shift : {cuda::hopper::kOfContent, cuda::hopper::kOfRows}) {
    EXPECT_EQ(b.shifts[shift].vector.data, some_memory);
    EXPECT_EQ(b.shifts[shift].vector.shape[2], shift == cuda::hopper::kOfContent ? 8 : 1);
    EXPECT_EQ(b.shifts[shift].gradient, nullptr);
  }
  gradients.content_shift = on_gpu({1, 1, 8, 128}, DType::f32);
  gradients.terms = {TermGradient{.table = on_gpu({1, 102, 8, 128}, DType::f32), .shift = on_gpu({1, 1, 1, 128}, DType::f32)}};
  layout = laid_out_backward(spec, gradients);
  ASSERT_TRUE(layout.hopper_backward.has_value());
  ASSERT_EQ(layout.after.size(), 3u);
  EXPECT_TRUE(layout.finish.empty());
  float* const sums = static_cast<float*>(layout.work.backward.sums);
  EXPECT_EQ(layout.hopper_backward->tables[0].gradient, sums);
  EXPECT_EQ(layout.hopper_backward->shifts[cuda::hopper::kOfRows].gradient, sums + 102 * 8 * 128);
  EXPECT_EQ(layout.hopper_backward->shifts[cuda::hopper::kOfContent].gradient, sums + 102 * 8 * 128 + 128);
  for (const auto& item : layout.after) EXPECT_EQ(item.sum.to.data, some_memory);
  gradients = all_gradients();
  const auto is_taken = [&](const auto& change) {
    TableTerm term = xl;
    change(term);
    spec.terms = {term};
    return laid_out_backward(spec, gradients).hopper_backward.has_value();
  };
  // Rows beyond which nothing is added, where nothing beyond is seen; without shifts, too.
  EXPECT_TRUE(is_taken([](TableTerm& t) { t.rows = ClipRows{.left = 69, .right = 32, .outside = OutsideRows::zero}; }));
  EXPECT_FALSE(is_taken([](TableTerm& t) { t.rows = ClipRows{.left = 70, .right = 31, .outside = OutsideRows::zero}; }));
  spec.visibility.left = 20;
  EXPECT_TRUE(is_taken([](TableTerm& t) { t.rows = ClipRows{.left = 20, .right = 81, .outside = OutsideRows::zero}; }));
  spec.content_shift = {};
  const auto alone = [](TableTerm& t) { t.rows = ClipRows{.left = 20, .right = 81, .outside = OutsideRows::zero}, t.shift = {}; };
  EXPECT_TRUE(is_taken(alone));
  spec.terms.clear();
  spec.content_shift = on_gpu({1, 1, 8, 128}, DType::f32);
  EXPECT_FALSE(laid_out_backward(spec, gradients).hopper_backward.has_value());  // what the forward leaves, too
}

/// The forward finds where a rule of rows ends by its kind, the backward by looking: it never ends further away, and rows are all alike
/// from where the forward says.
TEST(HopperCall, rules_end_where_the_forward_says) {
  struct Rows {
    TableRows rows;
    std::int64_t count;
    bool has_backward;
  };
  const auto bias = [](const BiasSpec& spec) { return *Bias::make(spec); };
  const auto deberta = [&](DebertaReading reading, std::int64_t buckets) {
    return bias(DebertaBuckets{.heads = 1, .buckets = buckets, .max_distance = 40, .reading = reading});
  };
  const Rows list[] = {
      {ClipRows{.left = 4, .right = 7}, 12, true},
      {bias(ShawClip{.heads = 1, .left = 5, .right = 3}), 9, true},
      {bias(T5Buckets{.heads = 1, .buckets = 16, .max_distance = 50, .sides = BucketSides::behind}), 16, true},
      {bias(T5Buckets{.heads = 1, .buckets = 16, .max_distance = 50}), 16, false},
      {deberta(DebertaReading::hf, 16), 32, true},
      {deberta(DebertaReading::microsoft, 16), 32, true},
      {deberta(DebertaReading::hf_swapped, 16), 32, false},
      {deberta(DebertaReading::hf, 0), 80, true},
  };
  for (const Rows& rows : list) {
    SCOPED_TRACE(&rows - list);
    const auto row = [&](std::int64_t r) {
      if (const Bias* const rule = std::get_if<Bias>(&rows.rows)) return rule->row(r);
      return std::clamp<std::int64_t>(-r, -4, 7) + 4;
    };
    AttentionSpec spec;
    spec.terms = {TableTerm{.side = TableSide::key, .table = on_gpu({1, rows.count, 8, 128}), .rows = rows.rows}};
    const Layout forward = laid_out(spec);
    ASSERT_TRUE(forward.hopper.has_value());
    const std::int64_t left = forward.hopper->of_keys.far_left, right = forward.hopper->of_keys.far_right;
    for (std::int64_t more = 0; more < 2000; ++more) {
      ASSERT_EQ(row(left + more), row(left));
      ASSERT_EQ(row(-right - more), row(-right));
    }
    const auto backward = laid_out_backward(spec, all_gradients());
    ASSERT_EQ(backward.hopper_backward.has_value(), rows.has_backward);
    if (!rows.has_backward) continue;
    const cuda::hopper::DistanceTable& table = backward.hopper_backward->tables[1];
    EXPECT_LE(table.left, left);
    EXPECT_LE(table.right, right);
    EXPECT_EQ(row(table.left), row(left));
    EXPECT_EQ(row(-table.right), row(-right));
    EXPECT_NE(row(table.left - 1), row(left));
    EXPECT_NE(row(1 - table.right), row(-right));
  }
}

/// Hopper's kernels write the gradient by distance where the general ones would have added up their slots.
TEST(HopperCall, has_the_gradient_of_a_bias) {
  const T5Buckets buckets = {.heads = 8, .buckets = 32, .max_distance = 128, .sides = BucketSides::both};
  AttentionGradients gradients = all_gradients();
  const AttentionSpec spec = with_bias(buckets);
  EXPECT_EQ(laid_out_backward(spec, gradients).hopper_backward->diagonal, nullptr);
  gradients.terms = {TermGradient{.parameters = on_gpu({1, 1, 1, Bias::make(buckets)->parameter_count()}, DType::f32)}};
  const auto layout = laid_out_backward(spec, gradients);
  ASSERT_TRUE(layout.hopper_backward.has_value());
  ASSERT_EQ(layout.parameters.size(), 1u);
  EXPECT_EQ(layout.hopper_backward->diagonal, layout.parameters[0].job.diagonal.data);
  EXPECT_NE(static_cast<void*>(layout.hopper_backward->diagonal), gradients.terms[0].parameters.data);
  EXPECT_TRUE(layout.finish.empty());
  EXPECT_EQ(layout.after.size(), 1u);
}

}  // namespace
}  // namespace phasor::test
