// SPDX-License-Identifier: Apache-2.0
// The numerics profile of a spec: which peer's formulas, and whether float32 can hold what comes out of them.
#include "plan/profile/profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "plan/profile/parts.hpp"
#include "spec/format.hpp"

namespace phasor::plan {
namespace {

const char* name_of(Numerics numerics) {
  switch (numerics) {
    case Numerics::exact:
      return "exact";
    case Numerics::hf:
      return "hf";
    case Numerics::hf_float32:
      return "hf_float32";
    case Numerics::vllm:
      return "vllm";
    case Numerics::ggml:
      return "ggml";
  }
  return "unknown";
}

/// What a scaling is called in messages, in the order of the variant.
constexpr std::array kScalings = {"no",       "linear",  "NTK",          "mixed NTK",     "dynamic NTK",       "YaRN",
                                  "LongRoPE", "Llama 3", "proportional", "given factors", "given frequencies", "given directions"};
static_assert(kScalings.size() == std::variant_size_v<Scaling>);

/// float32 must hold what follows from valid float64 fields.
Status check_float32(const RotarySpec& spec, const Profile& profile) {
  const auto fits = [](float x) { return std::isfinite(x); };
  if (std::all_of(profile.frequencies.begin(), profile.frequencies.end(), fits) && fits(profile.amplitude) &&
      fits(profile.inverse_amplitude) && fits(profile.position_divisor) && profile.position_divisor > 0) {
    return {};
  }
  return Status::invalid(spec::format("RotarySpec: numerics is {}, wanted numbers that float32 can hold", name_of(spec.numerics)));
}

}  // namespace

Status no_such_scaling(const RotarySpec& spec) {
  return Status::unsupported(
      spec::format("RotarySpec: numerics is {} and scaling is {}, wanted a scaling that {} has, or given frequencies",
                   name_of(spec.numerics), kScalings[spec.scaling.index()], name_of(spec.numerics)));
}

std::vector<Rung> rungs_of(const RotarySpec& spec, const std::vector<std::uint8_t>& axis_of_pair) {
  const std::int64_t pairs = (spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width) / 2;
  std::vector<Rung> rungs(static_cast<std::size_t>(pairs));
  if (axis_of_pair.empty() || spec.axes.ladder == AxisLadder::shared) {
    for (std::int64_t i = 0; i < pairs; ++i) rungs[static_cast<std::size_t>(i)] = {i, pairs};
    return rungs;
  }
  const std::int64_t axes = *std::max_element(axis_of_pair.begin(), axis_of_pair.end()) + 1;
  std::vector<std::int64_t> next(static_cast<std::size_t>(axes), 0);
  for (std::size_t i = 0; i < rungs.size(); ++i) {
    const std::int64_t axis = axis_of_pair[i];
    const std::int64_t j = next[static_cast<std::size_t>(axis)]++;
    const bool own = spec.axes.ladder == AxisLadder::own;
    rungs[i] = own ? Rung{j, std::count(axis_of_pair.begin(), axis_of_pair.end(), axis)} : Rung{j * axes + axis, pairs};
  }
  return rungs;
}

Profile per_channel(const Profile& profile, std::int64_t segments) {
  Profile lanes = profile;
  const std::size_t pairs = std::max(profile.frequencies.size(), profile.running.size());
  const std::size_t in_segment = pairs / static_cast<std::size_t>(segments);
  lanes.frequencies.clear();
  lanes.running.clear();
  for (std::size_t lane = 0; lane < 2; ++lane) {
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const std::size_t segment = pair / in_segment * in_segment;
      const std::size_t from = segment + (2 * (pair - segment) + lane) % in_segment;
      if (!profile.frequencies.empty()) lanes.frequencies.push_back(profile.frequencies[from]);
      if (!profile.running.empty()) lanes.running.push_back(profile.running[from]);
    }
  }
  return lanes;
}

Result<Profile> make_profile(const RotarySpec& spec, const std::vector<Rung>& rungs) {
  const bool hf = spec.numerics == Numerics::hf || spec.numerics == Numerics::hf_float32;
  if (spec.unit == FrequencyUnit::turns && !hf) {
    return Status::unsupported(spec::format("RotarySpec: numerics is {} and unit is turns, wanted radians", name_of(spec.numerics)));
  }
  if (spec.axes.ladder != AxisLadder::shared && spec.scaling.index() > 1) {  // 0 and 1: unscaled and linear
    return Status::unsupported(spec::format("RotarySpec: numerics is {} and axes.ladder is not shared, wanted no scaling or linear scaling",
                                            name_of(spec.numerics)));
  }
  if (const auto base = static_cast<float>(spec.base); !(base > 0) || !std::isfinite(base)) {
    return Status::invalid(
        spec::format("RotarySpec: base is {}, numerics {} wants one that float32 can hold", spec.base, name_of(spec.numerics)));
  }
  Result<Profile> profile = spec.numerics == Numerics::ggml ? make_ggml_profile(spec, rungs) : make_pytorch_profile(spec, rungs);
  if (!profile.ok()) return profile;
  profile->inverse_amplitude = 1.0F / profile->amplitude;
  if (Status status = check_float32(spec, *profile); !status) return status;
  return profile;
}

}  // namespace phasor::plan
