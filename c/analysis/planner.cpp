// SPDX-License-Identifier: Apache-2.0
// Planning a longer context in C: every published scaling of a spec, and what each pair then meets.
#include <memory>
#include <utility>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/lists.hpp"
#include "handles.hpp"
#include "specs/rotary.hpp"

using namespace phasor;
using namespace phasor::c;

phasor_planned_scalings::phasor_planned_scalings(std::vector<PlannedScaling> plan) : value(std::move(plan)) {
  for (const PlannedScaling& one : value) scalings.push_back(c_scaling_of(one.scaling));
}

extern "C" {

phasor_status phasor_plan_scalings(const phasor_planner_input* input, phasor_planned_scalings** plan, phasor_error* error) {
  constexpr const char* kWhere = "plan_scalings";
  return call(error, [&] {
    need(kWhere, "plan", plan);
    const phasor_planner_input c = known(kWhere, "the input", need(kWhere, "the input", input));
    PlannerInput value{
        .spec = rotary_spec_of(kWhere, c.spec), .trained_length = c.trained_length, .wanted_length = c.wanted_length, .scalings = {}};
    for (const phasor_scaling* scaling : span_of(kWhere, "scalings", c.scalings, c.scaling_count)) {
      value.scalings.push_back(scaling_of(kWhere, need(kWhere, "a scaling", scaling)));
    }
    *plan = std::make_unique<phasor_planned_scalings>(value_of(plan_scalings(value))).release();
  });
}

void phasor_planned_scalings_free(phasor_planned_scalings* plan) { delete plan; }

size_t phasor_planned_scalings_count(const phasor_planned_scalings* plan) { return plan == nullptr ? 0 : plan->value.size(); }

phasor_status phasor_planned_scalings_get(const phasor_planned_scalings* plan, size_t index, phasor_planned_scaling* scaling,
                                          phasor_error* error) {
  constexpr const char* kWhere = "planned_scalings_get";
  return call(error, [&] {
    const PlannedScaling& one = item_of(kWhere, "index", need(kWhere, "plan", plan)->value, index);
    phasor_planned_scaling c{};
    c.size = sizeof(c);
    c.name = one.name.c_str();
    c.error = one.error.empty() ? nullptr : one.error.c_str();
    c.scaling = &plan->scalings[index];
    c.amplitude = one.amplitude;
    c.softmax_scale = one.softmax_scale;
    c.unseen_pairs = one.unseen_pairs;
    Write().flagged("unseen_from", c.has_unseen_from, c.unseen_from, one.unseen_from);
    c.pair_count = one.pairs.size();
    give(kWhere, "scaling", c, scaling);
  });
}

phasor_status phasor_planned_scalings_get_pair(const phasor_planned_scalings* plan, size_t index, size_t pair_index,
                                               phasor_planned_pair* pair, phasor_error* error) {
  constexpr const char* kWhere = "planned_scalings_get_pair";
  return call(error, [&] {
    const PlannedScaling& scaling = item_of(kWhere, "index", need(kWhere, "plan", plan)->value, index);
    const PlannedPair& one = item_of(kWhere, "pair_index", scaling.pairs, pair_index);
    phasor_planned_pair c{};
    c.size = sizeof(c);
    c.frequency = one.frequency;
    c.ratio = one.ratio;
    c.trained_turns = one.trained_turns;
    c.wanted_turns = one.wanted_turns;
    Write().flagged("unseen_from", c.has_unseen_from, c.unseen_from, one.unseen_from);
    give(kWhere, "pair", c, pair);
  });
}

}  // extern "C"
