// SPDX-License-Identifier: Apache-2.0
// Which backend serves which device.
#include <atomic>

#include "backend/backend.hpp"
#include "cpu/attention/host/run.hpp"
#include "cpu/prepare/run.hpp"
#include "cpu/run.hpp"
#include "cuda/attention/run.hpp"
#include "cuda/prepare/run.hpp"
#include "cuda/run.hpp"
#include "job/check.hpp"
#include "spec/format.hpp"

namespace phasor::backend {
namespace {

constexpr Backend kCpu = {
    .name = "cpu",
    .rotate = cpu::run_rotate,
    .rotate_specs = cpu::run_rotate_specs,
    .rerotate = cpu::run_rerotate,
    .rows = cpu::run_rows,
    .add = cpu::run_add,
    .lookup = cpu::run_lookup,
    .scatter = cpu::run_scatter,
    .phase_gradient = cpu::run_phase_gradient,
    .frequency_gradient = cpu::run_frequency_gradient,
    .position_gradient = cpu::run_position_gradient,
    .bias_diagonal = cpu::run_bias_diagonal,
    .bias_gradient = cpu::run_bias_gradient,
    .bias_fill = cpu::run_bias_fill,
    .prepare = cpu::run_prepare,
    .prepare_backward = cpu::run_prepare_backward,
    .build_positions = cpu::run_build_positions,
    .temperature = cpu::run_temperature,
    .attention_workspace = cpu::attention_workspace,
    .attention = cpu::run_attention,
    .attention_backward_workspace = cpu::attention_backward_workspace,
    .attention_backward = cpu::run_attention_backward,
    .attention_weights_workspace = cpu::attention_weights_workspace,
    .attention_weights = cpu::run_attention_weights,
    .cached_attention_workspace = cpu::cached_attention_workspace,
    .cached_attention = cpu::run_cached_attention,
    .merge = cpu::run_merge,
    .explain_attention = cpu::explain_attention,
};

constexpr Backend kCuda = {
    .name = "cuda",
    .rotate = cuda::run_rotate,
    .rotate_specs = cuda::run_rotate_specs,
    .rerotate = cuda::run_rerotate,
    .rows = cuda::run_rows,
    .add = cuda::run_add,
    .lookup = cuda::run_lookup,
    .scatter = cuda::run_scatter,
    .phase_gradient = cuda::run_phase_gradient,
    .frequency_gradient = cuda::run_frequency_gradient,
    .position_gradient = cuda::run_position_gradient,
    .bias_diagonal = cuda::run_bias_diagonal,
    .bias_gradient = cuda::run_bias_gradient,
    .bias_fill = cuda::run_bias_fill,
    .prepare = cuda::run_prepare,
    .prepare_backward = cuda::run_prepare_backward,
    .build_positions = cuda::run_build_positions,
    .temperature = cuda::run_temperature,
    .attention_workspace = cuda::attention_workspace,
    .attention = cuda::run_attention,
    .attention_backward_workspace = cuda::attention_backward_workspace,
    .attention_backward = cuda::run_attention_backward,
    .attention_weights_workspace = cuda::attention_weights_workspace,
    .attention_weights = cuda::run_attention_weights,
    .cached_attention_workspace = cuda::cached_attention_workspace,
    .cached_attention = cuda::run_cached_attention,
    .merge = cuda::run_merge,
    .explain_attention = cuda::explain_attention,
};

/// By DeviceKind.
std::atomic<const Backend*> backends[] = {&kCpu, nullptr};

}  // namespace

Result<const Backend*> choose(Device device) {
  const Backend* const chosen = backends[static_cast<int>(device.kind)].load(std::memory_order_acquire);
  if (chosen != nullptr) return chosen;
  if (device.kind == DeviceKind::cuda && cuda::is_built()) return &kCuda;
  return Status::unsupported(
      spec::format("memory on {}: this build has no backend for it, wanted memory on the CPU", job::name_of(device)));
}

Status not_there(const Backend& backend) {
  return Status::unsupported(spec::format("this operation is not on {} yet, wanted memory on the CPU", backend.name));
}

const Backend* replace(DeviceKind kind, const Backend* by) { return backends[static_cast<int>(kind)].exchange(by); }

}  // namespace phasor::backend
