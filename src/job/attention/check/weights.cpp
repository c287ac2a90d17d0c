// SPDX-License-Identifier: Apache-2.0
// Checks of a call of attention_weights.
#include "job/attention/check.hpp"
#include "job/attention/weights_call.hpp"

namespace phasor::job {
namespace {

constexpr const char* kWeightsWhere = "attention_weights";

Status check_block(const WeightsCall& of) {
  const Extents& shape = of.weights.weights.shape;
  const Extents& q = of.inputs.q.shape;
  const struct {
    const char* name;
    std::int64_t first, count, all;
  } axes[] = {
      {"batch rows", of.rows.batch, shape[0], q[0]}, {"queries", of.rows.query, shape[1], q[1]}, {"heads", of.rows.head, shape[2], q[2]}};
  for (const auto& axis : axes) {
    if (axis.first >= 0 && axis.count >= 0 && axis.first <= axis.all && axis.count <= axis.all - axis.first) continue;
    return error(kWeightsWhere, "weights has {} {} from {} on, q has {}, wanted some of those", axis.count, axis.name, axis.first,
                 axis.all);
  }
  return {};
}

}  // namespace

Status check_weights_call(const WeightsCall& of) {
  if (Status s = check_call(of.call()); !s) return s;
  return check_block(of);
}

Status check_weights(const WeightsCall& of, std::span<const std::byte> workspace) {
  const NamedView written[] = {{"weights", of.weights.weights}, {"factors", of.weights.factors}};
  const DType wanted = of.inputs.q.dtype == DType::f64 ? DType::f64 : DType::f32;
  Extents shape = of.weights.weights.shape;
  shape[3] = of.inputs.k.shape[1];
  if (Status s = check_tensor_of(kWeightsWhere, written[0], shape, wanted); !s) return s;
  if (of.weights.factors.data != nullptr) {
    if (Status s = check_tensor_of(kWeightsWhere, written[1], shape, wanted); !s) return s;
  }
  return check_memory(of.call(), {written, {}, workspace});
}

}  // namespace phasor::job
