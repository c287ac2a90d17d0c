// SPDX-License-Identifier: Apache-2.0
// Which calls of attention go to the kernels of mma.sync, how they are cut, and which keys those kernels' bands hold.
#include <gtest/gtest.h>

#include "cuda/attention/mma/call.hpp"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/host/mma_call.hpp"

namespace phasor::test {
namespace {

using cuda::attention::Layout;
using cuda::attention::mma::Bands;
using cuda::attention::mma::ScoresIn;

TEST(MmaCall, is_of_16_bits_on_devices_that_have_the_instructions) {
  const AttentionSpec spec;
  EXPECT_TRUE(laid_out(spec).by_mma);
  EXPECT_TRUE(laid_out(spec, {.dtype = DType::f16, .out = DType::f16}).by_mma);
  EXPECT_TRUE(laid_out(spec, {.compute_major = 12}).by_mma);
  EXPECT_FALSE(laid_out(spec, {.compute_major = 9}).by_mma);  // Hopper's own
  EXPECT_FALSE(laid_out(spec, {.compute_major = 7}).by_mma);
  EXPECT_FALSE(laid_out(spec, {.compute_major = 0}).by_mma);
  EXPECT_FALSE(laid_out(spec, {.dtype = DType::f32, .out = DType::f32}).by_mma);
  EXPECT_TRUE(laid_out(spec, {.out = DType::f32}).by_mma);
  EXPECT_TRUE(laid_out(spec, {.compute_major = 9, .dtype = DType::f16, .out = DType::f32}).by_mma);  // Hopper's own write 16 bits
  EXPECT_FALSE(laid_out(spec, {.out = DType::f16}).by_mma);
  EXPECT_FALSE(laid_out(spec, {.width = 100}).by_mma);
  EXPECT_FALSE(laid_out(spec, {.width = 264}).by_mma);
}

TEST(MmaCall, has_scores_in_registers_or_in_shared_memory) {
  const auto scores = [](const auto& change) {
    AttentionSpec spec;
    change(spec);
    const Layout layout = laid_out(spec);
    EXPECT_TRUE(layout.by_mma);
    return cuda::attention::mma::cut_of(layout.work).scores;
  };
  const BiasTerm alibi = {*Bias::make(Alibi{.heads = 8})};
  EXPECT_EQ(scores([](AttentionSpec&) {}), ScoresIn::registers);
  EXPECT_EQ(scores([](AttentionSpec& s) { s.sinks = on_gpu({1, 1, 8, 1}, DType::f32); }), ScoresIn::registers);
  EXPECT_EQ(scores([](AttentionSpec& s) { s.visibility.key_mask = {reinterpret_cast<std::uint8_t*>(memory_of_device), {700, 1}, kGpu}; }),
            ScoresIn::registers);
  EXPECT_EQ(scores([&](AttentionSpec& s) { s.terms = {alibi}; }), ScoresIn::changed_in_registers);
  EXPECT_EQ(scores([&](AttentionSpec& s) { s.terms = {alibi, alibi}; }), ScoresIn::shared);
  EXPECT_EQ(scores([&](AttentionSpec& s) {
              s.terms = {alibi};
              s.key_positions = positions_from(5);
            }),
            ScoresIn::shared);
  EXPECT_EQ(scores([](AttentionSpec& s) { s.dropout.probability = 0.5; }), ScoresIn::shared);
  EXPECT_EQ(scores([](AttentionSpec& s) { s.terms = {DenseTerm{on_gpu({1, 33, 8, 700}, DType::f32)}}; }), ScoresIn::shared);
}

TEST(MmaCall, has_scores_in_registers_beside_two_tables_by_distance) {
  const auto scores = [](const std::vector<AttentionTerm>& terms, const MmaCase& of = {}, double dropout = 0) {
    AttentionSpec spec;
    spec.terms = terms;
    spec.dropout.probability = dropout;
    const Layout layout = laid_out(spec, of);
    EXPECT_TRUE(layout.by_mma);
    return cuda::attention::mma::cut_of(layout.work).scores;
  };
  const TableTerm query = table_on(TableSide::query);
  const TableTerm key = table_on(TableSide::key);
  const TableTerm value = table_on(TableSide::value, 1);
  const BiasTerm alibi = {*Bias::make(Alibi{.heads = 8})};
  const DenseTerm dense = {on_gpu({1, 33, 8, 700}, DType::f32)};
  EXPECT_EQ(scores({query}), ScoresIn::tabled);
  EXPECT_EQ(scores({key, query}), ScoresIn::tabled);
  EXPECT_EQ(scores({alibi, key}), ScoresIn::tabled);
  EXPECT_EQ(scores({value}), ScoresIn::tabled);
  EXPECT_EQ(scores({value, key}, {.compute_major = 9}), ScoresIn::tabled);  // Hopper's own have values beside tables of queries alone
  EXPECT_EQ(scores({query, key, query}), ScoresIn::shared);
  EXPECT_EQ(scores({query, key, value}), ScoresIn::shared_with_values);
  EXPECT_EQ(scores({value, value}), ScoresIn::shared_with_values);
  EXPECT_EQ(scores({alibi, alibi, key}), ScoresIn::shared);
  EXPECT_EQ(scores({dense, key}), ScoresIn::shared);
  EXPECT_EQ(scores({key}, {}, 0.5), ScoresIn::shared);
  EXPECT_EQ(scores({value}, {}, 0.5), ScoresIn::shared_with_values);
  EXPECT_EQ(scores({table_on(TableSide::key, 8, 200)}, {.width = 200}), ScoresIn::shared);
  TableTerm apart = key;
  apart.table.strides[1] += 4;
  EXPECT_EQ(scores({apart}), ScoresIn::shared);
  BiasTerm gated = alibi;
  gated.gate = on_gpu({2, 33, 8, 1}, DType::f32);
  EXPECT_EQ(scores({key, gated}), ScoresIn::shared);
}

TEST(MmaCall, has_scores_in_registers_beside_features_of_their_own) {
  const auto scores = [](const std::vector<AttentionTerm>& terms, const auto& change) {
    AttentionSpec spec;
    spec.terms = terms;
    change(spec);
    const Layout layout = laid_out(spec);
    EXPECT_TRUE(layout.by_mma);
    return cuda::attention::mma::cut_of(layout.work).scores;
  };
  const auto nothing = [](AttentionSpec&) {};
  TableTerm featured = table_on(TableSide::query, 1, 16);
  featured.features = on_gpu({2, 33, 8, 16});
  EXPECT_EQ(scores({featured}, nothing), ScoresIn::tabled);
  EXPECT_EQ(scores({featured, table_on(TableSide::query)}, nothing), ScoresIn::shared);
  EXPECT_EQ(scores({table_on(TableSide::value, 1), featured}, nothing), ScoresIn::shared_with_values);
  TableTerm apart = featured;
  apart.features.strides[1] += 4;
  EXPECT_EQ(scores({apart}, nothing), ScoresIn::shared);
  TableTerm of_keys = table_on(TableSide::key, 1, 16);
  of_keys.features = on_gpu({2, 700, 4, 16});
  EXPECT_EQ(scores({of_keys}, nothing), ScoresIn::shared);
  const TableTerm query = table_on(TableSide::query);
  EXPECT_EQ(scores({query}, [](AttentionSpec& s) { s.content_shift = on_gpu({1, 1, 8, 128}); }), ScoresIn::tabled);
  EXPECT_EQ(scores({query}, [](AttentionSpec& s) { s.key_positions = positions_from(5); }), ScoresIn::shared);
}

TEST(MmaCall, is_what_is_said_of_tables_of_values) {
  const auto words = [](const AttentionSpec& spec, int compute_major = 8) {
    const AttentionInputs inputs = {on_gpu({2, 33, 8, 128}), on_gpu({2, 700, 4, 128}), on_gpu({2, 700, 4, 128})};
    const job::AttentionCall call = {&inputs, &spec, nullptr, "explain_attention"};
    std::vector<job::AttentionTermJob> terms;
    job::AttentionJob job;
    job::make_attention_job(call, terms, job);
    const Result<AttentionReport> report = cuda::attention::explain(job, compute_major);
    return report.ok() ? report->words : report.status().message();
  };
  AttentionSpec spec;
  spec.terms = {TableTerm{.side = TableSide::value, .table = on_gpu({1, 9, 8, 128}), .rows = ClipRows{4, 4}}};
  const auto says = [&](const std::string& part, int compute_major) {
    const std::string all = words(spec, compute_major);
    EXPECT_NE(all.find(part), std::string::npos) << all;
  };
  says("CUDA's general kernel, in float32: 704 tiles of 32 x 32 scores", 7);
  says("tensor cores of compute capability 8 and newer take it; gradients by general kernels", 7);
  says("CUDA's kernel of mma.sync, on tensor cores, in float32: 352 tiles of 64 x 32 scores", 8);
  says("bytes of workspace; gradients by mma.sync", 8);
  says("gradients by mma.sync", 9);  // Hopper's own take no tables of values
  spec.dropout.probability = 0.5;
  says("CUDA's kernel of mma.sync", 8);
  says("gradients by general kernels: tensor cores do not take dropout beside a value-side table", 8);
  spec.terms = {};
  spec.dropout = {};
  says("gradients by kernels for Hopper, where outputs are float32 by mma.sync", 9);
  says("bytes of workspace; by mma.sync where outputs are float32; gradients", 9);
  spec.terms = {TableTerm{.table = on_gpu({1, 9, 8, 128}), .rows = ClipRows{4, 4}}};
  says("gradients by kernels for Hopper", 9);
  spec.terms = {TableTerm{.table = on_gpu({1, 131, 8, 128}), .rows = ClipRows{65, 65}}};
  says("gradients by kernels for Hopper", 9);
  spec.terms = {TableTerm{.table = on_gpu({1, 131, 8, 128}), .rows = ClipRows{65, 65, OutsideRows::zero}}};
  says("gradients by mma.sync", 9);  // theirs are the last rows for all beyond
  spec.terms = {TableTerm{.table = on_gpu({1, 732, 8, 128}), .rows = ClipRows{699, 32}, .shift = on_gpu({1, 1, 8, 128})}};
  spec.content_shift = on_gpu({1, 1, 8, 128});
  says("gradients by kernels for Hopper", 9);
  says("gradients by mma.sync", 8);
  spec.content_shift = {};
  spec.terms = {TableTerm{.side = TableSide::value, .table = on_gpu({1, 9, 8, 128}), .rows = ClipRows{4, 4}}};
  spec.key_positions = positions_from(5);
  EXPECT_NE(words(spec).find("tensor cores do not take a value-side table at given positions"), std::string::npos) << words(spec);
}

/// Against the definition, distance by distance.
TEST(MmaCall, knows_the_row_of_all_distances) {
  for (const std::int64_t left : {0, 3, 9}) {
    for (const std::int64_t right : {0, 2}) {
      for (const bool zero_outside : {false, true}) {
        job::RowMap map;
        map.left = left;
        map.right = right;
        map.zero_outside = zero_outside;
        for (std::int64_t low = -14; low <= 14; ++low) {
          for (std::int64_t high = low; high <= 14; ++high) {
            const std::int64_t first = cuda::attention::row_by_distance(map, low);
            bool same = true;
            for (std::int64_t r = low; r <= high; ++r) same = same && cuda::attention::row_by_distance(map, r) == first;
            const std::int64_t row = cuda::attention::mma::row_of_all(map, low, high);
            if (zero_outside && same && first >= 0) continue;  // of one distance: may be looked at, need not
            EXPECT_EQ(row, same ? first : cuda::attention::mma::kSeveralRows) << left << " " << right << " " << low << " " << high;
          }
        }
      }
    }
  }
}

/// Buckets: whatever is said to be one row is one; where many distances have one, it is said.
TEST(MmaCall, knows_the_row_of_all_distances_by_buckets) {
  using Kind = plan::RowRule::Kind;
  const std::int64_t thresholds[] = {7, 9, 13, 19};
  for (const Kind kind : {Kind::t5, Kind::deberta, Kind::deberta_clip, Kind::shaw, Kind::window, Kind::none}) {
    for (const bool first : {false, true}) {
      int found[2] = {0, 0};  // ahead of a key, behind it
      job::RowMap map;
      map.has_buckets = true;
      map.buckets = {.kind = kind,
                     .both = first,
                     .cut = true,
                     .buckets = 10,
                     .max_distance = 25,
                     .mid = 5,
                     .rising = first,
                     .thresholds = thresholds,
                     .threshold_count = 4,
                     .left = 4,
                     .right = 2,
                     .rows = 9};
      for (std::int64_t low = -40; low <= 40; ++low) {
        for (std::int64_t high = low; high <= 40; ++high) {
          const std::int64_t row = cuda::attention::mma::row_of_all(map, low, high);
          if (row == cuda::attention::mma::kSeveralRows) continue;
          if (high - low > 9 && (low > 0 || high < 0)) ++found[low > 0 ? 0 : 1];
          for (std::int64_t r = low; r <= high; ++r) {
            ASSERT_EQ(cuda::attention::row_by_distance(map, r), row)
                << static_cast<int>(kind) << " " << first << " " << low << " " << high << " " << r;
          }
        }
      }
      if (kind == Kind::window) continue;
      EXPECT_GT(found[0], 0) << static_cast<int>(kind);
      EXPECT_GT(found[1], 0) << static_cast<int>(kind);
    }
  }
}

TEST(MmaCall, leaves_to_the_general_kernels_what_it_does_not_know) {
  const auto why_not = [](const auto& change) {
    AttentionSpec spec;
    change(spec);
    const Layout layout = laid_out(spec);
    const char* const why = cuda::attention::mma::why_not(layout.work);
    EXPECT_EQ(layout.by_mma, why == nullptr);
    return std::string(why == nullptr ? "" : why);
  };
  const ClipRows rows{4, 4};
  const TableTerm values = {.side = TableSide::value, .table = on_gpu({1, 9, 8, 128}), .rows = rows};
  EXPECT_EQ(why_not([&](AttentionSpec& s) { s.terms = {values}; }), "");
  EXPECT_EQ(why_not([&](AttentionSpec& s) {
              s.terms = {values};
              s.key_positions = positions_from(5);
            }),
            "a value-side table at given positions");
  EXPECT_EQ(why_not([&](AttentionSpec& s) {
              TableTerm apart = values;
              apart.table.strides[1] += 4;
              s.terms = {apart};
            }),
            "a value-side table whose channels do not lie in aligned pieces of 16 bytes");
  EXPECT_EQ(why_not([&](AttentionSpec& s) {
              s.terms = {TableTerm{.side = TableSide::query, .table = on_gpu({1, 9, 8, 128}, DType::f32), .rows = rows}};
            }),
            "a table of another dtype");
  EXPECT_EQ(why_not([](AttentionSpec& s) {
              s.terms = {BiasTerm{*Bias::make(Kerple{.r1 = std::vector<double>(8, 1), .r2 = std::vector<double>(8, 1)})}};
              s.key_positions = positions_from(5);
            }),
            "a bias that is computed at every score, and neither ALiBi nor a table");
  EXPECT_EQ(why_not([](AttentionSpec&) {}), "");
}

AttentionSpec counted(std::int64_t rows, std::int64_t width = 128) {
  AttentionSpec spec;
  spec.visibility.mask = Mask::causal;
  spec.terms = {CopeTerm{.table = on_gpu({1, rows, 1, width})}};
  return spec;
}

TEST(MmaCall, takes_cope_alone) {
  for (const std::int64_t width : {64, 128, 256}) {
    for (const int compute_major : {8, 9, 12}) {
      const Layout layout = laid_out(counted(64, width), {.compute_major = compute_major, .width = width});
      EXPECT_TRUE(layout.by_mma) << width << " " << compute_major;
      EXPECT_EQ(cuda::attention::mma::cut_of(layout.work).scores, ScoresIn::counted);
      EXPECT_EQ(layout.work.partial.splits, 1);  // gates are counted over all keys
    }
  }
  AttentionSpec more = counted(64);
  more.softcap = 30;
  more.sinks = on_gpu({1, 1, 8, 1}, DType::f32);
  EXPECT_TRUE(laid_out(more).by_mma);
}

TEST(MmaCall, says_what_cope_may_not_have) {
  const auto why_not = [](const AttentionSpec& spec, const MmaCase& of = {}) {
    const Layout layout = laid_out(spec, of);
    const char* const why = cuda::attention::mma::why_not(layout.work);
    EXPECT_EQ(layout.by_mma, why == nullptr);
    return std::string(why == nullptr ? "" : why);
  };
  const char* const too_many = "CoPE with a table of more rows than shared memory has room for";
  EXPECT_EQ(why_not(counted(272, 64), {.width = 64}), "");
  EXPECT_EQ(why_not(counted(273, 64), {.width = 64}), too_many);
  EXPECT_EQ(why_not(counted(176)), "");
  EXPECT_EQ(why_not(counted(177)), too_many);
  EXPECT_EQ(why_not(counted(112, 256), {.width = 256}), "");
  EXPECT_EQ(why_not(counted(113, 256), {.width = 256}), too_many);
  EXPECT_EQ(why_not(counted(std::int64_t{1} << 60)), too_many);
  AttentionSpec spec = counted(64);
  spec.terms.emplace_back(BiasTerm{*Bias::make(Alibi{.heads = 8})});
  EXPECT_EQ(why_not(spec), "CoPE beside other terms");
  std::swap(spec.terms[0], spec.terms[1]);
  EXPECT_EQ(why_not(spec), "CoPE beside other terms");
  spec = counted(64);
  spec.key_positions = positions_from(5);
  EXPECT_EQ(why_not(spec), "CoPE at given positions");
  spec = counted(64);
  spec.content_shift = on_gpu({1, 1, 8, 128}, DType::f32);
  EXPECT_EQ(why_not(spec), "CoPE with a shift of the content");
  spec = counted(64);
  spec.dropout.probability = 0.5;
  EXPECT_EQ(why_not(spec), "CoPE with dropout");
  spec = counted(64);
  std::get<CopeTerm>(spec.terms[0]).table.strides[1] += 4;
  EXPECT_EQ(why_not(spec), "a table whose channels do not lie in aligned pieces of 16 bytes");
  spec.terms = {CopeTerm{.table = on_gpu({1, 64, 1, 128}, DType::f32)}};
  EXPECT_EQ(why_not(spec), "a table of another dtype");
}

TEST(MmaCall, cuts_keys_of_few_queries_into_parts) {
  const Layout few = laid_out({}, {.queries = 1});
  EXPECT_TRUE(few.by_mma);
  EXPECT_GT(few.work.partial.splits, 1);
  EXPECT_NE(few.work.partial.out, nullptr);
  EXPECT_EQ(laid_out({}, {.queries = 128 * 32}).work.partial.splits, 1);
}

TEST(MmaCall, has_every_block_of_queries_once) {
  const Layout layout = laid_out({}, {.queries = 300});
  const cuda::attention::mma::Cut cut = cuda::attention::mma::cut_of(layout.work);
  const std::int64_t splits = layout.work.partial.splits;
  std::vector<int> found(static_cast<std::size_t>(3 * 2 * 8 * splits), 0);
  ASSERT_EQ(cuda::attention::mma::block_count(layout.work, cut), static_cast<std::int64_t>(found.size()));
  for (std::int64_t n = 0; n < static_cast<std::int64_t>(found.size()); ++n) {
    const cuda::attention::mma::BlockPlace place = cuda::attention::mma::block_place(layout.work, cut.queries, n);
    ++found.at(static_cast<std::size_t>((place.tile * 8 + place.head) * splits + place.split));
  }
  for (const int times : found) EXPECT_EQ(times, 1);
}

/// Against the definition, key by key.
TEST(MmaCall, has_bands_of_keys) {
  for (const std::int64_t left : {std::int64_t{-9}, std::int64_t{0}, std::int64_t{5}, INT64_MAX}) {
    for (const std::int64_t right : {std::int64_t{-3}, std::int64_t{0}, std::int64_t{4}, INT64_MAX}) {
      for (const std::int64_t prefix : {INT64_MIN, std::int64_t{0}, std::int64_t{6}, std::int64_t{100}}) {
        for (const bool causal : {false, true}) {
          cuda::attention::AttentionWork work = {};
          work.see.causal = causal;
          work.see.left = left;
          work.see.right = right;
          const cuda::attention::Sequence s = {0, 0, 0, 20, 0, 12, prefix};
          const Bands bands = cuda::attention::mma::bands_of(work, s);
          for (int query = -8; query < 12; ++query) {
            const cuda::attention::mma::Band band = bands.at(query);
            for (int key = 0; key < 12; ++key) {
              const bool in_band = key >= band.first && key < band.first + band.count;
              EXPECT_EQ(in_band, cuda::attention::sees_distance(work.see, prefix, query, key)) << query << " " << key;
            }
            EXPECT_LE(band.first + band.count, std::max(12, band.first));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor::test
