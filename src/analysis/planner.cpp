// SPDX-License-Identifier: Apache-2.0
// The planner: what each scaling makes of every pair when a trained length is to become a longer one.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "job/check.hpp"
#include "phasor/analysis.hpp"
#include "plan/scaling.hpp"
#include "spec/rotary.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using plan::Real;

constexpr const char* kWhere = "plan_scalings";

struct NameOf {
  const char* operator()(const Unscaled&) const { return "unscaled"; }
  const char* operator()(const LinearScaling&) const { return "linear"; }
  const char* operator()(const NtkScaling&) const { return "ntk"; }
  const char* operator()(const NtkMixedScaling&) const { return "ntk_mixed"; }
  const char* operator()(const DynamicNtkScaling&) const { return "dynamic"; }
  const char* operator()(const YarnScaling&) const { return "yarn"; }
  const char* operator()(const LongRopeScaling&) const { return "longrope"; }
  const char* operator()(const Llama3Scaling&) const { return "llama3"; }
  const char* operator()(const ProportionalScaling&) const { return "proportional"; }
  const char* operator()(const GivenFactors&) const { return "given_factors"; }
  const char* operator()(const GivenFrequencies&) const { return "given_frequencies"; }
  const char* operator()(const GivenDirections&) const { return "given_directions"; }
};

/// Checked, in turns a position.
Result<plan::Scaled> scaled_by(RotarySpec spec, const Scaling& scaling) {
  spec.scaling = scaling;
  if (Status status = spec::check(spec); !status) return status;
  Result<plan::Scaled> scaled = plan::scale(spec);
  if (!scaled.ok() || spec.unit == FrequencyUnit::turns) return scaled;
  for (Real& frequency : scaled->frequencies) frequency *= plan::turns_per_radian();
  return scaled;
}

/// The first position whose phase is not below the largest that was seen. The quotient errs by 2^-250 of itself at most: so much below a
/// whole number is that number.
std::optional<std::int64_t> first_unseen(const Real& trained_turns, const Real& turns_per_position) {
  if (trained_turns >= 1 || turns_per_position == 0) return std::nullopt;
  const Real quotient = trained_turns / turns_per_position;
  const Real first = ceil(quotient - ldexp(quotient, -250));
  if (first > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return std::max<std::int64_t>(static_cast<std::int64_t>(first), 1);  // 0 is seen even by a pair that did not turn
}

PlannedPair plan_pair(const Real& trained, const Real& scaled, const PlannerInput& input) {
  const Real trained_turns = abs(trained) * input.trained_length;
  PlannedPair pair;
  pair.frequency = plan::nearest_double(Real(scaled * plan::radians_per_turn()));
  pair.ratio = trained == 0 ? (scaled == 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity())
                            : plan::nearest_double(Real(scaled / trained));
  pair.trained_turns = plan::nearest_double(Real(abs(scaled) * input.trained_length));
  pair.wanted_turns = plan::nearest_double(Real(abs(scaled) * input.wanted_length));
  pair.unseen_from = first_unseen(trained_turns, abs(scaled));
  return pair;
}

PlannedScaling plan_one(const PlannerInput& input, const Scaling& scaling, const std::vector<Real>& trained) {
  PlannedScaling planned{};
  planned.name = std::visit(NameOf{}, scaling);
  planned.scaling = scaling;
  const Result<plan::Scaled> scaled = scaled_by(input.spec, scaling);
  if (!scaled.ok()) {
    planned.error = scaled.status().message();
    return planned;
  }
  planned.amplitude = plan::nearest_double(scaled->amplitude);
  planned.softmax_scale = plan::nearest_double(scaled->softmax_scale);
  planned.pairs.reserve(trained.size());
  for (std::size_t i = 0; i < trained.size(); ++i) {
    planned.pairs.push_back(plan_pair(trained[i], scaled->frequencies[i], input));
    const std::optional<std::int64_t>& unseen = planned.pairs.back().unseen_from;
    if (!unseen) continue;
    if (*unseen < input.wanted_length) ++planned.unseen_pairs;
    planned.unseen_from = std::min(*unseen, planned.unseen_from.value_or(*unseen));
  }
  return planned;
}

/// Every published method for the factor that is wanted; LongRoPE and given factors only where the spec has lists.
std::vector<Scaling> published(const PlannerInput& input) {
  const double factor = static_cast<double>(input.wanted_length) / static_cast<double>(input.trained_length);
  std::vector<Scaling> list{LinearScaling{factor},
                            NtkScaling{factor},
                            NtkMixedScaling{factor},
                            DynamicNtkScaling{factor, input.trained_length, input.wanted_length},
                            YarnScaling{.factor = factor, .original_length = input.trained_length},
                            Llama3Scaling{.factor = factor, .original_length = input.trained_length}};
  const auto* proportional = std::get_if<ProportionalScaling>(&input.spec.scaling);
  list.emplace_back(ProportionalScaling{factor, proportional == nullptr ? 1 : proportional->share});
  if (const auto* longrope = std::get_if<LongRopeScaling>(&input.spec.scaling)) {
    LongRopeScaling at_length = *longrope;
    at_length.choice = LongRopeChoice::by_length;
    at_length.length = input.wanted_length;
    list.emplace_back(std::move(at_length));
  }
  return list;
}

Status check(const PlannerInput& input) {
  if (input.trained_length < 1) return job::error(kWhere, "trained_length is {}, wanted at least 1", input.trained_length);
  if (input.wanted_length < input.trained_length) {
    return job::error(kWhere, "wanted_length is {}, wanted at least trained_length, {}", input.wanted_length, input.trained_length);
  }
  const Scaling& scaling = input.spec.scaling;
  if (std::holds_alternative<GivenFrequencies>(scaling) || std::holds_alternative<GivenDirections>(scaling)) {
    return job::error(kWhere, "scaling is {}, wanted one that follows from a base", std::visit(NameOf{}, scaling));
  }
  for (const Scaling& other : input.scalings) {
    if (!std::holds_alternative<GivenDirections>(other)) continue;
    return job::error(kWhere, "scalings have {}, wanted one frequency per pair", std::visit(NameOf{}, other));
  }
  return {};
}

Result<std::vector<PlannedScaling>> plan_all(const PlannerInput& input) {
  const Result<plan::Scaled> trained = scaled_by(input.spec, input.spec.scaling);
  if (!trained.ok()) return trained.status();
  std::vector<PlannedScaling> list;
  list.push_back(plan_one(input, input.spec.scaling, trained->frequencies));
  list.back().name = "as trained";
  for (const Scaling& scaling : input.scalings.empty() ? published(input) : input.scalings) {
    list.push_back(plan_one(input, scaling, trained->frequencies));
  }
  return list;
}

}  // namespace

Result<std::vector<PlannedScaling>> plan_scalings(const PlannerInput& input) {
  if (Status status = check(input); !status) return status;
  return spec::without_exceptions("plan_scalings", [&] { return plan_all(input); });
}

}  // namespace phasor
