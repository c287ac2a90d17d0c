// SPDX-License-Identifier: Apache-2.0
// Devices and launches.
#include "cuda/device.hpp"

#include <string>

namespace phasor::cuda {

Status status_of(const char* where, cudaError_t error) {
  if (error == cudaSuccess) return {};
  if (error == cudaErrorMemoryAllocation) return Status::out_of_memory();
  return Status::unsupported(std::string(where) + ": CUDA says " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error));
}

CurrentDevice::CurrentDevice(const char* where, Device device) {
  int current = 0;
  (void)(status_ = status_of(where, cudaGetDevice(&current)));  // nvcc takes an assignment for a value that is ignored
  if (!status_ || current == device.index) return;
  (void)(status_ = status_of(where, cudaSetDevice(device.index)));
  if (status_.ok()) before_ = current;
}
CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
}

Status launch(const char* where, const Launch& launch, void* parameter) {
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  if (launch.shared_bytes > kWithoutAsking) {
    const cudaError_t error =
        cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(launch.shared_bytes));
    if (error != cudaSuccess) return status_of(where, error);
  }
  void* parameters[] = {parameter};
  return status_of(where, cudaLaunchKernel(launch.kernel, dim3(launch.blocks.x, launch.blocks.y, launch.blocks.z), dim3(launch.threads),
                                           parameters, launch.shared_bytes, static_cast<cudaStream_t>(launch.stream)));
}

}  // namespace phasor::cuda
