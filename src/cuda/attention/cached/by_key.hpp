// SPDX-License-Identifier: Apache-2.0
// Lists and tensors that a ragged call has by key, one for all of its sequences, written once for each: where its packed keys lie. Kernels
// then find them as they find those of any varlen call.
#pragma once

#include "cuda/attention/cached/gather.hpp"

namespace phasor::cuda::attention {

/// From (outer, queries or 1, room, x, y) in any strides to (outer, packed keys, x, y); by query to (outer, places) in which packed key t
/// of query i lies at i room + t: what two queries have there never meets, since a sequence has no more keys than the room.
struct KeyedCopy {
  const void* from = nullptr;  // null: positions, counted from `offset`
  void* to = nullptr;
  int64_t size = 1;  // bytes of an element: 1, 2, 4 or 8
  int64_t offset = 0;
  int64_t outer = 1;
  int64_t queries = 0;  // 0: what is copied is the same for each
  int64_t x = 1;
  int64_t y = 1;
  int64_t from_strides[5] = {};  // in elements
};
struct KeyedWork {
  GatherWork gather;
  Integers query_starts;
  KeyedCopy copy;
};

PHASOR_HD inline int64_t keyed_rows(const KeyedWork& work) {
  return (work.copy.queries == 0 ? work.gather.sequences : work.copy.queries) * work.gather.room;
}
PHASOR_HD inline int64_t keyed_items(const KeyedWork& work) { return work.copy.outer * keyed_rows(work) * work.copy.x * work.copy.y; }
/// Of what is written: (outer, places, x, y).
PHASOR_HD inline int64_t keyed_places(const KeyedWork& work) { return (work.gather.sequences + work.copy.queries) * work.gather.room; }

/// What row n of (packed keys), or of (queries, keys of the room), is.
struct KeyedPlace {
  int64_t query;
  int64_t key;  // of its sequence; below 0: nobody's
  int64_t to;   // below 0: nowhere
};
PHASOR_HD inline KeyedPlace keyed_place(const KeyedWork& work, int64_t n) {
  const GatherWork& gather = work.gather;
  if (work.copy.queries == 0) return {0, gathered_key(gather, n).key, n};
  const int64_t query = n / gather.room;
  const int64_t key = n % gather.room;
  const int64_t sequence = last_begun(gather.sequences, query, [&](int64_t s) { return job::at(work.query_starts, s); });
  if (key >= job::keys_of(gather.lengths, sequence, gather.room)) return {query, -1, -1};
  return {query, key, query * gather.room + gather.key_starts[sequence] + key};
}

/// Position `key` of those that are counted.
PHASOR_HD inline int64_t counted_position(const KeyedCopy& copy, int64_t key) {
  return static_cast<int64_t>(static_cast<math::u64>(copy.offset) + static_cast<math::u64>(key));
}
template <class T>
PHASOR_HD inline void store_keyed(const KeyedCopy& copy, const int64_t* from, int64_t to) {
  static_cast<T*>(copy.to)[to] = from == nullptr ? T{0} : static_cast<const T*>(copy.from)[*from];
}

/// Item n of (outer, rows, x, y); the lists are there. Behind the last packed key there are zeros: rotations read positions there.
PHASOR_HD inline void copy_keyed(const KeyedWork& work, int64_t n) {
  const KeyedCopy& copy = work.copy;
  const int64_t within = copy.x * copy.y;
  const int64_t rows = keyed_rows(work);
  const int64_t outer = n / within / rows;
  const KeyedPlace at = keyed_place(work, n / within % rows);
  if (at.to < 0) return;
  const int64_t to = (outer * keyed_places(work) + at.to) * within + n % within;
  if (copy.from == nullptr) {
    static_cast<int64_t*>(copy.to)[to] = at.key < 0 ? 0 : counted_position(copy, at.key);
    return;
  }
  const int64_t* const s = copy.from_strides;
  const int64_t place = outer * s[0] + at.query * s[1] + at.key * s[2] + n % within / copy.y * s[3] + n % copy.y * s[4];
  const int64_t* const from = at.key < 0 ? nullptr : &place;
  if (copy.size == 1) return store_keyed<std::uint8_t>(copy, from, to);
  if (copy.size == 2) return store_keyed<std::uint16_t>(copy, from, to);
  if (copy.size == 4) return store_keyed<std::uint32_t>(copy, from, to);
  store_keyed<math::u64>(copy, from, to);
}

}  // namespace phasor::cuda::attention
