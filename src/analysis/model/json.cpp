// SPDX-License-Identifier: Apache-2.0
// Specs and layers as JSON: every field under the name it has in the headers.
#include "analysis/model/json.hpp"

#include <cmath>

#include "analysis/model/words.hpp"

namespace phasor::analysis {
namespace {

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

struct ToJson {
  Json operator()(const Unscaled& /*s*/) const { return {{"name", "unscaled"}}; }
  Json operator()(const LinearScaling& s) const { return {{"name", "linear"}, {"factor", s.factor}}; }
  Json operator()(const NtkScaling& s) const { return {{"name", "ntk"}, {"alpha", s.alpha}}; }
  Json operator()(const NtkMixedScaling& s) const {
    return {{"name", "ntk_mixed"}, {"factor", s.factor}, {"mixed_exponent", or_null(s.mixed_exponent)}};
  }
  Json operator()(const DynamicNtkScaling& s) const {
    return {{"name", "dynamic"}, {"factor", s.factor}, {"trained_length", s.trained_length}, {"length", s.length}};
  }
  Json operator()(const YarnScaling& s) const {
    return {{"name", "yarn"},
            {"factor", s.factor},
            {"original_length", s.original_length},
            {"beta_fast", s.beta_fast},
            {"beta_slow", s.beta_slow},
            {"ramp", s.ramp == YarnRamp::truncated ? "truncated" : "exact"},
            {"attention_factor", or_null(s.attention_factor)},
            {"mscale", or_null(s.mscale)},
            {"mscale_all_dim", or_null(s.mscale_all_dim)},
            {"softmax", s.softmax == YarnSoftmax::unchanged ? "unchanged" : "mscale_all_dim_squared"}};
  }
  Json operator()(const LongRopeScaling& s) const {
    const char* choice = s.choice == LongRopeChoice::by_length      ? "by_length"
                         : s.choice == LongRopeChoice::long_factors ? "long_factors"
                                                                    : "short_factors";
    return {{"name", "longrope"},
            {"short_factors", s.short_factors},
            {"long_factors", s.long_factors},
            {"original_length", s.original_length},
            {"factor", s.factor},
            {"attention_factor", or_null(s.attention_factor)},
            {"choice", choice},
            {"length", s.length}};
  }
  Json operator()(const Llama3Scaling& s) const {
    return {{"name", "llama3"},
            {"factor", s.factor},
            {"low_freq_factor", s.low_freq_factor},
            {"high_freq_factor", s.high_freq_factor},
            {"original_length", s.original_length}};
  }
  Json operator()(const ProportionalScaling& s) const { return {{"name", "proportional"}, {"factor", s.factor}, {"share", s.share}}; }
  Json operator()(const GivenFactors& s) const { return {{"name", "given_factors"}, {"factors", s.factors}, {"amplitude", s.amplitude}}; }
  Json operator()(const GivenFrequencies& s) const {
    return {{"name", "given_frequencies"}, {"frequencies", s.frequencies}, {"amplitude", s.amplitude}};
  }
  Json operator()(const GivenDirections& s) const {
    return {{"name", "given_directions"}, {"axes", s.axes}, {"heads", s.heads}, {"frequencies", s.frequencies}};
  }
};

Json axes_json(const Axes& axes) {
  return {{"sections", axes.sections},
          {"order", name_of(axes.order)},
          {"ladder", name_of(axes.ladder)},
          {"axis_of_pair", std::vector<int>(axes.axis_of_pair.begin(), axes.axis_of_pair.end())}};
}

Json bias_json(const ModelBias& bias) {
  return {{"kind", name_of(bias.kind)},        {"heads", bias.heads},         {"buckets", bias.buckets},
          {"max_distance", bias.max_distance}, {"max_alibi", bias.max_alibi}, {"bidirectional", bias.bidirectional}};
}

Json additive_json(const ModelAdditive& additive) {
  return {{"kind", additive.kind == ModelAdditive::Kind::learned ? "learned" : "sinusoidal"},
          {"length", additive.length},
          {"width", additive.width},
          {"first_position", additive.first_position}};
}

Json temperature_json(const QueryTemperature& temperature) {
  return {{"kind", temperature.kind == QueryTemperature::Kind::log_n ? "log_n" : "floored_log"},
          {"scale", temperature.scale},
          {"length", temperature.length},
          {"shift", temperature.shift}};
}

}  // namespace

std::string dumped(const Json& json, int indent) { return json.dump(indent, ' ', true, Json::error_handler_t::replace); }

Json json_number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json scaling_json(const Scaling& scaling) { return std::visit(ToJson{}, scaling); }

Json rotary_json(const RotarySpec& spec) {
  return {{"head_dim", spec.head_dim},
          {"rotary_width", spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width},
          {"rotary_offset", spec.rotary_offset},
          {"base", spec.base},
          {"scaling", scaling_json(spec.scaling)},
          {"pairing", name_of(spec.pairing)},
          {"output_pairing", name_of(spec.output_pairing.value_or(spec.pairing))},
          {"sense", spec.sense == Sense::clockwise ? "clockwise" : "counterclockwise"},
          {"axes", axes_json(spec.axes)},
          {"segments", spec.segments},
          {"lanes", spec.lanes == Lanes::per_channel_frequencies ? "per_channel_frequencies" : "alike"},
          {"unit", spec.unit == FrequencyUnit::turns ? "turns" : "radians"},
          {"numerics", name_of(spec.numerics)}};
}

Json layer_json(const LayerPositions& layer) {
  Json dual;
  if (layer.dual_chunk) dual = {{"chunk_size", layer.dual_chunk->chunk_size}, {"local_size", layer.dual_chunk->local_size}};
  return {{"type", layer.type},
          {"rotary", layer.rotary ? rotary_json(*layer.rotary) : Json()},
          {"bias", layer.bias ? bias_json(*layer.bias) : Json()},
          {"additive", layer.additive ? additive_json(*layer.additive) : Json()},
          {"attention_scale", or_null(layer.attention_scale)},
          {"query_temperature", layer.query_temperature ? temperature_json(*layer.query_temperature) : Json()},
          {"window", layer.window},
          {"chunk", layer.chunk},
          {"dual_chunk", dual},
          {"numerics", name_of(layer.numerics)},
          {"output_turned_back", layer.output_turned_back},
          {"skipped_tokens", layer.skipped_tokens},
          {"first_position", layer.first_position}};
}

}  // namespace phasor::analysis
