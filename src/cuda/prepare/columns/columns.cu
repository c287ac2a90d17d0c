// SPDX-License-Identifier: Apache-2.0
// The kernel of values that lie by channels, of both dtypes.
#include "cuda/prepare/columns/kernels.cuh"
#include "cuda/prepare/fetch.cuh"

namespace phasor::cuda {
namespace {

struct ColumnBlock : SquadBlock {
  __device__ static void fetch(Words* to, const std::byte* from) { fetch_words(to, from); }
  __device__ static void arrive() { wait_for_words(); }
};

template <DType dtype>
__global__ void __launch_bounds__(kColumnThreads) put_columns_of_tokens(const __grid_constant__ ColumnWork work) {
  __shared__ ColumnShared shared;
  let_later_begin();
  const SquadPlace place = {static_cast<int>(blockIdx.z), static_cast<int>(blockIdx.x) * kColumnTokens, static_cast<int>(blockIdx.y)};
  ColumnBlock block;
  if (!work.follows) wait_for_earlier();
  put_columns<dtype>(work, place, shared, block);
  if (work.follows) wait_for_earlier();  // who waits for this launch waits for both
}

}  // namespace

const void* column_kernel(DType dtype) {
  return dtype == DType::f16 ? reinterpret_cast<const void*>(&put_columns_of_tokens<DType::f16>)
                             : reinterpret_cast<const void*>(&put_columns_of_tokens<DType::bf16>);
}

}  // namespace phasor::cuda
