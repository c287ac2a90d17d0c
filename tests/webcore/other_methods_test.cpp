// SPDX-License-Identifier: Apache-2.0
// The core's methods of attention, biases, images and encodings that are added give what the library's functions give.
#include <algorithm>
#include <cmath>

#include "asked.hpp"
#include "phasor/analysis_by_pair.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

TEST(WebAttention, every_scheme_gives_rows_that_sum_to_one_below_the_diagonal) {
  const Answer schemes = ask("attention.schemes", {{"heads", 4}, {"head_dim", 16}, {"window", 8}});
  EXPECT_EQ(schemes["schemes"].size(), 16U);
  for (const Value& one : schemes["schemes"]) {
    const Answer map = ask("attention.weights", {{"scheme", one["scheme"]}, {"tokens", 24}, {"heads", 4}, {"head_dim", 16}, {"head", 3}});
    const auto weights = map.numbers("weights");
    ASSERT_EQ(weights.size(), 576U);
    for (std::size_t q = 0; q < 24; ++q) {
      double sum = 0;
      for (std::size_t k = 0; k < 24; ++k) {
        sum += weights[q * 24 + k];
        if (k > q) {
          EXPECT_EQ(weights[q * 24 + k], 0) << one["name"];
        }
      }
      EXPECT_NEAR(sum, 1, 1e-5) << one["name"];
    }
    EXPECT_EQ(map.numbers("output").size(), 24U * 16);
    EXPECT_EQ(map.numbers("lse").size(), 24U);
    const Answer report =
        ask("attention.explain", {{"scheme", one["scheme"]}, {"queries", 512}, {"keys", 512}, {"heads", 4}, {"head_dim", 16}});
    EXPECT_GT(report["operations"].get<double>(), 0) << one["name"];
    EXPECT_FALSE(report["words"].get<std::string>().empty());
  }
}

TEST(WebAttention, biases_alone_are_the_softmax_of_the_slopes) {
  const Value scheme =
      Value::parse(R"({"terms": [{"type": "BiasScheme", "bias": {"type": "Alibi", "heads": 2}}], "mask": "causal", "left": 5})");
  const Answer map = ask("attention.weights",
                         {{"scheme", scheme}, {"tokens", 16}, {"heads", 2}, {"head_dim", 8}, {"head", 1}, {"content", {{"kind", "zero"}}}});
  const auto weights = map.numbers("weights");
  const double slope = 1.0 / 256;  // 2^-8 of the second of two heads
  for (int q = 0; q < 16; ++q) {
    double sum = 0;
    for (int k = std::max(0, q - 5); k <= q; ++k) sum += std::exp(-slope * (q - k));
    for (int k = 0; k < 16; ++k) {
      const bool seen = k <= q && k >= q - 5;
      EXPECT_NEAR(weights[static_cast<std::size_t>(q * 16 + k)], seen ? std::exp(-slope * (q - k)) / sum : 0, 1e-6);
    }
  }
}

TEST(WebAttention, the_same_contents_differ_by_distance_alone) {
  const Value scheme = Value::parse(R"({"content": {"type": "RotaryScheme", "rotary": {"head_dim": 16}}, "mask": "causal"})");
  const auto at = [&](std::int64_t first) {
    return ask("attention.weights", {{"scheme", scheme},
                                     {"tokens", 12},
                                     {"heads", 1},
                                     {"head_dim", 16},
                                     {"content", {{"kind", "same"}}},
                                     {"first_position", first}})
        .numbers("weights");
  };
  const auto near = at(0);
  const auto far = at(1000000);
  for (std::size_t i = 0; i < near.size(); ++i) EXPECT_NEAR(near[i], far[i], 1e-5);
  EXPECT_GT(*std::max_element(near.begin() + 132, near.end()), 1.05 / 12);
}

TEST(WebMaps, a_bias_is_the_librarys_and_so_are_its_rows) {
  const Answer answer = ask("bias", {{"bias", {{"type", "T5Buckets"}, {"heads", 2}, {"sides", "behind"}}}, {"queries", 20}, {"keys", 20}});
  const Bias bias = *Bias::make(T5Buckets{.heads = 2, .sides = BucketSides::behind});
  const auto rows = answer.numbers("row_of_distance");
  for (std::int64_t distance = -19; distance < 20; ++distance) {
    EXPECT_EQ(rows[static_cast<std::size_t>(distance + 19)], static_cast<double>(bias.row(distance)));
  }
  const Answer alibi = ask("bias", {{"queries", 8}, {"keys", 8}, {"head", 2}, {"first_query", 100}});
  EXPECT_EQ(alibi["slopes"].size(), 8U);
  EXPECT_EQ(alibi.numbers("values")[0], -100 * alibi["slopes"][2].get<double>());
  EXPECT_TRUE(std::isnan(alibi.numbers("row_of_distance")[0]));
}

