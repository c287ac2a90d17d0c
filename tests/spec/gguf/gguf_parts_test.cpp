// SPDX-License-Identifier: Apache-2.0
// GGUF by head and ranges: a reader that is given what it asks for ends where the whole file does, and asks for little.
#include <gtest/gtest.h>

#include <deque>

#include "gguf_bytes.hpp"
#include "golden_file.hpp"
#include "phasor/gguf_head.hpp"
#include "phasor/model.hpp"

namespace phasor::test {
namespace {

/// What a browser does: the ranges that are asked for, nothing else, until there is an answer.
struct Fetched {
  Result<ModelPositions> model;
  std::uint64_t bytes = 0;
  int rounds = 0;
};

Fetched fetch(const std::string& file) {
  std::deque<std::string> kept;
  std::vector<FilePart> parts;
  std::uint64_t bytes = 0;
  for (int round = 1; round < 12; ++round) {
    const Result<GgufParts> answer = parse_gguf_parts(file.size(), parts);
    if (!answer.ok()) return {answer.status(), bytes, round};
    if (answer->model) return {*answer->model, bytes, round};
    EXPECT_FALSE(answer->missing.empty());
    for (const FileRange& range : answer->missing) {
      EXPECT_LE(range.offset + range.length, file.size());
      kept.push_back(file.substr(range.offset, range.length));
      parts.push_back({range.offset, as_bytes(kept.back())});
      bytes += range.length;
    }
  }
  return {Status::invalid("no end"), bytes, 12};
}

std::string words(const Result<ModelPositions>& model) {
  return model.ok() ? explain_json(*model).status().ok() ? *explain_json(*model) : "" : model.status().message();
}

TEST(GgufParts, recorded_files_are_read_as_from_the_whole) {
  for (const char* name : {"phi3", "gemma3", "llama-3.1", "llama-3.1-big-endian", "qwen2vl", "deepseek2", "t5"}) {
    const std::string file = file_bytes(golden_file(std::string("gguf/") + name + ".gguf"));
    EXPECT_EQ(words(fetch(file).model), words(parse_gguf(as_bytes(file)))) << name;
  }
}

TEST(GgufParts, a_long_head_and_a_tensor_far_behind_it_are_all_that_is_asked_for) {
  GgufBuilder file = small_llama();
  for (int i = 0; i < 20; ++i) file.key("filler." + std::to_string(i), text_value(std::string(100000, 'x')));
  file.tensor("weights", std::vector<float>(1 << 22, 1.0F)).tensor("rope_freqs.weight", std::vector<float>(8, 3.0F));
  const std::string bytes = file.bytes();
  const Fetched fetched = fetch(bytes);
  ASSERT_TRUE(fetched.model.ok()) << fetched.model.status().message();
  EXPECT_EQ(std::get<GivenFactors>(fetched.model->layers[1].rotary->scaling).factors, std::vector<double>(8, 3.0));
  EXPECT_LT(fetched.bytes, bytes.size() / 3);  // the head in three growing steps, and 32 bytes
}

TEST(GgufParts, a_cut_file_is_the_error_of_the_whole) {
  const std::string whole = file_bytes(golden_file("gguf/gemma3.gguf"));
  for (std::size_t length = 4; length < whole.size(); length += 13) {
    const std::string cut = whole.substr(0, length);
    EXPECT_EQ(words(fetch(cut).model), words(parse_gguf(as_bytes(cut)))) << length;
  }
}

TEST(GgufParts, a_part_beyond_the_file_and_no_file_are_errors) {
  const std::string bytes(64, 'x');
  const std::vector<FilePart> beyond{{32, as_bytes(bytes)}};
  EXPECT_EQ(parse_gguf_parts(64, beyond).status().message(), "gguf: a part at byte 32 has 64 bytes, the file has 64");
  const std::vector<FilePart> far{{std::uint64_t{1} << 63, as_bytes(bytes)}};
  EXPECT_FALSE(parse_gguf_parts(64, far).ok());
  EXPECT_FALSE(parse_gguf_parts(0, {}).ok());
}

}  // namespace
}  // namespace phasor::test
