// SPDX-License-Identifier: Apache-2.0
// Messages are valid UTF-8 whatever a file holds: bytes that are none are escaped, in errors and in warnings of every reader.
#include "spec/utf8.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "gguf/gguf_bytes.hpp"
#include "golden_file.hpp"
#include "phasor/model.hpp"
#include "safetensors_bytes.hpp"
#include "spec/files/safetensors.hpp"
#include "spec/format.hpp"
#include "valid_utf8.hpp"

namespace phasor::test {
namespace {

using spec::printable_utf8;

TEST(Utf8, text_stays_as_it_is) {
  for (const std::string text :
       {"", "plain", "two\nlines\tand a tab", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xef\xbf\xbf \xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(printable_utf8(text), text);
    EXPECT_TRUE(is_valid_utf8(text));
  }
}

TEST(Utf8, every_other_byte_is_escaped) {
  EXPECT_EQ(printable_utf8("a\xff"), "a\\xff");
  EXPECT_EQ(printable_utf8("\x80ok"), "\\x80ok");
  EXPECT_EQ(printable_utf8("cut \xe2\x82"), "cut \\xe2\\x82");
  EXPECT_EQ(printable_utf8("\xe2\x82(\xe2\x82\xac"), "\\xe2\\x82(\xe2\x82\xac");
  EXPECT_EQ(printable_utf8("\xc0\xaf"), "\\xc0\\xaf");                      // a slash in two bytes
  EXPECT_EQ(printable_utf8("\xed\xa0\x80"), "\\xed\\xa0\\x80");             // half of a surrogate pair
  EXPECT_EQ(printable_utf8("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");    // beyond the last character
  EXPECT_EQ(printable_utf8(std::string("\x1b[2J\0", 5)), "\\x1b[2J\\x00");  // what a terminal would obey
  EXPECT_EQ(printable_utf8("\x7f \xc2\x9b"), "\\x7f \\xc2\\x9b");
}

/// All strings of three bytes from the edges of every class.
TEST(Utf8, what_comes_out_is_always_utf8_and_what_was_is_unchanged) {
  std::string edges;
  for (const int byte :
       {0x00, 0x1f, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff}) {
    edges.push_back(static_cast<char>(byte));
  }
  for (const char a : edges) {
    for (const char b : edges) {
      for (const char c : edges) {
        for (const std::string& text : {std::string{a, b, c}, std::string{a, b, c, '\x80'}}) {
          const std::string out = printable_utf8(text);
          ASSERT_TRUE(is_message(out)) << testing::PrintToString(text);
          ASSERT_EQ(out == text, is_message(text)) << testing::PrintToString(text);
        }
      }
    }
  }
}

TEST(Utf8, what_is_formatted_is_escaped) {
  EXPECT_EQ(spec::format("key {} is {}", "\xff", 3), "key \\xff is 3");
  EXPECT_EQ(spec::format("{}", "caf\xc3\xa9"), "caf\xc3\xa9");
}

GgufBuilder llama() {
  GgufBuilder file("llama");
  file.key("llama.block_count", u32_value(1)).key("llama.embedding_length", u32_value(64)).key("llama.attention.head_count", u32_value(4));
  return file;
}

TEST(Utf8, keys_of_a_gguf_file_may_be_any_bytes) {
  const Result<ModelPositions> twice = parse_gguf(as_bytes(llama().key("a\xfe", u32_value(1)).key("a\xfe", u32_value(1)).bytes()));
  EXPECT_NE(twice.status().message().find("key a\\xfe is given twice"), std::string::npos) << twice.status().message();
  const Result<ModelPositions> unknown = parse_gguf(as_bytes(llama().key("llama.rope.\xff\x1b[31m", u32_value(1)).bytes()));
  ASSERT_TRUE(unknown.ok()) << unknown.status().message();
  ASSERT_EQ(unknown->warnings.size(), 1U);
  EXPECT_EQ(unknown->warnings[0], "key llama.rope.\\xff\\x1b[31m is not known and not used");
  const Result<ModelPositions> other = parse_gguf(as_bytes(GgufBuilder("ll\xe9ma").bytes()));
  EXPECT_NE(other.status().message().find("general.architecture is ll\\xe9ma"), std::string::npos) << other.status().message();
}

void expect_messages(const Result<ModelPositions>& model, const std::string& what) {
  if (!model.ok()) {
    ASSERT_TRUE(is_message(model.status().message())) << what;
    ASSERT_FALSE(model.status().message().empty()) << what;
    return;
  }
  for (const std::string& warning : model->warnings) ASSERT_TRUE(is_message(warning)) << what;
}

/// Every byte of the header of a file in turn, as bytes that begin, continue or break a character, or end a line.
TEST(Utf8, every_message_about_a_gguf_file_with_a_changed_byte_is_utf8) {
  for (const std::string name : {"qwen3vl", "gpt-oss", "phi3"}) {
    const std::string bytes = file_bytes(golden_file("gguf/" + name + ".gguf"));
    for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), 1500); ++i) {
      for (const char byte : {'\xff', '\xc3', '\x80', '\x1b'}) {
        std::string changed = bytes;
        changed[i] = byte;
        expect_messages(parse_gguf(as_bytes(changed)), name + " " + std::to_string(i));
      }
    }
  }
}

TEST(Utf8, every_message_about_a_safetensors_file_with_a_changed_byte_is_utf8) {
  std::string long_name(199, 'n');
  long_name.append("\xe2\x82\xac");  // where a message cuts it
  const std::string bytes =
      safetensors_bytes(R"({"__metadata__":{"format":"pt"},"model.q_proj.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},")" +
                            long_name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
                        std::string(12, '\0'));
  const std::string cut = safetensors_bytes("{\"" + long_name + R"(":{"dtype":[3]}})");
  try {
    static_cast<void>(spec::read_safetensors(as_bytes(cut)));
    ADD_FAILURE() << "no error";
  } catch (const spec::ReadError& error) {
    EXPECT_NE(error.status.message().find("n\\xe2 dtype is a list"), std::string::npos) << error.status.message();
  }
  std::size_t refused = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const char byte : {'\xff', '\xc3', '\x80', '\x1b', '"'}) {
      std::string changed = bytes;
      changed[i] = byte;
      try {
        static_cast<void>(spec::read_safetensors(as_bytes(changed)));
      } catch (const spec::ReadError& error) {
        ++refused;
        ASSERT_TRUE(is_message(error.status.message())) << i;
      }
    }
  }
  EXPECT_GT(refused, bytes.size());
}

