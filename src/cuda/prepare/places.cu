// SPDX-License-Identifier: Apache-2.0
// A kernel finds the first token without a place, one thread tells what is wrong with it, and the host waits for its words.
#include "cuda/prepare/places.hpp"

#include <string>

#include "cuda/device.hpp"
#include "cuda/threads.hpp"
#include "cuda/tuning.hpp"
#include "job/prepare/places.hpp"

namespace phasor::cuda {
namespace {

/// Memory of the device.
struct Found {
  unsigned long long first;  // the least index of a token without a place
  job::PlaceFault fault;
};
constexpr unsigned long long kNone = ~0ULL;

struct PlacesParameter {
  job::PlaceSource places;
  std::int64_t batch;
  std::int64_t tokens;
  Found* found;
};

__global__ void __launch_bounds__(kItemThreads) find_faults(const __grid_constant__ PlacesParameter parameter) {
  const std::int64_t tokens = parameter.tokens;
  const std::int64_t step = std::int64_t{gridDim.x} * kItemThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kItemThreads + threadIdx.x; i < parameter.batch * tokens; i += step) {
    if (job::fault_of(parameter.places, i / tokens, i % tokens, tokens).kind == job::PlaceFault::Kind::none) continue;
    atomicMin(&parameter.found->first, static_cast<unsigned long long>(i));
  }
}

__global__ void tell_fault(const __grid_constant__ PlacesParameter parameter) {
  Found& found = *parameter.found;
  found.fault = {};
  if (found.first == kNone) return;
  const auto i = static_cast<std::int64_t>(found.first);
  found.fault = job::fault_of(parameter.places, i / parameter.tokens, i % parameter.tokens, parameter.tokens);
}

Status check_not_captured(const char* where, cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (const cudaError_t error = cudaStreamIsCapturing(stream, &capture); error != cudaSuccess) return status_of(where, error);
  if (capture == cudaStreamCaptureStatusNone) return {};
  return Status::unsupported(std::string(where) +
                             ": places are to be checked on a stream that is being captured, where nothing can wait; wanted them trusted");
}

Status find(const char* where, PlacesParameter parameter, void* stream, job::PlaceFault& fault) {
  const auto on = static_cast<cudaStream_t>(stream);
  const unsigned blocks = blocks_for(parameter.batch * parameter.tokens, kItemThreads);
  cudaError_t error = cudaMemsetAsync(parameter.found, 0xff, sizeof(Found), on);  // padding, too: all of it is copied
  if (error != cudaSuccess) return status_of(where, error);
  if (Status s = launch(where, {reinterpret_cast<const void*>(&find_faults), {blocks}, kItemThreads, 0, stream}, &parameter); !s) return s;
  if (Status s = launch(where, {reinterpret_cast<const void*>(&tell_fault), {1}, 1, 0, stream}, &parameter); !s) return s;
  error = cudaMemcpyAsync(&fault, &parameter.found->fault, sizeof fault, cudaMemcpyDeviceToHost, on);
  if (error == cudaSuccess) error = cudaStreamSynchronize(on);
  return status_of(where, error);
}

}  // namespace

Status check_places(const char* where, const job::PrepareJob& job, const Execution& execution) {
  const auto stream = static_cast<cudaStream_t>(execution.stream);
  if (Status s = check_not_captured(where, stream); !s) return s;
  void* memory = nullptr;
  if (const cudaError_t error = cudaMallocAsync(&memory, sizeof(Found), stream); error != cudaSuccess) return status_of(where, error);
  job::PlaceFault fault;
  const Status asked = find(where, {job.places, job.turn.batch, job.turn.tokens, static_cast<Found*>(memory)}, execution.stream, fault);
  const cudaError_t freed = cudaFreeAsync(memory, stream);
  if (!asked.ok()) return asked;
  return freed == cudaSuccess ? job::refused(fault, job.places) : status_of(where, freed);
}

}  // namespace phasor::cuda
