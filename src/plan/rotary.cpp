// SPDX-License-Identifier: Apache-2.0
// The plan of a rotary spec: the scaling's exact reals rounded to steps and float64, once.
#include "plan/rotary.hpp"

#include <exception>
#include <new>
#include <string>

#include "math/sincos.hpp"
#include "plan/real.hpp"
#include "plan/scaling.hpp"
#include "spec/rotary.hpp"

namespace phasor::plan {
namespace {

bool turns(const math::Step& step) { return (step.fraction[0] | step.fraction[1] | step.fraction[2]) != 0 || step.whole != 0; }

void add_pair(RotaryPlan& plan, const Real& frequency) {
  const math::Step step = step_of(frequency);
  plan.steps.push_back(step);
  plan.frequencies.push_back(nearest_double(frequency));
  double cos = 1;
  double sin = 0;
  math::sincos_double(math::phase_of(step, std::int64_t{1}), 1.0, cos, sin);
  plan.turn_cos.push_back(cos);
  plan.turn_sin.push_back(sin);
  if (turns(step)) plan.turning_pairs = static_cast<std::int64_t>(plan.steps.size());
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
  if (spec.numerics != Numerics::exact) {
    Result<Profile> profile = make_profile(plan.spec, rungs_of(plan.spec, {}));
    if (!profile) return profile.status();
    plan.profile = *std::move(profile);
  }
  return plan;
}

}  // namespace

Result<RotaryPlan> make_rotary_plan(const RotarySpec& spec) {
  try {
    return build(spec);
  } catch (const std::bad_alloc&) {
    return Status::unsupported("out of memory");  // short enough for std::string not to allocate
  } catch (const std::exception& error) {
    return Status::invalid(std::string("RotarySpec: ") + error.what());
  } catch (...) {
    return Status::invalid("RotarySpec: unknown exception while planning");
  }
}

}  // namespace phasor::plan
