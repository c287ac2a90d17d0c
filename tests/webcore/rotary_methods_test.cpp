// SPDX-License-Identifier: Apache-2.0
// The core's methods of rotary encodings give what the library's functions give, bit for bit.
#include <algorithm>
#include <cmath>

#include "asked.hpp"
#include "figures/spec_words.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

const Value kLlama = Value::parse(R"({"head_dim": 128, "base": 500000, "scaling": {"type": "Llama3Scaling"}})");

RotarySpec llama() { return {.head_dim = 128, .base = 500000, .scaling = Llama3Scaling{}}; }
Rotary made(const RotarySpec& spec) { return *Rotary::make(spec); }

TEST(WebPairs, frequencies_wavelengths_and_turns) {
  const Answer answer = ask("pairs", {{"spec", kLlama}, {"length", 8192}});
  const Rotary rotary = made(llama());
  EXPECT_EQ(answer.numbers("frequencies"), rotary.frequencies());
  EXPECT_EQ(answer.numbers("wavelengths"), wavelengths(rotary));
  const auto turns = *pair_turns(rotary, 8192);
  for (std::size_t i = 0; i < turns.size(); ++i) EXPECT_EQ(answer.numbers("turns")[i], turns[i].turns);
  EXPECT_EQ(answer["channels"][3], Value::parse("[3, 67]"));
  EXPECT_EQ(answer["pairs"], 64);
}

