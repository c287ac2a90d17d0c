// SPDX-License-Identifier: Apache-2.0
// Which calls of attention go to Hopper's kernel, and in which words.
#include <gtest/gtest.h>

#include "cuda/host/hopper/laid_out.hpp"

namespace phasor::test {
namespace {

AttentionReport explained(const AttentionSpec& spec, int compute_major) {
  const AttentionInputs inputs = {on_gpu({2, 33, 8, 128}), on_gpu({2, 70, 4, 128}), on_gpu({2, 70, 4, 128})};
  const job::AttentionCall call = {&inputs, &spec, nullptr, "explain_attention"};
  std::vector<job::AttentionTermJob> terms;
  job::AttentionJob job;
  job::make_attention_job(call, terms, job);
  const Result<AttentionReport> report = cuda::attention::explain(job, compute_major);
  EXPECT_TRUE(report.ok());
  return *report;
}

TEST(HopperCall, is_plain_attention_of_16_bits) {
  AttentionSpec spec;
  spec.visibility = {.mask = Mask::causal, .left = 20};
  const Layout layout = laid_out(spec);
  ASSERT_TRUE(layout.hopper.has_value());
  EXPECT_NE(layout.hopper_workspace, nullptr);
  EXPECT_TRUE(layout.hopper->causal);
  EXPECT_EQ(layout.hopper->left, 20);
  EXPECT_EQ(layout.hopper->diagonal, nullptr);
  EXPECT_FALSE(laid_out(spec, 8).hopper.has_value());
  EXPECT_FALSE(laid_out(spec, 9, DType::f32).hopper.has_value());
}

TEST(HopperCall, takes_positions_that_tokens_have_anyway) {
  const auto taken = [](std::int64_t queries, std::optional<std::int64_t> keys, const auto& change) {
    AttentionSpec spec;
    spec.visibility.mask = Mask::causal;
    spec.query_positions = positions_from(queries);
    if (keys) spec.key_positions = positions_from(*keys);
    change(spec);
    return laid_out(spec).hopper.has_value();
  };
  const auto nothing = [](AttentionSpec&) {};
  const auto window = [](AttentionSpec& s) { s.visibility.left = 20; };
  const auto bias = [](AttentionSpec& s) { s.terms = {BiasTerm{*Bias::make(Alibi{.heads = 8})}}; };
  const auto rotary = [](AttentionSpec& s) { s.content = RotaryContent{*Rotary::make({.head_dim = 128})}; };
  EXPECT_TRUE(taken(37, 0, nothing));  // 70 keys, 33 queries
  EXPECT_TRUE(taken(37, std::nullopt, window));
  EXPECT_TRUE(taken(37, 0, bias));
  EXPECT_TRUE(taken(1037, 1000, window));  // keys of a window that has moved on
  EXPECT_FALSE(taken(1037, 1000, bias));   // a bias may go by more than distances
  EXPECT_TRUE(taken(37, 0, rotary));
  EXPECT_FALSE(taken(36, 0, window));
  EXPECT_FALSE(taken(37, 1, window));
  EXPECT_FALSE(taken(INT64_MIN + 37, INT64_MIN, window));
  EXPECT_FALSE(taken(37, std::nullopt, [](AttentionSpec& s) {  // numbers in memory are not looked at
    s.key_positions = {some_memory, PositionType::i64, {1, 1, 70}, {0, 0, 1}, 0, kGpu};
  }));
}

TEST(HopperCall, has_nothing_that_the_kernel_does_not_know) {
  const auto taken = [](const auto& change) {
    AttentionSpec spec;
    change(spec);
    return laid_out(spec).hopper.has_value();
  };
  const std::int64_t starts[] = {0, 33};
  const std::int64_t key_starts[] = {0, 70};
  EXPECT_TRUE(taken([](AttentionSpec&) {}));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.dropout.probability = 0.5; }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.sinks = on_gpu({1, 1, 8, 1}, DType::f32); }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.content_shift = on_gpu({1, 1, 8, 128}, DType::f32); }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.query_positions = positions_from(5), s.visibility.mask = Mask::causal; }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.key_positions = positions_from(5), s.visibility.left = 7; }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.key_positions = positions_from(5), s.visibility.right = 7; }));
  EXPECT_TRUE(taken([](AttentionSpec& s) { s.query_positions = s.key_positions = positions_from(5); }));  // nothing goes by them
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.terms = {DenseTerm{on_gpu({1, 33, 8, 70}, DType::f32)}}; }));
  EXPECT_FALSE(taken([&](AttentionSpec& s) {
    s.visibility.query_starts = Integers(starts, 2, kGpu);
    s.visibility.key_starts = Integers(key_starts, 2, kGpu);
  }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.visibility.key_mask = {reinterpret_cast<std::uint8_t*>(some_memory), {70, 1}, kGpu}; }));
  EXPECT_FALSE(taken([](AttentionSpec& s) { s.content = XposContent{*Rotary::make({.head_dim = 128})}; }));
}

