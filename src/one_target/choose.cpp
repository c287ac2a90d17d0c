// SPDX-License-Identifier: Apache-2.0
// In the place of backend/choose.cpp where size counts: the CPU alone, and of its operations those that a page asks for. Gradients, the
// step before attention, attention over caches and attention in float64 are not there, and whoever calls them hears so.
#include "backend/backend.hpp"
#include "cpu/attention/host/run.hpp"
#include "cpu/run.hpp"
#include "job/check.hpp"
#include "spec/format.hpp"

namespace phasor::backend {
namespace {

Status check_arithmetic(const job::AttentionJob& asked) {
  if (asked.q.dtype != DType::f64) return {};
  return Status::unsupported("attention: float64 is not in this build, which is a page's, wanted f32, f16 or bf16");
}
Status run_attention(job::AttentionJob& asked, const Workspace& workspace, const Execution& execution) {
  if (Status status = check_arithmetic(asked); !status) return status;
  return cpu::run_attention(asked, workspace, execution);
}
Status run_attention_weights(job::AttentionWeightsJob& asked, const Workspace& workspace, const Execution& execution) {
  if (Status status = check_arithmetic(asked.forward); !status) return status;
  return cpu::run_attention_weights(asked, workspace, execution);
}

constexpr Backend kCpu = {
    .name = "cpu",
    .rotate = cpu::run_rotate,
    .rerotate = cpu::run_rerotate,
    .rows = cpu::run_rows,
    .add = cpu::run_add,
    .bias_fill = cpu::run_bias_fill,
    .build_positions = cpu::run_build_positions,
    .temperature = cpu::run_temperature,
    .attention_workspace = cpu::attention_workspace,
    .attention = run_attention,
    .attention_weights_workspace = cpu::attention_weights_workspace,
    .attention_weights = run_attention_weights,
    .explain_attention = cpu::explain_attention,
};

}  // namespace

Result<const Backend*> choose(Device device) {
  if (device.kind == DeviceKind::cpu) return &kCpu;
  return Status::unsupported(
      spec::format("memory on {}: this build has no backend for it, wanted memory on the CPU", job::name_of(device)));
}

Status not_there(const Backend& /*backend*/) { return Status::unsupported("this operation is not in this build, which is a page's"); }

}  // namespace phasor::backend
