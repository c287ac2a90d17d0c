// SPDX-License-Identifier: Apache-2.0
// Specs as text: that nothing is lost, that what was written stays readable, and what is said of texts that are no spec.
#include "phasor/serialised.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "golden_file.hpp"
#include "serialised_specs.hpp"
#include "spec_bits.hpp"
#include "valid_utf8.hpp"

namespace phasor::test {
namespace {

std::string written(const AnySpec& spec) {
  const auto text = text_of(spec);
  EXPECT_EQ(text.status().message(), "");
  return text ? *text : "";
}

AnySpec read(std::string_view text) {
  auto spec = spec_from_json(text);
  EXPECT_EQ(spec.status().message(), "") << text;
  return spec ? *std::move(spec) : AnySpec();
}

std::string error(std::string_view text) {
  const auto spec = spec_from_json(text);
  EXPECT_FALSE(spec.ok()) << text;
  EXPECT_TRUE(is_message(spec.status().message()));
  return spec.status().message();
}

TEST(Serialised, every_spec_comes_back_with_every_bit) {
  std::set<std::string> texts;
  for (const auto& [name, spec] : any_specs()) {
    const std::string text = written(spec);
    const AnySpec back = read(text);
    EXPECT_EQ(bits(back), bits(spec)) << name << ": " << text;
    EXPECT_EQ(written(back), text) << name;
    EXPECT_TRUE(text.starts_with(R"({"phasor":1,"type":")")) << text;
    EXPECT_TRUE(texts.insert(text).second) << name << " has the text of another spec";
  }
}

TEST(Serialised, a_text_has_what_is_not_as_by_default) {
  EXPECT_EQ(written(RotarySpec{.head_dim = 128}), R"({"phasor":1,"type":"RotarySpec","head_dim":128})");
  EXPECT_EQ(written(RotarySpec{.head_dim = 128, .base = 500000, .scaling = Llama3Scaling{.factor = 32}}),
            R"({"phasor":1,"type":"RotarySpec","head_dim":128,"base":500000,"scaling":{"type":"Llama3Scaling","factor":32}})");
  EXPECT_EQ(written(RotarySpec{.head_dim = 4, .output_pairing = Pairing::half, .axes = {.sections = {1, 1}}}),
            R"({"phasor":1,"type":"RotarySpec","head_dim":4,"output_pairing":"half","axes":{"sections":[1,1]}})");
  EXPECT_EQ(written(BiasSpec(SwinTable{.heads = 1, .window = {1, 1}, .table = {-0.0}})),
            R"({"phasor":1,"type":"SwinTable","heads":1,"window":{"height":1,"width":1},"table":[-0.0]})");
}

TEST(Serialised, order_spaces_nulls_and_defaults_that_are_spelled_out_do_not_matter) {
  const AnySpec spec = read(R"( {"scaling" : {"factor": 8.0, "type": "LinearScaling"}, "output_pairing": null, "base": 1e4,
                                 "type": "RotarySpec", "head_dim": 64, "axes": {}, "phasor": 1} )");
  EXPECT_EQ(written(spec), R"({"phasor":1,"type":"RotarySpec","head_dim":64,"scaling":{"type":"LinearScaling","factor":8}})");
}

TEST(Serialised, one_type_may_be_asked_for) {
  const std::string rotary = written(RotarySpec{.head_dim = 128});
  const std::string alibi = written(BiasSpec(Alibi{.heads = 8}));
  const std::string sinusoidal = written(SinusoidalSpec{.width = 6});
  EXPECT_EQ(rotary_spec_from_json(rotary)->head_dim, 128);
  EXPECT_EQ(sinusoidal_spec_from_json(sinusoidal)->width, 6);
  EXPECT_EQ(std::get<Alibi>(*bias_spec_from_json(alibi)).heads, 8);
  EXPECT_EQ(attention_scheme_from_json(written(AttentionScheme{.softcap = 30}))->softcap, 30);
  EXPECT_EQ(rotary_spec_from_json(alibi).status().message(), "spec_from_json: type is \"Alibi\", wanted RotarySpec");
  EXPECT_EQ(sinusoidal_spec_from_json(rotary).status().message(), "spec_from_json: type is \"RotarySpec\", wanted SinusoidalSpec");
  EXPECT_EQ(
      bias_spec_from_json(rotary).status().message(),
      "spec_from_json: type is \"RotarySpec\", wanted Alibi, T5Buckets, DebertaBuckets, ShawClip, Kerple, Sandwich, Fire, DynamicMlp, "
      "SwinTable or SwinV2");
}

TEST(Serialised, what_is_no_spec_is_answered_with_where_it_is_and_what_is_wanted) {
  struct Bad {
    std::string text;
    std::string message;
  };
  const auto rotary = [](const std::string& rest) { return R"({"phasor":1,"type":"RotarySpec","head_dim":8,)" + rest + "}"; };
  const Bad table[] = {
      {"", "line 1, byte 0: syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal"},
      {"7", "the text is 7, wanted an object, a spec as phasor writes it"},
      {"{}", "phasor is missing, wanted 1, the version of the form that this library reads"},
      {R"({"phasor":2,"type":"RotarySpec"})", "phasor is 2, wanted 1, the version of the form that this library reads"},
      {R"({"phasor":"1"})", "phasor is \"1\", wanted 1, the version of the form that this library reads"},
      {R"({"phasor":1.5})", "phasor is 1.5, wanted 1, the version of the form that this library reads"},
      {R"({"phasor":1,"type":7})",
       "type is 7, wanted RotarySpec, SinusoidalSpec, Alibi, T5Buckets, DebertaBuckets, ShawClip, Kerple, Sandwich, Fire, DynamicMlp, "
       "SwinTable, SwinV2 or AttentionScheme"},
      {R"({"phasor":1,"type":"SinusoidalSpec","ladder":{"base":2}})",
       "ladder.type is missing, wanted GeometricLadder, LogSpacedLadder, BandLadder or GivenLadder"},
      {rotary(R"("head_dim":8)"), "line 1, byte 54: has the key \"head_dim\" a second time, wanted each key once"},
      {rotary(R"("bsae":1)"),
       "bsae is no field of RotarySpec, wanted head_dim, rotary_width, rotary_offset, base, scaling, pairing, output_pairing, sense, axes, "
       "segments, lanes, unit or numerics"},
      {rotary(R"("scaling":{"type":"Unscaled","factor":1})"), "scaling.factor is no field of Unscaled, wanted none"},
      {rotary(R"("scaling":{"type":"LinearScaling","phasor":1})"), "scaling.phasor is no field of LinearScaling, wanted factor"},
      {rotary(R"("axes":{"type":"Axes"})"), "axes.type is no field of Axes, wanted sections, order, ladder or axis_of_pair"},
      {rotary(R"("scaling":"yarn")"), "scaling is \"yarn\", wanted an object"},
      {rotary(R"("scaling":{"type":"LinearScaling","factor":"2"})"), "scaling.factor is \"2\", wanted a number"},
      {rotary(R"("scaling":{"type":"LinearScaling","factor":null})"), "scaling.factor is null, wanted a number"},
      {rotary(R"("rotary_width":2.5)"), "rotary_width is 2.5, wanted a whole number of 64 bits"},
      {rotary(R"("rotary_width":9223372036854775808)"), "rotary_width is 9.223372036854776e+18, wanted a whole number of 64 bits"},
      {rotary(R"("base":true)"), "base is true, wanted a number"},
      {rotary(R"("pairing":"halves")"), "pairing is \"halves\", wanted half or interleaved"},
      {rotary(R"("output_pairing":0)"), "output_pairing is 0, wanted half or interleaved"},
      {rotary(R"("axes":{"sections":{}})"), "axes.sections is an object, wanted a list"},
      {rotary(R"("axes":{"sections":[1,[]]})"), "axes.sections[1] is a list of 0, wanted a whole number of 64 bits"},
      {rotary(R"("axes":{"axis_of_pair":[0,256]})"), "axes.axis_of_pair[1] is 256, wanted 0 to 255"},
      {rotary(R"("axes":{"axis_of_pair":[-1]})"), "axes.axis_of_pair[0] is -1, wanted 0 to 255"},
  };
  for (const Bad& bad : table) EXPECT_EQ(error(bad.text), "spec_from_json: " + bad.message) << bad.text;
}

TEST(Serialised, a_scheme_is_checked_where_its_text_says) {
  const auto scheme = [](const std::string& rest) { return R"({"phasor":1,"type":"AttentionScheme",)" + rest + "}"; };
  const std::string rotary = R"("content":{"type":"RotaryScheme","rotary":{"head_dim":64},"map":{"type":"ReRope","window":4}})";
  const std::pair<std::string, std::string> table[] = {
      {R"("terms":[{"type":"DenseScheme"},{"type":"BiasScheme","bias":{"type":"Alibi","heads":0}}])",
       "AttentionScheme: terms[1]: Alibi: heads is 0, wanted 1 to 65536"},
      {R"("terms":[{"type":"BiasScheme","bias":{"type":"Alibi","heads":4},"first_head":4}])",
       "AttentionScheme: terms[0]: first_head is 4, wanted 0 to 3"},
      {R"("terms":[{"type":"TableScheme","rows":{"type":"Alibi","heads":1}}])",
       "AttentionScheme: terms[0]: rows is a bias without buckets of distances, wanted T5Buckets, DebertaBuckets or ShawClip"},
      {R"("terms":[{"type":"TableScheme","rows":{"type":"ClipRows","left":-1}}])",
       "AttentionScheme: terms[0]: rows has left -1 and right 0, wanted none below 0"},
      {R"("terms":[{"type":"TableScheme","side":"key","shift":true}])",
       "AttentionScheme: terms[0]: there is a shift, wanted none on the key side"},
      {R"("terms":[{"type":"TableScheme","side":"value","scale":1}])",
       "AttentionScheme: terms[0]: a table on the value side has features, a shift or a scale, wanted none of them"},
      {R"("terms":[{"type":"GridScheme"}])", "AttentionScheme: terms[0]: window is 0 x 0, wanted 1 to 32768 each"},
      {R"("terms":[{"type":"CopeScheme"}])", "AttentionScheme: terms[0]: mask is full, CoPE wants causal"},
      {R"("terms":[{"type":"SegmentScheme","scale":Infinity}])", "AttentionScheme: terms[0]: scale is inf, wanted a finite number"},
      {R"("terms":[{"type":"Alibi","heads":4}])",
       "spec_from_json: terms[0].type is \"Alibi\", wanted BiasScheme, TableScheme, SegmentScheme, GridScheme, DecomposedScheme, "
       "DenseScheme or CopeScheme"},
      {R"("softcap":-1)", "AttentionScheme: softcap is -1, wanted 0 (none) or a finite number above"},
      {R"("dropout":1)", "AttentionScheme: dropout is 1, wanted 0 or above, and below 1"},
      {R"("mask":"sliding")", "spec_from_json: mask is \"sliding\", wanted full or causal"},
      {R"("skip":"certified")", "AttentionScheme: skip is certified, wanted one term: symmetric or causal ALiBi without a gate"},
      {R"("sinks":1)", "spec_from_json: sinks is 1, wanted true or false"},
      {rotary, "AttentionScheme: content has a map and mask is full, wanted causal"},
      {R"("mask":"causal",)" + rotary + R"(,"content_shift":true)",
       "AttentionScheme: content_shift is given beside a rotated content, wanted PlainScheme"},
      {R"("content":{"type":"RotaryScheme","rotary":{"head_dim":7}})",
       "AttentionScheme: content: RotarySpec: head_dim is 7, wanted an even number"},
      {R"("content":{"type":"XposScheme","rotary":{"head_dim":8},"gamma":0})", "AttentionScheme: content.gamma is 0, wanted above 0"},
  };
  for (const auto& [rest, message] : table) EXPECT_EQ(error(scheme(rest)), message) << rest;
}

TEST(Serialised, a_text_is_checked_as_a_spec_is) {
  EXPECT_EQ(error(R"({"phasor":1,"type":"RotarySpec","head_dim":7})"), "RotarySpec: head_dim is 7, wanted an even number");
  EXPECT_EQ(error(R"({"phasor":1,"type":"RotarySpec","head_dim":8,"base":NaN})").substr(0, 23), "RotarySpec: base is nan");
  EXPECT_EQ(error(R"({"phasor":1,"type":"RotarySpec","head_dim":8,"base":Infinity})").substr(0, 23), "RotarySpec: base is inf");
  EXPECT_EQ(error(R"({"phasor":1,"type":"Kerple","r1":[1],"r2":[-1]})"), "Kerple: r2[0] is -1, wanted 2^-256 to 2^256");
}

TEST(Serialised, what_is_no_spec_is_not_written) {
  EXPECT_EQ(spec_to_json(RotarySpec{.head_dim = 7}).status().message(), "RotarySpec: head_dim is 7, wanted an even number");
  EXPECT_FALSE(spec_to_json(RotarySpec{.head_dim = 8, .pairing = static_cast<Pairing>(9)}).ok());
  EXPECT_FALSE(spec_to_json(SinusoidalSpec{.width = 8, .amplitude = std::numeric_limits<double>::quiet_NaN()}).ok());
}

TEST(Serialised, what_would_be_too_long_to_read_is_not_written) {
  const auto spec = [](std::int64_t heads) {
    return RotarySpec{
        .head_dim = 128,
        .scaling = GivenDirections{.axes = 2, .heads = heads, .frequencies = std::vector<double>(static_cast<std::size_t>(128 * heads))}};
  };
  const auto most = spec_to_json(spec(8191));
  ASSERT_TRUE(most.ok()) << most.status().message();
  EXPECT_TRUE(spec_from_json(*most).ok());
  const auto more = spec_to_json(spec(8192));
  EXPECT_EQ(more.status().message().substr(0, 41), "spec_to_json: the spec has 1048584 values") << more.status().message();
}

// ---- The binary form ----

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

TEST(Serialised, the_binary_form_is_cbor_of_the_same_object) {
  const auto binary = cbor_of_json(R"({"type": "RotarySpec", "head_dim": 8, "phasor": 1})");
  ASSERT_TRUE(binary.ok()) << binary.status().message();
  EXPECT_EQ(*binary, bytes_of("\xa3\x66phasor\x01\x64type\x6aRotarySpec\x68head_dim\x08"));
  for (const auto& [name, spec] : any_specs()) {
    const auto back = spec_from_cbor(*cbor_of_json(written(spec)));
    ASSERT_TRUE(back.ok()) << name << ": " << back.status().message();
    EXPECT_EQ(written(*back), written(spec)) << name;
  }
}

TEST(Serialised, bytes_that_are_no_spec_are_refused) {
  const auto error_of = [](std::string_view bytes) { return spec_from_cbor(bytes_of(bytes)).status().message(); };
  EXPECT_NE(error_of("").find("spec_from_cbor: byte 0: "), std::string::npos) << error_of("");
  EXPECT_EQ(error_of("\x01"), "spec_from_json: the text is 1, wanted an object, a spec as phasor writes it");
  EXPECT_EQ(error_of("\xa1\x66phasor\x02"), "spec_from_json: phasor is 2, wanted 1, the version of the form that this library reads");
  EXPECT_NE(error_of("\xa2\x61x\x01\x61x\x01").find("the key \"x\" a second time, wanted each key once"), std::string::npos);
  EXPECT_NE(error_of("\xa1\x61x\x42zz").find("has binary data, wanted text"), std::string::npos);
  EXPECT_NE(error_of(std::string(100, '\x81')).find("more than 64 deep"), std::string::npos);
  EXPECT_NE(error_of("\x9b\x7f\xff\xff\xff\xff\xff\xff\xff").find("spec_from_cbor: byte 9: "),
            std::string::npos);  // a length that is not there
  EXPECT_EQ(cbor_of_json("{}").status().kind(), ErrorKind::invalid);
}

// ---- As integers ----

TEST(Serialised, integers_are_a_length_and_eight_bytes_each) {
  EXPECT_EQ(*integers_of_json(""), std::vector<std::int64_t>{0});
  EXPECT_EQ(*integers_of_json("abc"), (std::vector<std::int64_t>{3, 0x636261}));
  EXPECT_EQ(*integers_of_json("\x80"
                              "2345678A"),
            (std::vector<std::int64_t>{9, 0x3837363534333280, 0x41}));
  for (const auto& [name, spec] : any_specs()) {
    const std::string text = written(spec);
    EXPECT_EQ(*json_of_integers(*integers_of_json(text)), text) << name;
  }
}

TEST(Serialised, integers_that_no_text_has_are_refused) {
  const auto error_of = [](std::vector<std::int64_t> integers) { return json_of_integers(integers).status().message(); };
  EXPECT_EQ(error_of({}), "json_of_integers: there are no integers, wanted a length and a text");
  EXPECT_EQ(error_of({3}), "json_of_integers: the length is 3 bytes and 0 integers follow, wanted as many as hold it");
  EXPECT_EQ(error_of({-1, 0}), "json_of_integers: the length is -1 bytes and 1 integers follow, wanted as many as hold it");
  EXPECT_EQ(error_of({INT64_MAX, 0}).substr(0, 46), "json_of_integers: the length is 92233720368547");
  EXPECT_EQ(error_of({8, 0, 0}), "json_of_integers: the length is 8 bytes and 2 integers follow, wanted as many as hold it");
  EXPECT_EQ(error_of({2, 0x636261}), "json_of_integers: byte 2 lies behind the text, wanted 0");
}

// ---- Version 1 stays readable ----

TEST(Serialised, texts_of_version_1_are_read_and_written_as_they_were_recorded) {
  std::ifstream file(golden_file("specs_version_1.jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  const std::vector<NamedAnySpec> specs = any_specs();
  ASSERT_EQ(lines.size(), specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(written(specs[i].spec), lines[i]) << specs[i].name;
    EXPECT_EQ(bits(read(lines[i])), bits(specs[i].spec)) << specs[i].name;
  }
}

}  // namespace
}  // namespace phasor::test
