// SPDX-License-Identifier: Apache-2.0
// Attention backward by mma.sync: eight warps stay with a tile of keys, whose sums are in registers, while tiles of queries pass. Gradients
// of queries are added to rows that are the block's own, those of tables to its slot, as in the general backward: nobody else adds there.
#pragma once

#include "cuda/attention/mma/backward/dropout.cuh"
#include "cuda/attention/mma/backward/terms.cuh"
#include "cuda/attention/mma/saved.cuh"

namespace phasor::cuda::attention::mma::backward {

// ---- What comes ----

/// Zeros for padding: it may be anything.
template <class K>
__device__ inline void bring_keys(const AttentionWork& work, const ScoreTile& tile, typename K::Room& room) {
  const Sequence& sequence = tile.queries.sequence;
  const auto is_there = [&](int row) { return !is_masked(work, sequence, tile.first_key + row); };
  bring_rows<kKeys, K::kWidth, kBackwardThreads>(
      shared_address(room.k), head_rows(work.contents[0].k, sequence.batch, tile.key_head, tile.first_key, tile.keys), is_there);
  bring_rows<kKeys, K::kWidth, kBackwardThreads>(shared_address(room.v),
                                                 head_rows(work.v, sequence.batch, tile.key_head, tile.first_key, tile.keys), is_there);
  copies_commit();
}
/// Rows of queries that see no key become zeros: they may be anything. A thread has the pieces that it asked for, which are there, and all
/// threads see what the forward saved.
template <class K>
__device__ inline void hide_queries(typename K::Room& room) {
  if constexpr (K::kFeatured) hide_features<K>(room);
  constexpr int kPieces = K::kWidth / 8;
#pragma unroll
  for (int n = 0; n < K::kQueries * kPieces / kBackwardThreads; ++n) {
    const int at = n * kBackwardThreads + thread_here();
    if (room.lse[at / kPieces] != INFINITY) continue;
    const std::uint32_t offset = piece_offset<K::kWidth>(at / kPieces, at % kPieces);
    *reinterpret_cast<uint4*>(room.q + offset) = *reinterpret_cast<uint4*>(room.out_gradient + offset) = uint4{0, 0, 0, 0};
  }
}
/// Queries of a tile, and the rows of all tables if those fit: asked for together, since nothing else of the block hides how long they
/// take. Rows of tables may still be under way at the end. Barriers on both sides.
template <class K>
__device__ inline Staged bring_queries(const Step<K>& at) {
  const AttentionWork& work = at.work;
  const QueryTile& queries = at.tile.queries;
  const int64_t batch = queries.sequence.batch;
  const Staged staged = {tables_of(work) <= K::kTables, -1};
  __syncthreads();  // nobody reads those before any more
  bring_rows<K::kQueries, K::kWidth, kBackwardThreads>(shared_address(at.room.q),
                                                       head_rows(work.contents[0].q, batch, at.tile.head, queries.first, queries.count));
  bring_out_gradients<typename K::Element, K::kQueries, K::kWidth, kBackwardThreads>(work, queries, at.tile.head, at.room,
                                                                                     [](int) { return true; });
  if constexpr (K::kFeatured) bring_features<K>(at);
  copies_commit();
  load_saved<K::kQueries>(work, queries, at.tile.head, at.room);
  if (work.dropout.present) make_dropout_keys<K>(at);
  int place = 0;
  for (int t = 0; staged.all && t < work.term_count; ++t) {
    if (work.terms[t].use == TermUse::table) list_rows<K>(work.terms[t].table, at, place++);
  }
  __syncthreads();
  place = 0;
  for (int t = 0; staged.all && t < work.term_count; ++t) {
    if (work.terms[t].use == TermUse::table) ask_for_runs<K>(work.terms[t].table, at, place++);
  }
  copies_commit();
  copies_wait<1>();
  hide_queries<K>(at.room);
  __syncthreads();
  return staged;
}

// ---- What goes to queries ----

/// d += scale ds k.
template <class K>
__device__ __forceinline__ void add_content_gradients(const Step<K>& at, float (&d)[K::kChannels / 8][4]) {
  float sums[K::kChannels / 8][4] = {};
  const int row = warp_here() / K::kWarpsOfTile * 16;
#pragma unroll
  for (int step = 0; step < kKeys / 16; ++step) {
    std::uint32_t left[4];
    left_transposed(left, at.room.gradients() + step * K::kGradientTile, K::kGradientPitch, row, 0);
    add_rows<typename K::Element, K::kWidth>(sums, left, at.room.k, 16 * step, warp_here() % K::kWarpsOfTile * K::kChannels / 16);
  }
  add_scaled(d, sums, static_cast<float>(at.work.scale));
}

// ---- A tile ----

/// sums += those of a lane's two keys over its queries.
template <int kColumns>
__device__ __forceinline__ void add_over_queries(const float (&x)[kColumns][4], float (&sums)[2]) {
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) sums[h] += x[n][2 * h] + x[n][2 * h + 1];
  }
}

