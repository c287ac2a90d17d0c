// SPDX-License-Identifier: Apache-2.0
// Phasor's attention on Hopper as bench/gpu/attention_bench.py calls it: C functions of a shared library.
#include <cstdint>
#include <cstdio>

#include "cuda/attention/bench_call.hpp"
#include "cuda/attention/hopper/backward/run.hpp"
#include "cuda/attention/hopper/run.hpp"

namespace {

phasor::TensorView view_of(const BenchCall& c, void* data, int64_t heads, int64_t width) {
  using namespace phasor;
  return {
      data, DType::bf16, {c.batch, c.tokens, heads, width}, {heads * c.tokens * width, width, c.tokens * width, 1}, {DeviceKind::cuda, 0}};
}
phasor::TensorView view_of(const BenchCall& c, void* data, int64_t heads) { return view_of(c, data, heads, c.width); }
phasor::TensorView rows_of(const BenchCall& c, void* table, int64_t width) {
  using namespace phasor;
  const int64_t head = c.table_rows * width;
  return {table, DType::bf16, {1, c.table_rows, c.heads, width}, {c.heads * head, width, head, 1}, {DeviceKind::cuda, 0}};
}
phasor::ConstTensorView shift_of(const BenchCall& c, const float* data) {
  using namespace phasor;
  if (data == nullptr) return {};
  return {data, DType::f32, {1, 1, c.heads, c.width}, {c.heads * c.width, c.heads * c.width, c.width, 1}, {DeviceKind::cuda, 0}};
}
phasor::cuda::hopper::Forward forward_of(const BenchCall& c) {
  using namespace phasor;
  phasor::cuda::hopper::Forward f;
  f.q = view_of(c, c.q, c.heads), f.k = view_of(c, c.k, c.key_heads);
  f.v = view_of(c, c.v, c.key_heads), f.out = view_of(c, c.out, c.heads);
  f.lse = c.lse;
  f.lse_strides = {c.heads * c.tokens, 1, c.tokens};
  f.scale = c.scale;
  f.causal = c.causal != 0;
  f.diagonal = c.diagonal;
  f.diagonal_stride = c.distances;
  f.first_distance = c.first_distance;
  f.distances = c.distances;
  f.skip = c.skip != 0;
  f.table_left = f.table_right = c.table_rows / 2;
  if (c.value_table != nullptr) f.value_table = rows_of(c, c.value_table, c.width);
  if (c.key_table != nullptr) {
    const auto side = [&](void* table) {
      phasor::cuda::hopper::ByDistance of;
      of.table = rows_of(c, table, c.width);
      of.map.left = of.map.right = of.far_left = of.far_right = c.table_rows / 2;
      of.scale = c.scale;
      return of;
    };
    f.of_queries = side(c.table), f.of_keys = side(c.key_table);
  } else if (c.table != nullptr) {
    f.table = rows_of(c, c.table, c.features == nullptr ? c.width : c.features_width);
    f.table_scale = c.scale;
    f.table_shift = shift_of(c, c.table_shift);
    f.content_shift = shift_of(c, c.content_shift);
  }
  if (c.features != nullptr) {
    f.features = view_of(c, c.features, c.heads, c.features_width);
    f.table_left = c.table_rows - 1, f.table_right = 0;
    f.zero_outside = true;
  }
  return f;
}
phasor::cuda::hopper::Backward backward_of(const BenchCall& c) {
  phasor::cuda::hopper::Backward b;
  b.forward = forward_of(c);
  b.out = b.forward.out, b.out_gradient = view_of(c, c.out_gradient, c.heads);
  b.lse = c.lse, b.lse_strides = b.forward.lse_strides;
  b.q = view_of(c, c.dq, c.heads), b.k = view_of(c, c.dk, c.key_heads), b.v = view_of(c, c.dv, c.key_heads);
  b.diagonal = c.distances_gradient;
  b.table = c.table_gradient;
  b.deterministic = c.deterministic != 0;
  return b;
}

}  // namespace

extern "C" int64_t hopper_workspace_bytes(const BenchCall* call) { return phasor::cuda::hopper::workspace_bytes(forward_of(*call)); }

/// 0, or 1 where it is refused, which is said.
extern "C" int hopper_forward(const BenchCall* call) {
  const phasor::cuda::hopper::Forward forward = forward_of(*call);
  if (!phasor::cuda::hopper::takes(forward, 9)) return std::fputs("hopper_forward: not taken\n", stderr), 1;
  const phasor::Status s = phasor::cuda::hopper::run("hopper_forward", forward, call->workspace, call->stream);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}

extern "C" int64_t hopper_backward_workspace_bytes(const BenchCall* call) {
  return phasor::cuda::hopper::workspace_bytes(backward_of(*call));
}
extern "C" int hopper_backward(const BenchCall* call) {
  const phasor::cuda::hopper::Backward backward = backward_of(*call);
  if (!phasor::cuda::hopper::takes(backward, 9)) return std::fputs("hopper_backward: not taken\n", stderr), 1;
  const phasor::Status s = phasor::cuda::hopper::run("hopper_backward", backward, call->workspace, call->stream);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
