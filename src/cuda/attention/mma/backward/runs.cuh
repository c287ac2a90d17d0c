// SPDX-License-Identifier: Apache-2.0
// Which distances of a tile have one row of a table, and those rows brought, each once. Beyond a clip or in the last bucket a whole tile is
// one run; where every distance has a row of its own, runs are distances.
#pragma once

#include "cuda/attention/mma/backward/room.cuh"

namespace phasor::cuda::attention::mma::backward {

PHASOR_HD inline int tables_of(const AttentionWork& work) {
  int count = 0;
  for (int t = 0; t < work.term_count; ++t) count += work.terms[t].use == TermUse::table ? 1 : 0;
  return count;
}

/// Rows by distance before they are runs: where sums by runs are later.
template <class K>
__device__ __forceinline__ std::int32_t* rows_by_distance(typename K::Room& room, int table) {
  return reinterpret_cast<std::int32_t*>(room.by_runs()) + table * K::kDistances;
}
/// Threads that list and bring the rows of one table: others do so with another's.
constexpr int kListers = 128;
static_assert(kBackwardThreads % kListers == 0);
__device__ __forceinline__ bool has_table(int table) { return thread_here() / kListers == table % (kBackwardThreads / kListers); }
/// A thread has a distance. The last place is no distance of the tile, and part of the run before it.
template <class K>
__device__ inline void list_rows(const TableWork& term, const Step<K>& at, int table) {
  static_assert(K::kDistances <= kListers);
  const int own = thread_here() % kListers;
  if (!has_table(table) || own >= K::kDistances) return;
  const int64_t row = row_by_distance(term.map, at.distance + min(own, K::kDistances - 2) - (kKeys - 1));
  rows_by_distance<K>(at.room, table)[own] = row >= 0 && row < term.table.shape[1] ? static_cast<std::int32_t>(row) : -1;
}

/// Bit: the row of that distance, of the 32 of a warp, is not that of the one before.
__device__ __forceinline__ std::uint32_t begins_of(const std::int32_t* rows, int warp) {
  const int distance = 32 * warp + lane_here();
  return __ballot_sync(~0U, distance == 0 || rows[distance] != rows[distance - 1]);
}
/// Makes runs of what list_rows listed, which all threads see, and asks for their rows: zeros behind the last one, up to a multiple of 16.
template <class K>
__device__ inline void ask_for_runs(const TableWork& term, const Step<K>& at, int table) {
  constexpr int kPieces = K::kRowWidth / 8;
  constexpr int kTogether = 32 / kPieces;  // distances that a warp's lanes have at a time
  const int warp = warp_here() % (kListers / 32);
  const int lane = lane_here();
  Runs<K::kDistances, K::kRowWidth>& runs = at.room.runs[table];
  if (!K::kFeatured && term.shift.data != nullptr) bring_shift<K>(term.shift, at.tile.head, runs.shift);
  if (!has_table(table) || warp >= K::kDistances / 32) return;
  const std::int32_t* const listed = rows_by_distance<K>(at.room, table);
  int before = 0;
  for (int other = 0; other < warp; ++other) before += __popc(begins_of(listed, other));
  const std::uint32_t begins = begins_of(listed, warp);
  const auto run_at = [&](int distance) { return before + __popc(begins & (~0U >> (31 - distance))) - 1; };
  runs.of_distance[32 * warp + lane] = static_cast<std::uint8_t>(run_at(lane));
  if ((begins >> lane & 1U) != 0) runs.rows[run_at(lane)] = listed[32 * warp + lane];
  if (lane == 0) runs.begins[warp] = begins;
  const HeadRows rows = head_rows(term.table, at.tile.queries.sequence.batch, at.tile.head, 0, term.table.shape[1]);
  const std::uint32_t to = shared_address(at.room.rows[table]);
  const int piece = lane % kPieces;
#pragma unroll 4
  for (int n = lane / kPieces; n < 32; n += kTogether) {
    if ((begins >> n & 1U) == 0) continue;
    const std::int32_t from = listed[32 * warp + n];
    const bool wanted = from >= 0 && piece * 8 < rows.width;
    copy_in(to + piece_offset<K::kRowWidth>(run_at(n), piece), wanted ? rows.data + from * rows.stride + piece * 8 : rows.data, wanted);
  }
  if (warp + 1 < K::kDistances / 32) return;
  const int count = run_at(31) + 1;
  for (int n = count + lane / kPieces; n < (count + 15) / 16 * 16; n += kTogether)
    copy_in(to + piece_offset<K::kRowWidth>(n, piece), rows.data, false);
  if (lane == 0) {
    runs.count = count;
    runs.begins[warp + 1] = 0;
  }
}

/// One table's rows, where not all tables' are there together. Barriers on both sides.
template <class K>
__device__ inline void stage_rows(const TableWork& term, const Step<K>& at) {
  __syncthreads();  // nobody reads the rows before, or what is where they are listed, any more
  list_rows<K>(term, at, 0);
  __syncthreads();
  ask_for_runs<K>(term, at, 0);
  copies_commit();
  copies_wait<0>();
  __syncthreads();
}

/// Which rows are there: those of all tables from the beginning of a tile on, each in a place of its own, or those of one.
struct Staged {
  bool all;
  int term;  // -1: none
};
/// Where a table's rows are from now on; a barrier is behind whoever read or wrote what was there.
template <class K>
__device__ inline int place_of_rows(const Step<K>& at, Staged& staged, int t) {
  if (!staged.all) {
    if (staged.term != t) stage_rows<K>(at.work.terms[t].table, at);
    staged.term = t;
    return 0;
  }
  int place = 0;
  for (int other = 0; other < t; ++other) place += at.work.terms[other].use == TermUse::table ? 1 : 0;
  return place;
}

// ---- Runs as sums by them want to know them ----

template <class K>
struct OfRuns {
  const Runs<K::kDistances, K::kRowWidth>& runs;
  __device__ __forceinline__ int run(int distance) const { return runs.of_distance[distance]; }
  /// Bits from a distance on, 33 at least.
  __device__ __forceinline__ std::uint64_t begins(int distance) const {
    const std::uint64_t both = runs.begins[distance / 32] | std::uint64_t{runs.begins[distance / 32 + 1]} << 32;
    return both >> (distance % 32);
  }
};
/// Every distance is its own.
struct OfDistances {
  __device__ __forceinline__ int run(int distance) const { return distance; }
  __device__ __forceinline__ std::uint64_t begins(int) const { return ~std::uint64_t{0}; }
};

}  // namespace phasor::cuda::attention::mma::backward
