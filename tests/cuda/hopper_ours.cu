// SPDX-License-Identifier: Apache-2.0
// Phasor's attention on Hopper as bench/gpu/attention_bench.py calls it: C functions of a shared library.
#include <cstdint>
#include <cstdio>

#include "cuda/attention/hopper/run.hpp"

/// (B, H, T, D) in memory, bf16, contiguous; pointers are of the device.
struct HopperCall {
  void* q;
  void* k;
  void* v;
  void* out;
  float* lse;
  int64_t batch;
  int64_t heads;
  int64_t key_heads;
  int64_t tokens;
  int64_t width;
  int64_t causal;
  double scale;
  const float* diagonal;  // (heads, distances); null: none
  int64_t first_distance;
  int64_t distances;
  void* workspace;
  void* stream;
};

namespace {

phasor::cuda::hopper::Forward forward_of(const HopperCall& c) {
  using namespace phasor;
  const auto view = [&](void* data, int64_t heads) {
    return TensorView{data,
                      DType::bf16,
                      {c.batch, c.tokens, heads, c.width},
                      {heads * c.tokens * c.width, c.width, c.tokens * c.width, 1},
                      {DeviceKind::cuda, 0}};
  };
  cuda::hopper::Forward f;
  f.q = view(c.q, c.heads), f.k = view(c.k, c.key_heads), f.v = view(c.v, c.key_heads), f.out = view(c.out, c.heads);
  f.lse = c.lse;
  f.lse_strides = {c.heads * c.tokens, 1, c.tokens};
  f.scale = c.scale;
  f.causal = c.causal != 0;
  f.diagonal = c.diagonal;
  f.diagonal_stride = c.distances;
  f.first_distance = c.first_distance;
  f.distances = c.distances;
  return f;
}

}  // namespace

extern "C" int64_t hopper_workspace_bytes(const HopperCall* call) { return phasor::cuda::hopper::workspace_bytes(forward_of(*call)); }

/// 0, or 1 where it is refused, which is said.
extern "C" int hopper_forward(const HopperCall* call) {
  const phasor::cuda::hopper::Forward forward = forward_of(*call);
  if (!phasor::cuda::hopper::takes(forward, 9)) return std::fputs("hopper_forward: not taken\n", stderr), 1;
  const phasor::Status s = phasor::cuda::hopper::run("hopper_forward", forward, call->workspace, call->stream);
  if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.ok() ? 0 : 1;
}
