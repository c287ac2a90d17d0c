// SPDX-License-Identifier: Apache-2.0
// diff of two rotary specs: by what they do to a score, not by how they are written.

#include <algorithm>
#include <cmath>

#include "analysis/model/diff_parts.hpp"
#include "analysis/model/explain_words.hpp"
#include "analysis/model/json.hpp"
#include "analysis/model/words.hpp"
#include "spec/format.hpp"

namespace phasor::analysis {
namespace {

/// An angle that no float32 cosine shows: frequencies this close over all positions are one (a factor of 1e30 stands for "never").
constexpr double kSameAngle = 1e-6;
/// An angle that no 16-bit key shows, and that float32 angles err by long before the positions end: factors that a converter computed in
/// float32 (Llama 3's ramp in GGUF) are this far apart.
constexpr double kHarmlessAngle = 1e-4;

/// Both sides made ready.
struct RotaryPair {
  const LayerPositions& left_layer;
  const LayerPositions& right_layer;
  Rotary left;
  Rotary right;

  const RotarySpec& left_spec() const { return left.spec(); }
  const RotarySpec& right_spec() const { return right.spec(); }
};

/// Turning clockwise is turning by the negative frequency.
std::vector<double> signed_frequencies(const Rotary& rotary) {
  std::vector<double> frequencies = rotary.frequencies();
  if (rotary.spec().sense == Sense::clockwise) {
    for (double& frequency : frequencies) frequency = -frequency;
  }
  return frequencies;
}

struct FrequencyDifference {
  std::int64_t pairs = 0;  // that differ
  std::size_t worst = 0;   // by ratio
  double largest = 0;      // relative difference
  double most_apart = 0;   // radians after all positions, pairs that count as equal included
};

FrequencyDifference compare_frequencies(const std::vector<double>& left, const std::vector<double>& right, double positions) {
  FrequencyDifference found;
  double worst = -1;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double relative = relative_difference(left[i], right[i]);
    const double apart = std::abs(left[i] - right[i]) * positions;
    found.most_apart = std::max(found.most_apart, apart);
    if (apart > kSameAngle) found.largest = std::max(found.largest, relative);
    if (relative <= kStoredRounding || apart <= kHarmlessAngle) continue;
    ++found.pairs;
    if (relative > worst) {
      worst = relative;
      found.worst = i;
    }
  }
  return found;
}

std::string speed_words(double left, double right) {
  if (left == 0) return "turns on the right only";
  if (right == 0) return "turns on the left only";
  if ((left < 0) != (right < 0)) return "turns the other way on the right";
  return spec::format("turns {}x as fast on the right", number(right / left));
}

std::string frequency_words(const FrequencyDifference& found, const std::vector<double>& left, const std::vector<double>& right) {
  const double l = left[found.worst];
  const double r = right[found.worst];
  return spec::format("{} of {} pairs turn at another speed, pair {} most: it {}, 1 rad apart after {} positions", found.pairs, left.size(),
                      found.worst, speed_words(l, r), number(std::ceil(1 / std::abs(l - r))));
}

std::string spec_words(const RotarySpec& spec) {
  const bool has_base = !base_words(spec).empty();
  return joined({has_base ? "base " + number(spec.base, Digits::exact) : "", short_scaling(spec.scaling),
                 spec.sense == Sense::clockwise ? "clockwise" : "", spec.unit == FrequencyUnit::turns ? "in turns" : "",
                 spec.axes.ladder == AxisLadder::shared ? "" : spec::format("{} ladders", name_of(spec.axes.ladder))});
}

/// What the frequencies are made from, as JSON so that every field counts.
std::string recipe(const RotarySpec& spec) {
  Json json = rotary_json(spec);
  for (const char* other :
       {"head_dim", "rotary_width", "rotary_offset", "pairing", "output_pairing", "axes", "segments", "lanes", "numerics"}) {
    json.erase(other);
  }
  return dumped(json);
}

/// The field in question, by name when it is one.
const char* recipe_field(const RotaryPair& pair) {
  const bool base = pair.left_spec().base != pair.right_spec().base;
  const bool scaling = scaling_json(pair.left_spec().scaling) != scaling_json(pair.right_spec().scaling);
  if (base && !scaling) return "base";
  if (scaling && !base) return "scaling";
  return base ? "base and scaling" : "frequencies";
}

void diff_frequencies(const RotaryPair& pair, const DiffFrame& frame, DiffPen& pen) {
  const std::vector<double> left = signed_frequencies(pair.left);
  const std::vector<double> right = signed_frequencies(pair.right);
  Sides sides{spec_words(pair.left_spec()), spec_words(pair.right_spec())};
  if (left.size() != right.size()) {
    pen.matters("frequencies", std::move(sides), spec::format("{} frequencies against {}", left.size(), right.size()));
    return;
  }
  const auto positions = static_cast<double>(frame.length);
  const FrequencyDifference found = compare_frequencies(left, right, positions);
  if (found.pairs > 0) {
    pen.matters(recipe_field(pair), std::move(sides), frequency_words(found, left, right));
  } else if (recipe(pair.left_spec()) != recipe(pair.right_spec())) {
    const std::string how =
        found.largest == 0
            ? "the frequencies are the same"
            : spec::format("the frequencies agree to {}, the rounding of float32 numbers in a file: {} rad apart after {} positions",
                           number(found.largest), number(found.most_apart), grouped(frame.length));
    pen.harmless(recipe_field(pair), std::move(sides), "written differently; " + how);
  }
}

void diff_widths(const RotaryPair& pair, DiffPen& pen) {
  const RotarySpec& left = pair.left_spec();
  const RotarySpec& right = pair.right_spec();
  const auto sides = [](std::int64_t l, std::int64_t r) { return Sides{grouped(l), grouped(r)}; };
  if (left.head_dim != right.head_dim) {
    pen.matters("head_dim", sides(left.head_dim, right.head_dim), "q and k have other shapes");
  }
  if (left.rotary_width != right.rotary_width) {
    pen.matters("rotary_width", sides(left.rotary_width, right.rotary_width),
                spec::format("{} pairs turn on the left, {} on the right", left.rotary_width / 2, right.rotary_width / 2));
  }
  if (left.rotary_offset != right.rotary_offset) {
    pen.matters("rotary_offset", sides(left.rotary_offset, right.rotary_offset), "other channels are rotated");
  }
  if (left.segments != right.segments) {
    pen.matters("segments", sides(left.segments, right.segments), "other channels turn together");
  }
  if (left.lanes != right.lanes) {
    const auto name = [](Lanes lanes) { return lanes == Lanes::per_channel_frequencies ? "per_channel_frequencies" : "alike"; };
    pen.matters("lanes", {name(left.lanes), name(right.lanes)}, "the two channels of a pair turn alike on one side only");
  }
}

void diff_pairing(const RotaryPair& pair, const DiffFrame& frame, DiffPen& pen) {
  const RotarySpec& left = pair.left_spec();
  const RotarySpec& right = pair.right_spec();
  if (left.pairing != right.pairing) {
    const bool half_is_hf = left.pairing == Pairing::half ? frame.left_dialect == "huggingface" && frame.right_dialect == "gguf"
                                                          : frame.right_dialect == "huggingface" && frame.left_dialect == "gguf";
    Sides sides{name_of(left.pairing), name_of(right.pairing)};
    if (half_is_hf) {
      pen.harmless("pairing", std::move(sides),
                   "does not matter when the weights are permuted, as they are when such a model is converted to GGUF; "
                   "check with phasor permute --detect");
    } else {
      pen.matters("pairing", std::move(sides),
                  spec::format("other channels turn together, {} of {} pairs; right only with permuted weights (phasor permute)",
                               left.rotary_width / 2, left.rotary_width / 2));
    }
    return;
  }
  const Pairing left_out = left.output_pairing.value_or(left.pairing);
  const Pairing right_out = right.output_pairing.value_or(right.pairing);
  if (left_out != right_out) {
    pen.harmless("output_pairing", {name_of(left_out), name_of(right_out)},
                 "scores are the same; the channels of a rotated key lie in another order in a cache");
  }
}

void diff_axes(const RotaryPair& pair, DiffPen& pen) {
  const std::int64_t left_count = axis_count(pair.left_spec());
  const std::int64_t right_count = axis_count(pair.right_spec());
  if (left_count != right_count) {
    pen.matters("axes", {std::to_string(left_count), std::to_string(right_count)},
                "positions have another number of axes; tokens with one position on all axes turn alike");
    return;
  }
  const std::vector<std::int64_t> left = axes_of_pairs(pair.left_spec());
  const std::vector<std::int64_t> right = axes_of_pairs(pair.right_spec());
  std::vector<std::int64_t> others;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i] != right[i]) others.push_back(static_cast<std::int64_t>(i));
  }
  if (others.empty()) return;
  pen.matters("axes", {axes_words(pair.left_spec()), axes_words(pair.right_spec())},
              spec::format("{} of {} pairs follow another axis ({}); tokens with one position on all axes turn alike", others.size(),
                           left.size(), indices_in_words("pair", others)));
}