/// Rotated copies have the tensors' dtype, and are q and k then.
TEST(HopperCall, takes_rotated_copies) {
  for (const Numerics numerics : {Numerics::exact, Numerics::hf}) {
    for (const KeyState keys : {KeyState::unrotated, KeyState::rotated}) {
      AttentionSpec spec;
      spec.visibility.mask = Mask::causal;
      spec.content = RotaryContent{*Rotary::make({.head_dim = 128, .numerics = numerics}), keys};
      const Layout layout = laid_out(spec);
      ASSERT_TRUE(layout.hopper.has_value());
      ASSERT_EQ(layout.copies.size(), keys == KeyState::rotated ? 1 : 2);
      EXPECT_EQ(layout.hopper->q.data, layout.copies[0].to.data);
      EXPECT_EQ(layout.hopper->q.dtype, DType::bf16);
      EXPECT_EQ(layout.hopper->k.data, keys == KeyState::rotated ? some_memory : layout.copies[1].to.data);
    }
  }
  AttentionSpec mapped;
  mapped.visibility.mask = Mask::causal;
  mapped.content = RotaryContent{*Rotary::make({.head_dim = 128}), KeyState::unrotated, ReRope{.window = 8}};
  EXPECT_FALSE(laid_out(mapped).hopper.has_value());
}

/// What is said is what is done.
TEST(HopperCall, is_named_by_explain) {
  struct Said {
    int compute_major;
    std::int64_t query_tile;
    std::int64_t key_tile;
    std::int64_t tiles;  // of a head
  };
  for (const Said& said : {Said{7, 32, 32, 2 * 3}, Said{8, 128, 64, 2}, Said{9, 128, 176, 1}}) {
    const AttentionReport report = explained({}, said.compute_major);
    EXPECT_EQ(report.words.find("kernel for Hopper") != std::string::npos, said.compute_major == 9) << report.words;
    EXPECT_EQ(report.query_tile, said.query_tile);
    EXPECT_EQ(report.key_tile, said.key_tile);
    EXPECT_EQ(report.band_tiles, 16 * said.tiles);
  }
}

TEST(HopperCall, has_one_bias_by_distance) {
  const Layout alibi = laid_out(with_bias(Alibi{.heads = 8}));
  ASSERT_TRUE(alibi.hopper.has_value());
  EXPECT_EQ(alibi.hopper->first_distance, -103);
  EXPECT_EQ(alibi.hopper->far_left, cuda::hopper::kNoLimit);
  EXPECT_FALSE(laid_out(with_bias(Alibi{.heads = 8, .slopes = {}, .max_bias = 8, .form = AlibiForm::key_position})).hopper.has_value());
  AttentionSpec gated = with_bias(Alibi{.heads = 8});
  std::get<BiasTerm>(gated.terms[0]).gate = on_gpu({1, 33, 8, 1}, DType::f32);
  EXPECT_FALSE(laid_out(gated).hopper.has_value());
  AttentionSpec two = with_bias(Alibi{.heads = 8});
  two.terms.push_back(two.terms[0]);
  EXPECT_FALSE(laid_out(two).hopper.has_value());
}