/// d += numbers of the warp's 16 keys and all queries x its channels of the queries' rows.
template <class K>
__device__ __forceinline__ void add_key_gradients(const unsigned char* numbers, const unsigned char* rows,
                                                  float (&d)[K::kKeyChannels / 8][4]) {
#pragma unroll
  for (int step = 0; step < K::kQueryTiles; ++step) {
    std::uint32_t left[4];
    left_from(left, numbers + key_tile_of_warp() * K::kGradientTile, K::kGradientPitch, 0, 16 * step);
    add_rows<typename K::Element, K::kWidth>(d, left, rows, 16 * step, share_of_warp() * K::kKeyChannels / 16);
  }
}

/// Weights and gradients of scores to shared memory. Barriers on both sides.
template <class K>
__device__ __forceinline__ void make_tile(const Step<K>& at, Staged& staged, KeySums<K>& keys) {
  const DropoutWork& dropout = at.work.dropout;
  const std::uint32_t kept = dropout.present ? kept_of_lane<K>(at) : 0;
  float p[1][K::kColumns][4] = {};
  make_scores<K>(at, staged, p);
  make_weights<K>(at, p[0]);
  float ds[1][K::kColumns][4] = {};
  multiply_with_queries<K>(ds, at.room.v, at.room.out_gradient);
  if constexpr (K::kValued) take_value_tables<K>(at, staged, p[0], ds[0]);
  if (dropout.present) drop(kept, dropout, ds[0]);
  make_gradients<K>(at, p[0], ds[0]);
  if (dropout.present) drop(kept, dropout, p[0]);
  add_over_queries(ds[0], keys.gradients);
  __syncthreads();  // nobody reads products with tables any more
  share<K>(ds[0], at.room.gradients());
  share<K>(p[0], at.room.weights());
  __syncthreads();
}

template <class K>
__device__ __forceinline__ void backward_tile(const Step<K>& at, KeySums<K>& keys) {
  Staged staged = bring_queries<K>(at);
  make_tile<K>(at, staged, keys);
  add_key_gradients<K>(at.room.weights(), at.room.out_gradient, keys.v);
  add_key_gradients<K>(at.room.gradients(), at.room.q, keys.k);
  float q[K::kChannels / 8][4] = {};
  add_content_gradients<K>(at, q);
  take_terms<K>(at, staged, keys, q);
  const int64_t width = at.work.shape.width;
  const SumRows<float> rows = query_sums<float>(at.work, at.work.backward.q[0], at.tile, width);
  add_query_rows(query_rows_of<K>(at, rows, static_cast<int>(width), warp_here() % K::kWarpsOfTile * K::kChannels), q);
}

// ---- A tile of keys ----

