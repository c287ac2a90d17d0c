// SPDX-License-Identifier: Apache-2.0
// Devices and launches.
#include "cuda/device.hpp"

#include <algorithm>
#include <atomic>
#include <string>

namespace phasor::cuda {
namespace {

/// Which driver this build needs, where the error is that there is no such driver; empty for other errors.
std::string driver_needed(cudaError_t error) {
  if (error != cudaErrorInsufficientDriver && error != cudaErrorNoDevice && error != cudaErrorSystemDriverMismatch) return "";
  constexpr int kMajor = CUDART_VERSION / 1000;
  constexpr int kDriver = kMajor >= 13 ? 580 : 525;  // the first that runs programs of this major version
  int here = 0;                                      // of CUDA, as 1000 major + 10 minor; 0: there is no driver
  if (cudaDriverGetVersion(&here) != cudaSuccess) here = 0;
  const std::string found =
      here == 0 ? "there is none" : "here is that of CUDA " + std::to_string(here / 1000) + "." + std::to_string(here % 1000 / 10);
  return "; wanted a GPU and the NVIDIA driver of CUDA " + std::to_string(kMajor) + " (" + std::to_string(kDriver) + " or newer), " + found;
}

}  // namespace

Status status_of(const char* where, cudaError_t error) {
  if (error == cudaSuccess) return {};
  if (error == cudaErrorMemoryAllocation) return Status::out_of_memory();
  return Status::unsupported(std::string(where) + ": CUDA says " + cudaGetErrorName(error) + ": " + cudaGetErrorString(error) +
                             driver_needed(error));
}

// CUDA keeps the last error of each host thread until somebody asks for it. What a call of ours was refused with is in its Status; left
// pending it would be taken for an error of the caller's next launch, by whoever checks launches with cudaGetLastError. So it is consumed,
// unless one was pending already: CUDA keeps one only, has put ours in its place and has no way to put it back, and that there is an error
// is then still true. A sticky error (an illegal address of an earlier kernel: every call returns it from then on) is not lost by asking:
// the context is broken, and cudaGetLastError goes on to return it, so that whoever asks next hears of it as well.
CurrentDevice::CurrentDevice(const char* where, Device device) : pending_(cudaPeekAtLastError()) {
  int current = 0;
  (void)(status_ = status_of(where, cudaGetDevice(&current)));  // nvcc takes an assignment for a value that is ignored
  if (!status_ || current == device.index) return;
  (void)(status_ = status_of(where, cudaSetDevice(device.index)));
  if (status_.ok()) before_ = current;
}
CurrentDevice::~CurrentDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
  if (pending_ == cudaSuccess) (void)cudaGetLastError();
}

namespace {

/// What is asked of a device once: asking costs microseconds.
class KnownOfDevices {
 public:
  /// ask(device, yes) says whether it could be found out.
  template <class Ask>
  bool of_current(const Ask& ask) {
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= kDevices) return false;
    if (const signed char is = known_[device].load(std::memory_order_relaxed); is != 0) return is > 0;
    bool yes = false;
    if (!ask(device, yes)) return false;
    known_[device].store(yes ? 1 : -1, std::memory_order_relaxed);
    return yes;
  }

 private:
  static constexpr int kDevices = 64;
  std::atomic<signed char> known_[kDevices];  // 0: not asked yet, 1: yes, -1: no
};

/// Whether the code that the current device runs of a kernel has wait_for_earlier() in it: code of sm_90 and newer, not what a driver makes
/// of older PTX. Kernels are built for the same devices, so one speaks for all.
bool waits_for_earlier(const void* kernel) {
  constexpr int kLeast = 90;
  static KnownOfDevices known;
  return known.of_current([&](int /*device*/, bool& waits) {
    cudaFuncAttributes attributes = {};
    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) return false;
    waits = attributes.ptxVersion >= kLeast;
    return true;
  });
}

}  // namespace

bool has_fast_float64() {
  constexpr int kMostTimes = 4;
  static KnownOfDevices known;
  return known.of_current([](int device, bool& fast) {
    int times = 0;
    if (cudaDeviceGetAttribute(&times, cudaDevAttrSingleToDoublePrecisionPerfRatio, device) != cudaSuccess) return false;
    fast = times <= kMostTimes;
    return true;
  });
}

Status launch(const char* where, const Launch& launch, void* parameter) {
  constexpr std::size_t kWithoutAsking = 48 * 1024;
  // One number, so that threads that launch a kernel with different needs do not take it from each other. A kernel that needs more than
  // that always needs the same.
  constexpr std::size_t kUsual = 96 * 1024;
  if (launch.shared_bytes > kWithoutAsking) {
    const int bytes = static_cast<int>(std::max(launch.shared_bytes, kUsual));
    const cudaError_t error = cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return status_of(where, error);
  }
  void* parameters[] = {parameter};
  return status_of(where, cudaLaunchKernel(launch.kernel, dim3(launch.blocks.x, launch.blocks.y, launch.blocks.z), dim3(launch.threads),
                                           parameters, launch.shared_bytes, static_cast<cudaStream_t>(launch.stream)));
}

Status launch_early(const char* where, const Launch& launch, void* parameter) {
  if (!waits_for_earlier(launch.kernel)) return cuda::launch(where, launch, parameter);
  void* parameters[] = {parameter};
  cudaLaunchAttribute overlaps = {};
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(launch.blocks.x, launch.blocks.y, launch.blocks.z);
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = static_cast<cudaStream_t>(launch.stream);
  config.attrs = &overlaps;
  config.numAttrs = 1;
  return status_of(where, cudaLaunchKernelExC(&config, launch.kernel, parameters));
}

}  // namespace phasor::cuda
