// SPDX-License-Identifier: Apache-2.0
// Keys and values of a cache laid side by side, for kernels that know no pages: what each thread writes.
#pragma once

#include "cuda/starts.hpp"
#include "job/attention/cached_value.hpp"
#include "job/element.hpp"

namespace phasor::cuda::attention {

using std::int64_t;

/// k and v as (tokens, heads, width): sequences one behind another, as long as they are (packed), or with as much room each.
struct GatherWork {
  job::CacheSource k;
  job::CacheSource v;
  Integers blocks;
  Integers lengths;
  int64_t page_size = 1;
  int64_t pages = 1;
  int64_t sequences = 0;
  int64_t room = 0;
  int64_t heads = 0;
  int64_t width = 0;
  int64_t value_width = 0;
  int64_t queries = 0;  // of a batch row
  DType dtype = DType::f32;
  bool in_pieces = false;  // elements are q's, and heads whole pieces of 16 bytes
  bool fills = false;      // keys behind the last one are zeros: they are rotated with all others
  void* k_to = nullptr;
  void* v_to = nullptr;
  int64_t* key_starts = nullptr;    // packed: (sequences + 1); null: it is not
  int64_t* query_starts = nullptr;  // of batch rows that are packed, (sequences + 1); null: the caller's, or none
  KeyMask given;
  std::uint8_t* mask = nullptr;        // (sequences, room)
  int64_t* query_positions = nullptr;  // null: the caller's, or those of tokens
};

// ---- Where sequences begin, or who is there and where queries stand: before the keys ----

PHASOR_HD inline void gather_start(const GatherWork& work, int64_t n) {
  int64_t keys = 0;
  for (int64_t s = 0; s < n; ++s) keys += job::keys_of(work.lengths, s, work.room);
  work.key_starts[n] = keys;
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
  const int64_t keys = job::keys_of(work.lengths, n / work.queries, work.room);
  work.query_positions[n] = keys - work.queries + n % work.queries;
}

/// What thread n of as many as the longest list has does.
PHASOR_HD inline void gather_item(const GatherWork& work, int64_t n) {
  if (work.key_starts != nullptr && n <= work.sequences) gather_start(work, n);
  if (work.query_starts != nullptr && n <= work.sequences) work.query_starts[n] = n * work.queries;
  if (work.mask != nullptr && n < work.sequences * work.room) gather_mask(work, n);
  if (work.query_positions != nullptr && n < work.sequences * work.queries) gather_position(work, n);
}
PHASOR_HD inline int64_t gather_items(const GatherWork& work) {
  int64_t most = work.key_starts != nullptr || work.query_starts != nullptr ? work.sequences + 1 : 0;
  if (work.mask != nullptr && work.sequences * work.room > most) most = work.sequences * work.room;
  if (work.query_positions != nullptr && work.sequences * work.queries > most) most = work.sequences * work.queries;
  return most;
}

// ---- Keys and values: a token by some threads together, a warp of a GPU ----

/// Which key token n of what is written is; key below 0: nobody's.
struct GatheredKey {
  int64_t sequence;
  int64_t key;
};
PHASOR_HD inline GatheredKey gathered_key(const GatherWork& work, int64_t n) {
  if (work.key_starts == nullptr) {
    const int64_t sequence = n / work.room;
    const int64_t key = n % work.room;
    return {sequence, key < job::keys_of(work.lengths, sequence, work.room) ? key : -1};
  }
  if (n >= work.key_starts[work.sequences]) return {0, -1};
  const int64_t sequence = last_begun(work.sequences, n, [&](int64_t s) { return work.key_starts[s]; });
  return {sequence, n - work.key_starts[sequence]};
}

/// 16 bytes, the widest access of one thread.
struct alignas(16) Piece {
  std::uint32_t words[4];
};
/// Whether channels of a head lie side by side, and a head begins with a whole piece wherever it is.
inline bool is_in_pieces(const job::CacheSource& cache) {
  const int64_t size = bytes_of(cache.storage);
  const bool contiguous = cache.strides[4] == size && (cache.inner == cache.count || cache.strides[3] == cache.inner * size);
  if (!contiguous || reinterpret_cast<std::uintptr_t>(cache.data) % sizeof(Piece) != 0) return false;
  return cache.strides[0] % 16 == 0 && cache.strides[1] % 16 == 0 && cache.strides[2] % 16 == 0;
}
/// Threads that have a token.
struct GatherThread {
  int number;
  int count;
};
PHASOR_HD inline void clear_token(const GatherWork& work, int64_t width, void* to, int64_t n, GatherThread thread) {
  const int64_t bytes = work.heads * width * bytes_of(work.dtype);
  auto* const words = reinterpret_cast<std::uint16_t*>(static_cast<std::byte*>(to) + n * bytes);  // of any dtype
  for (int64_t c = thread.number; c < bytes / 2; c += thread.count) words[c] = 0;
}
/// Some pieces are asked for before the first of them is there.
PHASOR_HD inline void gather_pieces(const GatherWork& work, const job::CacheSource& cache, int64_t width, Piece* to,
                                    const job::CachePlace& token, GatherThread thread) {
  constexpr int kAhead = 4;
  const auto of_head = static_cast<int>(width * bytes_of(work.dtype) / 16);
  const int all = of_head * static_cast<int>(work.heads);
  const std::byte* const from = job::row_of(cache, token);
  for (int first = thread.number; first < all; first += kAhead * thread.count) {
    Piece held[kAhead];
    for (int a = 0; a < kAhead; ++a) {
      const int n = first + a * thread.count;
      if (n < all) held[a] = *reinterpret_cast<const Piece*>(from + n / of_head * cache.strides[2] + n % of_head * 16);
    }
    for (int a = 0; a < kAhead; ++a) {
      const int n = first + a * thread.count;
      if (n < all) to[n] = held[a];
    }
  }
}
/// One of the two tensors.
struct GatheredTensor {
  const job::CacheSource& cache;
  int64_t width;
  void* to;
};
template <bool kInPieces>
PHASOR_HD inline void gather_token(const GatherWork& work, const GatheredTensor& tensor, int64_t n, const GatheredKey& at,
                                   GatherThread thread) {
  const int64_t block = job::block_of(work.blocks, work.pages, at.sequence, at.key / work.page_size);
  const int64_t token = at.key % work.page_size;
  const int64_t channels = work.heads * tensor.width;
  if constexpr (kInPieces) {
    auto* const to = static_cast<std::byte*>(tensor.to) + n * channels * bytes_of(work.dtype);
    gather_pieces(work, tensor.cache, tensor.width, reinterpret_cast<Piece*>(to), {block, token, 0}, thread);
  } else {
    for (int64_t c = thread.number; c < channels; c += thread.count) {
      const job::CachePlace place = {block, token, c / tensor.width};
      job::store_element(tensor.to, work.dtype, n * channels + c, job::cached_value(tensor.cache, place, c % tensor.width));
    }
  }
}
/// Token n of (sequences x room), by the way that `in_pieces` says; the lists are there.
template <bool kInPieces>
PHASOR_HD inline void gather_token(const GatherWork& work, int64_t n, GatherThread thread) {
  const GatheredKey at = gathered_key(work, n);
  if (at.key >= 0) {
    gather_token<kInPieces>(work, {work.k, work.width, work.k_to}, n, at, thread);
    gather_token<kInPieces>(work, {work.v, work.value_width, work.v_to}, n, at, thread);
    return;
  }
  if (work.fills) clear_token(work, work.width, work.k_to, n, thread);
  if (work.key_starts == nullptr) clear_token(work, work.value_width, work.v_to, n, thread);  // visited, and by weights of 0
}
PHASOR_HD inline int64_t gather_tokens(const GatherWork& work) { return work.sequences * work.room; }

}  // namespace phasor::cuda::attention
