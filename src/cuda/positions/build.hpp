// SPDX-License-Identifier: Apache-2.0
// Positions and slots built on a device, from lengths in its memory: one token, which is what a thread does. Where the CPU would refuse
// what the lists hold, a token beyond the last sequence, its pages or its length has -1, which caches skip.
#pragma once

#include "cuda/position.hpp"
#include "cuda/starts.hpp"
#include "job/positions/build.hpp"

namespace phasor::cuda {

PHASOR_HD inline int64_t build_items(const job::BuildJob& job) { return job.out.shape[1] * job.out.shape[2]; }

/// The sequence that token t is of: cu_seqlens[s] <= t < cu_seqlens[s + 1]; -1: none.
PHASOR_HD inline int64_t sequence_of(const Integers& cu_seqlens, int64_t t) {
  const int64_t sequences = cu_seqlens.size - 1;
  if (t < job::at(cu_seqlens, 0) || t >= job::at(cu_seqlens, sequences)) return -1;
  return last_begun(sequences, t, [&](int64_t s) { return job::at(cu_seqlens, s); });
}

PHASOR_HD inline int64_t slot_of(const job::BuildJob& job, int64_t batch, int64_t token) {
  const int64_t position = whole_position(job.at, 0, batch, token);
  const int64_t sequence = job.cu_seqlens.size == 0 ? batch : sequence_of(job.cu_seqlens, token);
  if (position < 0 || sequence < 0) return -1;
  const int64_t pages = job.blocks.size / job.sequences;
  const int64_t page = position / job.page_size;
  if (page >= pages || (job.lengths.size != 0 && position >= job::at(job.lengths, sequence))) return -1;
  const int64_t block = job::at(job.blocks, sequence * pages + page);
  return block < 0 ? -1 : block * job.page_size + position % job.page_size;
}

PHASOR_HD inline int64_t built_value(const job::BuildJob& job, int64_t batch, int64_t token) {
  using Kind = job::BuildJob::Kind;
  if (job.kind == Kind::offset) return job.offset + token;
  if (job.kind == Kind::offsets) return job::at(job.offsets, batch) + token;
  if (job.kind == Kind::slots) return slot_of(job, batch, token);
  const int64_t sequence = sequence_of(job.cu_seqlens, token);
  if (sequence < 0) return -1;
  return (job.offsets.size == 0 ? 0 : job::at(job.offsets, sequence)) + token - job::at(job.cu_seqlens, sequence);
}

/// On every axis.
PHASOR_HD inline void build_item(const job::BuildJob& job, int64_t item) {
  const PositionsView& out = job.out;
  const int64_t batch = item / out.shape[2];
  const int64_t token = item % out.shape[2];
  const int64_t value = built_value(job, batch, token);
  for (int64_t axis = 0; axis < out.shape[0]; ++axis) {
    const int64_t at = axis * out.strides[0] + batch * out.strides[1] + token * out.strides[2];
    if (out.type == PositionType::i64) static_cast<int64_t*>(out.data)[at] = value;
    if (out.type == PositionType::i32) static_cast<std::int32_t*>(out.data)[at] = static_cast<std::int32_t>(value);
    if (out.type == PositionType::f64) static_cast<double*>(out.data)[at] = static_cast<double>(value);
  }
}

}  // namespace phasor::cuda
