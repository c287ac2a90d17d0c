// SPDX-License-Identifier: Apache-2.0
// Threads of a kernel: how many a launch has, and for bodies that a block works on together, the block.
#pragma once

#include <cstdint>

#include "math/portable.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda {

using std::int64_t;

/// Then another extent may be so large that their product wraps.
inline bool is_empty(const Extents& shape) { return shape[0] == 0 || shape[1] == 0 || shape[2] == 0 || shape[3] == 0; }

/// Blocks of `threads` for so many items, each thread going on by the size of the grid.
inline unsigned blocks_for(int64_t items, int64_t threads) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  const int64_t blocks = (items + threads - 1) / threads;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

#ifdef __CUDACC__
/// A block of threads: each(body) is body(thread, threads) by every one, and all are done before the next. PerThread<S> is a thread's own
/// S.
struct BlockThreads {
  template <class State>
  struct PerThread {
    State state;
    __device__ State& of(int /*thread*/) { return state; }
  };
  template <class Body>
  __device__ void each(const Body& body) {
    body(static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
    __syncthreads();
  }
};
#endif

}  // namespace phasor::cuda
