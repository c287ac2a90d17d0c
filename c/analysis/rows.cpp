// SPDX-License-Identifier: Apache-2.0
// Analysis of rows in C: similarity, gaps, terms of a score; and the copy that speeds are shown beside.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/fields.hpp"
#include "core/lists.hpp"
#include "core/matrix.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

ConstTensorView rows_of(const char* where, const char* name, const phasor_tensor* tensor) {
  return tensor_of(where, name, need(where, name, tensor));
}

Similarity kind_of(phasor_similarity_kind kind) { return choice_of<Similarity>("similarity", "kind", kind, 2); }

void give_gap(const Gap& value, phasor_gap* gap) {
  give("smallest_gap", "gap", {.size = sizeof(*gap), .gap = value.gap, .first = value.first, .second = value.second}, gap);
}

ScoreInput score_input_of(const char* where, const phasor_score_input* input) {
  phasor_score_input c = known(where, "the input", need(where, "the input", input));
  ScoreInput value{.x = rows_of(where, "x", c.x),
                   .p = rows_of(where, "p", c.p),
                   .query_weights = tensor_of(where, "query_weights", c.query_weights),
                   .key_weights = tensor_of(where, "key_weights", c.key_weights)};
  Read(where).flagged("scale", c.has_scale, c.scale, value.scale);
  return value;
}

}  // namespace

extern "C" {

phasor_status phasor_similarity(const phasor_tensor* a, const phasor_tensor* b, phasor_similarity_kind kind, phasor_matrix* similarities,
                                phasor_error* error) {
  constexpr const char* kWhere = "similarity";
  return call(error, [&] {
    const auto first = rows_of(kWhere, "a", a);
    const auto second = rows_of(kWhere, "b", b);
    give(kWhere, value_of(similarity(first, second, kind_of(kind))), similarities);
  });
}

phasor_status phasor_rotary_similarity(const phasor_rotary* rotary, const int64_t* positions, size_t position_count,
                                       phasor_similarity_kind kind, phasor_matrix* similarities, phasor_error* error) {
  constexpr const char* kWhere = "similarity";
  return call(error, [&] {
    const Rotary& by = need(kWhere, "rotary", rotary)->value;
    const auto at = span_of(kWhere, "positions", positions, position_count);
    give(kWhere, value_of(similarity(by, at, kind_of(kind))), similarities);
  });
}

phasor_status phasor_orthogonality(const phasor_tensor* a, const phasor_tensor* b, phasor_orthogonality_result* result,
                                   phasor_error* error) {
  constexpr const char* kWhere = "orthogonality";
  return call(error, [&] {
    const auto first = rows_of(kWhere, "a", a);
    const Orthogonality value = value_of(orthogonality(first, rows_of(kWhere, "b", b)));
    give(
        kWhere, "result",
        {.size = sizeof(*result), .cosines = value.cosines, .mean = value.mean, .mean_square = value.mean_square, .largest = value.largest},
        result);
  });
}

phasor_status phasor_smallest_gap(const phasor_tensor* rows, phasor_gap* gap, phasor_error* error) {
  return call(error, [&] { give_gap(value_of(smallest_gap(rows_of("smallest_gap", "rows", rows))), gap); });
}

phasor_status phasor_rotary_smallest_gap(const phasor_rotary* rotary, int64_t length, phasor_gap* gap, phasor_error* error) {
  return call(error, [&] { give_gap(value_of(smallest_gap(need("smallest_gap", "rotary", rotary)->value, length)), gap); });
}

phasor_status phasor_score_terms(const phasor_score_input* input, const phasor_score_matrices* terms, phasor_error* error) {
  constexpr const char* kWhere = "score_terms";
  return call(error, [&] {
    const phasor_score_matrices c = known(kWhere, "the terms", need(kWhere, "the terms", terms));
    const ScoreTerms value = value_of(score_terms(score_input_of(kWhere, input)));
    std::vector<std::pair<const Matrix*, phasor_matrix*>> wanted;
    const auto want = [&](const Matrix& matrix, phasor_matrix* to) {
      if (to != nullptr) wanted.emplace_back(&matrix, to);
    };
    want(value.content_content, c.content_content);
    want(value.content_position, c.content_position);
    want(value.position_content, c.position_content);
    want(value.position_position, c.position_position);
    want(value.score, c.score);
    for (const auto& [matrix, to] : wanted) tell_shape(*matrix, *to);
    for (const auto& [matrix, to] : wanted) check_room(kWhere, *matrix, *to);  // all, before anything is written
    for (const auto& [matrix, to] : wanted) give(kWhere, *matrix, to);
  });
}

phasor_status phasor_copy_bytes(void* to, const void* from, size_t bytes, const phasor_runner* runner, phasor_error* error) {
  constexpr const char* kWhere = "copy_bytes";
  return call(error, [&] {
    if (bytes == 0) return;
    need(kWhere, "to", to);
    need(kWhere, "from", from);
    if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()))
      fail("copy_bytes: bytes are 2^63 or more, wanted fewer");
    const Runner by = runner == nullptr ? Runner{} : Runner{.run = runner->run, .context = runner->context};
    copy_bytes(to, from, static_cast<std::int64_t>(bytes), by);
  });
}

}  // extern "C"
