// SPDX-License-Identifier: Apache-2.0
// Models through the core: presets, configs, GGUF by ranges; words are the library's.
#include "figures/models.hpp"
#include "asked.hpp"
#include "golden_file.hpp"
#include "phasor/phasor.hpp"
#include "spec/gguf/gguf_bytes.hpp"
#include "spec/safetensors_bytes.hpp"

namespace phasor::test {
namespace {

TEST(WebModels, a_preset_says_what_explain_says) {
  const Answer all = ask("presets");
  ASSERT_EQ(all["presets"].size(), figures::built_in_names().size());
  for (const Value& preset : all["presets"]) {
    const std::string name = preset["name"];
    const Answer read = ask("model.read", {{"source", {{"preset", name}}}});
    const ModelPositions model = *figures::built_in_model(name);
    EXPECT_EQ(read["explain"], *explain(model));
    EXPECT_EQ(read["facts"], Value::parse(*explain_json(model)));
    EXPECT_EQ(read["spec"], preset["spec"]);
    EXPECT_EQ(read["model"]["layers"], model.layers.size());
  }
}

TEST(WebModels, layers_that_differ_are_groups) {
  const Answer read = ask("model.read", {{"source", {{"preset", "gpt-oss"}}}});
  ASSERT_EQ(read["groups"].size(), 2U);
  EXPECT_EQ(read["groups"][0]["window"], 128);
  EXPECT_EQ(read["groups"][1]["window"], 0);
  EXPECT_EQ(read["groups"][0]["layers"].size() + read["groups"][1]["layers"].size(), 24U);
  EXPECT_EQ(read["groups"][0]["words"].get<std::string>().rfind("layers 0", 0), 0U);
}

TEST(WebModels, a_gguf_is_read_by_the_ranges_that_it_asks_for) {
  GgufBuilder builder = small_llama();
  for (int i = 0; i < 4; ++i) builder.key("filler." + std::to_string(i), text_value(std::string(50000, 'x')));
  builder.tensor("weights", std::vector<float>(1 << 20, 1.0F)).tensor("rope_freqs.weight", std::vector<float>(8, 3.0F));
  const std::string file = builder.bytes();
  Value ranges = Value::array();
  std::string attached;
  for (int round = 0; round < 8; ++round) {
    const Value source = {{"gguf", {{"size", file.size()}, {"ranges", ranges}}}};
    const Answer answer = ask("model.read", {{"source", source}}, as_bytes(attached));
    if (answer.json["result"].contains("model")) {
      EXPECT_EQ(answer["model"]["dialect"], "gguf");
      EXPECT_EQ(answer["explain"], *explain(*parse_gguf(as_bytes(file))));
      EXPECT_LT(attached.size(), file.size() / 4);
      const Answer exported = ask("model.export", {{"source", source}}, as_bytes(attached));
      EXPECT_NE(exported["gguf_keys"].value("text", "").find("rope_freqs"), std::string::npos);
      const Answer same = ask("model.diff", {{"left", source}, {"right", source}}, as_bytes(attached));
      EXPECT_EQ(same["matter"], 0);
      return;
    }
    for (const Value& range : answer["need"]) {
      const auto offset = range["offset"].get<std::size_t>();
      const auto length = range["length"].get<std::size_t>();
      ranges.push_back({{"offset", offset}, {"length", length}, {"at", attached.size()}});
      attached += file.substr(offset, length);
    }
  }
  FAIL() << "no end";
}

TEST(WebModels, two_models_differ_as_diff_says) {
  const Answer answer = ask("model.diff", {{"left", {{"preset", "llama2"}}}, {"right", {{"preset", "llama3.1"}}}});
  const auto wanted = *diff(*figures::built_in_model("llama2"), *figures::built_in_model("llama3.1"));
  ASSERT_EQ(answer["differences"].size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(answer["differences"][i]["why"], wanted[i].why);
  EXPECT_GT(answer["matter"].get<int>(), 0);
}

TEST(WebModels, a_config_goes_out_as_it_came_and_a_bad_one_has_the_librarys_words) {
  const std::string config = R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2})";
  const Answer exported = ask("model.export", {{"source", {{"config", config}}}});
  EXPECT_EQ(exported["hf_config"]["text"], *to_hf_config(*parse_hf_config(config)));
  const Answer bad = refused("model.read", {{"source", {{"config", "{\"model_type\": 3}"}}}});
  EXPECT_EQ(bad.message(), parse_hf_config("{\"model_type\": 3}").status().message());
  EXPECT_EQ(bad.where(), "source");
}

Value config_bytes(std::size_t at, std::size_t length) {
  return {{"method", "model.read"}, {"source", {{"config_bytes", {{"at", at}, {"length", length}}}}}};
}

TEST(WebModels, a_config_comes_as_bytes_too_whatever_they_are) {
  const std::string config = R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2})";
  const std::string attached = "before" + config + "behind";
  const Answer read = ask_text(config_bytes(6, config.size()).dump(), as_bytes(attached));
  EXPECT_EQ(read["explain"], *explain(*parse_hf_config(config)));
  for (const std::string& bytes :
       {std::string("\xff\xfe"), std::string("{\"model_type\": \"\xc3\x28\"}"), std::string(3, '\0'), std::string("{\0}", 3)}) {
    const Answer bad = ask_text(config_bytes(0, bytes.size()).dump(), as_bytes(bytes));
    EXPECT_NE(bad.message(), "");
    EXPECT_EQ(bad.message(), parse_hf_config(bytes).status().message());
    EXPECT_EQ(bad.where(), "source");
  }
}

TEST(WebModels, config_bytes_have_read_models_words_about_sizes) {
  const Folder folder;
  const std::string file = folder.file("config.json", "");
  const auto words_of = [&](std::uintmax_t size) {
    std::filesystem::resize_file(file, size);
    return read_model(file).status().message().substr(file.size() + 2);
  };
  EXPECT_EQ(ask_text(config_bytes(0, 0).dump()).message(), words_of(0));
  const std::uintmax_t large = (std::uintmax_t{64} << 20) + 1;
  const Value request = {{"method", "model.read"}, {"source", {{"config_bytes", {{"size", large}}}}}};
  EXPECT_EQ(ask_text(request.dump()).message(), words_of(large));
  for (const Value& wrong : {Value{{"length", 3}}, Value{{"at", 3}}, Value{{"at", 1}, {"length", 2}}, Value{{"length", 1}, {"size", 2}}}) {
    const Value bad = {{"method", "model.read"}, {"source", {{"config_bytes", wrong}}}};
    EXPECT_NE(ask_text(bad.dump(), as_bytes(std::string("{}"))).message().find("wanted"), std::string::npos) << wrong.dump();
  }
  EXPECT_EQ(refused("model.read", {{"source", {{"config_bytes", {{"other", 1}}}}}}).where(), "source.config_bytes.other");
}

}  // namespace
}  // namespace phasor::test
