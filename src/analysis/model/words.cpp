// SPDX-License-Identifier: Apache-2.0
// Numbers, names and lines as explain and diff write them.
#include "analysis/model/words.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "spec/format.hpp"

namespace phasor::analysis {
namespace {

constexpr std::size_t kColumns = 100;
constexpr std::size_t kLabel = 17;  // columns before the text of an item
constexpr std::size_t kIndent = 4;  // of a table
constexpr double kGroupedFrom = 1000;
constexpr double kGroupedBelow = 1e9;  // above, digits stop helping
constexpr double kWholeBelow = 1e15;
constexpr std::size_t kMostShown = 3;  // of a list, before its dots

struct Run {
  std::int64_t first;
  std::int64_t last;
};

std::vector<Run> runs_of(const std::vector<std::int64_t>& indices) {
  std::vector<Run> runs;
  for (const std::int64_t index : indices) {
    if (!runs.empty() && runs.back().last + 1 == index) {
      runs.back().last = index;
    } else {
      runs.push_back({index, index});
    }
  }
  return runs;
}

/// The common step of at least three indices; 0: there is none.
std::int64_t step_of(const std::vector<std::int64_t>& indices) {
  if (indices.size() < 3) return 0;
  const std::int64_t step = indices[1] - indices[0];
  for (std::size_t i = 2; i < indices.size(); ++i) {
    if (indices[i] - indices[i - 1] != step) return 0;
  }
  return step;
}

/// The first ones, dots, the last.
std::string shortened(const std::vector<std::string>& words) {
  if (words.size() <= kMostShown + 1) return joined(words);
  return joined({words[0], words[1], words[2], "...", words.back()});
}

std::string ordinal(std::int64_t n) {
  if (n == 2) return "2nd";
  if (n == 3) return "3rd";
  return spec::format("{}th", n);
}

}  // namespace

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t end = digits.size(); end > first + 3; end -= 3) digits.insert(end - 3, 1, ',');
  return digits;
}

std::string number(double value, Digits digits) {
  if (digits == Digits::exact && std::abs(value) < kWholeBelow && value == std::floor(value)) {
    return grouped(static_cast<std::int64_t>(value));
  }
  std::string text = spec::format("{:.{}g}", value, digits == Digits::three ? 3 : 4);
  const double rounded = std::strtod(text.c_str(), nullptr);
  if (std::abs(rounded) >= kGroupedFrom && std::abs(rounded) < kGroupedBelow) return grouped(std::llround(rounded));
  return text;
}

std::string span_of(double from, double to, Digits digits) {
  std::string first = number(from, digits);
  const std::string last = number(to, digits);
  return first == last ? first : first + " to " + last;
}

std::string bytes_in_words(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return number(bytes) + " " + kUnits[unit];
}

std::string counted(std::int64_t count, std::string_view noun) {
  return spec::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string indices_in_words(std::string_view noun, const std::vector<std::int64_t>& indices) {
  if (indices.empty()) return spec::format("no {}s", noun);
  if (indices.size() == 1) return spec::format("{} {}", noun, indices[0]);
  std::vector<std::string> words;
  const std::int64_t step = step_of(indices);
  if (step > 1) {
    for (const std::int64_t index : indices) words.push_back(std::to_string(index));
    return spec::format("every {} {} ({})", ordinal(step), noun, shortened(words));
  }
  for (const Run& run : runs_of(indices)) {
    words.push_back(run.first == run.last ? std::to_string(run.first) : spec::format("{}-{}", run.first, run.last));
  }
  const std::string tail = words.size() > kMostShown + 1 ? spec::format(" ({} of them)", indices.size()) : "";
  return spec::format("{}s {}{}", noun, shortened(words), tail);
}

const char* name_of(Pairing pairing) { return pairing == Pairing::half ? "half" : "interleaved"; }

const char* name_of(Numerics numerics) {
  constexpr std::array<const char*, 5> kNames{"exact", "hf", "hf_float32", "vllm", "ggml"};
  return kNames.at(static_cast<std::size_t>(numerics));
}

const char* name_of(AxisOrder order) {
  constexpr std::array<const char*, 4> kNames{"chunked", "interleaved", "alternating", "given"};
  return kNames.at(static_cast<std::size_t>(order));
}

const char* name_of(AxisLadder ladder) {
  constexpr std::array<const char*, 3> kNames{"shared", "own", "dealt"};
  return kNames.at(static_cast<std::size_t>(ladder));
}

const char* name_of(ModelBias::Kind kind) {
  constexpr std::array<const char*, 6> kNames{"alibi", "t5_buckets", "deberta", "xlnet", "transformer_xl", "swin"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string axis_name(std::int64_t axis, std::int64_t axes) {
  constexpr std::array<const char*, 3> kNames{"time", "height", "width"};
  if (axes == 3 && axis >= 0 && axis < 3) return kNames.at(static_cast<std::size_t>(axis));
  return spec::format("axis {}", axis);
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return text;
}

void Page::paragraph(std::string_view text, std::size_t indent) { wrap("", text, indent); }

void Page::item(std::string_view label, std::string_view text) {
  if (text.empty()) return;
  wrap(spec::format("  {:<{}}", label, kLabel - 2), text, kLabel);
}

void Page::table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.empty() ? 0 : rows.front().size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string text(kIndent, ' ');
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] > 0) text += spec::format("{:<{}}", row[i], widths[i] + 2);
    }
    line(text.substr(0, text.find_last_not_of(' ') + 1));
  }
}

/// `line` is what stands before the first word.
void Page::wrap(std::string line, std::string_view text, std::size_t indent) {
  bool first_word = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!first_word && line.size() + 1 + word.size() > kColumns) {
      this->line(line);
      line.assign(indent, ' ');
      first_word = true;
    }
    if (!first_word) line += ' ';
    line += word;
    first_word = false;
  }
  this->line(line);
}

}  // namespace phasor::analysis
