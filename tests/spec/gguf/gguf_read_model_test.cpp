// SPDX-License-Identifier: Apache-2.0
// read_model: files by their magic, folders, and paths that lead nowhere; mapped and in parts alike.
#include "spec/read_model.hpp"

#include <gtest/gtest.h>

#include "gguf_bytes.hpp"
#include "golden_file.hpp"
#include "spec/safetensors_bytes.hpp"

namespace phasor::test {
namespace {

using spec::FileAccess;

std::string message_of(const std::string& path) { return read_model(path).status().message(); }

TEST(ReadModel, a_gguf_file_is_known_by_its_magic_whatever_its_name) {
  const Folder folder;
  const std::string path = folder.file("model.bin", file_bytes(golden_file("gguf/phi3.gguf")));
  for (const FileAccess access : {FileAccess::mapped, FileAccess::in_parts}) {
    const Result<ModelPositions> model = spec::read_model_by(path, {.length = 10000}, access);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(model->model_type, "phi3");
    EXPECT_EQ(std::get<LongRopeScaling>(model->layers[0].rotary->scaling).length, 10000);
  }
}

TEST(ReadModel, a_header_longer_than_the_first_part_and_tensors_beyond_it_are_found) {
  GgufBuilder file = small_llama();
  for (int i = 0; i < 20; ++i) file.key("filler." + std::to_string(i), text_value(std::string(100000, 'x')));
  file.tensor("weights", std::vector<float>(1 << 20, 1.0F)).tensor("rope_freqs.weight", std::vector<float>(8, 3.0F));
  const Folder folder;
  const std::string path = folder.file("large.gguf", file.bytes());
  for (const FileAccess access : {FileAccess::mapped, FileAccess::in_parts}) {
    const Result<ModelPositions> model = spec::read_model_by(path, {}, access);
    ASSERT_TRUE(model.ok()) << model.status().message();
    EXPECT_EQ(std::get<GivenFactors>(model->layers[1].rotary->scaling).factors, std::vector<double>(8, 3.0));
  }
}

TEST(ReadModel, a_truncated_file_is_the_same_error_either_way) {
  const std::string whole = file_bytes(golden_file("gguf/gemma3.gguf"));
  const Folder folder;
  for (std::size_t length = 4; length < whole.size(); length += 13) {
    const std::string path = folder.file("cut", whole.substr(0, length));
    EXPECT_EQ(spec::read_model_by(path, {}, FileAccess::mapped).status().message(),
              spec::read_model_by(path, {}, FileAccess::in_parts).status().message());
  }
}

TEST(ReadModel, errors_begin_with_the_path) {
  const Folder folder;
  const std::string empty = folder.file("empty", "");
  EXPECT_EQ(message_of(empty), empty + ": is empty, wanted a config.json or a GGUF file");
  EXPECT_EQ(message_of(folder.path()), folder.path() + ": is a folder without a readable config.json");
  const std::string nothing = folder.file("nothing");
  EXPECT_EQ(message_of(nothing).find(nothing + ": cannot be found: "), 0U);
  const std::string broken = folder.file("broken", "GGUF");
  EXPECT_EQ(message_of(broken), broken + ": gguf: byte 4: version takes 4 bytes, 0 are left");
  EXPECT_NE(message_of(""), "");
  EXPECT_NE(message_of("/dev/null"), "");
}

TEST(ReadModel, a_file_or_folder_that_is_not_there_is_not_found) {
  const Folder folder;
  for (const std::string& path :
       {folder.file("nothing"), folder.file("no/such/folder"), folder.path(), folder.file("empty", "") + "/below"}) {
    for (const FileAccess access : {FileAccess::mapped, FileAccess::in_parts}) {
      EXPECT_EQ(spec::read_model_by(path, {}, access).status().kind(), ErrorKind::not_found) << path;
    }
  }
  EXPECT_EQ(read_model(folder.file("empty")).status().kind(), ErrorKind::invalid);
  EXPECT_EQ(read_model("/dev/null").status().kind(), ErrorKind::invalid);
}

TEST(ReadModel, a_file_that_is_no_json_says_how_it_begins) {
  const Folder folder;
  const std::string path = folder.file("passwd", "root:x:0:0:root:/root:/bin/bash\n");
  EXPECT_EQ(message_of(path), path + ": parse_hf_config: the text begins with \"root:x:0:0:root:/roo\", wanted a JSON object");
  EXPECT_EQ(message_of(folder.file("blank", " \n")), folder.file("blank") + ": parse_hf_config: the text is empty, wanted a JSON object");
  EXPECT_NE(message_of(folder.file("broken", "\xef\xbb\xbf {\"a\": }")).find("line 1, byte "), std::string::npos);
}

TEST(ReadModel, a_folder_and_its_config_give_the_same) {
  const Folder folder;
  const std::string config = folder.file("config.json", R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, )"
                                                        R"("num_hidden_layers": 2, "max_position_embeddings": 4096})");
  const Result<ModelPositions> by_file = read_model(config);
  const Result<ModelPositions> by_folder = read_model(folder.path());
  ASSERT_TRUE(by_file.ok()) << by_file.status().message();
  ASSERT_TRUE(by_folder.ok()) << by_folder.status().message();
  EXPECT_EQ(by_file->layers.size(), 2U);
  EXPECT_EQ(by_folder->layers.size(), 2U);
  EXPECT_EQ(by_folder->dialect, "huggingface");
}

}  // namespace
}  // namespace phasor::test
