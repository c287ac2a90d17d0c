// SPDX-License-Identifier: Apache-2.0
// A job as a kernel finds it in its parameter: copied to shared memory with pointers to its tables.
#pragma once

#include "cuda/tables.hpp"

namespace phasor::cuda {

/// Every thread of the block calls it, once. Generic pointers to the parameter: reading them costs what global memory costs, while places
/// of a parameter that differ from thread to thread are slow.
template <class Job>
__device__ const Job& job_of(const Parameter<Job>& parameter) {
  __shared__ __align__(16) unsigned char bytes[sizeof(Job)];
  Job& job = *reinterpret_cast<Job*>(bytes);
  if (threadIdx.x == 0) {
    job = parameter.job;
    each_table(job, FindTables{parameter.tables.data()});
  }
  __syncthreads();
  return job;
}

}  // namespace phasor::cuda
