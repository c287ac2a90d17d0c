// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a rotation.
#include "cuda/rotary/work.hpp"

#include <algorithm>

namespace phasor::cuda {
namespace {

constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;

bool is_in_place(const job::Operand& operand) { return operand.in == operand.out; }

/// A stride counts where there is more than one step of it.
bool is_aligned(const std::byte* data, const int64_t strides[3], const int64_t extents[3]) {
  if (reinterpret_cast<std::uintptr_t>(data) % kVectorBytes != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (extents[axis] > 1 && strides[axis] % kVectorBytes != 0) return false;
  }
  return true;
}

}  // namespace

RotateWork work_of(const job::RotateJob& job) {
  RotateWork work{.job = job};
  const job::RowSource& rows = job.rows;
  work.segment_pairs = job.segments == 0 ? job.pairs : job.pairs / job.segments;
  work.by_head = (rows.step_head_stride | rows.tables.cos_head_stride | rows.tables.sin_head_stride) != 0;
  work.differ = lanes_differ({&rows});
  for (int o = 0; o < job.operand_count; ++o) work.whole_heads |= job.read != job.write && is_in_place(job.operands[o]);
  work.held_pairs = work.whole_heads ? work.segment_pairs : std::min(work.segment_pairs, kRowPairs);
  return work;
}

bool takes_vectors(const RotateWork& work) {
  const job::RotateJob& job = work.job;
  const int64_t size = bytes_of(job.dtype);
  if (job.read != job.write || job.offset * size % kVectorBytes != 0 || work.segment_pairs * size % kVectorBytes != 0) return false;
  for (int o = 0; o < job.operand_count; ++o) {
    const job::Operand& operand = job.operands[o];
    const bool paged = job.slots != nullptr;  // then any page and any place of it may be a token's
    const int64_t extents[3] = {paged ? 2 : job.batch, paged ? 2 : job.tokens, operand.heads};
    if (!is_aligned(operand.in, operand.in_strides, extents) || !is_aligned(operand.out, operand.out_strides, extents)) return false;
  }
  return true;
}

LaunchShape launch_shape(const RotateWork& work, bool vectors) {
  const job::RotateJob& job = work.job;
  const int64_t size = bytes_of(job.dtype);
  const int64_t width = vectors ? kVectorBytes / size : 1;
  const int64_t items = (job.operands[0].heads + job.operands[1].heads) * (work.held_pairs / width);
  const int64_t threads =
      work.whole_heads ? kThreads : std::clamp<int64_t>((std::max(items / kAhead, work.held_pairs) + 31) / 32 * 32, 32, kThreads);
  const int64_t value = job.dtype == DType::f64 ? 8 : 4;
  return {std::min(job.batch * job.tokens, kMostBlocks), static_cast<int>(threads),
          static_cast<std::size_t>(work.held_pairs * value * (work.differ ? 4 : 2))};
}

}  // namespace phasor::cuda
