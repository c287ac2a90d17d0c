// SPDX-License-Identifier: Apache-2.0
// Keys and values of a cache laid side by side, for kernels that know no pages: what each thread writes.
#pragma once

#include "job/attention/cached_value.hpp"
#include "job/element.hpp"

namespace phasor::cuda::attention {

using std::int64_t;

/// k and v as (sequences, room, heads, width), and who is there; positions of queries.
struct GatherWork {
  job::CacheSource k;
  job::CacheSource v;
  Integers blocks;
  Integers lengths;
  Integers query_starts;  // empty: `queries` of each sequence
  int64_t page_size = 1;
  int64_t pages = 1;
  int64_t sequences = 0;
  int64_t room = 0;
  int64_t heads = 0;
  int64_t width = 0;
  int64_t value_width = 0;
  int64_t queries = 0;  // of a batch row
  DType dtype = DType::f32;
  void* k_to = nullptr;
  void* v_to = nullptr;
  KeyMask given;
  std::uint8_t* mask = nullptr;        // (sequences, room)
  int64_t* query_positions = nullptr;  // null: the caller's
  int64_t* key_starts = nullptr;       // of ragged queries
};

PHASOR_HD inline void gather_element(const GatherWork& work, const job::CacheSource& cache, int64_t width, void* to, int64_t n) {
  const int64_t channel = n % width;
  const int64_t head = n / width % work.heads;
  const int64_t key = n / width / work.heads % work.room;
  const int64_t sequence = n / width / work.heads / work.room;
  double value = 0;  // behind the length: nobody sees it, and it is a number
  if (key < job::keys_of(work.lengths, sequence, work.room)) {
    const int64_t block = job::block_of(work.blocks, work.pages, sequence, key / work.page_size);
    value = job::cached_value(cache, {block, key % work.page_size, head}, channel);
  }
  job::store_element(to, work.dtype, n, value);
}

PHASOR_HD inline void gather_mask(const GatherWork& work, int64_t n) {
  const int64_t sequence = n / work.room;
  const int64_t key = n % work.room;
  bool seen = key < job::keys_of(work.lengths, sequence, work.room);
  if (seen && work.given.data != nullptr) seen = work.given.data[sequence * work.given.strides[0] + key * work.given.strides[1]] != 0;
  work.mask[n] = seen ? 1 : 0;
}

/// Query i of Tq stands at length - Tq + i.
PHASOR_HD inline void gather_position(const GatherWork& work, int64_t n) {
  if (work.query_starts.size == 0) {
    const int64_t keys = job::keys_of(work.lengths, n / work.queries, work.room);
    work.query_positions[n] = keys - work.queries + n % work.queries;
    return;
  }
  for (int64_t s = 0; s < work.sequences; ++s) {
    const int64_t end = job::at(work.query_starts, s + 1);
    if (n >= end) continue;
    work.query_positions[n] = job::keys_of(work.lengths, s, work.room) - end + n;
    return;
  }
}

/// What thread n of as many as the largest piece has does.
PHASOR_HD inline void gather_item(const GatherWork& work, int64_t n) {
  const int64_t tokens = work.sequences * work.room;
  if (work.k_to != nullptr && n < tokens * work.heads * work.width) gather_element(work, work.k, work.width, work.k_to, n);
  if (work.v_to != nullptr && n < tokens * work.heads * work.value_width) gather_element(work, work.v, work.value_width, work.v_to, n);
  if (work.mask != nullptr && n < tokens) gather_mask(work, n);
  const int64_t queries = work.query_starts.size == 0 ? work.sequences * work.queries : work.queries;
  if (work.query_positions != nullptr && n < queries) gather_position(work, n);
  if (work.key_starts != nullptr && n <= work.sequences) work.key_starts[n] = n * work.room;
}
inline int64_t gather_items(const GatherWork& work) {
  const int64_t tokens = work.sequences * work.room;
  const int64_t channels =
      work.k_to == nullptr && work.v_to == nullptr ? 1 : work.heads * (work.width > work.value_width ? work.width : work.value_width);
  const int64_t queries = work.query_starts.size == 0 ? work.sequences * work.queries : work.queries;
  const int64_t most = tokens * channels > queries ? tokens * channels : queries;
  return most > work.sequences + 1 ? most : work.sequences + 1;
}

}  // namespace phasor::cuda::attention