TEST(WebMaps, distances_are_those_of_the_map) {
  const Value map = {{"type", "SelfExtend"}, {"window", 6}, {"group", 3}};
  const Answer answer = ask("distances", {{"map", map}, {"queries", 30}, {"keys", 30}, {"first_query", 5}});
  const auto distances = answer.numbers("distances");
  const auto passes = answer.numbers("pass");
  double largest = 0;
  for (std::int64_t q = 0; q < 30; ++q) {
    for (std::int64_t k = 0; k < 30; ++k) {
      const auto i = static_cast<std::size_t>(q * 30 + k);
      const double wanted = mapped_distance(SelfExtend{6, 3}, q + 5, k);
      EXPECT_TRUE(distances[i] == wanted || (std::isnan(distances[i]) && std::isnan(wanted)));
      if (k <= q + 5) {
        EXPECT_EQ(passes[i], q + 5 - k < 6 ? 0 : 1);
      }
      if (k <= q + 5) largest = std::max(largest, wanted);
    }
  }
  EXPECT_EQ(answer["largest"], largest);
  EXPECT_EQ(ask("distances", {{"map", {{"type", "DualChunk"}}}})["passes"], 3);
  EXPECT_FALSE(refused("distances", {{"map", {{"type", "DualChunk"}, {"chunk", 4}, {"local", 9}}}}).message().empty());
}

