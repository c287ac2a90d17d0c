// SPDX-License-Identifier: Apache-2.0
// Lists copied to a device once. Neither harms a capture that is under way, on whatever stream and thread: the calls that a capture forbids
// are made in relaxed mode, and the copy goes through a stream of its own.
#include "cuda/copies.hpp"

#include <string>

#include "cuda/device.hpp"

namespace phasor::cuda {
namespace {

/// While it lives, this thread may call what a capture forbids; nothing that it does then becomes a part of one.
class BesideCaptures {
 public:
  BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCaptures() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Waits for the copy alone.
cudaError_t fill(void* memory, const plan::DeviceCopies::Of& of) {
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  error = cudaMemcpyAsync(memory, of.list, of.bytes, cudaMemcpyHostToDevice, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  const cudaError_t ended = cudaStreamDestroy(stream);
  return error == cudaSuccess ? ended : error;
}

Status make_copy(const plan::DeviceCopies::Of& of, void*& memory) {
  const BesideCaptures beside;
  if (const cudaError_t error = cudaMalloc(&memory, of.bytes); error != cudaSuccess) return status_of("a copy of a spec's lists", error);
  const cudaError_t error = fill(memory, of);
  if (error != cudaSuccess) cudaFree(memory);
  return status_of("a copy of a spec's lists", error);
}

/// Waits for the kernels that may read it, as cudaFree does.
void release_copy(int device, void* memory) {
  const BesideCaptures beside;
  const CurrentDevice current("a copy of a spec's lists", {DeviceKind::cuda, device});
  if (current.status().ok()) cudaFree(memory);
}

}  // namespace

Result<const void*> copy_on_device(const char* where, const plan::DeviceCopies* copies, const plan::DeviceCopies::Of& of) {
  if (copies == nullptr) {
    return Status::unsupported(std::string(where) + ": lists that come with a call take more than " + std::to_string(kTableBytes) +
                               " bytes on CUDA");
  }
  return copies->get(of, {make_copy, release_copy});
}

}  // namespace phasor::cuda
