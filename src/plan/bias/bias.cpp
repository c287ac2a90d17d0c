// SPDX-License-Identifier: Apache-2.0
// The plan of a bias spec: slopes and frequencies in high precision, rounded once.
#include "plan/bias/bias.hpp"

#include <string>

#include "math/elementary.hpp"
#include "plan/bias/at_distance.hpp"
#include "plan/bias/buckets.hpp"
#include "plan/profile/float32.hpp"
#include "plan/real.hpp"
#include "spec/bias.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::plan {
namespace {

/// 2^(-max_bias (h + 1) / P) for h below P, the power of two at or below H; then every second one of those of 2P.
double slope_of(const Alibi& s, std::int64_t head) {
  std::int64_t powers = 1;
  while (2 * powers <= s.heads) powers *= 2;
  const Real share = head < powers ? Real(head + 1) / powers : Real(2 * (head - powers) + 1) / (2 * powers);
  return nearest_double(power(Real(2), Real(-s.max_bias) * share));
}

struct AddNumbers {
  BiasPlan& plan;

  void operator()(const Alibi& s) const {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const double slope = s.slopes.empty() ? slope_of(s, head) : s.slopes[static_cast<std::size_t>(head)];
      plan.slopes.push_back(rounded_slope(slope, s.rounding));
    }
  }
  void operator()(const T5Buckets& s) const { plan.thresholds = t5_thresholds(s); }
  void operator()(const DebertaBuckets& s) const { plan.thresholds = deberta_thresholds(s); }
  void operator()(const Sandwich& s) const {
    const std::int64_t pairs = s.width / 2;
    for (const Real& frequency : geometric(Real(1), inverse_root(Real(s.base), pairs), pairs)) plan.steps.push_back(step_of(frequency));
  }
  template <class Scheme>
  void operator()(const Scheme& /*s*/) const {}
};

/// What a scheme with such rows is called.
const char* table_name(const RowRule& row) {
  switch (row.kind) {
    case RowRule::Kind::t5:
      return "T5Buckets";
    case RowRule::Kind::shaw:
      return "ShawClip";
    case RowRule::Kind::window:
      return "SwinTable";
    default:
      return "DebertaBuckets";
  }
}

/// Where each scheme keeps its parameters, in the order of its gradient.
struct SetParameters {
  std::span<const double> from;

  void operator()(Alibi& s) const { s.slopes.assign(from.begin(), from.end()); }
  void operator()(Kerple& s) const {
    const auto heads = static_cast<std::ptrdiff_t>(s.r1.size());
    s.r1.assign(from.begin(), from.begin() + heads);
    s.r2.assign(from.begin() + heads, from.end());
  }
  void operator()(Sandwich& /*s*/) const {}
  void operator()(Fire& s) const {
    s.mlp.parameters.assign(from.begin(), from.end() - 2);
    s.c = from[from.size() - 2];
    s.length = from[from.size() - 1];
  }
  void operator()(DynamicMlp& s) const { s.mlp.parameters.assign(from.begin(), from.end()); }
  void operator()(SwinV2& s) const { s.mlp.parameters.assign(from.begin(), from.end()); }
  template <class Table>
  void operator()(Table& s) const {
    s.table.assign(from.begin(), from.end());
  }
};

}  // namespace

Result<BiasPlan> make_bias_plan(const BiasSpec& spec) {
  return spec::without_exceptions("BiasSpec", [&]() -> Result<BiasPlan> {
    if (Status status = spec::check(spec); !status) return status;
    BiasPlan plan{};
    plan.spec = spec;
    plan.heads = spec::heads_of(spec);
    plan.rows = spec::table_rows(spec);
    plan.parameters = spec::parameter_count(spec);
    std::visit(AddNumbers{plan}, spec);
    return plan;
  });
}

Result<BiasPlan> with_parameters(const BiasPlan& plan, std::span<const double> parameters) {
  return spec::without_exceptions("BiasSpec", [&]() -> Result<BiasPlan> {
    BiasPlan other = plan;
    std::visit(SetParameters{parameters}, other.spec);
    if (Status status = spec::check(other.spec); !status) return status;
    if (const auto* alibi = std::get_if<Alibi>(&other.spec)) {
      other.slopes.clear();
      AddNumbers{other}(*alibi);
    }
    return other;
  });
}

Status check_parameters(const BiasSource& bias, std::span<const double> numbers) {
  using Scheme = BiasSource::Scheme;
  using spec::NumberRule;
  const auto heads = static_cast<std::size_t>(bias.heads);
  const auto check = [](const spec::NamedNumbers& some, NumberRule rule) { return spec::check_numbers(some, rule); };
  switch (bias.scheme) {
    case Scheme::alibi:
      return check({"Alibi", "slopes", numbers}, NumberRule::finite);
    case Scheme::table:
      return check({table_name(bias.row), "table", numbers}, NumberRule::finite);
    case Scheme::kerple: {
      const std::span<const double> r2 = numbers.subspan(heads);
      if (Status s = check({"Kerple", "r1", numbers.first(heads)}, NumberRule::positive); !s) return s;
      if (Status s = check({"Kerple", "r2", r2}, NumberRule::positive); !s || bias.kerple == KerpleKind::logarithmic) return s;
      return check({"Kerple", "r2", r2}, NumberRule::power);
    }
    case Scheme::sandwich:
      return {};
    case Scheme::fire: {
      const std::size_t layers = numbers.size() - 2;
      if (Status s = check({"Fire", "mlp.parameters", numbers.first(layers)}, NumberRule::finite); !s) return s;
      if (Status s = check({"Fire", "c", numbers.subspan(layers, 1), false}, NumberRule::positive); !s) return s;
      return check({"Fire", "length", numbers.subspan(layers + 1, 1), false}, NumberRule::positive);
    }
    case Scheme::dynamic_mlp:
      return check({"DynamicMlp", "mlp.parameters", numbers}, NumberRule::finite);
    case Scheme::swin_v2:
      break;
  }
  return check({"SwinV2", "mlp.parameters", numbers}, NumberRule::finite);
}

BiasSource with_parameters(const BiasSource& bias, std::span<double> numbers) {
  BiasSource other = bias;
  other.copies = nullptr;  // the numbers are those of a call
  switch (bias.scheme) {
    case BiasSource::Scheme::alibi:
      for (double& slope : numbers) slope = rounded_slope(slope, bias.rounding);
      other.slopes = numbers.data();
      break;
    case BiasSource::Scheme::table:
      other.table = numbers.data();
      break;
    case BiasSource::Scheme::kerple:
      other.r1 = numbers.data();
      other.r2 = numbers.data() + bias.heads;
      break;
    case BiasSource::Scheme::sandwich:
      break;
    case BiasSource::Scheme::fire:
      other.fire.c = numbers[numbers.size() - 2];
      other.fire.length = numbers[numbers.size() - 1];
      [[fallthrough]];
    case BiasSource::Scheme::dynamic_mlp:
    case BiasSource::Scheme::swin_v2:
      other.mlp.parameters = numbers.data();
      break;
  }
  return other;
}

}  // namespace phasor::plan
