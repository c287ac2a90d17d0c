// SPDX-License-Identifier: Apache-2.0
// The backward by mma.sync put on a stream.
#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/mma/backward/call.hpp"
#include "cuda/attention/mma/backward/kernels.hpp"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::attention::mma::backward {

Status run(const char* where, const AttentionWork& work, void* stream) {
  const bool narrow = width_of(work) == 64;
  const DType dtype = work.q.dtype;
  const Kernel kernel =
      has_values(work) ? (narrow ? valued_kernel_64(dtype) : valued_kernel_128(dtype)) : (narrow ? kernel_64(dtype) : kernel_128(dtype));
  const auto blocks = static_cast<unsigned>(backward_blocks(work));
  if (blocks == 0) return {};
  AttentionWork parameter = work;
  return launch(where, {kernel.kernel, {blocks}, kThreads, kernel.shared_bytes, stream}, &parameter);
}

}  // namespace phasor::cuda::attention::mma::backward
