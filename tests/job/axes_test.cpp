// SPDX-License-Identifier: Apache-2.0
// Calls that do not fit a spec of several axes, heads of their own, per-channel frequencies or segments: what is, what is wanted, nothing
// written.
#include "job/rotary.hpp"
#include "ops/rotary/rotary_call.hpp"

namespace phasor::test {
namespace {

/// (B, T, H, D) = (2, 3, 3, 12).
struct Attempt {
  std::vector<float> memory = std::vector<float>(2000, 0.5F);
  std::vector<std::int64_t> numbers = std::vector<std::int64_t>(40, 3);
  TensorView q;
  Positions where;

  Attempt() : q(view(memory.data(), {2, 3, 3, 12})), where(positions(numbers.data(), 3, 2, 3)) {}
};

const RotarySpec three_axes = {.head_dim = 12, .axes = {.sections = {1, 2, 3}}};

void expect_error(const Status& status, const std::string& wanted, const Attempt& attempt) {
  EXPECT_EQ(status.kind(), ErrorKind::invalid);
  EXPECT_EQ(status.message(), wanted);
  EXPECT_EQ(attempt.memory, std::vector<float>(2000, 0.5F));
}

TEST(AxesCalls, positions_have_as_many_axes_as_the_spec_or_one_for_all) {
  const Rotary rotary = make_rotary(three_axes);
  for (const std::int64_t axes : {0, 2, 4}) {
    Attempt attempt;
    attempt.where.shape[0] = axes;
    expect_error(rotary.apply(attempt.q, attempt.where),
                 "apply_rotary: positions have " + std::to_string(axes) + " axes, the spec wants 3, or 1 for all", attempt);
  }
  Attempt attempt;
  attempt.where.shape[0] = -1;
  expect_error(rotary.apply(attempt.q, attempt.where), "apply_rotary: positions have -1 axes, the spec wants 3, or 1 for all", attempt);
}

TEST(AxesCalls, positions_of_any_axis_must_not_lie_in_what_is_written) {
  const Rotary rotary = make_rotary({.head_dim = 12, .axes = {.sections = {1, 2, 3}}});
  std::vector<double> memory(400, 0.5);
  const TensorView q = view(memory.data() + 100, {1, 2, 2, 12});
  Positions where = positions(memory.data(), 3, 1, 2);
  where.strides[0] = 60;  // axis 2 begins at 120, within q
  const Status status = rotary.apply(q, where);
  EXPECT_EQ(status.message(), "apply_rotary: positions overlap q's output, wanted memory apart");
  where.strides[0] = 40;
  EXPECT_TRUE(rotary.apply(q, where).ok());
}

TEST(AxesCalls, strides_of_axes_that_leave_memory_behind_are_refused) {
  const Rotary rotary = make_rotary(three_axes);
  Attempt attempt;
  attempt.where.strides[0] = std::int64_t{1} << 60;
  const Status status = rotary.apply(attempt.q, attempt.where);
  EXPECT_EQ(status.kind(), ErrorKind::invalid);
  EXPECT_EQ(status.message().find("apply_rotary: positions has stride 1152921504606846976"), 0U) << status.message();
}

TEST(AxesCalls, heads_with_directions_of_their_own_are_the_tensors_heads) {
  const Rotary rotary = make_rotary({.head_dim = 4, .scaling = GivenDirections{2, 3, std::vector<double>(12, 1)}});
  std::vector<float> memory(2000, 0.5F);
  std::vector<std::int64_t> at = {1, 2, 3, 4};
  const Positions where = positions(at.data(), 2, 1, 2);
  const TensorView three = view(memory.data(), {1, 2, 3, 4});
  const TensorView two = view(memory.data() + 500, {1, 2, 2, 4});
  EXPECT_EQ(rotary.apply(two, where).message(), "apply_rotary: q has 2 heads, wanted 3: each turns by its own");
  EXPECT_EQ(rotary.apply(three, two, where).message(), "apply_rotary: k has 2 heads, wanted 3: each turns by its own");
  EXPECT_EQ(memory, std::vector<float>(2000, 0.5F));
  EXPECT_TRUE(rotary.apply(three, where).ok());
  const TensorView row = view(memory.data() + 1000, {1, 2, 1, 2});
  EXPECT_EQ(rotary.cos_sin(where, row, row).message(), "cos_sin: cos has 1 heads, wanted 3");
}

TEST(AxesCalls, tables_of_heads_fit_both_tensors) {
  std::vector<float> memory(2000, 0.5F);
  const TensorView three = view(memory.data(), {1, 2, 3, 4});
  const TensorView two = view(memory.data() + 500, {1, 2, 2, 4});
  const TensorView of_three = view(memory.data() + 1000, {1, 2, 3, 2});
  const TensorView of_one = view(memory.data() + 1200, {1, 2, 1, 2});
  EXPECT_EQ(apply_rotary(two, of_three, of_three).message(), "apply_rotary: cos has 3 heads, wanted 1 or 2");
  EXPECT_EQ(apply_rotary(three, two, of_three, of_three).message(), "apply_rotary: k has 2 heads, wanted 3: each turns by its own");
  EXPECT_EQ(apply_rotary(three, of_three, of_one).message(), "apply_rotary: cos has 3 heads and sin has 1, wanted the same");
  EXPECT_EQ(memory, std::vector<float>(2000, 0.5F));
  EXPECT_TRUE(apply_rotary(three, of_three, of_three).ok());
}

TEST(AxesCalls, segments_of_a_table_layout_divide_the_pairs) {
  Attempt attempt;
  const TensorView table = view(attempt.memory.data() + 500, {2, 3, 1, 6});
  for (const std::int64_t segments : {-1, 0, 4, 12}) {
    TableLayout layout;
    layout.segments = segments;
    expect_error(apply_rotary(attempt.q, table, table, layout),
                 "apply_rotary: segments is " + std::to_string(segments) + ", wanted a divisor of 6, half the rotary width", attempt);
  }
}

TEST(AxesCalls, per_channel_frequencies_have_no_inverse_and_rows_as_wide_as_the_rotation) {
  RotarySpec spec{.head_dim = 12, .pairing = Pairing::interleaved};
  spec.lanes = Lanes::per_channel_frequencies;
  const Rotary rotary = make_rotary(spec);
  Attempt attempt;
  expect_error(rotary.apply(attempt.q, positions_from(0), {.direction = Direction::inverse}),
               "apply_rotary: direction is inverse and lanes are per_channel_frequencies, wanted forward or transpose", attempt);
  const TensorView full = view(attempt.memory.data() + 500, {1, 3, 1, 12});
  const TensorView other = view(attempt.memory.data() + 700, {1, 3, 1, 12});
  const TensorView half = view(attempt.memory.data() + 900, {1, 3, 1, 6});
  expect_error(rotary.cos_sin(positions_from(0), full, other, {.direction = Direction::inverse}),
               "cos_sin: direction is inverse and lanes are per_channel_frequencies, wanted forward or transpose", attempt);
  expect_error(rotary.cos_sin(positions_from(0), half, half), "cos_sin: cos has width 6, wanted 12", attempt);
  EXPECT_TRUE(rotary.cos_sin(positions_from(0), full, other).ok());
}

// ---- What a job is made of ----

plan::RotaryPlan plan_of(const RotarySpec& spec) {
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *std::move(plan);
}

TEST(AxesJobs, axes_that_share_positions_cost_as_one_axis) {
  const plan::RotaryPlan plan = plan_of(three_axes);
  Attempt attempt;
  const InOut q = attempt.q;
  const auto job_at = [&](const Positions& where) { return *job::make_rotate_job({"test", &q, nullptr}, plan, where, Direction::forward); };
  const job::RotateJob shared = job_at(positions_from(7));
  EXPECT_EQ(shared.rows.axis_of_pair, nullptr);
  EXPECT_EQ(shared.rows.positions.axes, 1);
  const job::RotateJob apart = job_at(attempt.where);
  EXPECT_EQ(apart.rows.axis_of_pair, plan.axis_of_pair.data());
  EXPECT_EQ(apart.rows.positions.axes, 3);
  EXPECT_EQ(apart.rows.positions.axis_stride, 6);
}

TEST(AxesJobs, segments_of_neighbours_are_one) {
  RotarySpec spec{.head_dim = 12, .pairing = Pairing::interleaved};
  spec.segments = 3;
  Attempt attempt;
  const InOut q = attempt.q;
  const auto segments = [&](const RotarySpec& s) {
    return job::make_rotate_job({"test", &q, nullptr}, plan_of(s), positions_from(0), Direction::forward)->segments;
  };
  EXPECT_EQ(segments(spec), 1);
  spec.output_pairing = Pairing::half;
  EXPECT_EQ(segments(spec), 3);
  spec.output_pairing = std::nullopt;
  spec.pairing = Pairing::half;
  EXPECT_EQ(segments(spec), 3);
}

}  // namespace
}  // namespace phasor::test
