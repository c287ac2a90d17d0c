// SPDX-License-Identifier: Apache-2.0
// The sentences of explain about all that is not rotary: bias, added vectors, query temperature.

#include <algorithm>
#include <bit>
#include <cmath>

#include "analysis/model/explain_words.hpp"
#include "analysis/model/words.hpp"
#include "spec/format.hpp"

namespace phasor::analysis {
namespace {

std::string directions(const ModelBias& bias) { return bias.bidirectional ? "both directions" : "backwards only"; }

std::string heads_of(const ModelBias& bias) { return bias.heads == 0 ? "" : spec::format(", {}", counted(bias.heads, "head")); }

}  // namespace

double steepest_slope(const ModelBias& bias) {
  if (bias.heads < 1) return 0;
  const auto whole = std::bit_floor(static_cast<std::uint64_t>(bias.heads));
  // Heads that are no power of two: the rest takes every other slope of twice as many heads, the steepest among them.
  const auto heads = static_cast<double>(static_cast<std::uint64_t>(bias.heads) == whole ? whole : 2 * whole);
  return std::exp2(-bias.max_alibi / heads);
}

double temperature_at(const QueryTemperature& temperature, std::int64_t position) {
  const auto p = static_cast<double>(position);
  const auto length = static_cast<double>(temperature.length);
  if (temperature.length < 1) return 1;
  if (temperature.kind == QueryTemperature::Kind::log_n) return std::max(1.0, std::log(p + 1) / std::log(length));
  return 1 + temperature.scale * std::log(1 + std::floor((p + static_cast<double>(temperature.shift)) / length));
}

std::string bias_words(const ModelBias& bias) {
  switch (bias.kind) {
    case ModelBias::Kind::alibi:
      return spec::format("ALiBi: each score loses slope x distance{}, slopes {} (steepest) down to {}", heads_of(bias),
                          number(steepest_slope(bias)), number(std::exp2(-bias.max_alibi)));
    case ModelBias::Kind::t5_buckets:
      return spec::format(
          "T5: one learned number per head for each of {} buckets of distance, {}; all distances from {} on share the last{}", bias.buckets,
          directions(bias), grouped(bias.max_distance), heads_of(bias));
    case ModelBias::Kind::deberta:
      return spec::format("DeBERTa: learned vectors for distances up to {}{}, matched with q and with k{}", grouped(bias.max_distance),
                          bias.buckets > 0 ? spec::format(" in {} log buckets", bias.buckets) : "", heads_of(bias));
    case ModelBias::Kind::xlnet:
      return spec::format("XLNet: q matched with projected sines of the distance, {}{}", directions(bias), heads_of(bias));
    case ModelBias::Kind::transformer_xl:
      return spec::format("Transformer-XL: q matched with projected sines of the distance, {}{}", directions(bias), heads_of(bias));
    case ModelBias::Kind::swin:
      return spec::format("Swin: one learned number per head for each offset inside a window{}", heads_of(bias));
  }
  return "";
}

std::string additive_words(const ModelAdditive& additive) {
  const std::string channels = additive.width == 0 ? "" : spec::format(" of {} channels", grouped(additive.width));
  std::string text;
  if (additive.kind == ModelAdditive::Kind::learned) {
    const std::string rows = additive.length == 0 ? "rows (how many the file does not say)" : counted(additive.length, "row");
    text = spec::format("learned: a table of {}{}, added to the tokens before the first layer", rows, channels);
    if (additive.length > additive.first_position) {
      text += spec::format("; for positions 0 to {} only", grouped(additive.length - additive.first_position - 1));
    }
  } else {
    const std::string rows = additive.length == 0 ? "" : spec::format(", a table of {}", counted(additive.length, "row"));
    text = spec::format("sinusoidal: fixed sines and cosines{}{}, added to the tokens before the first layer", channels, rows);
  }
  if (additive.first_position != 0) text += spec::format("; the first token takes row {}", grouped(additive.first_position));
  return text;
}

std::string temperature_words(const QueryTemperature& temperature, std::int64_t length) {
  std::string text;
  if (temperature.kind == QueryTemperature::Kind::log_n) {
    text = spec::format("queries grow as ln(position + 1) / ln({}), never below 1", grouped(temperature.length));
  } else {
    const std::string shift = temperature.shift == 0 ? "position" : spec::format("(position + {})", temperature.shift);
    text = spec::format("queries grow as 1 + {} ln(1 + floor({} / {}))", number(temperature.scale), shift, grouped(temperature.length));
  }
  if (length > 0) text += spec::format(": {}x at position {}", number(temperature_at(temperature, length - 1)), grouped(length - 1));
  return text;
}

}  // namespace phasor::analysis
