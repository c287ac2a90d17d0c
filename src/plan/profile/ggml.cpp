// SPDX-License-Identifier: Apache-2.0
// ggml's formulas, one function a scaling, all in float32: a running product over the pairs, frequency factors, YaRN's mix.
#include <algorithm>
#include <cmath>
#include <variant>

#include "plan/profile/float32.hpp"
#include "plan/profile/parts.hpp"

namespace phasor::plan {
namespace {

/// Not negative means YaRN (math::GgmlPair).
constexpr float kNoMix = -1;

struct Ggml {
  const RotarySpec& spec;
  const std::vector<Rung>& rungs;
  std::int64_t width;  // "n_dims"
};

Profile running(const Ggml& g, float base, float scale) {
  Profile profile;
  profile.running.reserve(g.rungs.size());
  std::int64_t count = 0;
  float ratio = 1;
  for (const Rung& rung : g.rungs) {
    if (rung.count != count) {  // one power a ladder
      count = rung.count;
      ratio = power32(base, -2.0F / static_cast<float>(2 * count));
    }
    profile.running.push_back({rung.index, ratio, {1, scale, kNoMix}});
  }
  return profile;
}

Profile running(const Ggml& g) { return running(g, to_float(g.spec.base), 1); }

Result<Profile> profile_of(const Ggml& g, const Unscaled&) { return running(g); }

Result<Profile> profile_of(const Ggml& g, const LinearScaling& s) { return running(g, to_float(g.spec.base), 1.0F / to_float(s.factor)); }

/// The base is what a file holds: float64 arithmetic of the converter, rounded once.
Result<Profile> profile_of(const Ggml& g, const NtkScaling& s) {
  const auto width = static_cast<double>(g.width);
  return running(g, to_float(g.spec.base * power64(s.alpha, width / (width - 2))), 1);
}

Result<Profile> profile_of(const Ggml& g, const NtkMixedScaling&) { return no_such_scaling(g.spec); }
Result<Profile> profile_of(const Ggml& g, const DynamicNtkScaling&) { return no_such_scaling(g.spec); }

float yarn_gain(float factor, double mscale) { return factor <= 1 ? 1.0F : 0.1F * to_float(mscale) * log32(factor) + 1.0F; }

float yarn_amplitude(const YarnScaling& s) {
  const float factor = to_float(s.factor);
  if (s.attention_factor) return to_float(*s.attention_factor);
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
    return yarn_gain(factor, *s.mscale) / yarn_gain(factor, *s.mscale_all_dim);
  }
  return yarn_gain(factor, 1);
}

Result<Profile> profile_of(const Ggml& g, const YarnScaling& s) {
  if (s.ramp == YarnRamp::exact) {
    return Status::unsupported("RotarySpec: numerics is ggml and scaling.ramp is exact, wanted truncated: ggml always truncates");
  }
  const float base = to_float(g.spec.base);
  const float scale = 1.0F / to_float(s.factor);
  const auto width = static_cast<float>(g.width);
  const auto pair_of = [&](double turns) {
    const float ratio = static_cast<float>(s.original_length) / (to_float(turns) * 2 * to_float(kPi));
    return width * log32(ratio) / (2 * log32(base));
  };
  const float low = std::max(0.0F, std::floor(pair_of(s.beta_fast)));
  const float high = std::min(width - 1, std::ceil(pair_of(s.beta_slow)));
  Profile profile = running(g, base, scale);
  for (std::size_t i = 0; i < profile.running.size(); ++i) {
    const float y = (static_cast<float>(i) - low) / std::max(0.001F, high - low);
    profile.running[i].angle.mix = 1 - std::clamp(y, 0.0F, 1.0F);
  }
  // The kernel multiplies by 1 + 0.1 ln(factor) itself; the caller divides by it beforehand.
  const float own = 1.0F + 0.1F * log32(1.0F / scale);
  const float before = 1.0F / (1.0F + 0.1F * log32(1.0F / scale));
  profile.amplitude = yarn_amplitude(s) * before * own;
  return profile;
}

Profile with_factors(const Ggml& g, const std::vector<double>& factors, double amplitude) {
  Profile profile = running(g);
  for (std::size_t i = 0; i < factors.size(); ++i) profile.running[i].angle.divisor = to_float(factors[i]);
  profile.amplitude = to_float(amplitude);
  return profile;
}

Result<Profile> profile_of(const Ggml& g, const LongRopeScaling& s) { return with_factors(g, longrope_factors(s), longrope_amplitude(s)); }

Result<Profile> profile_of(const Ggml& g, const GivenFactors& s) { return with_factors(g, s.factors, s.amplitude); }

/// The converter's factors, computed in float32 tensors.
Result<Profile> profile_of(const Ggml& g, const Llama3Scaling& s) {
  Profile profile = running(g);
  for (std::size_t i = 0; i < profile.running.size(); ++i) {
    const float exponent = static_cast<float>(2 * g.rungs[i].index) / static_cast<float>(2 * g.rungs[i].count);
    const Llama3Pair pair = llama3_pair(1.0F / power32(to_float(g.spec.base), exponent), s);
    if (pair.part == Llama3Part::kept) continue;
    const float factor = to_float(s.factor);
    const bool between = pair.part == Llama3Part::between;
    profile.running[i].angle.divisor = between ? 1.0F / ((1.0F - pair.smooth) / factor + pair.smooth) : factor;
  }
  return profile;
}

/// Pairs that never turn are divided by 1e30.
Result<Profile> profile_of(const Ggml& g, const ProportionalScaling& s) {
  Profile profile = running(g, to_float(g.spec.base), 1.0F / to_float(s.factor));
  for (std::size_t i = proportional_pairs(s, g.rungs.size()); i < profile.running.size(); ++i) profile.running[i].angle.divisor = 1e30F;
  return profile;
}

Result<Profile> profile_of(const Ggml&, const GivenFrequencies& s) {
  return Profile{.frequencies = {s.frequencies.begin(), s.frequencies.end()}, .amplitude = to_float(s.amplitude)};
}

Result<Profile> profile_of(const Ggml& g, const GivenDirections&) { return no_such_scaling(g.spec); }

}  // namespace

Result<Profile> make_ggml_profile(const RotarySpec& spec, const std::vector<Rung>& rungs) {
  const Ggml g = {spec, rungs, static_cast<std::int64_t>(2 * rungs.size())};
  return std::visit([&](const auto& s) { return profile_of(g, s); }, spec.scaling);
}

}  // namespace phasor::plan
