// SPDX-License-Identifier: Apache-2.0
// Where each scheme keeps what its formula reads.
#include "plan/bias/source.hpp"

#include <variant>

#include "plan/bias/bias.hpp"
#include "plan/bias/buckets.hpp"
#include "spec/bias.hpp"

namespace phasor::plan {
namespace {

using Scheme = BiasSource::Scheme;

MlpSource source_of(const Mlp& mlp) {
  return {mlp.widths.data(), static_cast<std::int64_t>(mlp.widths.size()), mlp.parameters.data(),
          static_cast<std::int64_t>(mlp.parameters.size()), mlp.activation};
}

struct MakeSource {
  const BiasPlan& plan;
  BiasSource& bias;

  void operator()(const Alibi& s) const {
    bias.scheme = Scheme::alibi;
    bias.form = s.form;
    bias.rounding = s.rounding;
    bias.slopes = plan.slopes.data();
  }
  void operator()(const Kerple& s) const {
    bias.scheme = Scheme::kerple;
    bias.kerple = s.kind;
    bias.r1 = s.r1.data();
    bias.r2 = s.r2.data();
  }
  void operator()(const Sandwich& /*s*/) const {
    bias.scheme = Scheme::sandwich;
    bias.steps = plan.steps.data();
    bias.step_count = static_cast<std::int64_t>(plan.steps.size());
  }
  void operator()(const Fire& s) const {
    bias.scheme = Scheme::fire;
    bias.mlp = source_of(s.mlp);
    bias.fire = curve_of(s);
  }
  void operator()(const DynamicMlp& s) const {
    bias.scheme = Scheme::dynamic_mlp;
    bias.mlp = source_of(s.mlp);
    bias.scale = s.scale;
  }
  void operator()(const SwinV2& s) const {
    bias.scheme = Scheme::swin_v2;
    bias.mlp = source_of(s.mlp);
    bias.window = s.window;
    bias.trained = spec::trained_window(s);
  }
  void operator()(const SwinTable& s) const {
    table(s.table);
    bias.window = s.window;
  }
  template <class Table>
  void operator()(const Table& s) const {
    table(s.table);
  }

  void table(const std::vector<double>& values) const {
    bias.scheme = Scheme::table;
    bias.row = row_rule(plan);
    bias.table = values.empty() ? nullptr : values.data();
  }
};

}  // namespace

BiasSource source_of(const BiasPlan& plan) {
  BiasSource bias;
  bias.heads = plan.heads;
  bias.rows = plan.rows;
  bias.copies = &plan.copies;
  std::visit(MakeSource{plan, bias}, plan.spec);
  return bias;
}

}  // namespace phasor::plan