double relative(double left, double right) { return right / left; }

void diff_scores(const RotaryPair& pair, DiffPen& pen) {
  const double left_scale = attention_scale(pair.left_layer, pair.left.softmax_scale());
  const double right_scale = attention_scale(pair.right_layer, pair.right.softmax_scale());
  const double left = pair.left.amplitude();
  const double right = pair.right.amplitude();
  const bool all_rotated =
      pair.left_spec().rotary_width == pair.left_spec().head_dim && pair.right_spec().rotary_width == pair.right_spec().head_dim;
  const bool made_up = all_rotated && relative_difference(left_scale * left * left, right_scale * right * right) <= kStoredRounding;
  const auto write = [&](const char* field, double l, double r, const std::string& why) {
    if (relative_difference(l, r) <= kStoredRounding) return;
    const Sides sides{number(l), number(r)};
    if (made_up) {
      pen.harmless(field, sides, "scores are the same: amplitude and attention scale make up for each other");
    } else {
      pen.matters(field, sides, why);
    }
  };
  const double growth = relative(left, right);
  write("amplitude", left, right, spec::format("scores of rotated channels are {}x as large on the right", number(growth * growth)));
  write("attention scale", left_scale, right_scale,
        spec::format("scores are {}x as large on the right", number(relative(left_scale, right_scale))));
}

}  // namespace

double relative_difference(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b)); }

Status diff_rotary(const LayerPairs& layers, const DiffFrame& frame, DiffPen& pen) {
  if (!layers.left->rotary || !layers.right->rotary) return {};
  const auto left = Rotary::make(*layers.left->rotary);
  if (!left.ok()) return Status::invalid(spec::format("diff: left, {}: {}", layers.where, left.status().message()));
  const auto right = Rotary::make(*layers.right->rotary);
  if (!right.ok()) return Status::invalid(spec::format("diff: right, {}: {}", layers.where, right.status().message()));
  const RotaryPair pair{*layers.left, *layers.right, *left, *right};
  diff_widths(pair, pen);
  if (pair.left_spec().rotary_width == pair.right_spec().rotary_width) {
    diff_frequencies(pair, frame, pen);
    diff_axes(pair, pen);
  }
  diff_pairing(pair, frame, pen);
  diff_scores(pair, pen);
  return {};
}

}  // namespace phasor::analysis
