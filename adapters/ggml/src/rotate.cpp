// SPDX-License-Identifier: Apache-2.0
#include "rotate.hpp"

#include <array>
#include <cstdio>

namespace phasor_ggml {
namespace {

/// ggml's tensor as Phasor sees it, (B, T, H, D): its axes the other way round, strides in elements.
class View {
 public:
  explicit View(const ggml_tensor& tensor) {
    const auto size = static_cast<std::int64_t>(ggml_type_size(tensor.type));
    for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
      shape_[axis] = tensor.ne[3 - axis];
      strides_[axis] = static_cast<std::int64_t>(tensor.nb[3 - axis]) / size;
    }
    tensor_ = phasor_tensor_of(tensor.data, tensor.type == GGML_TYPE_F16 ? PHASOR_F16 : PHASOR_F32, shape_.data(), 4);
    tensor_.strides = strides_.data();
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  const phasor_tensor* get() const { return &tensor_; }

 private:
  std::array<std::int64_t, 4> shape_;
  std::array<std::int64_t, 4> strides_;
  phasor_tensor tensor_;
};

bool in_place(const ggml_tensor& node) { return node.data == node.src[0]->data && ggml_are_same_stride(&node, node.src[0]); }

/// As many threads as ggml was told, from the pool that OpenMP keeps.
void run_tasks(void* context, std::int64_t tasks, void (*task)(void*, std::int64_t), void* task_context) {
#ifdef _OPENMP
  const int threads = *static_cast<const int*>(context);
#pragma omp parallel for num_threads(threads) if (tasks > 1 && threads > 1) schedule(dynamic, 1)
#else
  static_cast<void>(context);
#endif
  for (std::int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

phasor_status fail(phasor_error& error, const char* message) {
  error.status = PHASOR_UNSUPPORTED;
  std::snprintf(error.message, sizeof error.message, "%s", message);
  return error.status;
}

}  // namespace

phasor_status rotate(const ggml_tensor& node, Plans& plans, int threads, phasor_error& error) {
  const std::optional<Rope> rope = read_rope(node);
  if (!rope) return fail(error, "a rope that this backend does not take (supports_op) was given to it");
  if (ggml_is_empty(&node)) return PHASOR_OK;
  const auto* factors = rope->has_factors ? static_cast<const float*>(node.src[2]->data) : nullptr;
  const std::shared_ptr<const Plan> plan = plans.get(*rope, factors);
  if (!plan->rotary) {
    error = plan->error;
    return error.status;
  }
  const View in(*node.src[0]);
  const View out(node);
  // ggml's four positions of a token lie axis after axis, and the plan takes the first ones.
  std::array<std::int64_t, 3> shape = {plan->axes, 1, node.ne[2]};
  const phasor_tensor positions = phasor_tensor_of(node.src[1]->data, PHASOR_I32, shape.data(), 3);
  phasor_rotation rotation = {};
  rotation.size = sizeof rotation;
  rotation.q = in.get();
  rotation.q_out = in_place(node) ? nullptr : out.get();
  rotation.positions.tensor = &positions;
  rotation.direction = node.op == GGML_OP_ROPE_BACK ? PHASOR_TRANSPOSE : PHASOR_FORWARD;
  rotation.execution.runner = {run_tasks, &threads};
  return phasor_rotary_apply(plan->rotary.get(), &rotation, &error);
}

}  // namespace phasor_ggml
