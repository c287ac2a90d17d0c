// SPDX-License-Identifier: Apache-2.0
// The numerics profiles written naively: each step of a peer's formula in float32, functions by the C library in double and rounded.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "ops/rotary/rotary_call.hpp"

namespace phasor::test::naive {

inline float power(float x, float y) { return static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y))); }
inline float cosine(float x) { return static_cast<float>(std::cos(static_cast<double>(x))); }
inline float sine(float x) { return static_cast<float>(std::sin(static_cast<double>(x))); }

/// 1.0 / base ** (arange(0, R, 2) / R).
inline std::vector<float> inv_freq(double base, int width) {
  std::vector<float> list;
  for (int i = 0; i < width; i += 2)
    list.push_back(1.0F / power(static_cast<float>(base), static_cast<float>(i) / static_cast<float>(width)));
  return list;
}

/// The angles of one position, a pair each.
using Angles = std::function<std::vector<float>(float position)>;

inline Angles products(const std::vector<float>& frequencies, float divisor = 1) {
  return [=](float position) {
    std::vector<float> angles;
    for (const float f : frequencies) angles.push_back(position / divisor * f);
    return angles;
  };
}

/// ggml without YaRN: a running product, divided by factors, times a scale.
inline Angles running(double base, int width, float scale, const std::vector<float>& factors) {
  return [=](float position) {
    std::vector<float> angles;
    const float ratio = power(static_cast<float>(base), -2.0F / static_cast<float>(width));
    float theta = position;
    for (int i = 0; i < width / 2; ++i) {
      angles.push_back(scale * (theta / factors[static_cast<std::size_t>(i)]));
      theta *= ratio;
    }
    return angles;
  };
}

/// What a case is, and what is expected of it.
struct Case {
  RotarySpec spec;
  Angles angles;
  float amplitude = 1;
};

/// x rounded to T and back, where the profile does so.
template <class T>
typename Element<T>::Value rounded(typename Element<T>::Value x, bool rounds) {
  return rounds ? Element<T>::widen(Element<T>::narrow(x)) : x;
}

/// One head turned forward.
template <class T>
void rotate_head(const Case& c, float position, std::vector<T>& head) {
  using E = Element<T>;
  using V = typename E::Value;
  const RotarySpec& spec = c.spec;
  const std::int64_t width = spec.rotary_width;
  const bool table_as_tensor = spec.numerics == Numerics::hf || spec.numerics == Numerics::vllm;
  const bool each = spec.numerics == Numerics::hf;
  const std::vector<T> from = head;
  const std::vector<float> angles = c.angles(position);
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const float angle = angles[static_cast<std::size_t>(i)];
    const V cos = rounded<T>(cosine(angle) * c.amplitude, table_as_tensor);
    V sin = rounded<T>(sine(angle) * c.amplitude, table_as_tensor);
    if (spec.sense == Sense::clockwise) sin = -sin;
    const auto at = [&](Pairing pairing, int lane) {
      return static_cast<std::size_t>(spec.rotary_offset + reference::channel(pairing, width, i, lane));
    };
    const V x = E::widen(from[at(spec.pairing, 0)]);
    const V y = E::widen(from[at(spec.pairing, 1)]);
    const Pairing written = spec.output_pairing.value_or(spec.pairing);
    head[at(written, 0)] = E::narrow(rounded<T>(x * cos, each) - rounded<T>(y * sin, each));
    head[at(written, 1)] = E::narrow(rounded<T>(y * cos, each) + rounded<T>(x * sin, each));
  }
}

}  // namespace phasor::test::naive
