// SPDX-License-Identifier: Apache-2.0
// The core as a program for tests: a request a line on standard input, a response a line on standard output, blocks written in place. The
// file of the first argument, where there is one, is attached to every request.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "web/core/exports.hpp"

namespace {

using Value = nlohmann::ordered_json;

template <class T>
Value numbers(std::uint32_t block) {
  const auto* first = static_cast<const T*>(phasor_web_block(block));
  return std::vector<T>(first, first + phasor_web_block_bytes(block) / sizeof(T));
}

/// {"block": i, "type": t, "shape": s} becomes {"type": t, "shape": s, "data": [...]}.
void expand(Value& value) {
  if (value.is_object() && value.contains("block")) {
    const auto block = value["block"].get<std::uint32_t>();
    const Value data = value["type"] == "f32" ? numbers<float>(block) : numbers<double>(block);
    value = {{"type", value["type"]}, {"shape", value["shape"]}, {"data", data}};
    return;
  }
  if (!value.is_structured()) return;
  for (Value& member : value) expand(member);
}

std::vector<char> bytes_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<char> attached = count > 1 ? bytes_of(arguments[1]) : std::vector<char>();
  for (std::string line; std::getline(std::cin, line);) {
    phasor_web_call(line.data(), static_cast<std::uint32_t>(line.size()), reinterpret_cast<const std::uint8_t*>(attached.data()),
                    static_cast<std::uint32_t>(attached.size()));
    Value response = Value::parse(std::string(phasor_web_response(), phasor_web_response_bytes()));
    expand(response);
    std::cout << response.dump(-1, ' ', true) << std::endl;
  }
}
