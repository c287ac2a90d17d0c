// SPDX-License-Identifier: Apache-2.0
// Terms of a score, plans of longer contexts and copies in C.
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "c/owned.hpp"
#include "phasor/phasor.hpp"
#include "spec_bits.hpp"
#include "specs/rotary.hpp"

namespace phasor::test {
namespace {

bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// The five matrices of score_terms with memory of so many numbers each.
struct Terms {
  explicit Terms(std::size_t count) : values(5, std::vector<double>(count, -7)) {
    for (std::size_t i = 0; i < 5; ++i) matrices[i] = {values[i].data(), count, 0, 0};
    c.content_content = &matrices[0];
    c.content_position = &matrices[1];
    c.position_content = &matrices[2];
    c.position_position = &matrices[3];
    c.score = &matrices[4];
  }
  std::vector<std::vector<double>> values;
  std::array<phasor_matrix, 5> matrices{};
  phasor_score_matrices c = sized<phasor_score_matrices>();
};

TEST(CPlanner, terms_of_a_score) {
  const CTensor<float> x({7, 5}, floats(35));
  const CTensor<float> p({7, 5}, floats(35, 2));
  const CTensor<float> w({5, 3}, floats(15, 3));
  const CTensor<float> v({5, 3}, floats(15, 4));
  auto input = sized<phasor_score_input>();
  input.x = x.get();
  input.p = p.get();
  ScoreInput same_input{.x = view(x.values.data(), {1, 7, 1, 5}), .p = view(p.values.data(), {1, 7, 1, 5})};
  for (const bool projected : {false, true}) {
    if (projected) {
      input.query_weights = w.get();
      input.key_weights = v.get();
      input.scale = 0.25;
      input.has_scale = 1;
      same_input.query_weights = view(w.values.data(), {1, 5, 1, 3});
      same_input.key_weights = view(v.values.data(), {1, 5, 1, 3});
      same_input.scale = 0.25;
    }
    const ScoreTerms want = *score_terms(same_input);
    Terms terms(49);
    succeeds([&](phasor_error* error) { return phasor_score_terms(&input, &terms.c, error); });
    EXPECT_EQ(terms.values, (std::vector{want.content_content.values, want.content_position.values, want.position_content.values,
                                         want.position_position.values, want.score.values}));
    EXPECT_EQ(terms.matrices[3].rows, 7);
    EXPECT_EQ(terms.matrices[4].columns, 7);
  }
  Terms small(49);
  small.matrices[4].capacity = 48;
  EXPECT_EQ(failure(PHASOR_TOO_SMALL, [&](phasor_error* error) { return phasor_score_terms(&input, &small.c, error); }),
            "score_terms: the matrix has room for 48 numbers, wanted 49");
  EXPECT_EQ(small.values, std::vector(5, std::vector<double>(49, -7)));
  EXPECT_EQ(small.matrices[4].rows, 7);
  small.c.score = nullptr;
  succeeds([&](phasor_error* error) { return phasor_score_terms(&input, &small.c, error); });
  EXPECT_NE(small.values[0][0], -7);
  input.p = nullptr;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_score_terms(&input, &small.c, error); }),
            "score_terms: p is null, wanted one");
  EXPECT_EQ(phasor_score_terms(nullptr, &small.c, nullptr), PHASOR_INVALID);
  EXPECT_EQ(phasor_score_terms(&input, nullptr, nullptr), PHASOR_INVALID);
}

void expect_pair(const PlannedPair& want, const phasor_planned_pair& pair) {
  EXPECT_TRUE(same(pair.frequency, want.frequency) && same(pair.ratio, want.ratio));
  EXPECT_TRUE(same(pair.trained_turns, want.trained_turns) && same(pair.wanted_turns, want.wanted_turns));
  EXPECT_EQ(pair.has_unseen_from, want.unseen_from ? 1 : 0);
  EXPECT_EQ(pair.unseen_from, want.unseen_from.value_or(0));
}

