// SPDX-License-Identifier: Apache-2.0
// Requests of the playground's core as tests ask them: JSON in, JSON out, blocks as numbers.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "web/core/core.hpp"

namespace phasor::test {

using Value = nlohmann::ordered_json;

struct Answer {
  Value json;  // {"result"} or {"error"}
  web::Blocks blocks;

  /// A copy: what is not there is null then, and fails a test instead of ending it.
  Value operator[](const char* name) const { return json.contains("result") ? json["result"].value(name, Value()) : Value(); }
  /// The numbers of a block, as float64, and that there are as many as its shape says.
  std::vector<double> numbers(const Value& block) const {
    std::vector<double> list;
    if (!block.contains("block")) return list;
    std::visit([&](const auto& values) { list.assign(values.begin(), values.end()); },
               blocks.all().at(block.at("block").get<std::size_t>()));
    std::size_t count = 1;
    for (const auto& extent : block.at("shape")) count *= extent.get<std::size_t>();
    EXPECT_EQ(list.size(), count);
    return list;
  }
  std::vector<double> numbers(const char* name) const { return numbers((*this)[name]); }
  std::string message() const { return json.contains("error") ? json["error"]["message"].get<std::string>() : ""; }
  std::string where() const { return json.contains("error") ? json["error"]["where"].get<std::string>() : ""; }
};

inline Answer ask_text(const std::string& request, std::span<const std::byte> attached = {}) {
  web::Response response = web::answer(request, attached);
  Answer answer{Value::parse(response.text), std::move(response.blocks)};
  EXPECT_EQ(answer.json.contains("error"), !response.ok);
  return answer;
}

/// A request that must be answered.
inline Answer ask(const char* method, Value request = Value::object(), std::span<const std::byte> attached = {}) {
  request["method"] = method;
  Answer answer = ask_text(request.dump(), attached);
  EXPECT_EQ(answer.message(), "") << request.dump();
  return answer;
}

/// The error of a request that must be refused.
inline Answer refused(const char* method, Value request) {
  request["method"] = method;
  Answer answer = ask_text(request.dump());
  EXPECT_NE(answer.message(), "") << request.dump();
  return answer;
}

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  return std::vector<double>(values.begin(), values.end());
}

}  // namespace phasor::test
