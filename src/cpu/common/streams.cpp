// SPDX-License-Identifier: Apache-2.0
// When to write past the caches: an output larger than they are would only push the input out, and each line would be read before it is
// written.
#include <unistd.h>

#include "cpu/rotary/kernels.hpp"

namespace phasor::cpu {
namespace {

/// The widest register.
constexpr std::int64_t kAlignment = 64;

/// Three quarters of the last level cache, where memcpy changes over too; 0 when unknown. Asking costs microseconds, so once.
std::int64_t cache_limit() {
#if defined(__aarch64__)
  return 0;  // Highway has no such stores there, and cores find out by themselves that whole lines are written
#elif defined(_SC_LEVEL3_CACHE_SIZE)
  static const std::int64_t limit = sysconf(_SC_LEVEL3_CACHE_SIZE) / 4 * 3;
  return limit;
#else
  return 0;
#endif
}

bool is_aligned(const job::RotateJob& job, const job::Operand& operand) {
  const std::int64_t size = bytes_of(job.dtype);
  const auto start = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(operand.out)) + job.offset * size;
  return ((start | operand.out_strides[0] | operand.out_strides[1] | operand.out_strides[2] | (job.pairs / job.segments * size)) &
          (kAlignment - 1)) == 0;
}

}  // namespace

bool streams(const job::RotateJob& job, std::int64_t limit) {
  std::int64_t bytes = 0;
  for (int i = 0; i < job.operand_count; ++i) {
    if (job.operands[i].in == job.operands[i].out || !is_aligned(job, job.operands[i])) return false;
    bytes += job.batch * job.tokens * job.operands[i].heads * job.head_dim * bytes_of(job.dtype);
  }
  return limit > 0 && bytes > limit;
}

bool streams(const job::RotateJob& job) { return streams(job, cache_limit()); }

}  // namespace phasor::cpu
