// SPDX-License-Identifier: Apache-2.0
// How the kernels before and after a backward with a table are put on a stream.
#pragma once

#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/backward/run.hpp"
#include "cuda/attention/hopper/backward/table/body.cuh"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {

/// So many blocks of each head.
template <class T, class Shared>
Status launch_table(const char* where, void (*kernel)(TableWork), TableWork& w, int blocks, void* stream) {
  const auto* const function = reinterpret_cast<const void*>(kernel);
  const KeyTiles& t = w.tiles;
  const Grid grid = {static_cast<unsigned>(blocks), static_cast<unsigned>(t.heads), static_cast<unsigned>(t.batch)};
  return launch(where, {function, grid, T::kThreads, sizeof(Shared), stream}, &w);
}

inline TableWork table_work(const Backward& b, const BackwardParameter& p) {
  const Forward& f = b.forward;
  return {.tiles = p.tiles,
          .of = p.table,
          .q = input_rows(f.q),
          .table = input_rows(f.table),
          .dq = output_rows(b.q),
          .dq_sums = p.dq,
          .lse = const_cast<float*>(p.lse),
          .scale = p.scale,
          .scale_log2 = p.scale_log2,
          .table_scale = static_cast<float>(f.table_scale),
          .gradient = b.table,
          .rows = static_cast<int>(f.table.shape[1])};
}
__device__ __forceinline__ TableBlock table_block() { return {int(blockIdx.x), int(gridDim.x), int(blockIdx.y), int(blockIdx.z)}; }

/// body.operator()<TableBody> of the call.
template <class Body>
Status with_table_body(const Backward& b, const KeyTiles& t, const Body& body) {
  const bool half = b.forward.q.dtype == DType::f16;
  if (t.tile_queries == kBackwardWidths[0].queries) {
    return half ? body.template operator()<TableBody<__half, 0>>() : body.template operator()<TableBody<__nv_bfloat16, 0>>();
  }
  return half ? body.template operator()<TableBody<__half, 1>>() : body.template operator()<TableBody<__nv_bfloat16, 1>>();
}

}  // namespace phasor::cuda::hopper
