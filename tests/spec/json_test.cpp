// SPDX-License-Identifier: Apache-2.0
// JSON as model files write it: values, order, names for infinities, and every way of being broken.
#include "spec/files/json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace phasor::spec {
namespace {

Json tree(std::string_view text) {
  auto json = parse_json(text, "test");
  EXPECT_EQ(json.status().message(), "") << text;
  return json ? *json : Json{};
}

std::string error(std::string_view text) { return parse_json(text, "test").status().message(); }

TEST(Json, values_of_every_kind_are_read) {
  const Json json = tree(R"({"n": null, "t": true, "f": false, "i": -7, "x": 0.5, "s": "a\u00e9\n", "l": [1, [2]], "o": {"k": 1e3}})");
  EXPECT_TRUE(json.find("n")->is(Json::Kind::null));
  EXPECT_TRUE(json.find("t")->boolean);
  EXPECT_FALSE(json.find("f")->boolean);
  EXPECT_EQ(json.find("i")->integer, -7);
  EXPECT_EQ(json.find("x")->number, 0.5);
  EXPECT_EQ(json.find("x")->integer, std::nullopt);
  EXPECT_EQ(json.find("s")->string, "a\xc3\xa9\n");
  EXPECT_EQ(json.find("l")->items[1].items[0].integer, 2);
  EXPECT_EQ(json.find("o")->find("k")->integer, 1000);
  EXPECT_EQ(json.find("absent"), nullptr);
}

TEST(Json, members_keep_the_order_of_the_file) {
  const Json json = tree(R"({"z": 1, "a": 2, "m": 3})");
  ASSERT_EQ(json.members.size(), 3U);
  EXPECT_EQ(json.members[0].first + json.members[1].first + json.members[2].first, "zam");
}

TEST(Json, whole_numbers_are_exact_up_to_64_bits_and_doubles_beyond) {
  EXPECT_EQ(tree("9223372036854775807").integer, 9223372036854775807);
  EXPECT_EQ(tree("-9223372036854775808").integer, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(tree("9223372036854775808").integer, std::nullopt);
  EXPECT_EQ(tree("9223372036854775808").number, 0x1p63);
  EXPECT_EQ(tree("123456789012345678901234567890").number, 123456789012345678901234567890.0);
  EXPECT_EQ(tree("2048.0").integer, 2048);
  EXPECT_EQ(tree("1e300").integer, std::nullopt);
}

TEST(Json, bare_and_wrapped_infinities_and_nan_are_numbers) {
  const Json json =
      tree(R"({"a": Infinity, "b": -Infinity, "c": NaN, "d": [{"__float__": "Infinity"}, {"__float__": "NaN"}], "e":-Infinity})");
  EXPECT_EQ(json.find("a")->number, INFINITY);
  EXPECT_EQ(json.find("b")->number, -INFINITY);
  EXPECT_TRUE(std::isnan(json.find("c")->number));
  EXPECT_EQ(json.find("d")->items[0].number, INFINITY);
  EXPECT_TRUE(std::isnan(json.find("d")->items[1].number));
  EXPECT_EQ(json.find("e")->number, -INFINITY);
  EXPECT_TRUE(std::isnan(tree("NaN").number));
}

TEST(Json, names_of_infinities_inside_strings_stay_strings) {
  const Json json = tree(R"({"Infinity": "NaN", "x\"NaN": "-Infinity \\", "y": NaN})");
  EXPECT_EQ(json.find("Infinity")->string, "NaN");
  EXPECT_EQ(json.find("x\"NaN")->string, "-Infinity \\");
  EXPECT_TRUE(json.find("y")->is(Json::Kind::number));
}

TEST(Json, an_object_that_has_more_than_a_float_stays_an_object) {
  EXPECT_TRUE(tree(R"({"__float__": "NaN", "x": 1})").is(Json::Kind::object));
  EXPECT_EQ(error(R"({"a": {"__float__": "big"}})"), "test: line 1, byte 25: has __float__ of \"big\", wanted Infinity, -Infinity or NaN");
  EXPECT_EQ(error(R"({"__float__": 1})"), "test: line 1, byte 15: has __float__ of 1, wanted Infinity, -Infinity or NaN");
}

TEST(Json, a_key_twice_is_an_error_that_says_where) {
  EXPECT_EQ(error("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}"), "test: line 3, byte 19: has the key \"a\" a second time, wanted each key once");
  EXPECT_EQ(error("{\"x\": {\"a\": 1}, \"y\": {\"a\": 1, \"a\": 1}}").find("test: line 1, byte 32: has the key"), 0U);
}

TEST(Json, places_are_those_of_the_file_although_infinities_are_rewritten) {
  EXPECT_EQ(error("{\"a\": Infinity,\n\"b\": NaN, \"a\": 3}"),
            "test: line 2, byte 28: has the key \"a\" a second time, wanted each key once");
}

TEST(Json, depth_is_bounded_and_deep_nesting_does_not_crash) {
  const std::string wanted = "test: line 1, byte 64: has lists or objects more than 64 deep, wanted fewer";
  EXPECT_EQ(error(std::string(100000, '[')), wanted);
  EXPECT_EQ(error(std::string(65, '[')), wanted);
  EXPECT_EQ(error(std::string(64, '[') + std::string(64, ']')), "");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_NE(error(objects).find("more than 64 deep"), std::string::npos);
}

TEST(Json, size_is_bounded) {
  EXPECT_EQ(error(std::string((std::size_t{64} << 20) + 1, ' ')), "test: the text has 67108865 bytes, wanted at most 67108864");
  std::string many = "[0";
  for (int i = 0; i < (1 << 20); ++i) many += ",0";
  EXPECT_NE(error(many + "]").find("has more than 1048576 values"), std::string::npos);
}

TEST(Json, a_byte_order_mark_is_skipped) { EXPECT_EQ(tree("\xef\xbb\xbf{\"a\": 1}").find("a")->integer, 1); }

TEST(Json, broken_text_is_an_error_with_line_and_byte) {
  EXPECT_EQ(error("").find("test: line 1, byte 0: syntax error"), 0U);
  EXPECT_EQ(error(" \n ").find("test: line 2, byte 3: syntax error"), 0U);
  EXPECT_EQ(error("{\"a\": 1e999}"), "test: line 1, byte 10: number overflow parsing '1e999', wanted a number of float64");
  EXPECT_EQ(error("{} {}").find("test: line 1, byte 3: syntax error"), 0U);
  EXPECT_EQ(
      error("{\"a\": \"\xff\"}").find("test: line 1, byte 7: syntax error while parsing value - invalid string: ill-formed UTF-8 byte"),
      0U);
  for (const char* text : {"{", "[1,", "[1,]", "{\"a\"}", "{\"a\":}", "\"a", "\"\\", "nul", "Infinit", "-", "--Infinity", "01", "{'a': 1}",
                           "[1] // x", "\x01", "NaNNaN"}) {
    EXPECT_EQ(error(text).find("test: line 1, byte "), 0U) << text << ": " << error(text);
  }
}

TEST(Json, messages_are_printable_whatever_the_text) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = std::string("{\"a") + static_cast<char>(byte) + "\": " + static_cast<char>(byte) + "}";
    for (const char c : error(text)) EXPECT_TRUE(c >= ' ' && c <= '~') << byte;
  }
}

