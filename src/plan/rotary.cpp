// SPDX-License-Identifier: Apache-2.0
// The plan of a rotary spec: the scaling's exact reals rounded to steps and float64, once.
#include "plan/rotary.hpp"

#include <string>
#include <variant>

#include "math/sincos.hpp"
#include "plan/real.hpp"
#include "plan/scaling.hpp"
#include "spec/axes.hpp"
#include "spec/rotary.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::plan {
namespace {

bool turns(const math::Step& step) { return (step.fraction[0] | step.fraction[1] | step.fraction[2]) != 0 || step.whole != 0; }

void add_pair(RotaryPlan& plan, const Real& frequency) {
  const bool in_turns = plan.spec.unit == FrequencyUnit::turns;
  const math::Step step = in_turns ? step_of_turns(frequency) : step_of(frequency);
  plan.steps.push_back(step);
  plan.frequencies.push_back(nearest_double(in_turns ? Real(frequency * radians_per_turn()) : frequency));
  double cos = 1;
  double sin = 0;
  math::sincos_double(math::phase_of(step, std::int64_t{1}), 1.0, cos, sin);
  plan.turn_cos.push_back(cos);
  plan.turn_sin.push_back(sin);
  if (turns(step)) plan.turning_pairs = static_cast<std::int64_t>(plan.steps.size());
}

void add_axes(RotaryPlan& plan) {
  plan.axes = spec::axis_count(plan.spec);
  if (const auto* directions = std::get_if<GivenDirections>(&plan.spec.scaling)) {
    plan.heads = directions->heads;
  } else if (plan.axes > 1) {
    plan.axis_of_pair = spec::axis_of_pair(plan.spec);
  }
}

Status add_profile(RotaryPlan& plan) {
  Result<Profile> profile = make_profile(plan.spec, rungs_of(plan.spec, plan.axis_of_pair));
  if (!profile) return profile.status();
  plan.profile = *std::move(profile);
  return {};
}

/// Channel c of a segment of w channels turns as pair c mod w/2 of it does; lane l of its pair j is channel 2 j + l.
void add_per_channel_frequencies(RotaryPlan& plan) {
  const std::size_t pairs = plan.steps.size();
  const std::size_t in_segment = pairs / static_cast<std::size_t>(plan.spec.segments);
  if (plan.profile) plan.per_channel.profile = per_channel(*plan.profile, plan.spec.segments);
  for (std::size_t lane = 0; lane < 2; ++lane) {
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const std::size_t segment = pair / in_segment * in_segment;
      const std::size_t from = segment + (2 * (pair - segment) + lane) % in_segment;
      plan.per_channel.steps.push_back(plan.steps[from]);
      plan.per_channel.turn_cos.push_back(plan.turn_cos[from]);
      plan.per_channel.turn_sin.push_back(plan.turn_sin[from]);
      if (!plan.axis_of_pair.empty()) plan.per_channel.axis_of_pair.push_back(plan.axis_of_pair[from]);
    }
  }
}

Result<RotaryPlan> build(const RotarySpec& spec) {
  if (Status status = spec::check(spec); !status) return status;
  const Result<Scaled> scaled = scale(spec);
  if (!scaled) return scaled.status();
  RotaryPlan plan{};
  plan.spec = spec;
  plan.spec.rotary_width = spec::rotary_width(spec);
  const std::size_t pairs = scaled->frequencies.size();
  for (auto* list : {&plan.frequencies, &plan.turn_cos, &plan.turn_sin}) list->reserve(pairs);
  plan.steps.reserve(pairs);
  for (const Real& frequency : scaled->frequencies) add_pair(plan, frequency);
  plan.amplitude = nearest_double(scaled->amplitude);
  plan.inverse_amplitude = 1 / plan.amplitude;
  plan.softmax_scale = nearest_double(scaled->softmax_scale);
  add_axes(plan);
  if (spec.numerics != Numerics::exact) {
    if (Status status = add_profile(plan); !status) return status;
  }
  if (spec.lanes == Lanes::per_channel_frequencies) add_per_channel_frequencies(plan);
  return plan;
}

}  // namespace

Result<RotaryPlan> make_rotary_plan(const RotarySpec& spec) {
  return spec::without_exceptions("RotarySpec", [&] { return build(spec); });
}

}  // namespace phasor::plan