TEST(WebPairs, axes_of_every_order_are_those_of_the_spec) {
  const auto axes_of = [](const char* axes) {
    return ask("pairs", {{"spec", {{"head_dim", 12}, {"axes", Value::parse(axes)}}}})["axis_of_pair"].get<std::vector<int>>();
  };
  EXPECT_EQ(axes_of(R"({"sections": [1, 2, 3]})"), (std::vector<int>{0, 1, 1, 2, 2, 2}));
  EXPECT_EQ(axes_of(R"({"sections": [2, 2, 2], "order": "interleaved"})"), (std::vector<int>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(axes_of(R"({"sections": [2, 2, 2], "order": "alternating"})"), (std::vector<int>{1, 2, 1, 2, 0, 0}));
  EXPECT_EQ(axes_of(R"({"order": "given", "axis_of_pair": [1, 0, 1, 0, 1, 0]})"), (std::vector<int>{1, 0, 1, 0, 1, 0}));
}

TEST(WebPairs, tables_are_those_of_cos_sin_in_both_types) {
  const std::vector<std::int64_t> at{0, 1, 999, 10000000};
  const Extents shape{1, 4, 1, 64};
  std::vector<double> cos(256);
  std::vector<double> sin(256);
  ASSERT_TRUE(made(llama()).cos_sin(positions(at.data(), 4), view(cos.data(), shape), view(sin.data(), shape)).ok());
  const Answer wide = ask("pairs.cos_sin", {{"spec", kLlama}, {"positions", at}});
  EXPECT_EQ(wide.numbers("cos"), cos);
  EXPECT_EQ(wide.numbers("sin"), sin);
  std::vector<float> cos32(256);
  std::vector<float> sin32(256);
  ASSERT_TRUE(made(llama()).cos_sin(positions(at.data(), 4), view(cos32.data(), shape), view(sin32.data(), shape)).ok());
  const Answer narrow = ask("pairs.cos_sin", {{"spec", kLlama}, {"positions", at}, {"type", "f32"}});
  EXPECT_EQ(narrow.numbers("cos"), widened(cos32));
  EXPECT_EQ(narrow["sin"]["type"], "f32");
}

TEST(WebPairs, the_four_forms_are_the_same_point) {
  for (const char* spec : {R"({"head_dim": 8})", R"({"head_dim": 8, "pairing": "interleaved", "sense": "clockwise"})",
                           R"({"head_dim": 16, "rotary_width": 8, "rotary_offset": 4, "segments": 2})",
                           R"({"head_dim": 8, "pairing": "interleaved", "output_pairing": "half"})"}) {
    for (int pair = 0; pair < 4; ++pair) {
      const Answer answer = ask("pairs.forms", {{"spec", Value::parse(spec)}, {"pair", pair}, {"position", 777}, {"point", {0.6, -0.8}}});
      const auto applied = answer["apply"]["point"].get<std::vector<double>>();
      for (const char* form : {"matrix", "complex", "elementwise"}) {
        const auto point = answer[form]["point"].get<std::vector<double>>();
        EXPECT_NEAR(point[0], applied[0], 1e-15) << spec << form;
        EXPECT_NEAR(point[1], applied[1], 1e-15) << spec << form;
      }
      EXPECT_NEAR(applied[0] * applied[0] + applied[1] * applied[1], 1, 1e-15);
      const auto turns = answer["turns"].get<std::vector<double>>();
      EXPECT_NEAR((turns[0] + turns[1]) * answer["wavelength"].get<double>(), 777, 1e-9);
    }
  }
}

TEST(WebPairs, matrices_are_the_librarys) {
  EXPECT_EQ(ask("pairs.matrix", {{"spec", {{"head_dim", 16}}}, {"position", 3}}).numbers("matrix"),
            rotation_matrix(made({.head_dim = 16}), 3)->values);
  EXPECT_EQ(ask("pairs.matrix", {{"spec", {{"head_dim", 16}}}, {"position", 9}, {"key_position", 4}}).numbers("matrix"),
            relative_matrix(made({.head_dim = 16}), 9, 4)->values);
  EXPECT_EQ(refused("pairs.matrix", {{"spec", {{"head_dim", 1024}}}}).where(), "spec");
}

TEST(WebPlan, every_scaling_is_as_plan_scalings_has_it) {
  const Answer answer = ask("plan", {{"spec", {{"head_dim", 64}}}, {"trained_length", 2048}, {"wanted_length", 16384}});
  const auto planned = *plan_scalings({.spec = {.head_dim = 64}, .trained_length = 2048, .wanted_length = 16384});
  ASSERT_EQ(answer["scalings"].size(), planned.size());
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const Value one = answer["scalings"][i];
    EXPECT_EQ(one["name"], planned[i].name);
    if (!planned[i].error.empty()) {
      EXPECT_EQ(one["error"], planned[i].error);
      continue;
    }
    EXPECT_EQ(one["amplitude"], planned[i].amplitude);
    const auto ratio = answer.numbers(one["ratio"]);
    const auto unseen = answer.numbers(one["unseen_from_of_pair"]);
    for (std::size_t p = 0; p < ratio.size(); ++p) {
      EXPECT_EQ(ratio[p], planned[i].pairs[p].ratio);
      EXPECT_EQ(std::isnan(unseen[p]), !planned[i].pairs[p].unseen_from.has_value());
    }
    // What the page shows can be taken along: the spec with that scaling has those frequencies.
    const Answer scaled =
        ask("spec.scaled", {{"spec", {{"head_dim", 64}}}, {"name", planned[i].name}, {"trained_length", 2048}, {"wanted_length", 16384}});
    EXPECT_EQ(ask("pairs", {{"spec", scaled["spec"]}}).numbers("frequencies"), answer.numbers(one["frequency"])) << planned[i].name;
    EXPECT_EQ(ask("plan", {{"scalings", {{{"spec", {{"head_dim", 64}, {"scaling", one["scaling"]}}}}}}})["scalings"].size(), 2U);
  }
}

TEST(WebDecay, sums_weights_and_the_first_negative) {
  const Answer answer =
      ask("decay",
          {{"specs", {{{"spec", kLlama}}, {{"name", "mine"}, {"spec", {{"head_dim", 64}}}}}}, {"distances", "0:100:7"}, {"context", 128}});
  const std::vector<double> distances = answer.numbers("distances");
  const std::vector<std::int64_t> list(distances.begin(), distances.end());
  ASSERT_EQ(list.size(), 15U);
  EXPECT_EQ(answer["encodings"][0]["name"], figures::label_of(llama()));
  EXPECT_EQ(answer["encodings"][1]["name"], "mine");
  const Rotary rotary = made(llama());
  EXPECT_EQ(answer.numbers(answer["encodings"][0]["sum"]), *decay(rotary, list));
  const auto weights = *distance_weights(rotary, 128);
  const auto first = *first_negative(rotary, 128);
  EXPECT_EQ(answer["encodings"][0]["first_negative"].is_null(), !first.has_value());
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(answer.numbers(answer["encodings"][0]["weight"])[i], weights[static_cast<std::size_t>(list[i])].weight);
  }
  EXPECT_EQ(refused("decay", {{"distances", "0:100"}, {"context", 50}}).where(), "distances");
}