TEST(Utf8, every_message_about_a_config_with_a_changed_byte_is_utf8) {
  const std::string text =
      R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "rope_scaling": {"rope_type": "linear", "factor": 8, "caf)"
      "\xc3\xa9"
      R"(": 1}})";
  ASSERT_TRUE(parse_hf_config(text).ok()) << parse_hf_config(text).status().message();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char byte : {'\xff', '\xc3', '\x80', '\x1b', '"', '\\'}) {
      std::string changed = text;
      changed[i] = byte;
      expect_messages(parse_hf_config(changed), std::to_string(i));
    }
  }
  // Cut in the middle of a character, and control characters that JSON may spell.
  expect_messages(parse_hf_config(R"({"model_type": ")" + std::string(59, 'x') + "\xe2\x82\xac\"}"), "cut");
  expect_messages(parse_hf_config(R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2, "\u001b[2J": 1}})"),
                  "control");
}

TEST(Utf8, a_path_may_be_any_bytes) {
  EXPECT_NE(read_model("/nowhere/\xff.gguf").status().message().find("/nowhere/\\xff.gguf"), std::string::npos);
  const Folder folder;
  const std::string path = folder.file("empty\x7f.gguf", "");  // a name that every file system takes
  ASSERT_TRUE(std::filesystem::exists(path));
  EXPECT_NE(read_model(path).status().message().find("empty\\x7f.gguf: is empty"), std::string::npos)
      << read_model(path).status().message();
}

}  // namespace
}  // namespace phasor::test