/// A head of a sequence that a block is at.
struct HeadHere {
  const AttentionWork& work;
  const BackwardPlace& place;
  int64_t batch;
  int64_t head;
};
/// Where sums of a tensor of rows begin in the block's slot.
__device__ inline float* slot_of(const HeadHere& here, const Extents& shape, int64_t at) {
  float* const slot = slot_at<float>(here.work, here.place.index, at);
  return slot == nullptr ? nullptr : slot + slot_row(here.work, shape, here.batch, 0, here.head);
}
__device__ inline TermHere term_here(const HeadHere& here, const TermWork& term) {
  const AttentionWork& work = here.work;
  if (term.use == TermUse::bias) {
    float* const slot = slot_of(here, {1, 1, work.shape.heads, term.bias.distances}, term.sums.slot);
    return {slot == nullptr ? nullptr : slot - term.bias.first_distance, 0, 0, 0};
  }
  if (term.use != TermUse::table) return {nullptr, 0, 0, 0};
  const Extents& shape = term.table.table.shape;
  return {slot_of(here, shape, term.sums.slot), static_cast<int>(slot_heads(work, shape) * shape[3]), static_cast<float>(term.table.scale),
          static_cast<float>(term.table.scale / work.scale)};
}

template <class K>
__device__ inline void begin_head(const HeadHere& here, typename K::Room& room, KeySums<K>& keys) {
  const AttentionWork& work = here.work;
  keys.gradients[0] = keys.gradients[1] = 0;
  __syncthreads();  // nobody reads the head's before any more; keys are there
  for (int n = thread_here(); n < kMostShifted * kWarps * K::kChannels; n += kBackwardThreads) (&room.shift_sums[0][0][0])[n] = 0;
  if (thread_here() < work.term_count) room.terms[thread_here()] = term_here(here, work.terms[thread_here()]);
  if (work.content_shift.data == nullptr) return;
  bring_shift<K>(work.content_shift, here.head, room.shift);
  __syncthreads();
  multiply_shift<K>(room.k, kKeys, room.shift, room.shifts_of_keys);
}

/// What the shift of the content gives to keys, and gets from them: by sums of gradients over queries.
template <class K>
__device__ inline void end_content_shift(const AttentionWork& work, const BackwardPlace& place, int64_t head, typename K::Room& room,
                                         KeySums<K>& keys) {
  const int lane = lane_here();
  __syncthreads();  // nobody reads the sums of the head before any more
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = keys.gradients[h];
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    if ((lane & 3) == 0) room.gradients_of_keys[share_of_warp()][key_of_lane() + 8 * h] = sum;
  }
  __syncthreads();
  const auto sum_of = [&](int key) {
    float sum = 0;
#pragma unroll
    for (int share = 0; share < kKeyShare; ++share) sum += room.gradients_of_keys[share][key];
    return sum;
  };
  const float sums[2] = {sum_of(key_of_lane()), sum_of(key_of_lane() + 8)};
#pragma unroll
  for (int n = 0; n < K::kKeyChannels / 8; ++n) {
#pragma unroll
    for (int x = 0; x < 4; ++x) {
      const float shift = room.shift[share_of_warp() * K::kKeyChannels + 8 * n + 2 * (lane & 3) + (x & 1)];
      keys.k[n][x] = fmaf(sums[x >> 1], shift, keys.k[n][x]);
    }
  }
  const auto channel = thread_here();
  float* const slot = slot_at<float>(work, place.index, work.backward.content_shift);
  if (slot == nullptr || channel >= work.shape.width) return;
  float sum = 0;
  for (int key = 0; key < kKeys; ++key) {
    const unsigned char* const at = room.k + piece_offset<K::kWidth>(key, channel / 8) + 2 * (channel % 8);
    sum = fmaf(sum_of(key), widened<typename K::Element>(*reinterpret_cast<const std::uint16_t*>(at)), sum);
  }
  slot[slot_row(work, work.content_shift.shape, 0, 0, head) + channel] += static_cast<float>(work.scale) * sum;
}