TEST(WebPrecision, profiles_reports_pairs_and_distances) {
  const std::vector<std::int64_t> at{1000, 1000000};
  const Answer errors = ask("precision", {{"spec", kLlama}, {"positions", at}});
  const auto profile = *profile_errors(llama(), at);
  EXPECT_EQ(errors.numbers("hf"), (std::vector<double>{*profile[0].hf, *profile[1].hf}));
  EXPECT_EQ(errors.numbers("ggml"), (std::vector<double>{*profile[0].ggml, *profile[1].ggml}));
  const Answer reports = ask("precision.report", {{"spec", kLlama}, {"positions", at}, {"distance", 5}});
  const auto report = *precision_report(llama(), at, 5);
  const Value list = reports["reports"];
  ASSERT_EQ(list.size() * 2, report.size());
  for (const PrecisionError& one : report) {
    const auto same = std::find_if(list.begin(), list.end(), [&](const Value& r) {
      return r["numerics"] == figures::name_of(one.numerics) && r["dtype"] == phasor::name_of(one.dtype);
    });
    ASSERT_NE(same, list.end());
    EXPECT_EQ(reports.numbers((*same)["score"])[one.position == 1000 ? 0 : 1], one.score);
  }
  const Answer pairs = ask("precision.pairs", {{"spec", kLlama}, {"positions", at}, {"limit", 0.001}});
  const auto by_pair = pairs.numbers(pairs["profiles"][1]["errors"]);
  EXPECT_EQ(*std::max_element(by_pair.begin(), by_pair.begin() + 64), *profile[0].hf);
  const auto first = pairs.numbers(pairs["profiles"][1]["first_over"]);
  for (std::size_t p = 0; p < 64; ++p) {
    const bool early = by_pair[p] > 0.001;
    const bool late = by_pair[64 + p] > 0.001;
    EXPECT_EQ(std::isnan(first[p]), !early && !late);
    if (early || late) {
      EXPECT_EQ(first[p], early ? 1000 : 1000000);
    }
  }
  const Answer far = ask("precision.distance", {{"spec", kLlama}, {"far_position", 1000000}});
  EXPECT_LE(far["exact_difference"].get<double>(), far["rounding"].get<double>());
  EXPECT_GT(far["float32_difference"].get<double>(), far["rounding"].get<double>());
  EXPECT_GT(ask("precision.distance", {{"spec", kLlama}, {"dtype", "bf16"}})["scores"].get<int>(), 0);
}

/// Keys after rerotate are those rotated afresh, but for the rounding of two rotations; without it they are far off.
TEST(WebCache, moved_keys_are_fresh_ones_and_stale_ones_are_not) {
  for (const auto& [method, request] : std::vector<std::pair<const char*, Value>>{
           {"cache.shift", {{"tokens", 40}, {"discard", 12}}}, {"cache.dynamic", {{"tokens", 48}}}, {"cache.longrope", {{"tokens", 40}}}}) {
    const Answer answer = ask(method, request);
    EXPECT_GT(answer["largest_stale"].get<double>(), 0.05) << method;
    EXPECT_LT(answer["largest_moved"].get<double>(), 2e-6) << method;
    const auto fresh = answer.numbers("weight_fresh");
    const auto moved = answer.numbers("weight_moved");
    const auto score = answer.numbers("score_moved");
    double sum = 0;
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      sum += fresh[i];
      EXPECT_NEAR(moved[i], fresh[i], 1e-5) << method;
      EXPECT_NEAR(score[i], answer.numbers("score_fresh")[i], 1e-4) << method;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  const Answer shifted = ask("cache.shift", {{"tokens", 10}, {"keep", 2}, {"discard", 3}});
  EXPECT_EQ(shifted.numbers("from"), (std::vector<double>{0, 1, 5, 6, 7, 8, 9}));
  EXPECT_EQ(shifted.numbers("to"), (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(shifted.numbers("error_stale")[1], 0);
}

TEST(WebSpec, code_says_the_spec) {
  const Answer code = ask("spec.export", {{"spec", kLlama}, {"length", 131072}, {"trained_length", 8192}});
  EXPECT_NE(code["cpp"]["text"].get<std::string>().find(
                "phasor::RotarySpec{.head_dim = 128, .base = 500000, .scaling = phasor::Llama3Scaling{}}"),
            std::string::npos);
  EXPECT_NE(code["python"]["text"].get<std::string>().find("phasor.RotarySpec(head_dim=128, base=500000, scaling=phasor.Llama3Scaling())"),
            std::string::npos);
  EXPECT_EQ(code["cli"]["text"],
            "phasor table --head-dim 128 --base 500000 --scaling llama3 --factor 8 --low-freq-factor 1 "
            "--high-freq-factor 4 --original-length 8192\n");
  EXPECT_NE(code["hf_config"]["text"].get<std::string>().find("\"llama3\""), std::string::npos);
  EXPECT_NE(code["gguf_keys"]["text"].get<std::string>().find("qwen2.rope.freq_base"), std::string::npos);
  const Value turns = {{"head_dim", 4}, {"unit", "turns"}, {"scaling", {{"type", "GivenFrequencies"}, {"frequencies", {1, 2}}}}};
  EXPECT_EQ(ask("spec.export", {{"spec", turns}})["cli"]["error"], "the tool has no option for unit");
}

}  // namespace
}  // namespace phasor::test