void expect_plan(const std::vector<PlannedScaling>& want, const phasor_planned_scalings* plan) {
  ASSERT_EQ(phasor_planned_scalings_count(plan), want.size());
  auto one = sized<phasor_planned_scaling>();
  auto pair = sized<phasor_planned_pair>();
  for (std::size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(want[i].name);
    succeeds([&](phasor_error* error) { return phasor_planned_scalings_get(plan, i, &one, error); });
    EXPECT_EQ(one.name, want[i].name);
    EXPECT_EQ(one.error == nullptr ? std::string() : one.error, want[i].error);
    EXPECT_EQ(bits(AnySpec(RotarySpec{.scaling = c::scaling_of("test", one.scaling)})),
              bits(AnySpec(RotarySpec{.scaling = want[i].scaling})));
    EXPECT_TRUE(same(one.amplitude, want[i].amplitude) && same(one.softmax_scale, want[i].softmax_scale));
    EXPECT_EQ(one.unseen_pairs, want[i].unseen_pairs);
    EXPECT_EQ(one.has_unseen_from, want[i].unseen_from ? 1 : 0);
    EXPECT_EQ(one.unseen_from, want[i].unseen_from.value_or(0));
    ASSERT_EQ(one.pair_count, want[i].pairs.size());
    for (std::size_t j = 0; j < one.pair_count; ++j) {
      succeeds([&](phasor_error* error) { return phasor_planned_scalings_get_pair(plan, i, j, &pair, error); });
      expect_pair(want[i].pairs[j], pair);
    }
    EXPECT_EQ(failure(PHASOR_INVALID,
                      [&](phasor_error* error) { return phasor_planned_scalings_get_pair(plan, i, one.pair_count, &pair, error); }),
              "planned_scalings_get_pair: pair_index is " + std::to_string(one.pair_count) + ", and there are " +
                  std::to_string(one.pair_count) + ", wanted one of them");
  }
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_planned_scalings_get(plan, want.size(), &one, error); }), "");
}

TEST(CPlanner, plans_are_those_of_cpp) {
  PlannerInput same_input{.spec = {.head_dim = 22, .rotary_width = 18}, .trained_length = 4096, .wanted_length = 50000};
  const phasor_rotary_spec spec = c::c_spec_of(same_input.spec);
  auto input = sized<phasor_planner_input>();
  input.spec = &spec;
  input.trained_length = 4096;
  input.wanted_length = 50000;
  const auto planned = [&] {
    return owned<phasor_planned_scalings>(
        [&](phasor_planned_scalings** to, phasor_error* error) { return phasor_plan_scalings(&input, to, error); });
  };
  expect_plan(*plan_scalings(same_input), planned().get());

  same_input.scalings = {LinearScaling{.factor = 3},
                         LongRopeScaling{.short_factors = {1, 2}, .long_factors = {3, 4}, .original_length = 4096},
                         GivenFactors{.factors = std::vector<double>(9, 2)}};
  std::vector<phasor_scaling> scalings;
  for (const Scaling& scaling : same_input.scalings) scalings.push_back(c::c_scaling_of(scaling));
  const phasor_scaling* list[] = {scalings.data(), &scalings[1], &scalings[2], nullptr};
  input.scalings = list;
  input.scaling_count = 3;
  const std::vector<PlannedScaling> want = *plan_scalings(same_input);
  ASSERT_NE(want[2].error, "") << "a scaling that the spec cannot have is wanted here";
  expect_plan(want, planned().get());

  phasor_planned_scalings* none = nullptr;
  const auto refused = [&] {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_plan_scalings(&input, &none, error); });
  };
  input.scaling_count = 4;
  EXPECT_EQ(refused(), "plan_scalings: a scaling is null, wanted one");
  input.scalings = nullptr;
  EXPECT_EQ(refused(), "plan_scalings: scalings is null and has 4 elements, wanted their memory");
  input.scaling_count = 0;
  input.spec = nullptr;
  EXPECT_EQ(refused(), "plan_scalings: the spec is null, wanted one");
  input.spec = &spec;
  input.trained_length = 0;
  same_input = {.spec = same_input.spec, .wanted_length = 50000};
  EXPECT_EQ(refused(), plan_scalings(same_input).status().message());
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(phasor_planned_scalings_count(nullptr), 0U);
  phasor_planned_scalings_free(nullptr);
}

TEST(CPlanner, bytes_are_copied_by_the_callers_runner) {
  const std::vector<float> from = floats(100003);
  std::vector<float> to(from.size());
  succeeds([&](phasor_error* error) { return phasor_copy_bytes(to.data(), from.data(), from.size() * sizeof(float), nullptr, error); });
  EXPECT_EQ(to, from);
  std::int64_t ran = 0;
  const phasor_runner runner = {[](void* context, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
                                  for (std::int64_t i = tasks - 1; i >= 0; --i) task(task_context, i);
                                  *static_cast<std::int64_t*>(context) += tasks;
                                },
                                &ran};
  std::fill(to.begin(), to.end(), 0.0F);
  succeeds([&](phasor_error* error) { return phasor_copy_bytes(to.data(), from.data(), from.size() * sizeof(float), &runner, error); });
  EXPECT_EQ(to, from);
  EXPECT_GT(ran, 0);
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_copy_bytes(nullptr, from.data(), 4, nullptr, error); }),
            "copy_bytes: to is null, wanted one");
  if constexpr (sizeof(std::size_t) == 8) {  // a size of 32 bits (WebAssembly) cannot be so large
    EXPECT_EQ(
        failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_copy_bytes(to.data(), from.data(), SIZE_MAX, nullptr, error); }),
        "copy_bytes: bytes are 2^63 or more, wanted fewer");
  }
  succeeds([&](phasor_error* error) { return phasor_copy_bytes(nullptr, nullptr, 0, nullptr, error); });
}

}  // namespace
}  // namespace phasor::test
