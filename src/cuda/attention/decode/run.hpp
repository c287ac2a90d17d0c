// SPDX-License-Identifier: Apache-2.0
// Decoding put on a stream.
#pragma once

#include "cuda/attention/decode/work.hpp"
#include "phasor/result.hpp"

namespace phasor::cuda::decode {

/// Numbers of float32 that the partial results of a call take.
inline int64_t partial_numbers(const DecodeWork& work) {
  return int64_t{work.batch} * work.key_heads * work.splits * rows_of(work) * (work.width + 2);
}
/// Whether a device has the shared memory that a block wants.
bool fits(const DecodeWork& work, Device device);
/// Neither allocates nor waits, may be captured.
Status run(const char* where, const DecodeWork& work, void* stream);

}  // namespace phasor::cuda::decode
