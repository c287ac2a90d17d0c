// SPDX-License-Identifier: Apache-2.0
// Analysis of rotary encodings in C: matrices, errors of angles, what depends on the distance.
#include <span>
#include <vector>

#include "core/fields.hpp"
#include "core/lists.hpp"
#include "core/matrix.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "specs/rotary.hpp"
#include "specs/serialised.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

static_assert(static_cast<int>(DType::bf16) == PHASOR_BF16 && static_cast<int>(DType::f16) == PHASOR_F16);
static_assert(static_cast<int>(Numerics::ggml) == PHASOR_NUMERICS_GGML);

const Rotary& rotary_of(const char* where, const phasor_rotary* rotary) { return need(where, "rotary", rotary)->value; }

phasor_profile_error c_of(const ProfileError& one) {
  phasor_profile_error c{};
  c.position = one.position;
  c.exact = one.exact;
  const Write way;
  way.flagged("hf", c.has_hf, c.hf, one.hf);
  way.flagged("vllm", c.has_vllm, c.vllm, one.vllm);
  way.flagged("ggml", c.has_ggml, c.ggml, one.ggml);
  return c;
}
phasor_precision_error c_of(const PrecisionError& one) {
  return {.position = one.position,
          .numerics = static_cast<phasor_numerics>(one.numerics),
          .dtype = static_cast<phasor_element>(one.dtype),
          .cos_sin = one.cos_sin,
          .score = one.score};
}
phasor_distance_weight c_of(const DistanceWeight& one) {
  return {.distance = one.distance, .sum = one.sum, .share = one.share, .score = one.score, .weight = one.weight};
}
phasor_pair_turns_result c_of(const PairTurns& one) {
  return {.frequency = one.frequency, .wavelength = one.wavelength, .turns = one.turns};
}

/// What C++ gave, as the list of C.
template <class T, class List>
void give_items(const char* where, const std::vector<T>& values, List* to) {
  std::vector<decltype(c_of(values[0]))> items;
  items.reserve(values.size());
  for (const T& value : values) items.push_back(c_of(value));
  give_list(where, items, to);
}

}  // namespace

