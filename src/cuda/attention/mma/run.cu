// SPDX-License-Identifier: Apache-2.0
// Attention by mma.sync put on a stream.
#include "cuda/attention/mma/kernels.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::attention::mma {

Status run(const char* where, const AttentionWork& work, void* stream) {
  const Cut cut = cut_of(work);
  const Kernel kernel = cut.width == 64    ? kernel_64(work.q.dtype, cut.scores)
                        : cut.width == 128 ? kernel_128(work.q.dtype, cut.scores)
                                           : kernel_256(work.q.dtype, cut.scores);
  const auto blocks = static_cast<unsigned>(block_count(work, cut));
  AttentionWork parameter = work;
  return launch(where, {kernel.kernel, {blocks}, kThreads, kernel.shared_bytes, stream}, &parameter);
}

}  // namespace phasor::cuda::attention::mma
