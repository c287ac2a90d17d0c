// SPDX-License-Identifier: Apache-2.0
// Which frequency of which ladder each pair has.
#include "plan/ladder.hpp"

#include "spec/axes.hpp"
#include "spec/rotary.hpp"

namespace phasor::plan {
namespace {

/// The j-th pair of axis a has the j-th frequency of a ladder of that axis's pairs. The amplitude is the scaling's, whatever the width.
Result<Scaled> own_ladders(const RotarySpec& spec) {
  std::vector<Result<Scaled>> ladders;
  Scaled scaled;
  for (const std::int64_t pairs : spec::pairs_of_axis(spec)) {
    ladders.push_back(pairs == 0 ? Result<Scaled>(Scaled{}) : scale_ladder({spec.base, pairs}, spec.scaling));
    if (!ladders.back()) return ladders.back();
    if (pairs == 0) continue;
    scaled.amplitude = ladders.back()->amplitude;
    scaled.softmax_scale = ladders.back()->softmax_scale;
  }
  std::vector<std::size_t> next(ladders.size(), 0);
  for (const std::uint8_t axis : spec::axis_of_pair(spec)) scaled.frequencies.push_back(ladders[axis]->frequencies[next[axis]++]);
  return scaled;
}

/// The j-th pair of axis a has the (j n + a)-th frequency of one ladder.
Result<Scaled> dealt_ladder(const RotarySpec& spec) {
  Result<Scaled> scaled = scale_ladder({spec.base, spec::rotary_width(spec) / 2}, spec.scaling);
  if (!scaled) return scaled;
  const std::vector<Real> ladder = scaled->frequencies;
  const auto axes = static_cast<std::size_t>(spec::axis_count(spec));
  std::vector<std::size_t> next(axes, 0);
  std::size_t pair = 0;
  for (const std::uint8_t axis : spec::axis_of_pair(spec)) scaled->frequencies[pair++] = ladder[next[axis]++ * axes + axis];
  return scaled;
}

}  // namespace

Result<Scaled> scale_axes(const RotarySpec& spec) {
  switch (spec.axes.ladder) {
    case AxisLadder::own:
      return own_ladders(spec);
    case AxisLadder::dealt:
      return dealt_ladder(spec);
    case AxisLadder::shared:
      break;
  }
  return scale_ladder({spec.base, spec::rotary_width(spec) / 2}, spec.scaling);
}

}  // namespace phasor::plan