TEST(HopperCall, has_one_table_of_clipped_rows) {
  const auto with_table = [](const TableTerm& term) {
    AttentionSpec spec;
    spec.terms = {term};
    return laid_out(spec);
  };
  const TableTerm shaw = {.table = on_gpu({1, 25, 8, 128}), .rows = ClipRows{.left = 16, .right = 8}, .scale = 0.5};
  const Layout layout = with_table(shaw);
  ASSERT_TRUE(layout.hopper.has_value());
  EXPECT_EQ(layout.hopper->table.shape[1], 25);
  EXPECT_EQ(layout.hopper->table_left, 16);
  EXPECT_EQ(layout.hopper->table_right, 8);
  EXPECT_EQ(layout.hopper->table_scale, 0.5);
  const auto taken = [&](const auto& change) {
    TableTerm term = shaw;
    change(term);
    return with_table(term).hopper.has_value();
  };
  EXPECT_TRUE(taken([](TableTerm& t) { t.table = on_gpu({1, 25, 1, 128}); }));
  EXPECT_FALSE(taken([](TableTerm& t) { t.table = on_gpu({1, 25, 8, 128}, DType::f32); }));
  EXPECT_FALSE(taken([](TableTerm& t) { t.table = on_gpu({2, 25, 8, 128}); }));
  EXPECT_FALSE(taken([](TableTerm& t) { t.side = TableSide::key, t.table = on_gpu({1, 25, 8, 128}, DType::f32); }));
  EXPECT_TRUE(taken([](TableTerm& t) { t.shift = on_gpu({1, 1, 8, 128}, DType::f32); }));
  EXPECT_FALSE(taken([](TableTerm& t) { t.features = on_gpu({2, 33, 8, 128}); }));
  EXPECT_TRUE(taken([](TableTerm& t) { t.rows = ClipRows{.left = 16, .right = 8, .outside = OutsideRows::zero}; }));
  EXPECT_TRUE(taken([](TableTerm& t) { t.table = on_gpu({1, 129, 8, 128}), t.rows = ClipRows{.left = 64, .right = 64}; }));
  EXPECT_TRUE(taken([](TableTerm& t) { t.table = on_gpu({1, 130, 8, 128}), t.rows = ClipRows{.left = 65, .right = 64}; }));
}

/// Shaw's values, beside keys of as many rows, or alone; in whatever order.
TEST(HopperCall, has_one_table_of_values) {
  const auto with_tables = [](std::vector<AttentionTerm> terms) {
    AttentionSpec spec;
    spec.terms = std::move(terms);
    EXPECT_EQ(laid_out(spec).hopper.has_value(), explained(spec, 9).words.find("kernel for Hopper") != std::string::npos);
    return laid_out(spec).hopper;
  };
  const TableTerm keys = {.table = on_gpu({1, 25, 8, 128}), .rows = ClipRows{.left = 16, .right = 8}, .scale = 0.5};
  TableTerm values = {.side = TableSide::value, .table = on_gpu({1, 25, 1, 128}), .rows = ClipRows{.left = 16, .right = 8}};
  for (const std::vector<AttentionTerm>& terms : {std::vector<AttentionTerm>{keys, values}, {values, keys}, {values}}) {
    const auto forward = with_tables(terms);
    ASSERT_TRUE(forward.has_value());
    EXPECT_EQ(forward->table.data != nullptr, terms.size() == 2);
    EXPECT_EQ(forward->table_scale, terms.size() == 2 ? 0.5 : 1);
    EXPECT_EQ(forward->value_table.shape[2], 1);
    EXPECT_EQ(forward->table_left, 16);
    EXPECT_EQ(forward->table_right, 8);
  }
  EXPECT_FALSE(with_tables({keys, values, values}));
  EXPECT_FALSE(with_tables({values, values}));
  EXPECT_FALSE(with_tables({keys, keys}));
  EXPECT_FALSE(with_tables({values, BiasTerm{*Bias::make(Alibi{.heads = 8})}}));
  EXPECT_FALSE(with_tables({BiasTerm{*Bias::make(Alibi{.heads = 8})}, values}));
  TableTerm shifted = keys;
  shifted.shift = on_gpu({1, 1, 8, 128}, DType::f32);
  EXPECT_FALSE(with_tables({shifted, values}));
  values.rows = ClipRows{.left = 16, .right = 8, .outside = OutsideRows::zero};
  EXPECT_FALSE(with_tables({keys, values}));
  EXPECT_FALSE(with_tables({values}));
  values.rows = ClipRows{.left = 8, .right = 16};
  EXPECT_FALSE(with_tables({keys, values}));
  EXPECT_TRUE(with_tables({values}));
  values.table = on_gpu({1, 130, 8, 128}), values.rows = ClipRows{.left = 65, .right = 64};
  EXPECT_FALSE(with_tables({values}));
  values.table = on_gpu({1, 129, 8, 128}), values.rows = ClipRows{.left = 64, .right = 64};
  EXPECT_TRUE(with_tables({values}));
}

