// SPDX-License-Identifier: Apache-2.0
// The kernels of each storage, compiled in a file of their own.
#pragma once

#include "cuda/attention/decode/work.hpp"

namespace phasor::cuda::decode {

/// A kernel and the bytes that its blocks share.
struct Kernel {
  const void* kernel = nullptr;
  int shared_bytes = 0;
  int most_shared_bytes = 0;  // of any call: the kernel is allowed as much each time, so that threads do not take it from each other
  int rows = 0;               // of a block
};
Kernel kernel_bf16(const DecodeWork& work);
Kernel kernel_f16(const DecodeWork& work);
Kernel kernel_e4m3(const DecodeWork& work);
Kernel kernel_e5m2(const DecodeWork& work);

}  // namespace phasor::cuda::decode
