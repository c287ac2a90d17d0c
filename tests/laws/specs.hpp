// SPDX-License-Identifier: Apache-2.0
// Random rotary specs: every scaling, awkward widths, both pairings and senses.
#pragma once

#include <rapidcheck.h>

#include <cmath>
#include <cstdint>
#include <ostream>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor::laws {

/// [low, high] in 1/1024 steps.
inline double any_between(double low, double high) { return low + (high - low) * static_cast<double>(*rc::gen::inRange(0, 1025)) / 1024; }

/// Amplitudes far from those at which twice rotated f16 data could overflow or underflow.
inline double any_amplitude() { return any_between(0.5, 2); }

inline std::vector<double> any_list(std::int64_t pairs, double low, double high) {
  std::vector<double> list(static_cast<std::size_t>(pairs));
  for (double& entry : list) entry = any_between(low, high);
  return list;
}

/// Fast, slow, negative and resting pairs.
inline std::vector<double> any_frequencies(std::int64_t pairs) {
  std::vector<double> list = any_list(pairs, -1, 1);
  for (double& entry : list) entry = std::ldexp(entry, *rc::gen::inRange(-20, 12));
  return list;
}

inline Scaling any_longrope(std::int64_t pairs) {
  return LongRopeScaling{.short_factors = any_list(pairs, 1, 2),
                         .long_factors = any_list(pairs, 1, 64),
                         .original_length = 4096,
                         .factor = any_between(1, 32),
                         .length = *rc::gen::element<std::int64_t>(4096, 4097)};
}

inline constexpr int kScalings = 12;

/// The `kind`-th scaling; YaRN comes twice, with an amplitude of its own and with a given one.
inline Scaling any_scaling(int kind, std::int64_t pairs) {
  const double factor = any_between(1, 40);
  switch (kind) {
    case 1:
      return LinearScaling{.factor = factor};
    case 2:
      return pairs > 1 ? Scaling(NtkScaling{.alpha = factor}) : Unscaled{};  // NTK needs a second pair
    case 3:
      return NtkMixedScaling{.factor = factor, .mixed_exponent = any_between(0, 1)};
    case 4:
      return pairs > 1 ? Scaling(DynamicNtkScaling{.factor = 2, .trained_length = 2048, .length = 9999}) : Unscaled{};
    case 5:
      return YarnScaling{.factor = factor, .original_length = 4096};
    case 6:
      return YarnScaling{.factor = factor, .original_length = 8192, .ramp = YarnRamp::exact, .attention_factor = any_amplitude()};
    case 7:
      return any_longrope(pairs);
    case 8:
      return Llama3Scaling{.factor = factor};
    case 9:
      return ProportionalScaling{.factor = factor, .share = any_between(0, 1)};
    case 10:
      return GivenFactors{.factors = any_list(pairs, 0.5, 64), .amplitude = any_amplitude()};
    case 11:
      return GivenFrequencies{.frequencies = any_frequencies(pairs), .amplitude = any_amplitude()};
    default:
      return Unscaled{};
  }
}

inline rc::Gen<RotarySpec> any_spec() {
  return rc::gen::exec([] {
    const std::int64_t pairs = *rc::gen::inRange<std::int64_t>(1, 72);
    const std::int64_t before = *rc::gen::element<std::int64_t>(0, 0, 1, 6);
    const std::int64_t after = *rc::gen::element<std::int64_t>(0, 0, 1, 9);
    RotarySpec spec{.head_dim = before + 2 * pairs + after, .rotary_width = 2 * pairs, .rotary_offset = before};
    spec.base = *rc::gen::element(1e4, 5e5, 1e6, 1.6e5, 100.0, 1e4 + 0.5);
    spec.scaling = any_scaling(*rc::gen::inRange(0, kScalings), pairs);
    spec.pairing = *rc::gen::element(Pairing::half, Pairing::interleaved);
    spec.sense = *rc::gen::element(Sense::counterclockwise, Sense::clockwise);
    return spec;
  });
}

inline void show(const RotarySpec& spec, std::ostream& out) {
  out << "head_dim " << spec.head_dim << ", width " << spec.rotary_width << " at " << spec.rotary_offset << ", base " << spec.base
      << ", scaling " << spec.scaling.index() << ", " << (spec.pairing == Pairing::half ? "half" : "interleaved")
      << (spec.sense == Sense::clockwise ? ", clockwise" : "");
}

inline Rotary made(const RotarySpec& spec) {
  Result<Rotary> rotary = Rotary::make(spec);
  if (!rotary) RC_FAIL(rotary.status().message());
  return *std::move(rotary);
}

}  // namespace phasor::laws
