// SPDX-License-Identifier: Apache-2.0
// The parts of diff: what compares rotary specs, and what writes differences down.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analysis/model/groups.hpp"
#include "analysis/model/words.hpp"
#include "phasor/model.hpp"

namespace phasor::analysis {

/// Relative differences up to this are the rounding of factors and bases that a file keeps in float32.
inline constexpr double kStoredRounding = 0x1p-22;

/// Two numbers of two sides.
struct Sides {
  std::string left;
  std::string right;
};

/// Writes differences down; `where` is the field until the layers are known.
class DiffPen {
 public:
  explicit DiffPen(std::vector<Difference>& found) : found_(found) {}
  void matters(const char* field, Sides sides, std::string why) { write(field, std::move(sides), true, std::move(why)); }
  void harmless(const char* field, Sides sides, std::string why) { write(field, std::move(sides), false, std::move(why)); }

 private:
  void write(const char* field, Sides sides, bool matters, std::string why) {
    found_.push_back({printable(field), printable(std::move(sides.left)), printable(std::move(sides.right)), matters, std::move(why)});
  }
  std::vector<Difference>& found_;
};

/// What a comparison of layers knows of the models around them.
struct DiffFrame {
  std::string left_dialect;
  std::string right_dialect;
  std::int64_t length = 0;  // positions that matter
};

/// Both layers have a rotary spec. An error is a spec's own.
Status diff_rotary(const LayerPairs& layers, const DiffFrame& frame, DiffPen& pen);

/// |a - b| / the larger; 0 for equal ones.
double relative_difference(double a, double b);

}  // namespace phasor::analysis
