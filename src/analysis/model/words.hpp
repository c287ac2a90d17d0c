// SPDX-License-Identifier: Apache-2.0
// Numbers, names and lines as explain and diff write them. No arithmetic but of how things look.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phasor/model.hpp"

namespace phasor::analysis {

/// 131072 as "131,072".
std::string grouped(std::int64_t value);
/// Four digits: "0.08839", "2,320", "20,460,000", "3.2e+12"; a whole number below 10^15 keeps all of its digits when `exact`.
enum class Digits : std::uint8_t { three, four, exact };
std::string number(double value, Digits digits = Digits::four);
/// "6.283 to 2,320", or one number when they look alike.
std::string span_of(double from, double to, Digits digits = Digits::four);
/// 134217728 as "128 MiB".
std::string bytes_in_words(double bytes);
/// "1 layer", "2 layers".
std::string counted(std::int64_t count, std::string_view noun);

/// "layer 3", "layers 0-31", "every 6th layer (5, 11, 17, ..., 59)", "layers 0-4, 6-10, ..., 60-61 (52 of them)". Ascending.
std::string indices_in_words(std::string_view noun, const std::vector<std::int64_t>& indices);

const char* name_of(Pairing pairing);
const char* name_of(Numerics numerics);
const char* name_of(AxisOrder order);
const char* name_of(AxisLadder ladder);
const char* name_of(ModelBias::Kind kind);
/// "time", "height", "width" of three axes, else "axis 0", ...
std::string axis_name(std::int64_t axis, std::int64_t axes);

/// A list of parts, the empty ones left out.
std::string joined(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// Names out of a file may hold anything; what would steer a terminal becomes '?'.
std::string printable(std::string text);

/// Lines of at most 100 columns.
class Page {
 public:
  /// Wrapped, every line after the first indented by `indent`.
  void paragraph(std::string_view text, std::size_t indent = 0);
  /// "  label           text", wrapped under itself. Nothing when the text is empty.
  void item(std::string_view label, std::string_view text);
  /// Cells under each other, two columns apart; rows are equally long. A column whose cells are all empty is left out.
  void table(const std::vector<std::vector<std::string>>& rows);
  void blank() { text_ += '\n'; }
  void line(std::string_view text) { (text_ += printable(std::string(text))) += '\n'; }
  std::string take() { return std::move(text_); }

 private:
  void wrap(std::string line, std::string_view text, std::size_t indent);
  std::string text_;
};

}  // namespace phasor::analysis
