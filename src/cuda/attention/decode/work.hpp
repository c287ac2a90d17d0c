// SPDX-License-Identifier: Apache-2.0
// Decoding as its kernels see it: few queries of each sequence over keys in a cache, cut into splits of a fixed length.
#pragma once

#include "job/attention/cached_value.hpp"

namespace phasor::cuda::decode {

using std::int64_t;

/// Keys of a split: of the call alone, whatever else is in the batch, so that its bits are, too.
constexpr int kSplit = 512;
constexpr int kThreads = 128;
constexpr int64_t kMostQueries = 64;

/// Of keys or values: strides in bytes of block, token, head; what a stored number is multiplied by.
struct CacheWork {
  const std::byte* data = nullptr;
  int64_t strides[3] = {};
  const float* scales = nullptr;  // one per head, or the tensor's (stride 0); null: `scale`
  int64_t scale_stride = 0;
  float scale = 1;
  bool divides = false;
};

struct DecodeWork {
  ConstTensorView q;  // as it meets keys: of 16 bits, or shifted in float32
  Storage storage = Storage::bf16;
  CacheWork k;
  CacheWork v;
  Integers blocks = {};
  Integers lengths = {};
  int64_t pages = 1;
  int64_t room = 0;
  int page_size = 1;
  int page_shift = -1;  // log2 of it, where it is a power of two
  int width = 0;        // channels of keys and values
  int batch = 0;
  int queries = 0;
  int heads = 0;
  int key_heads = 0;
  int group = 1;   // heads that share a key head
  int splits = 0;  // as many as the room has
  float scale = 1;
  float softcap = 0;
  int64_t left = INT64_MAX;
  int64_t right = INT64_MAX;         // 0 at most where it is causal
  const float* diagonal = nullptr;   // a row of `distances` for each batch row, query and head, or for fewer
  int64_t diagonal_strides[3] = {};  // of those, in numbers; 0: shared
  int64_t first_distance = 0;
  int64_t distances = 0;
  int64_t far_left = INT64_MAX;  // one value for all distances from here on
  KeyMask mask = {};
  ConstTensorView sinks = {};
  AttentionOutputs outputs = {};
  float* partial_out = nullptr;  // (batch, key heads, splits, rows, width)
  float* partial_sum = nullptr;  // (batch, key heads, splits, rows, 2): greatest score, sum of exponentials of 2
};

PHASOR_HD inline int rows_of(const DecodeWork& work) { return work.group * work.queries; }

/// Keys that some query of the sequence sees by its distance: [first, end).
struct KeyRange {
  int64_t first;
  int64_t end;
};
PHASOR_HD inline KeyRange seen_keys(const DecodeWork& work, int64_t keys) {
  const int64_t first_query = keys - work.queries;  // of positions
  const int64_t last_query = keys - 1;
  KeyRange range = {0, keys};
  if (work.left < last_query + 1 && first_query - work.left > 0) range.first = first_query - work.left;
  if (work.right < keys && last_query + work.right + 1 < keys) range.end = last_query + work.right + 1;
  if (range.end < range.first) range.end = range.first;
  return range;
}
/// Splits that have such keys: [first, end).
struct SplitRange {
  int first;
  int end;
};
PHASOR_HD inline SplitRange seen_splits(const KeyRange& keys) {
  if (keys.end <= keys.first) return {0, 0};
  return {static_cast<int>(keys.first / kSplit), static_cast<int>((keys.end + kSplit - 1) / kSplit)};
}

PHASOR_HD inline int64_t partial_row(const DecodeWork& work, int batch, int key_head, int split, int row) {
  return ((int64_t{batch} * work.key_heads + key_head) * work.splits + split) * rows_of(work) + row;
}

PHASOR_HD inline float scale_of(const CacheWork& cache, int head) {
  const float scale = cache.scales == nullptr ? cache.scale : cache.scales[head * cache.scale_stride];
  return cache.divides ? 1 / scale : scale;
}

}  // namespace phasor::cuda::decode
