// SPDX-License-Identifier: Apache-2.0
// The backward by mma.sync put on a stream.
#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/mma/backward/call.hpp"
#include "cuda/attention/mma/backward/kernels.hpp"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::attention::mma::backward {

namespace {

Kernel kernel_for(const AttentionWork& work) {
  const bool narrow = width_of(work) == 64;
  const DType dtype = work.q.dtype;
  if (has_cope(work)) {
    const Kernel kernel = narrow ? counted_kernel_64(dtype) : counted_kernel_128(dtype);
    return {kernel.kernel, static_cast<std::size_t>(cope::backward_bytes(width_of(work), work.terms[0].cope.table.shape[1]))};
  }
  if (has_values(work)) return narrow ? valued_kernel_64(dtype) : valued_kernel_128(dtype);
  if (has_own_features(work)) return narrow ? featured_kernel_64(dtype) : featured_kernel_128(dtype);
  return narrow ? kernel_64(dtype) : kernel_128(dtype);
}

}  // namespace

Status run(const char* where, const AttentionWork& work, void* stream) {
  const Kernel kernel = kernel_for(work);
  const auto blocks = static_cast<unsigned>(backward_blocks(work));
  if (blocks == 0) return {};
  AttentionWork parameter = work;
  const unsigned threads = has_cope(work) ? kThreads : kBackwardThreads;
  return launch(where, {kernel.kernel, {blocks}, threads, kernel.shared_bytes, stream}, &parameter);
}

}  // namespace phasor::cuda::attention::mma::backward
