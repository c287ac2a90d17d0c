// SPDX-License-Identifier: Apache-2.0
// Requests that are wrong in every way: an error that says where, never a crash, and the core goes on.
#include <filesystem>

#include "asked.hpp"
#include "golden_file.hpp"
#include "phasor/model.hpp"
#include "spec/gguf/gguf_bytes.hpp"
#include "valid_utf8.hpp"
#include "web/core/exports.hpp"

namespace phasor::test {
namespace {

std::vector<std::string> methods() { return ask("version")["methods"].get<std::vector<std::string>>(); }

TEST(WebRequests, every_method_answers_its_defaults) {
  for (const std::string& method : methods()) EXPECT_EQ(ask(method.c_str()).message(), "") << method;
}

TEST(WebRequests, what_is_no_request_is_an_error) {
  for (const char* text :
       {"", "{", "[]", "3", "null", "\"version\"", "{\"method\": 3}", "{}", "{\"method\": \"nothing\"}", "\xff\xfe",
        "{\"method\": \"version\"} x", "{\"method\": \"version\", \"other\": 1}", "{\"method\": \"pairs\", \"spec\": 1e999}"}) {
    EXPECT_NE(ask_text(text).message(), "") << text;
  }
  EXPECT_EQ(ask_text("{\"method\": \"version\", \"other\": 1}").where(), "other");
  const std::string deep = "{\"method\": " + std::string(100000, '[');
  EXPECT_NE(ask_text(deep).message(), "");
  EXPECT_EQ(ask_text("{\"method\": \"version\", \"x\": " + std::string(5000, '[') + std::string(5000, ']') + "}").message(),
            "the request is nested deeper than 64 levels");
}

/// The members of each request, as API.md lists them.
const std::vector<std::pair<const char*, std::vector<const char*>>> kMembers{
    {"model.read", {"source", "length"}},
    {"model.diff", {"left", "right", "length"}},
    {"model.export", {"source", "architecture", "length"}},
    {"spec.scaled", {"spec", "name", "trained_length", "wanted_length"}},
    {"spec.export", {"spec", "model_type", "architecture", "layers", "length", "trained_length"}},
    {"pairs", {"spec", "length"}},
    {"pairs.cos_sin", {"spec", "positions", "type"}},
    {"pairs.forms", {"spec", "pair", "position", "point"}},
    {"pairs.matrix", {"spec", "position", "key_position"}},
    {"plan", {"spec", "trained_length", "wanted_length", "scalings"}},
    {"decay", {"specs", "distances", "context"}},
    {"score_terms", {"sinusoidal", "tokens", "seed", "content", "scale"}},
    {"precision", {"spec", "positions"}},
    {"precision.report", {"spec", "positions", "distance"}},
    {"precision.pairs", {"spec", "positions", "limit"}},
    {"precision.distance", {"spec", "dtype", "far_position", "tokens", "heads", "seed"}},
    {"attention.schemes", {"heads", "head_dim", "window"}},
    {"attention.weights", {"scheme", "tokens", "heads", "head_dim", "head", "content", "first_position"}},
    {"attention.explain", {"scheme", "batch", "queries", "keys", "heads", "kv_heads", "head_dim", "dtype"}},
    {"bias", {"bias", "queries", "keys", "head", "first_query", "first_key"}},
    {"distances", {"map", "queries", "keys", "first_query", "first_key"}},
    {"image.positions", {"tokens"}},
    {"image.scores", {"spec", "tokens", "query", "head"}},
    {"sinusoid", {"sinusoidal", "positions"}},
    {"sinusoid.similarity", {"sinusoidal", "positions", "kind"}},
    {"sinusoid.measure", {"sinusoidal", "length", "trained_length", "encoding", "seed"}},
    {"sinusoid.shift", {"sinusoidal", "distance", "position"}},
    {"sinusoid.hierarchical", {"rows", "width", "alpha", "seed", "learned"}},
    {"cache.shift", {"spec", "tokens", "keep", "discard", "seed"}},
    {"cache.dynamic", {"spec", "tokens", "factor", "trained_length", "seed"}},
    {"cache.longrope", {"spec", "tokens", "original_length", "factor", "seed"}},
    {"figure.decay", {"specs", "distances", "log"}},
    {"figure.scaling", {"spec", "trained_length", "wanted_length"}},
    {"figure.error", {"spec", "name", "positions"}},
    {"figure.bias", {"scheme", "heads", "show", "length"}},
};

TEST(WebRequests, no_member_takes_what_it_is_not) {
  const std::vector<Value> wrong{Value::parse("-1e300"),
                                 Value::parse("{}"),
                                 Value::parse("[[]]"),
                                 Value::parse("\"\\u0000\""),
                                 Value::parse("9007199254740993"),
                                 Value::parse("18446744073709551615"),
                                 Value::parse("true"),
                                 Value::parse("[1e308, -1e308]"),
                                 Value::parse("{\"phasor\": 2}"),
                                 Value::parse("0.5"),
                                 Value::parse("-1")};
  EXPECT_EQ(kMembers.size() + 3, methods().size());  // version, presets and image.specs have none
  for (const auto& [method, members] : kMembers) {
    for (const char* member : members) {
      int errors = 0;
      for (const Value& value : wrong) {
        const Answer answer = ask_text(Value{{"method", method}, {member, value}}.dump());
        EXPECT_NE(answer.message(), std::string(member) + " is no member of this request") << method;
        errors += answer.json.contains("error") ? 1 : 0;
      }
      EXPECT_GE(errors, 5) << method << " " << member;
    }
  }
  EXPECT_EQ(ask("version")["spec_version"], 1);
}

TEST(WebRequests, messages_name_the_member_and_what_is_wanted) {
  EXPECT_EQ(refused("pairs", {{"spec", {{"head_dim", 7}}}}).where(), "spec");
  EXPECT_EQ(refused("pairs", {{"length", "x"}}).message(), "length is \"x\", wanted a whole number, 1 to 9007199254740992");
  EXPECT_EQ(refused("decay", {{"specs", {{{"spec", {{"head_dim", 0}}}}}}}).where(), "specs[0].spec");
  EXPECT_EQ(refused("decay", {{"distances", "0:x"}}).where(), "distances");
  EXPECT_EQ(refused("figure.bias", {{"show", {99}}}).where(), "show");
  EXPECT_EQ(refused("figure.bias", {{"show", {99}}}).message(), "head is 99, wanted 0 to 7");
  EXPECT_EQ(refused("attention.weights", {{"tokens", 100000}}).where(), "tokens");
}

TEST(WebRequests, positions_are_lists_texts_or_spreads) {
  const auto at = [](const Value& positions) {
    return ask("precision", {{"spec", {{"head_dim", 8}}}, {"positions", positions}}).numbers("positions");
  };
  EXPECT_EQ(at({3, 1}), (std::vector<double>{3, 1}));
  EXPECT_EQ(at("1:8:3,20"), (std::vector<double>{1, 4, 7, 20}));
  EXPECT_EQ(at({{"first", 0}, {"last", 10}, {"points", 6}}), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(at({{"first", 1}, {"last", 1000}, {"points", 4}, {"log", true}}), (std::vector<double>{1, 10, 100, 1000}));
  EXPECT_EQ(at({{"first", 0}, {"last", 8}, {"points", 4}, {"log", true}}), (std::vector<double>{0, 1, 2, 4, 8}));
  EXPECT_EQ(at({{"first", 5}, {"last", 7}, {"points", 100}}), (std::vector<double>{5, 6, 7}));
  EXPECT_EQ(at({{"first", 4}, {"last", 4}}), (std::vector<double>{4}));
  EXPECT_EQ(refused("precision", {{"positions", {{"first", 4}, {"last", 3}}}}).where(), "positions");
}

/// The corpora of the fuzz harnesses, dropped on the page.
TEST(WebRequests, hostile_files_have_the_librarys_message) {
  const std::filesystem::path corpus =
      std::filesystem::path(golden_file("cli")).parent_path().parent_path().parent_path() / "fuzz" / "corpus";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus / "gguf")) {
    const std::string bytes = file_bytes(entry.path().string());
    const Value range = {{"offset", 0}, {"length", bytes.size()}, {"at", 0}};
    const Value request = {{"method", "model.read"}, {"source", {{"gguf", {{"size", bytes.size()}, {"ranges", {range}}}}}}};
    const Answer answer = ask_text(request.dump(), as_bytes(bytes));
    if (!bytes.empty()) {
      EXPECT_EQ(answer.message(), parse_gguf(as_bytes(bytes)).status().message()) << entry.path();
    }
    ++files;
  }
  for (const auto& entry : std::filesystem::directory_iterator(corpus / "hf_config")) {
    const std::string text = file_bytes(entry.path().string());
    const Value source = {{"config_bytes", {{"at", 0}, {"length", text.size()}}}};
    const Answer answer = ask_text(Value{{"method", "model.read"}, {"source", source}}.dump(), as_bytes(text));
    if (text.empty()) continue;
    const auto wanted = parse_hf_config(text);
    const Status status = wanted.ok() ? explain(*wanted).status() : wanted.status();
    EXPECT_EQ(answer.message(), status.message()) << entry.path();
    if (is_valid_utf8(text)) {
      const Value by_text = {{"method", "model.read"}, {"source", {{"config", text}}}};
      EXPECT_EQ(ask_text(by_text.dump()).message(), status.message()) << entry.path();
    }
    ++files;
  }
  EXPECT_GT(files, 50);
}

TEST(WebExports, the_c_functions_hold_the_last_response) {
  const std::string request = R"({"method": "pairs", "spec": {"head_dim": 8}})";
  void* memory = phasor_web_allocate(static_cast<std::uint32_t>(request.size()));
  std::memcpy(memory, request.data(), request.size());
  EXPECT_EQ(phasor_web_call(static_cast<const char*>(memory), static_cast<std::uint32_t>(request.size()), nullptr, 0), 0);
  EXPECT_EQ(phasor_web_blocks(), 3U);
  EXPECT_EQ(phasor_web_block_bytes(0), 32U);
  EXPECT_EQ(*static_cast<const double*>(phasor_web_block(0)), 1);
  EXPECT_EQ(phasor_web_block(3), nullptr);
  EXPECT_EQ(phasor_web_block_bytes(3), 0U);
  EXPECT_EQ(phasor_web_call("{", 1, nullptr, 0), 1);
  EXPECT_EQ(phasor_web_blocks(), 0U);
  EXPECT_NE(std::string(phasor_web_response(), phasor_web_response_bytes()).find("\"error\""), std::string::npos);
  phasor_web_release(memory);
}

}  // namespace
}  // namespace phasor::test
