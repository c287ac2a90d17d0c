// SPDX-License-Identifier: Apache-2.0
// The job of cached_attention: that of attention, and where its keys and values lie.
#pragma once

#include "job/attention/job.hpp"
#include "job/prepare/job.hpp"
#include "phasor/cached_attention.hpp"

namespace phasor::job {

/// A cache that is read is described as one that is written.
using CacheSource = PrepareSink;

struct CachedAttentionJob {
  AttentionJob attention;  // k and v are shapes alone, of (B, room, Hk, D); key_starts are empty
  CacheSource k;
  CacheSource v;
  Integers blocks;  // (sequences, pages); empty: sequence s is block s
  Integers lengths;
  std::int64_t page_size = 1;  // tokens of a block
  std::int64_t pages = 1;      // of a sequence
  std::int64_t sequences = 0;
  std::int64_t cache_blocks = 0;
};
PHASOR_MEMBERS(CachedAttentionJob, attention, k, v, blocks, lengths, page_size, pages, sequences, cache_blocks)

inline std::int64_t room_of(const CachedAttentionJob& job) { return job.pages * job.page_size; }

/// Whether its elements are q's, bit for bit: else they are decoded to float32.
inline bool is_plain_cache(const CacheSource& cache, DType dtype) {
  return cache.scales == CacheScales::Kind::none && dtype != DType::f64 && cache.storage == storage_of(dtype);
}

/// A call, checked as far as shapes, strides, dtypes, addresses and fields tell; outputs null: they are not known. `terms` stay as long as
/// the job.
struct CachedCall {
  const CachedInputs& inputs;
  const AttentionSpec& spec;
  const AttentionOutputs* outputs;
  std::span<const std::byte> workspace;
};
Status make_cached_job(const CachedCall& call, std::vector<AttentionTermJob>& terms, CachedAttentionJob& job);

}  // namespace phasor::job