/// Transformer-XL: a row for each distance, u added to q where it meets keys, v where it meets rows.
TEST(HopperCall, has_what_is_added_to_queries_beside_a_table) {
  AttentionSpec spec;
  spec.content_shift = on_gpu({1, 1, 8, 128}, DType::f32);
  EXPECT_FALSE(laid_out(spec).hopper.has_value());
  spec.terms = {TableTerm{.table = on_gpu({1, 201, 8, 128}),
                          .rows = ClipRows{.left = 100, .right = 100, .outside = OutsideRows::zero},
                          .shift = on_gpu({1, 1, 8, 128})}};
  const Layout layout = laid_out(spec);
  ASSERT_TRUE(layout.hopper.has_value());
  EXPECT_NE(layout.hopper->content_shift.data, nullptr);
  EXPECT_NE(layout.hopper->table_shift.data, nullptr);
  EXPECT_TRUE(layout.hopper->zero_outside);
  spec.softcap = 30;
  EXPECT_FALSE(laid_out(spec).hopper.has_value());
  spec.softcap = 0;
  spec.terms.push_back(BiasTerm{*Bias::make(Alibi{.heads = 8})});
  EXPECT_FALSE(laid_out(spec).hopper.has_value());
}

/// DeBERTa: rows by buckets that queries meet, keys meet, or both.
TEST(HopperCall, has_tables_that_queries_and_keys_meet) {
  for (const DebertaReading reading : {DebertaReading::hf, DebertaReading::microsoft, DebertaReading::hf_swapped}) {
    const DebertaBuckets buckets = {.heads = 8, .buckets = 16, .max_distance = 64, .reading = reading};
    const Bias rows = *Bias::make(buckets);
    const TableTerm queries = {.table = on_gpu({1, 32, 8, 128}), .rows = rows, .scale = 0.5};
    TableTerm keys = queries;
    keys.side = TableSide::key, keys.table = on_gpu({1, 32, 1, 128}), keys.scale = 0.25;
    AttentionSpec spec;
    spec.terms = {keys, queries};
    const Layout layout = laid_out(spec);
    ASSERT_TRUE(layout.hopper.has_value());
    const cuda::hopper::Forward& f = *layout.hopper;
    EXPECT_EQ(f.table.data, nullptr);
    EXPECT_EQ(f.of_queries.scale, 0.5);
    EXPECT_EQ(f.of_keys.scale, 0.25);
    EXPECT_EQ(f.of_keys.table.shape[2], 1);
    // Beyond the ends there is one row.
    EXPECT_LE(f.of_queries.far_left, 104);  // a bucket beyond those that there are
    for (const std::int64_t more : {1, 7, 1000, 1 << 20}) {
      EXPECT_EQ(rows.row(f.of_queries.far_left + more), rows.row(f.of_queries.far_left));
      EXPECT_EQ(rows.row(-f.of_keys.far_right - more), rows.row(-f.of_keys.far_right));
    }
    for (const bool first : {false, true}) {
      AttentionSpec one;
      one.terms = {first ? keys : queries};
      const Layout alone = laid_out(one);
      ASSERT_TRUE(alone.hopper.has_value());
      EXPECT_EQ(alone.hopper->of_queries.table.data == nullptr, first);
      EXPECT_EQ(alone.hopper->of_keys.table.data == nullptr, !first);
    }
    AttentionSpec twice = spec;
    twice.terms = {keys, keys};
    EXPECT_FALSE(laid_out(twice).hopper.has_value());
    twice.terms = {keys, BiasTerm{*Bias::make(Alibi{.heads = 8})}};
    EXPECT_FALSE(laid_out(twice).hopper.has_value());
    twice.terms = {keys, queries, keys};
    EXPECT_FALSE(laid_out(twice).hopper.has_value());
    spec.softcap = 30;
    EXPECT_FALSE(laid_out(spec).hopper.has_value());
  }
}
/// Beyond what `Clipped` keeps: strips where few tiles have more than the ends, windows else.
TEST(HopperCall, knows_which_long_tables_are_narrow) {
  for (const std::int64_t left : {4, 7}) {
    AttentionSpec spec;
    spec.terms = {
        TableTerm{.table = on_gpu({1, left + 8, 8, 128}), .rows = ClipRows{.left = left, .right = 7, .outside = OutsideRows::zero}}};
    const Layout layout = laid_out(spec);
    ASSERT_TRUE(layout.hopper.has_value());
    EXPECT_NE(layout.hopper->of_queries.table.data, nullptr);
    EXPECT_EQ(layout.hopper->of_queries.far_left, left + 1);
    spec.terms = {
        TableTerm{.table = on_gpu({1, left + 50, 8, 128}), .rows = ClipRows{.left = left, .right = 49, .outside = OutsideRows::zero}}};
    EXPECT_NE(laid_out(spec).hopper->table.data, nullptr);
  }
}

