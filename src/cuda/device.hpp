// SPDX-License-Identifier: Apache-2.0
// The device of a call: made current while it is launched, and errors of CUDA as a Status.
#pragma once

#include <cuda_runtime_api.h>

#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda {

/// "where: CUDA says ...". An error that was pending before the call is not asked for: launches return their own.
Status status_of(const char* where, cudaError_t error);

/// Makes a device current until it is destroyed.
class CurrentDevice {
 public:
  CurrentDevice(const char* where, Device device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  const Status& status() const { return status_; }

 private:
  int before_ = -1;  // -1: it was current already
  Status status_;
};

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
/// Puts a kernel of one parameter on a stream.
Status launch(const char* where, const Launch& launch, void* parameter);

}  // namespace phasor::cuda