extern "C" {

phasor_status phasor_rotation_matrix(const phasor_rotary* rotary, int64_t position, phasor_matrix* matrix, phasor_error* error) {
  constexpr const char* kWhere = "rotation_matrix";
  return call(error, [&] { give(kWhere, value_of(rotation_matrix(rotary_of(kWhere, rotary), position)), matrix); });
}

phasor_status phasor_relative_matrix(const phasor_rotary* rotary, int64_t query_position, int64_t key_position, phasor_matrix* matrix,
                                     phasor_error* error) {
  constexpr const char* kWhere = "relative_matrix";
  return call(error, [&] { give(kWhere, value_of(relative_matrix(rotary_of(kWhere, rotary), query_position, key_position)), matrix); });
}

phasor_status phasor_wavelengths(const phasor_rotary* rotary, phasor_doubles* wavelengths_of, phasor_error* error) {
  constexpr const char* kWhere = "wavelengths";
  return call(error, [&] {
    const std::vector<double> values = wavelengths(rotary_of(kWhere, rotary));
    give(kWhere, values.data(), values.size(), wavelengths_of);
  });
}

phasor_status phasor_angle_error(const phasor_rotary* rotary, int64_t position, phasor_angle_error_result* result, phasor_error* error) {
  constexpr const char* kWhere = "angle_error";
  return call(error, [&] {
    const AngleError value = value_of(angle_error(rotary_of(kWhere, rotary), position));
    give(kWhere, "result", {.size = sizeof(*result), .exact = value.exact, .float32 = value.float32}, result);
  });
}

phasor_status phasor_profile_errors(const phasor_rotary_spec* spec, const int64_t* positions, size_t position_count,
                                    phasor_profile_error_list* errors, phasor_error* error) {
  constexpr const char* kWhere = "profile_errors";
  return call(error, [&] {
    const RotarySpec of = rotary_spec_of(kWhere, spec);
    give_items(kWhere, value_of(profile_errors(of, span_of(kWhere, "positions", positions, position_count))), errors);
  });
}

phasor_status phasor_precision_report(const phasor_rotary_spec* spec, const int64_t* at, size_t at_count, int64_t distance,
                                      phasor_precision_error_list* errors, phasor_error* error) {
  constexpr const char* kWhere = "precision_report";
  return call(error, [&] {
    const RotarySpec of = rotary_spec_of(kWhere, spec);
    give_items(kWhere, value_of(precision_report(of, span_of(kWhere, "at", at, at_count), distance)), errors);
  });
}

phasor_status phasor_distance_check(const phasor_rotary* rotary, const phasor_tensor* q, const phasor_tensor* k, int64_t far_position,
                                    phasor_distance_check_result* result, phasor_error* error) {
  constexpr const char* kWhere = "distance_check";
  return call(error, [&] {
    const Rotary& by = rotary_of(kWhere, rotary);
    const ConstTensorView queries = tensor_of(kWhere, "q", need(kWhere, "q", q));
    const ConstTensorView keys = tensor_of(kWhere, "k", need(kWhere, "k", k));
    const DistanceCheck value = value_of(distance_check(by, queries, keys, far_position));
    give(kWhere, "result",
         {.size = sizeof(*result),
          .scores = value.scores,
          .largest_score = value.largest_score,
          .exact_difference = value.exact_difference,
          .float32_difference = value.float32_difference,
          .rounding = value.rounding},
         result);
  });
}

phasor_status phasor_rotary_decay(const phasor_rotary* rotary, const int64_t* distances, size_t distance_count, phasor_doubles* sums,
                                  phasor_error* error) {
  constexpr const char* kWhere = "decay";
  return call(error, [&] {
    const Rotary& of = rotary_of(kWhere, rotary);
    const std::vector<double> values = value_of(decay(of, span_of(kWhere, "distances", distances, distance_count)));
    give(kWhere, values.data(), values.size(), sums);
  });
}

phasor_status phasor_decay(const phasor_rotary* const* rotaries, size_t rotary_count, const int64_t* distances, size_t distance_count,
                           phasor_matrix* sums, phasor_error* error) {
  constexpr const char* kWhere = "decay";
  return call(error, [&] {
    const std::vector<Rotary> of = rotaries_of(kWhere, rotaries, rotary_count);
    give(kWhere, value_of(decay(std::span<const Rotary>(of), span_of(kWhere, "distances", distances, distance_count))), sums);
  });
}

phasor_status phasor_first_negative(const phasor_rotary* rotary, int64_t length, int64_t* distance, phasor_error* error) {
  constexpr const char* kWhere = "first_negative";
  return call(error,
              [&] { *need(kWhere, "distance", distance) = value_of(first_negative(rotary_of(kWhere, rotary), length)).value_or(-1); });
}

phasor_status phasor_distance_weights(const phasor_rotary* rotary, int64_t context, const double* bias, size_t bias_count,
                                      phasor_distance_weight_list* weights, phasor_error* error) {
  constexpr const char* kWhere = "distance_weights";
  return call(error, [&] {
    const Rotary& by = rotary_of(kWhere, rotary);
    give_items(kWhere, value_of(distance_weights(by, context, span_of(kWhere, "bias", bias, bias_count))), weights);
  });
}

phasor_status phasor_softmax_weights(const double* scores, size_t score_count, phasor_doubles* weights, phasor_error* error) {
  constexpr const char* kWhere = "softmax_weights";
  return call(error, [&] {
    const std::vector<double> values = value_of(softmax_weights(span_of(kWhere, "scores", scores, score_count)));
    give(kWhere, values.data(), values.size(), weights);
  });
}

phasor_status phasor_pair_turns(const phasor_rotary* rotary, int64_t length, phasor_pair_turns_list* turns, phasor_error* error) {
  constexpr const char* kWhere = "pair_turns";
  return call(error, [&] { give_items(kWhere, value_of(pair_turns(rotary_of(kWhere, rotary), length)), turns); });
}

}  // extern "C"
