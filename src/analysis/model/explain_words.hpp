// SPDX-License-Identifier: Apache-2.0
// The sentences of explain, one function a fact.
#pragma once

#include <string>

#include "analysis/model/rope.hpp"
#include "phasor/model.hpp"

namespace phasor::analysis {

/// Which channels of a head turn together.
std::string pairing_words(const RotarySpec& spec);
/// "500,000: pair i turns by base^(-2i/128) radians per position".
std::string base_words(const RotarySpec& spec);
/// Empty when nothing is scaled.
std::string scaling_words(const RotarySpec& spec);
/// Which pairs follow which axis; empty for one axis.
std::string axes_words(const RotarySpec& spec);
/// "rotary, YaRN factor 40", what diff and overviews call it.
std::string short_scaling(const Scaling& scaling);

std::string bias_words(const ModelBias& bias);
std::string additive_words(const ModelAdditive& additive);
std::string temperature_words(const QueryTemperature& temperature, std::int64_t length);

/// The factor on q k before the softmax, all but the amplitude: attention_scale, or 1/sqrt(head_dim), times the softmax factor.
double attention_scale(const LayerPositions& layer, double softmax_scale);
/// Steepest slope of ALiBi's heads; the gentlest is 2^-max_alibi.
double steepest_slope(const ModelBias& bias);
double temperature_at(const QueryTemperature& temperature, std::int64_t position);

}  // namespace phasor::analysis
