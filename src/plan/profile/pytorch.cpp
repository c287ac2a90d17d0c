// SPDX-License-Identifier: Apache-2.0
// Hugging Face's and vLLM's formulas, one function a scaling. Python's floats are float64 until they meet a float32 tensor, where they are
// rounded; every operation on tensors rounds to float32.
#include <algorithm>
#include <cmath>
#include <variant>

#include "plan/profile/float32.hpp"
#include "plan/profile/parts.hpp"

namespace phasor::plan {
namespace {

struct Peer {
  const RotarySpec& spec;
  const std::vector<Rung>& rungs;
  double width;  // "dim"
  bool vllm;
};

/// base^(2i / R): "pos_freqs".
std::vector<float> base_powers(const Peer& peer, double base) {
  std::vector<float> exponents;
  exponents.reserve(peer.rungs.size());
  for (const Rung& rung : peer.rungs) exponents.push_back(static_cast<float>(2 * rung.index) / static_cast<float>(2 * rung.count));
  return powers32(to_float(base), exponents);
}

/// 1 / base^(2i / R): "inv_freq".
std::vector<float> ladder(const Peer& peer, double base) {
  std::vector<float> frequencies = base_powers(peer, base);
  for (float& f : frequencies) f = 1.0F / f;
  return frequencies;
}

Profile with_base(const Peer& peer, double base) { return {.frequencies = ladder(peer, base)}; }

Result<Profile> profile_of(const Peer& peer, const Unscaled&) { return with_base(peer, peer.spec.base); }

Result<Profile> profile_of(const Peer& peer, const LinearScaling& s) {
  Profile profile = with_base(peer, peer.spec.base);
  if (peer.vllm) {  // divides the positions
    profile.position_divisor = to_float(s.factor);
  } else {
    for (float& f : profile.frequencies) f /= to_float(s.factor);
  }
  return profile;
}

/// base * alpha^(R / (R - 2)) in float64.
Result<Profile> ntk_aware(const Peer& peer, double alpha) {
  return with_base(peer, peer.spec.base * power64(alpha, peer.width / (peer.width - 2)));
}

Result<Profile> profile_of(const Peer& peer, const NtkScaling& s) { return ntk_aware(peer, s.alpha); }

Result<Profile> profile_of(const Peer& peer, const DynamicNtkScaling& s) {
  const auto length = static_cast<double>(std::max(s.length, s.trained_length));
  return ntk_aware(peer, s.factor * length / static_cast<double>(s.trained_length) - (s.factor - 1));
}

Result<Profile> profile_of(const Peer& peer, const NtkMixedScaling& s) {
  if (!peer.vllm) return no_such_scaling(peer.spec);
  if (!s.mixed_exponent) {
    Profile profile = with_base(peer, peer.spec.base * s.factor);
    const float slower = to_float(power64(s.factor, 2 / peer.width));
    for (float& f : profile.frequencies) f /= slower;
    return profile;
  }
  Profile profile = with_base(peer, peer.spec.base);
  const float a = log32(to_float(s.factor)) / to_float(power64(peer.width / 2, *s.mixed_exponent));
  for (std::size_t i = 0; i < profile.frequencies.size(); ++i) {
    const float share = power32(static_cast<float>(i + 1), to_float(*s.mixed_exponent));
    profile.frequencies[i] /= exp32(a * share);
  }
  return profile;
}

/// "get_mscale", in float64.
double yarn_gain(double factor, double mscale) { return factor <= 1 ? 1.0 : 0.1 * mscale * log64(factor) + 1.0; }

double yarn_amplitude(const YarnScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
    return yarn_gain(s.factor, *s.mscale) / yarn_gain(s.factor, *s.mscale_all_dim);
  }
  return yarn_gain(s.factor, 1);
}

struct Ramp {
  double low;
  double high;
};

/// "find_correction_range", in float64.
Ramp yarn_ramp(const Peer& peer, const YarnScaling& s) {
  const double log_base = log64(peer.spec.base);
  const auto pair_of = [&](double turns) {
    return peer.width * log64(static_cast<double>(s.original_length) / (turns * 2 * kPi)) / (2 * log_base);
  };
  Ramp ramp = {pair_of(s.beta_fast), pair_of(s.beta_slow)};
  if (s.ramp == YarnRamp::truncated) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp = {std::max(ramp.low, 0.0), std::min(ramp.high, peer.width - 1)};
  if (ramp.low == ramp.high) ramp.high += 0.001;
  return ramp;
}

Result<Profile> profile_of(const Peer& peer, const YarnScaling& s) {
  Profile profile = {.frequencies = base_powers(peer, peer.spec.base), .amplitude = to_float(yarn_amplitude(s))};
  const Ramp ramp = yarn_ramp(peer, s);
  const float low = to_float(ramp.low);
  const float range = to_float(ramp.high - ramp.low);
  for (std::size_t i = 0; i < profile.frequencies.size(); ++i) {
    const float power = profile.frequencies[i];
    const float interpolated = 1.0F / (to_float(s.factor) * power);
    const float kept = 1.0F / power;
    const float keep = 1.0F - std::clamp((static_cast<float>(i) - low) / range, 0.0F, 1.0F);
    profile.frequencies[i] = interpolated * (1.0F - keep) + kept * keep;
  }
  return profile;
}

Profile with_factors(const Peer& peer, const std::vector<double>& factors, double amplitude) {
  Profile profile = {.frequencies = base_powers(peer, peer.spec.base), .amplitude = to_float(amplitude)};
  for (std::size_t i = 0; i < profile.frequencies.size(); ++i) {
    profile.frequencies[i] = 1.0F / (to_float(factors[i]) * profile.frequencies[i]);
  }
  return profile;
}

Result<Profile> profile_of(const Peer& peer, const LongRopeScaling& s) {
  return with_factors(peer, longrope_factors(s), longrope_amplitude(s));
}

Result<Profile> profile_of(const Peer& peer, const GivenFactors& s) { return with_factors(peer, s.factors, s.amplitude); }

Result<Profile> profile_of(const Peer& peer, const Llama3Scaling& s) {
  Profile profile = with_base(peer, peer.spec.base);
  for (float& f : profile.frequencies) {
    const Llama3Pair pair = llama3_pair(f, s);
    if (pair.part == Llama3Part::kept) continue;
    const float factor = to_float(s.factor);
    f = pair.part == Llama3Part::slowed ? f / factor : (1.0F - pair.smooth) * f / factor + pair.smooth * f;
  }
  return profile;
}

Result<Profile> profile_of(const Peer& peer, const ProportionalScaling& s) {
  Profile profile = with_base(peer, peer.spec.base);
  const auto turning = proportional_pairs(s, peer.rungs.size());
  for (std::size_t i = 0; i < profile.frequencies.size(); ++i) {
    profile.frequencies[i] = i < turning ? profile.frequencies[i] / to_float(s.factor) : 0.0F;
  }
  return profile;
}

Result<Profile> profile_of(const Peer&, const GivenFrequencies& s) {
  return Profile{.frequencies = {s.frequencies.begin(), s.frequencies.end()}, .amplitude = to_float(s.amplitude)};
}

Result<Profile> profile_of(const Peer& peer, const GivenDirections&) { return no_such_scaling(peer.spec); }

/// Positions in turns (DINOv3): 2 pi * position, then times the frequency.
void use_turns(Profile& profile) { profile.position_factor = to_float(2 * kPi); }

}  // namespace

Result<Profile> make_pytorch_profile(const RotarySpec& spec, const std::vector<Rung>& rungs) {
  const Peer peer = {spec, rungs, static_cast<double>(2 * rungs.size()), spec.numerics == Numerics::vllm};
  Result<Profile> profile = std::visit([&](const auto& s) { return profile_of(peer, s); }, spec.scaling);
  if (profile.ok() && spec.unit == FrequencyUnit::turns) use_turns(*profile);
  return profile;
}

}  // namespace phasor::plan
