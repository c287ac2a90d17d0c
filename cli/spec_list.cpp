// SPDX-License-Identifier: Apache-2.0
// Reads several encodings: each further one is parsed by the same options as the first.
#include "spec_list.hpp"

#include <fmt/core.h>

#include <sstream>

namespace phasor::cli {
namespace {

RotarySpec parse_words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> arguments;
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError(fmt::format("--against: {} is no name=value, wanted words like scaling=yarn factor=4", word));
    }
    arguments.push_back("--" + word);
  }
  SpecOptions options;
  Parser parser;
  add_spec_options(parser.command(), options);
  try {
    parser.parse(std::move(arguments));
    return spec_of(options);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--against \"{}\": {}", text, error.what()));
  }
}

}  // namespace

void add_spec_list(const Command& command, SpecList& list) {
  add_spec_options(command, list.first);
  command
      .option("--against", list.others,
              "Another encoding beside the first, in the words of its options: \"scaling=yarn factor=4 original-length=4096\"; may be "
              "repeated")
      .one_word()
      .group("The encoding");
}

std::vector<NamedSpec> specs_of(const SpecList& list) {
  std::vector<NamedSpec> specs;
  const RotarySpec first = spec_of(list.first);
  specs.push_back({list.first.model.value_or(label_of(first)), first});
  for (const std::string& words : list.others) specs.push_back({words, parse_words(words)});
  return specs;
}

}  // namespace phasor::cli
