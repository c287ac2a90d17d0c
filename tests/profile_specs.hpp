// SPDX-License-Identifier: Apache-2.0
// The specs behind the names in tests/golden/hf_tables.txt and ggml_tables.txt.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "phasor/rotary.hpp"

namespace phasor::test {

/// start, start + step, ...: the factor lists of the recorders.
inline std::vector<double> stairs(double step, std::int64_t count) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < count; ++i) list.push_back(1.0 + step * static_cast<double>(i));
  return list;
}

inline RotarySpec spec_of_width(std::int64_t head_dim, double base, Scaling scaling) {
  RotarySpec spec;
  spec.head_dim = head_dim;
  spec.base = base;
  spec.scaling = std::move(scaling);
  return spec;
}

inline YarnScaling yarn(double factor, std::int64_t original_length) {
  YarnScaling s;
  s.factor = factor;
  s.original_length = original_length;
  return s;
}

inline LongRopeScaling longrope(std::int64_t length) {
  LongRopeScaling s;
  s.short_factors = stairs(0.37, 32);
  s.long_factors = stairs(1.93, 32);
  s.original_length = 4096;
  s.factor = 32;
  s.length = length;
  return s;
}

inline std::map<std::string, RotarySpec> hf_specs() {
  YarnScaling exact_ramp = yarn(32, 4096);
  exact_ramp.ramp = YarnRamp::exact;
  YarnScaling mscale = yarn(40, 4096);
  mscale.mscale = 0.707;
  mscale.mscale_all_dim = 1.0;
  return {
      {"default", spec_of_width(64, 10000, Unscaled{})},
      {"default_96", spec_of_width(96, 500000, Unscaled{})},
      {"linear", spec_of_width(64, 10000, LinearScaling{2.7})},
      {"dynamic", spec_of_width(64, 10000, DynamicNtkScaling{3, 2048, 10000})},
      {"yarn", spec_of_width(64, 1000000, yarn(4, 32768))},
      {"yarn_exact_ramp", spec_of_width(64, 150000, exact_ramp)},
      {"yarn_mscale", spec_of_width(64, 10000, mscale)},
      {"longrope_short", spec_of_width(64, 10000, longrope(4096))},
      {"longrope_long", spec_of_width(64, 10000, longrope(100000))},
      {"llama3", spec_of_width(64, 500000, Llama3Scaling{})},
      {"proportional", spec_of_width(64, 1000000, ProportionalScaling{1, 0.25})},
  };
}

inline std::map<std::string, RotarySpec> ggml_specs() {
  YarnScaling attention = yarn(40, 4096);
  attention.attention_factor = 1.25;
  std::vector<double> factors;  // 1.0f + 0.37f * i, in float32
  for (int i = 0; i < 32; ++i) {
    const volatile float step = 0.37F * static_cast<float>(i);
    factors.push_back(static_cast<double>(1.0F + step));
  }
  return {
      {"norm", spec_of_width(64, 10000, Unscaled{})},
      {"neox", spec_of_width(64, 10000, Unscaled{})},
      {"neox_500000", spec_of_width(80, 500000, Unscaled{})},
      {"linear", spec_of_width(64, 10000, LinearScaling{2.7})},
      {"factors", spec_of_width(64, 10000, GivenFactors{factors, 1.0625})},
      {"yarn", spec_of_width(64, 1000000, yarn(4, 32768))},
      {"yarn_attention", spec_of_width(64, 10000, attention)},
  };
}

}  // namespace phasor::test
