// SPDX-License-Identifier: Apache-2.0
// The recorded configs of tests/golden/configs: reading them, and a JSON tree back to text.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "golden_file.hpp"
#include "phasor/model.hpp"
#include "spec/files/json.hpp"

namespace phasor::test {

inline std::string golden_text(const std::string& file) {
  std::ifstream in(golden_file("configs/" + file), std::ios::binary);
  EXPECT_TRUE(in.good()) << file;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline spec::Json golden(const std::string& file) {
  auto json = spec::parse_json(golden_text(file), file);
  EXPECT_EQ(json.status().message(), "");
  return json ? *json : spec::Json{};
}

/// Every recorded model.
inline std::vector<std::string> golden_names() {
  std::istringstream index(golden_text("index.txt"));
  std::vector<std::string> names;
  for (std::string name; std::getline(index, name);) names.push_back(name);
  return names;
}

inline std::string text_of(const spec::Json& json) {
  using Kind = spec::Json::Kind;
  std::string text;
  const auto separate = [&text] { return text.size() > 1 ? "," : ""; };
  switch (json.kind) {
    case Kind::number:
      return json.integer ? std::to_string(*json.integer) : spec::json_number(json.number);
    case Kind::string:
      return spec::json_string(json.string);
    case Kind::array:
      text = "[";
      for (const auto& item : json.items) text.append(separate()).append(text_of(item));
      return text + "]";
    case Kind::object:
      text = "{";
      for (const auto& [key, value] : json.members)
        text.append(separate()).append(spec::json_string(key)).append(":").append(text_of(value));
      return text + "}";
    default:
      return json.describe();
  }
}

inline ModelPositions parsed(const std::string& text, std::int64_t length = 0) {
  auto model = parse_hf_config(text, {.length = length});
  EXPECT_EQ(model.status().message(), "");
  return model ? *model : ModelPositions{};
}

inline ModelPositions parsed_golden(const std::string& name) {
  const spec::Json record = golden(name + ".json");
  const spec::Json* config = record.find("config");
  EXPECT_NE(config, nullptr) << name;
  return config == nullptr ? ModelPositions{} : parsed(text_of(*config));
}

/// What is wrong with it, as parse_hf_config says.
inline std::string message_of(const std::string& text) { return parse_hf_config(text).status().message(); }

}  // namespace phasor::test
