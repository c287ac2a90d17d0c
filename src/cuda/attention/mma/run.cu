// SPDX-License-Identifier: Apache-2.0
// Attention by mma.sync put on a stream.
#include "cuda/attention/mma/kernels.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::attention::mma {

namespace {

Kernel kernel_for(DType dtype, const Cut& cut) {
  if (cut.scores == ScoresIn::tabled) return cut.width == 64 ? tabled_kernel_64(dtype) : tabled_kernel_128(dtype);
  if (cut.scores == ScoresIn::shared_with_values) {
    return cut.width == 64 ? valued_kernel_64(dtype) : cut.width == 128 ? valued_kernel_128(dtype) : valued_kernel_256(dtype);
  }
  if (cut.scores == ScoresIn::counted) {
    return cut.width == 64 ? counted_kernel_64(dtype) : cut.width == 128 ? counted_kernel_128(dtype) : counted_kernel_256(dtype);
  }
  return cut.width == 64 ? kernel_64(dtype, cut.scores) : cut.width == 128 ? kernel_128(dtype, cut.scores) : kernel_256(dtype, cut.scores);
}

}  // namespace

Status run(const char* where, const AttentionWork& work, void* stream) {
  const Cut cut = cut_of(work);
  const Kernel kernel = kernel_for(work.q.dtype, cut);
  const std::size_t bytes = shared_bytes_of(work, kernel.shared_bytes, kernel.table_bytes);
  const auto blocks = static_cast<unsigned>(block_count(work, cut));
  AttentionWork parameter = work;
  return launch(where, {kernel.kernel, {blocks}, kThreads, bytes, stream}, &parameter);
}

}  // namespace phasor::cuda::attention::mma
