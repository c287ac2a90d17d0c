// SPDX-License-Identifier: Apache-2.0
// Reads what tools/record/record_hf.py and the recorder of ggml wrote into tests/golden: records of a title line and named lists of bits.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "golden_file.hpp"
#include "reference.hpp"

namespace phasor::test {

struct Record {
  std::vector<std::string> title;                         // the words after "case" or "spec"
  std::map<std::string, std::vector<std::string>> lists;  // the words of the lines below it

  std::vector<std::uint32_t> bits(const std::string& name) const {
    std::vector<std::uint32_t> values;
    for (const std::string& word : lists.at(name)) values.push_back(static_cast<std::uint32_t>(std::stoul(word, nullptr, 16)));
    return values;
  }
  std::vector<float> floats(const std::string& name) const {
    std::vector<float> values;
    for (const std::uint32_t b : bits(name)) values.push_back(reference::same_bytes<float>(b));
    return values;
  }
  std::vector<std::int64_t> integers(const std::string& name) const {
    std::vector<std::int64_t> values;
    for (const std::string& word : lists.at(name)) values.push_back(std::stoll(word));
    return values;
  }
};

inline std::vector<Record> read_records(const std::string& file_name) {
  std::ifstream file(golden_file(file_name));
  EXPECT_TRUE(file.good()) << file_name;
  std::vector<Record> records;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string key;
    words >> key;
    std::vector<std::string> rest;
    for (std::string word; words >> word;) rest.push_back(word);
    if (key == "case" || key == "spec") {
      records.push_back({rest, {}});
    } else {
      records.back().lists[key] = rest;
    }
  }
  EXPECT_FALSE(records.empty()) << file_name;
  return records;
}

/// Distance of two float32 in units of the last place, through zero.
inline std::int64_t ulps_apart(float a, float b) {
  const auto place = [](float x) {
    const auto bits = reference::same_bytes<std::uint32_t>(x);
    const auto magnitude = static_cast<std::int64_t>(bits & 0x7fffffffU);
    return (bits >> 31) != 0 ? -magnitude : magnitude;
  };
  return place(a) > place(b) ? place(a) - place(b) : place(b) - place(a);
}

}  // namespace phasor::test
