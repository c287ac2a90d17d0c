// SPDX-License-Identifier: Apache-2.0
// What is made before a backward with a table, put on a stream.
#include "cuda/attention/hopper/backward/table/before.cuh"

#include <algorithm>

#include "cuda/attention/hopper/backward/table/launch.cuh"
#include "cuda/attention/hopper/backward/table/run.hpp"

namespace phasor::cuda::hopper {
namespace {

template <class T>
__global__ void __launch_bounds__(T::kThreads) before(const __grid_constant__ TableWork w) {
  extern __shared__ __align__(16) unsigned char memory[];
  make_products<T>(*reinterpret_cast<BeforeShared<T>*>(memory), w, table_block());
}

}  // namespace

Status make_strips(const char* where, const Backward& b, const BackwardParameter& p, void* stream) {
  TableWork w = table_work(b, p);
  // Nothing is added up here, so there are more blocks than parts: three have room side by side.
  const int blocks = std::min(p.tiles.tiles(), 2 * w.of.blocks);
  return with_table_body(b, p.tiles, [&]<class T>() { return launch_table<T, BeforeShared<T>>(where, &before<T>, w, blocks, stream); });
}

}  // namespace phasor::cuda::hopper
