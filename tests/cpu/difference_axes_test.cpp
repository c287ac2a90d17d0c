// SPDX-License-Identifier: Apache-2.0
// Rerotation between two assignments of axes to pairs, by jobs whose axes are filled in by hand: each side has its own.
#include <cmath>

#include "cpu/rotary/kernels.hpp"
#include "job/rerotate.hpp"
#include "ops/rotary/rerotate_call.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t axes = 3;
constexpr std::int64_t batch = 2;
constexpr std::int64_t tokens = 11;
constexpr std::int64_t heads = 3;
constexpr std::int64_t pairs = 21;
constexpr std::int64_t width = 2 * pairs;

plan::RotaryPlan plan_of(double base) {
  RotarySpec spec;
  spec.head_dim = width;
  spec.base = base;
  Result<plan::RotaryPlan> plan = plan::make_rotary_plan(spec);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return *std::move(plan);
}

using AxisOfPair = std::vector<std::uint8_t>;

AxisOfPair assignment(std::int64_t first, std::int64_t modulus) {
  AxisOfPair list;
  for (std::int64_t i = 0; i < pairs; ++i) list.push_back(static_cast<std::uint8_t>((first + i) % modulus));
  return list;
}

/// (axes, B, T).
template <class P>
std::vector<P> any_positions(std::uint64_t seed, P unit) {
  Random random(seed);
  std::vector<P> list;
  for (std::int64_t i = 0; i < axes * batch * tokens; ++i) {
    list.push_back(static_cast<P>(static_cast<std::int64_t>(random.bits() >> 52) - 2000) * unit);
  }
  return list;
}

/// One side by hand: its ladder, its axes, its positions.
template <class P>
struct AxisSide {
  double base;
  AxisOfPair axis_of_pair;
  std::vector<P> where;
};

template <class P>
void give_axes(job::RowSource& rows, const AxisSide<P>& side) {
  rows.axis_of_pair = side.axis_of_pair.data();
  rows.positions.axes = axes;
  rows.positions.axis_stride = batch * tokens;
}

template <class P>
long double angle_of(const AxisSide<P>& side, std::int64_t row, std::int64_t pair) {
  const std::int64_t axis = side.axis_of_pair[static_cast<std::size_t>(pair)];
  return reference::frequency(side.base, width, pair) * side.where[static_cast<std::size_t>(axis * batch * tokens + row)];
}

/// Keys of (1, 0): rows as they come out of a kernel.
template <class T, class P, class Q>
void check_axes(const cpu::RotaryKernels& kernels, const AxisSide<P>& from, const AxisSide<Q>& to, bool same) {
  const plan::RotaryPlan from_plan = plan_of(from.base);
  const plan::RotaryPlan to_plan = plan_of(to.base);
  Tensor<T> x({batch, tokens, heads, width}, 1);
  x.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    for (std::int64_t i = 0; i < width; ++i) x.at(b, t, h, i) = i < pairs ? 1 : 0;
  });
  const InOut keys = x.view();
  Result<job::RerotateJob> job = job::make_rerotate_job({keys}, {from_plan, positions(from.where.data(), batch, tokens)},
                                                        {to_plan, positions(to.where.data(), batch, tokens)}, Direction::forward);
  ASSERT_TRUE(job.ok()) << job.status().message();
  give_axes(job->from, from);
  give_axes(job->rotate.rows, to);
  job->rotate.rows.same_ladder = same;
  const cpu::Running<job::RotateJob> run = {.job = job->link()};
  for (std::int64_t i = 0; i < run.grid.tasks; ++i) kernels.rotate(run, i);
  x.each_head([&](std::int64_t b, std::int64_t t, std::int64_t h) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const long double angle = angle_of(to, b * tokens + t, i) - angle_of(from, b * tokens + t, i);
      ASSERT_NEAR(static_cast<double>(x.at(b, t, h, i)), static_cast<double>(std::cos(angle)), 0x1p-24) << i;
      ASSERT_NEAR(static_cast<double>(x.at(b, t, h, i + pairs)), static_cast<double>(std::sin(angle)), 0x1p-24) << i;
    }
  });
}

template <class Body>
void on_every_kernel(Body body) {
  const cpu::RotaryKernelTable table = cpu::rotary_kernels();
  for (int i = 0; i < table.count; ++i) {
    if (!table.entries[i].available()) continue;
    SCOPED_TRACE(table.entries[i].target);
    body(table.entries[i]);
  }
}

TEST(DifferenceAxes, another_assignment_of_axes_turns_each_pair_from_its_old_axis_to_its_new) {
  const AxisSide<std::int64_t> old_axes = {10000, assignment(0, 3), any_positions<std::int64_t>(1, 1)};
  const AxisSide<std::int64_t> new_axes = {10000, assignment(1, 2), any_positions<std::int64_t>(1, 1)};
  const AxisSide<std::int64_t> other_base = {500, assignment(2, 3), any_positions<std::int64_t>(2, 1)};
  const AxisSide<double> fractions = {500, assignment(2, 3), any_positions<double>(3, 0.125)};
  on_every_kernel([&](const cpu::RotaryKernels& kernels) {
    check_axes<float>(kernels, old_axes, new_axes, false);
    check_axes<double>(kernels, old_axes, new_axes, false);
    check_axes<float>(kernels, old_axes, other_base, false);
    check_axes<float>(kernels, old_axes, fractions, false);
    check_axes<float>(kernels, fractions, new_axes, false);
  });
}

TEST(DifferenceAxes, a_shift_within_one_assignment_turns_each_pair_by_the_shift_on_its_axis) {
  const AxisSide<std::int64_t> before = {10000, assignment(0, 3), any_positions<std::int64_t>(1, 1)};
  AxisSide<std::int64_t> after = before;
  for (std::size_t i = 0; i < after.where.size(); ++i) after.where[i] += i < 2 * tokens ? 40 : static_cast<std::int64_t>(i % 2);
  const AxisSide<double> fractions = {10000, assignment(0, 3), any_positions<double>(3, 0.125)};
  AxisSide<double> later = fractions;
  for (double& p : later.where) p += 0.5;
  on_every_kernel([&](const cpu::RotaryKernels& kernels) {
    check_axes<float>(kernels, before, after, true);
    check_axes<double>(kernels, before, after, true);
    check_axes<float>(kernels, fractions, later, true);
  });
}

}  // namespace
}  // namespace phasor::test