/// What shifts get of a tile of keys and a head.
template <class K>
__device__ inline void end_head(const AttentionWork& work, const BackwardPlace& place, int64_t head, typename K::Room& room,
                                KeySums<K>& keys) {
  if (work.content_shift.data != nullptr) end_content_shift<K>(work, place, head, room, keys);
  __syncthreads();  // all sums of shifts are there
  const auto channel = thread_here();
  int shifted = 0;
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use != TermUse::table || term.sums.shift < 0) continue;
    const auto& sums = room.shift_sums[shifted++];
    if (channel >= term.table.shift.shape[3]) continue;
    float sum = 0;
    for (int tile = 0; tile < K::kQueryTiles; ++tile) {
      sum += sums[tile * K::kWarpsOfTile + channel / K::kChannels][channel % K::kChannels];
    }
    float* const slot = slot_at<float>(work, place.index, term.sums.shift) + slot_row(work, term.table.shift.shape, 0, 0, head);
    slot[channel] += static_cast<float>(term.table.scale) * sum;
  }
}

/// Sums of 16 keys of the warp and its channels, to rows that nobody else has.
template <int kColumns>
__device__ __forceinline__ void store_key_rows(const SumRows<float>& to, int count, int width, float factor,
                                               const float (&d)[kColumns][4]) {
  const int key = key_of_lane();
  const int channel = 8 * kColumns * share_of_warp() + 2 * (lane_here() & 3);
  if (to.data == nullptr) return;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (key + 8 * h >= count || channel + 8 * n >= width) continue;
      *reinterpret_cast<float2*>(to.data + int64_t{key + 8 * h} * to.row + channel + 8 * n) = {factor * d[n][2 * h],
                                                                                               factor * d[n][2 * h + 1]};
    }
  }
}

/// Keys of a sequence from number `first` on, against the block's queries.
template <class K>
__device__ __forceinline__ void backward_keys(const AttentionWork& work, const BackwardPlace& place, const Sequence& sequence,
                                              int64_t first, typename K::Room& room) {
  const int64_t heads = heads_of_block(work);
  const QueryTile none = {sequence, sequence.first_query, 0};
  const ScoreTile own = {none, place.key_group * heads, key_head_of(work, place.key_group * heads), sequence.first_key + first,
                         least(kKeys, sequence.keys - first)};
  KeySums<K> keys;
  __syncthreads();  // nobody reads the keys before any more
  bring_keys<K>(work, own, room);
  copies_wait<0>();
  for (int64_t head = own.head; head < own.head + heads; ++head) {
    begin_head<K>({work, place, sequence.batch, head}, room, keys);
    for (int64_t t = place.part; t < tiles_of(sequence.queries, K::kQueries); t += work.backward.parts) {
      const QueryTile queries = {sequence, sequence.first_query + t * K::kQueries, least(K::kQueries, sequence.queries - t * K::kQueries)};
      const KeySpan seen = seen_keys(work, queries);
      if (seen.end <= own.first_key || seen.first >= own.first_key + own.keys) continue;
      const int64_t distance = query_position(work, sequence, queries.first) - first;
      backward_tile<K>({work, place, {queries, head, own.key_head, own.first_key, own.keys}, static_cast<int>(distance), room}, keys);
    }
    end_head<K>(work, place, head, room, keys);
  }
  const auto count = static_cast<int>(own.keys);
  store_key_rows(chunk_sums<float>(work, work.backward.k[0], place, own, work.shape.width), count, static_cast<int>(work.shape.width),
                 static_cast<float>(work.scale), keys.k);
  store_key_rows(chunk_sums<float>(work, work.backward.v, place, own, work.shape.value_width), count,
                 static_cast<int>(work.shape.value_width), 1, keys.v);
}

template <class K>
__device__ __forceinline__ void backward_block(const AttentionWork& work, int64_t index, typename K::Room& room) {
  const BackwardPlace place = backward_place(work, index);
  const KeyChunk& chunk = work.backward.chunk;
  const int64_t groups = work.backward.groups;
  for (int64_t s = place.group * work.sequences / groups; s < (place.group + 1) * work.sequences / groups; ++s) {
    const Sequence sequence = sequence_at(work, s);
    const int64_t end = least(sequence.keys, chunk.first + chunk.keys);
    for (int64_t first = chunk.first; first < end; first += kKeys) backward_keys<K>(work, place, sequence, first, room);
  }
}

}  // namespace phasor::cuda::attention::mma::backward
