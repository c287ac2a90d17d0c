// SPDX-License-Identifier: Apache-2.0
// The reference of attention against transformers' own modules, forward and backward, as tools/record/record_attention.py recorded them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "attention/support/finite_differences.hpp"
#include "golden_file.hpp"

namespace phasor::test {
namespace {

using Json = nlohmann::json;

/// Their sums in another order, in float64: some hundred terms below 10, relative to 1 or the value.
constexpr double kTolerance = 1e-13;

template <class T>
T list(const Json& json, const char* name) {
  return json.contains(name) ? json.at(name).get<T>() : T{};
}

ref::Values values(const Json& json, const char* name) { return list<ref::Values>(json, name); }
ref::Integers integers(const Json& json, const char* name) { return list<ref::Integers>(json, name); }

ref::T5 t5(const Json& s) {
  return {.buckets = s.at("buckets"),
          .max_distance = s.at("max_distance"),
          .both_sides = s.value("both_sides", true),
          .table = values(s, "table")};
}

ref::TransformerXl xl(const Json& s, ref::XlOrder order) {
  return {.u = values(s, "u"),
          .v = values(s, "v_bias"),
          .projection = values(s, "projection"),
          .model_width = s.at("model_width"),
          .order = order};
}

ref::Scheme scheme(const Json& s) {
  const std::string kind = s.at("kind");
  if (kind == "t5") return t5(s);
  if (kind == "wavlm") return ref::WavLm{t5(s), values(s, "gate")};
  if (kind == "alibi") return ref::Alibi{ref::alibi_slopes(s.at("heads")), ref::AlibiForm::key_position};
  if (kind == "conformer") return xl(s, ref::XlOrder::interleaved);
  if (kind == "shaw") return ref::Shaw{.left = s.at("left"), .right = s.at("right"), .keys = values(s, "keys")};
  if (kind == "deberta") {
    return ref::Deberta{
        .buckets = s.at("buckets"), .max_distance = s.at("max_distance"), .keys = values(s, "keys"), .queries = values(s, "queries")};
  }
  if (kind == "xlnet") {
    return ref::Xlnet{.xl = xl(s, ref::XlOrder::halves),
                      .clamp = s.at("clamp"),
                      .direction = integers(s, "direction"),
                      .segment_bias = values(s, "segment_bias"),
                      .segment_table = values(s, "segment_table"),
                      .query_segments = integers(s, "query_segments"),
                      .key_segments = integers(s, "key_segments")};
  }
  if (kind == "swin") {
    return ref::Swin{.height = s.at("grid")[0], .width = s.at("grid")[1], .class_token = s.at("class_token"), .table = values(s, "table")};
  }
  if (kind == "sam") {
    return ref::Sam{.query_grid = s.at("grid"), .key_grid = s.at("key_grid"), .rows_h = values(s, "rows_h"), .rows_w = values(s, "rows_w")};
  }
  EXPECT_EQ(kind, "inkling");
  return ref::Inkling{.extent = s.at("extent"),
                      .feature_width = s.at("feature_width"),
                      .features = values(s, "features"),
                      .table = values(s, "table"),
                      .alpha = s.at("alpha"),
                      .floor = s.at("floor")};
}

ref::Problem problem(const Json& c) {
  const auto s = c.at("shape").get<std::array<std::int64_t, 7>>();
  ref::Problem p{.shape = {s[0], s[1], s[2], s[3], s[4], s[5], s[6]},
                 .q = values(c, "q"),
                 .k = values(c, "k"),
                 .v = values(c, "v"),
                 .scale = c.at("scale"),
                 .query_positions = integers(c, "query_positions"),
                 .key_positions = integers(c, "key_positions"),
                 .visibility = {.causal = c.value("causal", false), .key_mask = list<std::vector<std::uint8_t>>(c, "key_mask")},
                 .schemes = {scheme(c.at("scheme"))}};
  if (c.contains("left")) p.visibility.left = c.at("left").get<std::int64_t>();
  return p;
}

void expect_near(std::span<const double> is, const ref::Values& wanted, const std::string& name) {
  ASSERT_EQ(is.size(), wanted.size()) << name;
  for (std::size_t n = 0; n < is.size(); ++n) EXPECT_NEAR(is[n], wanted[n], kTolerance * (1 + std::fabs(wanted[n]))) << name << " " << n;
}

/// Returns how many lists of gradients were compared.
std::size_t expect_case(const Json& c) {
  const std::string title = c.at("name");
  ref::Problem p = problem(c);
  expect_near(ref::forward(p).out, values(c, "out"), title + " out");
  ref::Gradients g = ref::backward(p, values(c, "out_gradient"));
  std::map<std::string, ref::Values> recorded = c.at("gradients");
  std::size_t compared = 0;
  const auto compare = [&](std::span<const double> is, const std::string& name) {
    if (!recorded.contains(name)) return;
    expect_near(is, recorded[name], title + " gradient of " + name);
    recorded.erase(name);
    ++compared;
  };
  compare(g.q, "q"), compare(g.k, "k"), compare(g.v, "v");
  for (const ref::Parameter& parameter : parameters_of(g.schemes[0])) {
    compare(parameter.values, std::string(parameter.name) == "v" ? "v_bias" : parameter.name);
  }
  EXPECT_TRUE(recorded.empty()) << title << " " << recorded.begin()->first;
  return compared;
}

/// Every case of a file; how many there are and how many lists of gradients they have is known.
void expect_golden(const std::string& name, std::size_t cases, std::size_t gradients) {
  const Json json = Json::parse(std::ifstream(golden_file("attention_" + name + ".json")));
  EXPECT_EQ(json.at("cases").size(), cases);
  std::size_t compared = 0;
  for (const Json& c : json.at("cases")) compared += expect_case(c);
  EXPECT_EQ(compared, gradients);
}

TEST(attention_reference_golden, t5) { expect_golden("t5", 3, 12); }
TEST(attention_reference_golden, deberta_v2) { expect_golden("deberta_v2", 4, 18); }
TEST(attention_reference_golden, xlnet) { expect_golden("xlnet", 3, 24); }
TEST(attention_reference_golden, mpt) { expect_golden("mpt", 1, 3); }
TEST(attention_reference_golden, bloom) { expect_golden("bloom", 1, 3); }
TEST(attention_reference_golden, wav2vec2_bert) { expect_golden("wav2vec2_bert", 2, 10); }
TEST(attention_reference_golden, parakeet) { expect_golden("parakeet", 1, 6); }
TEST(attention_reference_golden, wavlm) { expect_golden("wavlm", 1, 5); }
TEST(attention_reference_golden, swin_and_beit) { expect_golden("swin", 2, 8); }
TEST(attention_reference_golden, sam) { expect_golden("sam", 2, 10); }
TEST(attention_reference_golden, inkling) { expect_golden("inkling", 2, 10); }

}  // namespace
}  // namespace phasor::test
