// SPDX-License-Identifier: Apache-2.0
// Fields of what analysis gives.
#pragma once

#include "fields/fields.hpp"
#include "phasor/analysis.hpp"

namespace phasor::python {

template <>
inline constexpr std::string_view kName<AngleError> = "AngleError";
template <>
inline constexpr std::string_view kName<ProfileError> = "ProfileError";
template <>
inline constexpr std::string_view kName<DistanceCheck> = "DistanceCheck";
template <>
inline constexpr std::string_view kName<Orthogonality> = "Orthogonality";
template <>
inline constexpr std::string_view kName<Gap> = "Gap";
template <>
inline constexpr std::string_view kName<PairTurns> = "PairTurns";
template <>
inline constexpr std::string_view kName<PrecisionError> = "PrecisionError";
template <>
inline constexpr std::string_view kName<PlannedPair> = "PlannedPair";
template <>
inline constexpr std::string_view kName<PlannedScaling> = "PlannedScaling";

template <>
inline constexpr std::array<std::string_view, 2> kValues<Similarity>{"cosine", "inner_product"};
template <>
inline constexpr std::array<std::string_view, 4> kValues<DType>{"f32", "f64", "f16", "bf16"};

void fields(auto& visit, Of<AngleError> auto& s) {
  visit("exact", s.exact);
  visit("float32", s.float32);
}
void fields(auto& visit, Of<ProfileError> auto& s) {
  visit("position", s.position);
  visit("exact", s.exact);
  visit("hf", s.hf);
  visit("vllm", s.vllm);
  visit("ggml", s.ggml);
}
void fields(auto& visit, Of<DistanceCheck> auto& s) {
  visit("scores", s.scores);
  visit("largest_score", s.largest_score);
  visit("exact_difference", s.exact_difference);
  visit("float32_difference", s.float32_difference);
  visit("rounding", s.rounding);
}
void fields(auto& visit, Of<Orthogonality> auto& s) {
  visit("cosines", s.cosines);
  visit("mean", s.mean);
  visit("mean_square", s.mean_square);
  visit("largest", s.largest);
}
void fields(auto& visit, Of<Gap> auto& s) {
  visit("gap", s.gap);
  visit("first", s.first);
  visit("second", s.second);
}
void fields(auto& visit, Of<PairTurns> auto& s) {
  visit("frequency", s.frequency);
  visit("wavelength", s.wavelength);
  visit("turns", s.turns);
}
void fields(auto& visit, Of<PrecisionError> auto& s) {
  visit("position", s.position);
  visit("numerics", s.numerics);
  visit("dtype", s.dtype);
  visit("cos_sin", s.cos_sin);
  visit("score", s.score);
}
void fields(auto& visit, Of<PlannedPair> auto& s) {
  visit("frequency", s.frequency);
  visit("ratio", s.ratio);
  visit("trained_turns", s.trained_turns);
  visit("wanted_turns", s.wanted_turns);
  visit("unseen_from", s.unseen_from);
}
void fields(auto& visit, Of<PlannedScaling> auto& s) {
  visit("name", s.name);
  visit("scaling", s.scaling);
  visit("error", s.error);
  visit("amplitude", s.amplitude);
  visit("softmax_scale", s.softmax_scale);
  visit("unseen_pairs", s.unseen_pairs);
  visit("unseen_from", s.unseen_from);
  visit("pairs", s.pairs);
}

}  // namespace phasor::python
