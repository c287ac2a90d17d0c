// SPDX-License-Identifier: Apache-2.0
// What follows a backward with a table, put on a stream.
#include "cuda/attention/hopper/backward/table/after.cuh"

#include "cuda/attention/hopper/backward/table/launch.cuh"
#include "cuda/attention/hopper/backward/table/run.hpp"

namespace phasor::cuda::hopper {
namespace {

template <class T>
__global__ void __launch_bounds__(T::kThreads, 2) after(const __grid_constant__ TableWork w) {
  extern __shared__ __align__(16) unsigned char memory[];
  TableEnd<T>(*reinterpret_cast<AfterShared<T>*>(memory), w).run(table_block());
}

constexpr unsigned kThreads = 256;
__global__ void __launch_bounds__(kThreads) add_up(const __grid_constant__ TableWork w) {
  add_parts(w, int(blockIdx.x * kThreads + threadIdx.x), int(blockIdx.y), int(gridDim.y));
}

}  // namespace

Status finish_table(const char* where, const Backward& b, const BackwardParameter& p, void* stream) {
  TableWork w = table_work(b, p);
  const Status s =
      with_table_body(b, p.tiles, [&]<class T>() { return launch_table<T, AfterShared<T>>(where, &after<T>, w, w.of.blocks, stream); });
  if (!s || b.table == nullptr) return s;
  const unsigned heads = p.table.clips.by_head ? static_cast<unsigned>(p.tiles.heads) : 1;
  const unsigned blocks = (static_cast<unsigned>(w.rows * w.q.width) + kThreads - 1) / kThreads;
  return launch(where, {reinterpret_cast<const void*>(&add_up), {blocks, heads}, kThreads, 0, stream}, &w);
}

}  // namespace phasor::cuda::hopper
