// SPDX-License-Identifier: Apache-2.0
// The device of a call: made current while it is launched, and errors of CUDA as a Status.
#pragma once

#include <cuda_runtime_api.h>

#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda {

/// "where: CUDA says ...".
Status status_of(const char* where, cudaError_t error);

/// Makes a device current until it is destroyed. Everything of a call that CUDA may refuse happens meanwhile: an error that it leaves
/// pending, besides returning it, is taken back at the end, and one that was pending before is not.
class CurrentDevice {
 public:
  CurrentDevice(const char* where, Device device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  const Status& status() const { return status_; }

 private:
  cudaError_t pending_;  // before the call
  int before_ = -1;      // -1: it was current already
  Status status_;
};

/// Whether the current device's float64 is at most so much slower than its float32 that level 1 is faster with it: those of data centres.
bool has_fast_float64();

struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};
struct Launch {
  const void* kernel;
  Grid blocks;
  unsigned threads;
  std::size_t shared_bytes;
  void* stream;
};
/// Puts a kernel of one parameter on a stream, allowed as much shared memory as it asks for here: whoever launches this way sets no limit
/// of a kernel. Of more than 96 KiB a kernel asks for the same every time.
Status launch(const char* where, const Launch& launch, void* parameter);
/// The same, of a kernel that may begin before the one before it ends (dependent.cuh); it needs no more shared memory than others have.
Status launch_early(const char* where, const Launch& launch, void* parameter);

}  // namespace phasor::cuda
