// SPDX-License-Identifier: Apache-2.0
// Phasor as peers.py calls it and its peers: the functions of peer_abi.h. A shared library of its own.
#include <map>
#include <utility>

#include "peer_abi.h"
#include "phasor/phasor.hpp"
#include "timing.cuh"

namespace phasor::bench {
namespace {

/// A spec is made ready once, as a model does it.
const Rotary& rotary_of(const PeerCall& call) {
  static std::map<std::pair<std::int64_t, double>, Rotary> made;
  const std::pair key(call.head_dim, call.base);
  auto found = made.find(key);
  if (found == made.end()) found = made.emplace(key, *Rotary::make({.head_dim = call.head_dim, .base = call.base})).first;
  return found->second;
}

TensorView heads(void* data, const PeerCall& call, std::int64_t count, std::int64_t stride) {
  return {data, DType::bf16, {1, call.tokens, count, call.head_dim}, {call.tokens * stride, stride, call.head_dim, 1}, kGpu};
}
TensorView q_of(const PeerCall& call) { return heads(call.q, call, call.q_heads, call.q_stride); }
TensorView k_of(const PeerCall& call) { return heads(call.k, call, call.k_heads, call.k_stride); }
TensorView v_of(const PeerCall& call) { return heads(call.v, call, call.k_heads, call.v_stride); }
Positions positions_of(const PeerCall& call) {
  Positions at = positions(call.positions, call.tokens);
  at.device = kGpu;
  return at;
}
template <class T>
IntegerList list_of(const T* data, std::int64_t size) {
  IntegerList list = integers(data, size);
  list.device = kGpu;
  return list;
}
CacheView on_gpu(CacheView view) {
  view.device = kGpu;
  return view;
}

int code_of(const Status& status) {
  if (status.ok()) return cudaSuccess;
  std::printf("%s\n", status.message().c_str());
  return cudaErrorInvalidValue;
}

PrepareInputs inputs_of(const PeerCall& call) { return {q_of(call), k_of(call), v_of(call), {}}; }

Status prepare(const PeerCall& call, const PrepareInputs& inputs, const PrepareOutputs& outputs, const PrepareSpec& spec) {
  return prepare_attention(inputs, {{&rotary_of(call), 1}, positions_of(call), {}}, outputs, spec, {.stream = call.stream});
}

HeadNorm norm_of(const PeerCall& call, const void* weight) {
  HeadNorm norm;
  norm.kind = HeadNorm::Kind::rms;
  norm.epsilon = call.epsilon;
  norm.weight = ConstTensorView(weight, DType::bf16, {1, 1, 1, call.head_dim}, {0, 0, 0, 1}, kGpu);
  return norm;
}

/// float32 between the norm and the rotation, as the kernels that it is compared with have it.
PrepareSpec normed(const PeerCall& call) {
  PrepareSpec spec;
  spec.q_norm = norm_of(call, call.q_weight);
  spec.k_norm = norm_of(call, call.k_weight);
  spec.between = PrepareSpec::Between::kept;
  return spec;
}

/// q in place, k and v to a row for each slot.
PrepareOutputs to_slots(const PeerCall& call) {
  const auto cache = [&](void* data) { return on_gpu(sglang_cache(data, Storage::bf16, call.tokens, call.k_heads, call.head_dim)); };
  PrepareOutputs outputs = {tensor_cache(q_of(call)), cache(call.k_cache), cache(call.v_cache), {}};
  outputs.places.kind = TokenPlaces::Kind::slots;
  outputs.places.slots = list_of(call.slots, call.tokens);
  return outputs;
}

CacheView scaled(CacheView view, float scale) {
  view.scales.kind = CacheScales::Kind::given;
  view.scales.use = CacheScales::Use::multiply;
  view.scales.value = scale;
  return on_gpu(view);
}

}  // namespace
}  // namespace phasor::bench

#define EXPORTED extern "C" __attribute__((visibility("default"))) int
using namespace phasor;
using namespace phasor::bench;

/// The ceiling: reads so many bytes at `q` and writes so many at `q_out`, both by their strides.
EXPORTED phasor_copy(const PeerCall* call) {
  launch_copy(static_cast<cudaStream_t>(call->stream), {call->q, static_cast<std::size_t>(call->q_stride)},
              {call->q_out, static_cast<std::size_t>(call->k_stride)});
  return cudaGetLastError();
}

EXPORTED phasor_rotate(const PeerCall* call) {
  return code_of(rotary_of(*call).apply(q_of(*call), k_of(*call), positions_of(*call), {.execution = {.stream = call->stream}}));
}

EXPORTED phasor_norm(const PeerCall* call) {
  PrepareInputs inputs = inputs_of(*call);
  inputs.v = {};
  return code_of(prepare(*call, inputs, {tensor_cache(q_of(*call)), tensor_cache(k_of(*call)), {}, {}}, normed(*call)));
}
EXPORTED phasor_store(const PeerCall* call) { return code_of(prepare(*call, inputs_of(*call), to_slots(*call), {})); }
EXPORTED phasor_norm_store(const PeerCall* call) { return code_of(prepare(*call, inputs_of(*call), to_slots(*call), normed(*call))); }

EXPORTED phasor_append(const PeerCall* call) {
  const std::int64_t pages = (call->tokens + call->page_size - 1) / call->page_size;
  const CachePair pair =
      flashinfer_cache(call->k_cache, Storage::f8_e4m3, {pages, call->page_size, call->k_heads, call->head_dim}, HeadOrder::nhd);
  const CacheView q = contiguous_cache(call->q_out, Storage::f8_e4m3, {1, call->tokens, call->q_heads, call->head_dim});
  PrepareOutputs outputs = {scaled(q, call->q_scale), scaled(pair.k, call->kv_scale), scaled(pair.v, call->kv_scale), {}};
  outputs.places.kind = TokenPlaces::Kind::pages;
  outputs.places.indptr = list_of(call->indptr, call->request_count + 1);
  outputs.places.indices = list_of(call->indices, pages);
  outputs.places.requests = list_of(call->requests, call->tokens);
  outputs.places.places = list_of(call->places, call->tokens);
  PrepareSpec spec;
  spec.between = PrepareSpec::Between::kept;
  return code_of(prepare(*call, inputs_of(*call), outputs, spec));
}
