// SPDX-License-Identifier: Apache-2.0
// Analysis of rotary encodings for Python: what phasor/analysis.py is made of.
#include "phasor/analysis.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "fields/analysis_fields.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;
using Numbers = std::vector<std::int64_t>;

constexpr const char* kDataclasses = "phasor._types.analysis";

nb::any array_from(Matrix matrix) { return numpy_array(std::move(matrix.values), {matrix.rows, matrix.columns}); }

void bind_matrices(nb::module_& m) {
  m.def("rotation_matrix",
        [](const Rotary& rotary, std::int64_t position) { return array_from(value_of(rotation_matrix(rotary, position))); });
  m.def("relative_matrix", [](const Rotary& rotary, std::int64_t query, std::int64_t key) {
    return array_from(value_of(relative_matrix(rotary, query, key)));
  });
  m.def("wavelengths", [](const Rotary& rotary) { return numpy_array(wavelengths(rotary)); });
}

void bind_errors(nb::module_& m) {
  m.def("angle_error", [](const Rotary& rotary, std::int64_t position) {
    return dataclass_of(value_unlocked([&] { return angle_error(rotary, position); }), kDataclasses);
  });
  m.def("profile_errors", [](nb::handle spec, const Numbers& positions) {
    const auto rotary = read<RotarySpec>(spec, "RotarySpec");
    return dataclass_of(value_unlocked([&] { return profile_errors(rotary, positions); }), kDataclasses);
  });
  m.def("precision_report", [](nb::handle spec, const Numbers& at, std::int64_t distance) {
    const auto rotary = read<RotarySpec>(spec, "RotarySpec");
    return dataclass_of(value_unlocked([&] { return precision_report(rotary, at, distance); }), kDataclasses);
  });
  m.def("distance_check", [](const Rotary& rotary, nb::handle q, nb::handle k, std::int64_t far_position) {
    const Array q_array = array_of(q, "q", Access::read);
    const Array k_array = array_of(k, "k", Access::read);
    const ConstTensorView q_view = tensor_of(q_array, "q");
    const ConstTensorView k_view = tensor_of(k_array, "k");
    return dataclass_of(value_unlocked([&] { return distance_check(rotary, q_view, k_view, far_position); }), kDataclasses);
  });
}

/// The five columns of distance_weights.
nb::tuple weight_columns(const Rotary& rotary, std::int64_t context, nb::handle bias) {
  std::vector<double> none;
  std::optional<RealsArgument> given;
  if (!bias.is_none()) given.emplace(bias, "bias");
  const std::span<const double> added = given ? given->get() : std::span<const double>(none);
  const auto weights = value_unlocked([&] { return distance_weights(rotary, context, added); });
  std::vector<double> sum;
  std::vector<double> share;
  std::vector<double> score;
  std::vector<double> weight;
  for (const DistanceWeight& one : weights) {
    sum.push_back(one.sum);
    share.push_back(one.share);
    score.push_back(one.score);
    weight.push_back(one.weight);
  }
  return nb::make_tuple(numpy_array(std::move(sum)), numpy_array(std::move(share)), numpy_array(std::move(score)),
                        numpy_array(std::move(weight)));
}

void bind_distances(nb::module_& m) {
  m.def("decay", [](const std::vector<Rotary>& rotaries, const Numbers& distances) {
    return array_from(value_unlocked([&] { return decay(rotaries, distances); }));
  });
  m.def("first_negative",
        [](const Rotary& rotary, std::int64_t length) { return value_unlocked([&] { return first_negative(rotary, length); }); });
  m.def("distance_weights", &weight_columns, "rotary"_a, "context"_a, "bias"_a.none());
  m.def("softmax_weights", [](nb::handle scores) {
    const RealsArgument given(scores, "scores");
    return numpy_array(value_of(softmax_weights(given.get())));
  });
  m.def("smallest_gap", [](const Rotary& rotary, std::int64_t length) {
    return dataclass_of(value_unlocked([&] { return smallest_gap(rotary, length); }), kDataclasses);
  });
  m.def("similarity", [](const Rotary& rotary, const Numbers& positions, nb::handle kind) {
    const auto which = read<Similarity>(kind, "kind");
    return array_from(value_unlocked([&] { return similarity(rotary, positions, which); }));
  });
}

void bind_rows(nb::module_& m) {
  m.def("similarity_of_rows", [](nb::handle a, nb::handle b, nb::handle kind) {
    const TokensArgument left(a, "a", Access::read);
    const TokensArgument right(b, "b", Access::read);
    const auto which = read<Similarity>(kind, "kind");
    return array_from(value_unlocked([&] { return similarity(left.get(), right.get(), which); }));
  });
  m.def("orthogonality", [](nb::handle a, nb::handle b) {
    const TokensArgument left(a, "a", Access::read);
    const TokensArgument right(b, "b", Access::read);
    return dataclass_of(value_unlocked([&] { return orthogonality(left.get(), right.get()); }), kDataclasses);
  });
  m.def("smallest_gap_of_rows", [](nb::handle rows) {
    const TokensArgument given(rows, "rows", Access::read);
    return dataclass_of(value_unlocked([&] { return smallest_gap(given.get()); }), kDataclasses);
  });
  m.def(
      "score_terms",
      [](nb::handle x, nb::handle p, nb::handle query_weights, nb::handle key_weights, double scale) {
        const TokensArgument tokens(x, "x", Access::read);
        const TokensArgument encodings(p, "p", Access::read);
        std::optional<TokensArgument> query;
        std::optional<TokensArgument> key;
        ScoreInput input{.x = tokens.get(), .p = encodings.get(), .scale = scale};
        if (!query_weights.is_none()) input.query_weights = query.emplace(query_weights, "query_weights", Access::read).get();
        if (!key_weights.is_none()) input.key_weights = key.emplace(key_weights, "key_weights", Access::read).get();
        ScoreTerms terms = value_unlocked([&] { return score_terms(input); });
        return nb::make_tuple(array_from(std::move(terms.content_content)), array_from(std::move(terms.content_position)),
                              array_from(std::move(terms.position_content)), array_from(std::move(terms.position_position)),
                              array_from(std::move(terms.score)));
      },
      "x"_a, "p"_a, "query_weights"_a.none(), "key_weights"_a.none(), "scale"_a);
}

void bind_planning(nb::module_& m) {
  m.def("pair_turns",
        [](const Rotary& rotary, std::int64_t length) { return dataclass_of(value_of(pair_turns(rotary, length)), kDataclasses); });
  m.def("plan_scalings", [](nb::handle spec, std::int64_t trained_length, std::int64_t wanted_length, nb::handle scalings) {
    PlannerInput input{.spec = read<RotarySpec>(spec, "RotarySpec"), .trained_length = trained_length, .wanted_length = wanted_length};
    input.scalings = read<std::vector<Scaling>>(scalings, "scalings");
    return dataclass_of(value_unlocked([&] { return plan_scalings(input); }), kDataclasses);
  });
}

}  // namespace

void bind_analysis(nb::module_& m) {
  bind_matrices(m);
  bind_errors(m);
  bind_distances(m);
  bind_rows(m);
  bind_planning(m);
}

}  // namespace phasor::python
