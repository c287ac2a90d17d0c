// SPDX-License-Identifier: Apache-2.0
// What the profiles' formulas share: each peer's own functions, and the few that all of them write alike. For src/plan/profile*.cpp only.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/profile/float32.hpp"
#include "plan/profile/profile.hpp"

namespace phasor::plan {

Result<Profile> make_pytorch_profile(const RotarySpec& spec, const std::vector<Rung>& rungs);
Result<Profile> make_ggml_profile(const RotarySpec& spec, const std::vector<Rung>& rungs);

/// What a profile says of a scaling its peer does not have.
Status no_such_scaling(const RotarySpec& spec);

constexpr double kPi = 3.141592653589793;  // math.pi

inline float to_float(double x) { return static_cast<float>(x); }

/// PyTorch's number / tensor: the number times the reciprocal, two roundings.
inline float number_over(double number, float tensor) { return 1.0F / tensor * to_float(number); }

inline const std::vector<double>& longrope_factors(const LongRopeScaling& s) {
  const bool by_length = s.choice == LongRopeChoice::by_length;
  const bool longer = by_length ? s.length > s.original_length : s.choice == LongRopeChoice::long_factors;
  return longer ? s.long_factors : s.short_factors;
}

/// In float64, as the configuration's readers compute it.
inline double longrope_amplitude(const LongRopeScaling& s) {
  if (s.attention_factor) return *s.attention_factor;
  if (s.factor <= 1) return 1;
  return sqrt64(1 + log64(s.factor) / log64(static_cast<double>(s.original_length)));
}

/// Where Llama 3's ramp has a pair: Hugging Face, vLLM and llama.cpp's converter ask the same float32 questions.
enum class Llama3Part : std::uint8_t { kept, slowed, between };
struct Llama3Pair {
  Llama3Part part;
  float smooth;  // for `between`
};
inline Llama3Pair llama3_pair(float frequency, const Llama3Scaling& s) {
  const auto length = static_cast<double>(s.original_length);
  const float wavelength = number_over(2 * kPi, frequency);
  if (wavelength < to_float(length / s.high_freq_factor)) return {Llama3Part::kept, 1};
  if (wavelength > to_float(length / s.low_freq_factor)) return {Llama3Part::slowed, 0};
  if (s.low_freq_factor == s.high_freq_factor) return {Llama3Part::slowed, 0};  // vLLM; the others would divide by 0
  const float turns = number_over(length, wavelength);
  return {Llama3Part::between, (turns - to_float(s.low_freq_factor)) / to_float(s.high_freq_factor - s.low_freq_factor)};
}

/// Pairs that turn at all, as plan/scaling.cpp counts them.
inline std::size_t proportional_pairs(const ProportionalScaling& s, std::size_t pairs) {
  return static_cast<std::size_t>(s.share * static_cast<double>(2 * pairs) / 2);
}

}  // namespace phasor::plan