TEST(Json, strings_and_numbers_are_written_so_that_they_read_back) {
  for (const std::string& text : {std::string("plain"), std::string("q\"\\\n\x01"), std::string("\xc3\xa9"), std::string("a\0b", 3)}) {
    EXPECT_EQ(tree(json_string(text)).string, text);
  }
  EXPECT_EQ(json_string("\xff"), "\"\\ufffd\"");
  for (const double value : {0.0, 0.1, 1e-300, 1e300, 10000.0, 0x1p-1074, 1.0 / 3}) EXPECT_EQ(tree(json_number(value)).number, value);
  EXPECT_EQ(tree(json_number(-INFINITY)).number, -INFINITY);
  EXPECT_TRUE(std::isnan(tree(json_number(NAN)).number));
}

TEST(Json, values_describe_themselves_shortly) {
  EXPECT_EQ(tree("null").describe(), "null");
  EXPECT_EQ(tree("true").describe(), "true");
  EXPECT_EQ(tree("2.50").describe(), "2.5");
  EXPECT_EQ(tree("\"x\"").describe(), "\"x\"");
  EXPECT_EQ(tree("[1, 2]").describe(), "a list of 2");
  EXPECT_EQ(tree("{\"a\": 1}").describe(), "an object");
  EXPECT_LT(tree('"' + std::string(1000, 'x') + '"').describe().size(), 70U);
}

}  // namespace
}  // namespace phasor::spec