TEST(WebImages, mrope_positions_are_the_builders) {
  const Answer answer = ask("image.positions", {{"tokens", Value::parse(R"({"kind": "mrope", "model": "qwen2_vl", "merge": 2, "parts":
      [{"text": 3}, {"image": {"rows": 2, "columns": 3}}, {"text": 2}]})")}});
  // Three words and a marker, then the image from 4 on, then a marker and two words behind its longer side.
  EXPECT_EQ(answer.numbers("positions"), (std::vector<double>{0, 1, 2, 3, 4, 4, 4, 4, 4, 4, 7, 8, 9,  //
                                                              0, 1, 2, 3, 4, 4, 4, 5, 5, 5, 7, 8, 9,  //
                                                              0, 1, 2, 3, 4, 5, 6, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(answer["token"][8], (Value{{"part", 1}, {"kind", "image"}, {"frame", 0}, {"row", 1}, {"column", 1}}));
  EXPECT_EQ(answer["delta"], -3);
  for (const char* model : {"qwen2_5_vl", "qwen3_vl", "glm4v", "ernie4_5_vl"}) {
    const Value clip = {{"kind", "mrope"}, {"model", model}, {"parts", {{{"video", {{"frames", 2}, {"rows", 2}, {"columns", 2}}}}}}};
    const Answer video = ask("image.positions", {{"tokens", clip}});
    EXPECT_EQ(video["positions"]["shape"][1], video["token"].size()) << model;
  }
}

TEST(WebImages, merged_grids_say_where_each_token_is) {
  const Answer answer =
      ask("image.positions", {{"tokens", {{"kind", "grid"}, {"grids", {{{"rows", 4}, {"columns", 6}}}}, {"merge", 2}, {"prefix", 1}}}});
  const auto at = answer.numbers("positions");
  const std::size_t tokens = answer["token"].size();
  ASSERT_EQ(tokens, 25U);
  EXPECT_EQ(answer["token"][0]["kind"], "prefix");
  for (std::size_t t = 1; t < tokens; ++t) {
    EXPECT_EQ(answer["token"][t]["row"], at[t]);
    EXPECT_EQ(answer["token"][t]["column"], at[tokens + t]);
  }
}

TEST(WebImages, a_query_that_is_nowhere_is_the_middle_of_the_grid) {
  const Value tokens =
      Value::parse(R"({"kind": "mrope", "model": "qwen2_vl", "parts": [{"text": 3}, {"image": {"rows": 5, "columns": 4}}]})");
  for (const int query : {-1, 4000}) {
    const Answer answer = ask("image.scores", {{"tokens", tokens}, {"query", query}});
    const Value token = answer["token"][answer["query"].get<std::size_t>()];
    EXPECT_EQ(token, (Value{{"part", 1}, {"kind", "image"}, {"frame", 0}, {"row", 2}, {"column", 2}})) << query;
  }
  EXPECT_EQ(ask("image.scores", {{"tokens", tokens}, {"query", 7}})["query"], 7);
  const Value words = Value::parse(R"({"kind": "mrope", "model": "qwen2_vl", "parts": [{"text": 3}]})");
  EXPECT_EQ(ask("image.scores", {{"tokens", words}, {"query", -1}})["query"], 0);
}

TEST(WebImages, scores_are_axis_scores_and_examples_have_them) {
  for (const Value& one : ask("image.specs")["specs"]) {
    const Answer answer = ask("image.scores", {{"spec", one["spec"]}, {"tokens", one["tokens"]}, {"query", 20}});
    const auto score = answer.numbers("score");
    EXPECT_NEAR(score[20], 1, 1e-14) << one["name"];
    const auto parts = answer.numbers("by_axis");
    const std::size_t tokens = score.size();
    for (std::size_t t = 0; answer["separable"].get<bool>() && t < tokens; ++t) {
      double sum = 0;
      for (std::size_t a = 0; a < parts.size() / tokens; ++a) sum += parts[a * tokens + t];
      EXPECT_NEAR(sum, score[t], 1e-14) << one["name"];
    }
    const auto at = answer.numbers("positions");
    const Rotary rotary = *Rotary::make(*rotary_spec_from_json(one["spec"].dump()));
    const auto axes = static_cast<std::int64_t>(at.size() / tokens);
    EXPECT_EQ(score, axis_scores(rotary, positions(at.data(), axes, 1, static_cast<std::int64_t>(tokens)), 20)->score);
  }
}

TEST(WebSinusoid, rows_similarity_and_properties) {
  const Value spec = {{"width", 16}, {"order", "sin_cos"}};
  const Sinusoidal made = *Sinusoidal::make({.width = 16, .order = SinusoidOrder::sin_cos});
  std::vector<double> rows(16 * 10);
  const TensorView tensor = view(rows.data(), {1, 10, 1, 16});
  ASSERT_TRUE(made.fill(tensor, positions_from(0)).ok());
  EXPECT_EQ(ask("sinusoid", {{"sinusoidal", spec}, {"positions", "0:10"}}).numbers("rows"), rows);
  EXPECT_EQ(ask("sinusoid.similarity", {{"sinusoidal", spec}, {"positions", "0:10"}}).numbers("matrix"),
            similarity(tensor, tensor)->values);
  const Answer measured = ask("sinusoid.measure", {{"sinusoidal", spec}, {"length", 32}});
  const auto properties = *measure_encoding(sinusoidal_rows(made), 32);
  EXPECT_EQ(measured["smallest_gap"], properties.smallest_gap);
  EXPECT_EQ(measured.numbers("alternations"), properties.alternations);
  EXPECT_TRUE(measured["unique"].get<bool>() && measured["bounded"].get<bool>());
  for (const char* other : {"raw_index", "scaled_index", "binary", "learned"}) {
    EXPECT_EQ(ask("sinusoid.measure", {{"encoding", other}, {"sinusoidal", spec}, {"length", 32}})["unique"], true) << other;
  }
}

TEST(WebSinusoid, the_shift_operator_moves_rows_and_a_table_grows) {
  const Answer shift = ask("sinusoid.shift", {{"sinusoidal", {{"width", 12}}}, {"distance", 7}, {"position", 100}});
  EXPECT_LT(shift["largest_difference"].get<double>(), 1e-14);
  const auto matrix = shift.numbers("matrix");
  const auto from = shift.numbers("from");
  for (std::size_t r = 0; r < 12; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < 12; ++c) sum += matrix[r * 12 + c] * from[c];
    EXPECT_NEAR(sum, shift.numbers("to")[r], 1e-14);
  }
  const Answer grown = ask("sinusoid.hierarchical", {{"rows", 4}, {"width", 8}});
  const auto table = grown.numbers("table");
  const auto rows = grown.numbers("rows");
  EXPECT_TRUE(std::equal(table.begin(), table.end(), rows.begin()));
  EXPECT_EQ(grown.numbers("similarity").size(), 256U);
  EXPECT_GT(grown["smallest_gap"]["gap"].get<double>(), 0);
}

TEST(WebScores, four_terms_sum_to_the_score) {
  const Answer answer = ask("score_terms", {{"sinusoidal", {{"width", 32}}}, {"tokens", 8}, {"scale", 0.25}});
  const auto score = answer.numbers("score");
  for (std::size_t i = 0; i < score.size(); ++i) {
    const double sum = answer.numbers("content_content")[i] + answer.numbers("content_position")[i] +
                       answer.numbers("position_content")[i] + answer.numbers("position_position")[i];
    EXPECT_NEAR(sum, score[i], 1e-12);
  }
  // Positions with themselves: half the width in each of them, times the scale.
  EXPECT_NEAR(answer.numbers("position_position")[9], 16 * 0.25, 1e-12);
}

}  // namespace
}  // namespace phasor::test
