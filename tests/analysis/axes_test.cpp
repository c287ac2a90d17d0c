// SPDX-License-Identifier: Apache-2.0
// Analysis of specs with several axes, segments, per-channel frequencies and directions: right where there is an answer, an error where
// there is none.
#include <gtest/gtest.h>

#include "../tolerance.hpp"
#include "ops/rotary/axes_models.hpp"
#include "ops/rotary/rotary_call.hpp"
#include "phasor/analysis.hpp"

namespace phasor::test {
namespace {

/// Two rounded table values.
constexpr double close = 2 * tolerance_of(DType::f64).epsilon;

/// Row by row what apply makes of each unit vector, so columns of the matrix.
void expect_matrix_of(const Model& model, std::int64_t position) {
  const Rotary rotary = make_rotary(model.spec);
  const Result<Matrix> matrix = rotation_matrix(rotary, position);
  ASSERT_TRUE(matrix.ok()) << matrix.status().message();
  const std::int64_t width = 2 * static_cast<std::int64_t>(model.pairs.size());
  ASSERT_EQ(matrix->rows, width);
  std::vector<double> wanted(static_cast<std::size_t>(width * width));
  const auto at = [&](std::int64_t r, std::int64_t c) -> double& { return wanted[static_cast<std::size_t>(r * width + c)]; };
  const auto p = static_cast<long double>(position);
  for (const NaivePair& pair : model.pairs) {
    const auto [c0, s0] = naive_cos_sin<double>(pair.turns[0], {p, p, p, p});
    const auto [c1, s1] = naive_cos_sin<double>(pair.turns[1], {p, p, p, p});
    at(pair.x, pair.x) = c0;
    at(pair.x, pair.y) = -s0;
    at(pair.y, pair.x) = s1;
    at(pair.y, pair.y) = c1;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(matrix->values[i], wanted[i], close) << "entry " << i;
}

TEST(AxesAnalysis, the_matrix_of_every_model_is_its_formula_with_all_axes_at_one_position) {
  for (const Model& model : recorded_models()) {
    SCOPED_TRACE(model.name);
    for (const std::int64_t position : {0, 1, 37}) expect_matrix_of(model, position);
  }
}

Model of_directions(std::int64_t heads) {
  GivenDirections s{2, heads, {}};
  for (std::int64_t i = 0; i < 2 * heads * 6; ++i) s.frequencies.push_back(0.5 - 0.11 * static_cast<double>(i));
  Model m{"directions", {.head_dim = 12, .scaling = s}, 2, {}};
  for (std::size_t i = 0; i < 6; ++i) {
    m.pairs.push_back(half_pair(12, static_cast<std::int64_t>(i), Direction4{s.frequencies[i], s.frequencies[6 + i], 0, 0}));
  }
  return m;
}

TEST(AxesAnalysis, directions_of_all_heads_have_a_matrix) { expect_matrix_of(of_directions(1), 5); }

TEST(AxesAnalysis, heads_with_directions_of_their_own_are_unsupported) {
  const Rotary rotary = make_rotary(of_directions(3).spec);
  std::vector<float> memory(36, 1);
  const ConstTensorView q = view(memory.data(), {1, 1, 3, 12});
  for (const Status& status : {rotation_matrix(rotary, 1).status(), relative_matrix(rotary, 1, 2).status(), angle_error(rotary, 1).status(),
                               distance_check(rotary, q, q, 10).status()}) {
    EXPECT_EQ(status.kind(), ErrorKind::unsupported);
    EXPECT_NE(status.message().find(": 3 heads have directions of their own, wanted one for all"), std::string::npos) << status.message();
  }
}

TEST(AxesAnalysis, per_channel_frequencies_have_no_relative_matrix_and_no_distance) {
  const Rotary rotary = make_rotary(vjepa2().spec);
  std::vector<float> memory(64, 1);
  const ConstTensorView q = view(memory.data(), {1, 1, 1, 64});
  for (const Status& status : {relative_matrix(rotary, 1, 2).status(), distance_check(rotary, q, q, 10).status()}) {
    EXPECT_EQ(status.kind(), ErrorKind::unsupported);
    EXPECT_NE(status.message().find("lanes are per_channel_frequencies, so that scores depend on both positions"), std::string::npos)
        << status.message();
  }
}

TEST(AxesAnalysis, relative_matrices_are_those_of_the_distance) {
  for (const Model& model : recorded_models()) {
    if (model.spec.lanes == Lanes::per_channel_frequencies) continue;
    const Rotary rotary = make_rotary(model.spec);
    const Result<Matrix> relative = relative_matrix(rotary, 1000, 1007);
    const Result<Matrix> wanted = rotation_matrix(rotary, 7);
    ASSERT_TRUE(relative.ok() && wanted.ok()) << model.name;
    EXPECT_EQ(relative->values, wanted->values) << model.name;
  }
}

TEST(AxesAnalysis, angle_errors_and_distances_are_there_for_every_model) {
  std::vector<float> memory(3 * 2 * 128);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i % 23) / 23;
  std::vector<Model> models = recorded_models();
  models.push_back(of_directions(1));
  for (const Model& model : models) {
    SCOPED_TRACE(model.name);
    const Rotary rotary = make_rotary(model.spec);
    const Result<AngleError> error = angle_error(rotary, 1000003);
    ASSERT_TRUE(error.ok()) << error.status().message();
    EXPECT_LE(error->exact, tolerance_of(DType::f32).epsilon / 2);
    EXPECT_GT(error->float32, 100 * error->exact);
    if (model.spec.lanes == Lanes::per_channel_frequencies) continue;
    const ConstTensorView q = view(memory.data(), {1, 3, 2, model.spec.head_dim});
    const Result<DistanceCheck> check = distance_check(rotary, q, q, 1000003);
    ASSERT_TRUE(check.ok()) << check.status().message();
    EXPECT_LE(check->exact_difference, check->rounding);
    EXPECT_GT(check->float32_difference, check->rounding);
  }
}

}  // namespace
}  // namespace phasor::test