/// Inkling: features of 16 numbers meet rows of keys before a query.
TEST(HopperCall, has_features_that_meet_a_table) {
  AttentionSpec spec;
  TableTerm term = {.table = on_gpu({1, 40, 8, 16}),
                    .rows = ClipRows{.left = 39, .right = 0, .outside = OutsideRows::zero},
                    .features = on_gpu({2, 33, 8, 16})};
  spec.terms = {term};
  const Layout layout = laid_out(spec);
  ASSERT_TRUE(layout.hopper.has_value());
  EXPECT_EQ(layout.hopper->features.data, term.features.data);
  EXPECT_EQ(layout.hopper->table_left, 39);
  EXPECT_TRUE(layout.hopper->zero_outside);
  term.features = on_gpu({2, 33, 8, 32}), term.table = on_gpu({1, 40, 8, 32});
  spec.terms = {term};
  EXPECT_FALSE(laid_out(spec).hopper.has_value());
}

TEST(HopperCall, leaves_out_tiles_where_that_is_asked_for) {
  AttentionSpec spec = with_bias(Alibi{.heads = 8});
  spec.visibility.mask = Mask::causal;
  EXPECT_FALSE(laid_out(spec).hopper->skip);
  spec.skip = TileSkip::certified;
  EXPECT_TRUE(laid_out(spec).hopper->skip);
}

/// Beyond `far` there is one row, and not before.
TEST(HopperCall, knows_where_buckets_end) {
  for (const bool both : {false, true}) {
    const T5Buckets buckets = {.heads = 8, .buckets = 32, .max_distance = 128, .sides = both ? BucketSides::both : BucketSides::behind};
    const AttentionSpec spec = with_bias(buckets);
    const Layout layout = laid_out(spec);
    ASSERT_TRUE(layout.hopper.has_value());
    const Bias bias = *Bias::make(buckets);
    const std::int64_t left = layout.hopper->far_left;
    const std::int64_t right = layout.hopper->far_right;
    for (const std::int64_t more : {1, 7, 1000, 1 << 20}) {
      EXPECT_EQ(bias.row(left + more), bias.row(left));
      EXPECT_EQ(bias.row(-right - more), bias.row(-right));
    }
    EXPECT_NE(bias.row(left - 1), bias.row(left));
    EXPECT_NE(bias.row(-right + 1), bias.row(-right));
  }
}

}  // namespace
}  // namespace phasor::test
