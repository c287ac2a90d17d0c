// SPDX-License-Identifier: Apache-2.0
// A call of prepare_attention_backward, checked and made plain data. What it shares with prepare_attention is checked as a call of that
// whose outputs are the gradients by the inputs.
#include <string>
#include <utility>

#include "job/prepare/backward_check.hpp"
#include "job/prepare/token.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

/// A message of the checks that both directions share, under the name of this one.
Status under_own_name(const Status& status) {
  if (!status.message().starts_with(kPrepare)) return status;
  const std::string own = kBackward + status.message().substr(std::string_view(kPrepare).size());
  return status.kind() == ErrorKind::unsupported ? Status::unsupported(own) : Status::invalid(own);
}

BackwardOperand backward_of(const BackwardSide& side) {
  const ConstTensorView& gradient = side.gradient.by_output;
  const TensorView& by_weight = side.gradient.by_weight;
  BackwardOperand operand;
  operand.gradient = static_cast<const std::byte*>(gradient.data);
  for (int i = 0; i < 3; ++i) operand.strides[i] = gradient.strides[static_cast<std::size_t>(i)] * bytes_of(gradient.dtype);
  operand.by_weight = static_cast<float*>(by_weight.data);
  operand.weight_heads = by_weight.data == nullptr ? 1 : by_weight.shape[2];
  operand.weight_stride = by_weight.strides[2];
  return operand;
}

/// How the workspace is laid out: numbers of norms over all heads, one for each token and operand, the partial sums, then sums of heads of
/// queries.
struct Room {
  std::int64_t tokens = 0;  // of all batch rows
  std::int64_t of_all = 0;  // numbers of float64
  std::int64_t runs = 0;
  std::int64_t run_partials = 0;
  std::int64_t head_sums = 0;
  std::int64_t size() const { return of_all + runs * run_partials + head_sums; }
};
Room room_of(const PrepareInputs& inputs, const PrepareGradients& gradients, const PrepareSpec& spec) {
  Room room;
  std::int64_t operands = 0;
  bool over_all = false;
  for (const BackwardSide& side : sides_of(inputs, gradients, spec)) {
    if (!is_there(side.in)) continue;
    room.tokens = side.in.shape[0] * side.in.shape[1];
    ++operands;
    over_all |= side.norm.kind != HeadNorm::Kind::none && side.norm.over == HeadNorm::Over::all_heads;
    if (side.gradient.by_weight.data != nullptr) room.run_partials += side.in.shape[2] * side.norm.weight.shape[3];
  }
  static_assert(sizeof(NormOfAll) == sizeof(double));
  if (over_all) room.of_all = room.tokens * operands;
  if (gradients.by_query_factors.data != nullptr) room.head_sums = room.tokens * inputs.q.shape[2];
  room.runs = (room.tokens + kWeightTokens - 1) / kWeightTokens;
  return room;
}

/// The rotation whose transpose a job has, but for its rows.
RotateJob ahead_of(const RotateJob& turn) {
  RotateJob ahead = turn;
  ahead.rows = {};
  std::swap(ahead.read, ahead.write);
  return ahead;
}

Status check_sides(const PrepareInputs& inputs, const PrepareGradients& gradients, const PrepareSpec& spec) {
  for (const BackwardSide& side : sides_of(inputs, gradients, spec)) {
    if (is_there(side.in)) {
      if (Status s = check_view(kBackward, side.name, side.in); !s) return s;
      if (Status s = check_tokens(kBackward, side.name, side.in.shape); !s) return s;
    }
    if (Status s = check_side(side); !s) return s;
  }
  return check_by_factors(inputs, gradients.by_query_factors);
}

/// The call of prepare_attention whose inputs are this one's and whose outputs the gradients by them.
Result<PrepareJob> make_step(const PrepareBackwardCall& call, std::span<RowSource> rows) {
  PrepareOutputs outputs;
  const PrepareGradients& gradients = call.gradients;
  if (is_there(call.inputs.q)) outputs.q = tensor_cache(gradients.q.by_input);
  if (is_there(call.inputs.k)) outputs.k = tensor_cache(gradients.k.by_input);
  if (is_there(call.inputs.v)) outputs.v = tensor_cache(gradients.v.by_input);
  Result<PrepareJob> step = make_prepare_job({call.inputs, call.rotation, outputs, call.spec, Direction::transpose}, rows);
  if (!step.ok()) return under_own_name(step.status());
  return step;
}

}  // namespace

Result<std::int64_t> backward_workspace(const PrepareInputs& inputs, const PrepareGradients& gradients, const PrepareSpec& spec) {
  if (Status s = check_sides(inputs, gradients, spec); !s) return s;
  return room_of(inputs, gradients, spec).size();
}

Result<PrepareBackwardJob> make_prepare_backward_job(const PrepareBackwardCall& call, std::span<RowSource> rows) {
  if (Status s = check_sides(call.inputs, call.gradients, call.spec); !s) return s;
  if (Status s = check_backward_apart(call); !s) return s;
  const Result<PrepareJob> step = make_step(call, rows);
  if (!step.ok()) return step.status();
  if (Status s = check_backward_lists(call); !s) return s;
  const Room room = room_of(call.inputs, call.gradients, call.spec);
  if (Status s = check_workspace(call.gradients.workspace, room.size(), step->device); !s) return s;
  Result<PrepareBackwardJob> job(std::in_place);
  job->device = step->device;
  job->step = *step;
  job->ahead = ahead_of(step->turn);
  int o = 0;
  for (const BackwardSide& side : sides_of(call.inputs, call.gradients, call.spec)) {
    if (!is_there(side.in)) continue;
    job->operands[o] = backward_of(side);
    job->operands[o].first_partial = job->run_partials;
    if (job->operands[o].by_weight != nullptr) job->run_partials += side.in.shape[2] * side.norm.weight.shape[3];
    ++o;
  }
  auto* const memory = static_cast<double*>(call.gradients.workspace.data);
  job->runs = room.runs;
  if (room.of_all > 0) job->of_all = reinterpret_cast<NormOfAll*>(memory);
  if (room.run_partials > 0) job->partials = memory + room.of_all;
  if (room.head_sums == 0) return job;
  const TensorView& by_factors = call.gradients.by_query_factors;
  job->by_factors = static_cast<float*>(by_factors.data);
  job->by_factors_strides[0] = by_factors.strides[0];
  job->by_factors_strides[1] = by_factors.strides[1];
  job->head_sums = memory + room.of_all + room.runs * room.run_partials;
  return job;
}

PrepareJob only_prepared(const PrepareBackwardJob& job) {
  PrepareJob prepared = job.step;
  prepared.operand_count = 0;
  for (int o = 0; o < job.step.operand_count; ++o) {
    if (!only_prepares(job.step.operands[o])) continue;
    PrepareOperand& operand = prepared.operands[prepared.operand_count++];
    operand = job.step.operands[o];
    operand.in = job.operands[o].gradient;
    for (int i = 0; i < 3; ++i) operand.in_strides[i] = job.operands[o].strides[i];
  }
  return prepared;
}

PrepareBackwardJob without_only_prepared(const PrepareBackwardJob& job) {
  PrepareBackwardJob rest = job;
  rest.step.operand_count = 0;
  for (int o = 0; o < job.step.operand_count; ++o) {
    if (only_prepares(job.step.operands[o])) continue;
    rest.operands[rest.step.operand_count] = job.operands[o];
    rest.step.operands[rest.step.operand_count++] = job.step.operands[o];
  }
  return rest;
}

}  // namespace phasor::job
