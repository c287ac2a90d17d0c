// SPDX-License-Identifier: Apache-2.0
// After a backward with a table: the gradients of scores by row, of a tile of queries at a time; by the table they go to dq, by the queries
// to the table's own gradient.
#pragma once

#include "cuda/attention/hopper/backward/table/body.cuh"
#include "cuda/attention/hopper/forward/softmax.cuh"

namespace phasor::cuda::hopper {

template <class T>
struct AfterShared {
  alignas(16) std::uint16_t table[T::kLines][T::kPitch];
  alignas(16) std::uint16_t q[T::kQueries][T::kPitch];
  alignas(16) std::uint16_t ds[T::kQueries][T::kLinePitch];  // by row of the table
  float ends[T::kSplits][2][T::kQueries];                    // what tiles that are not far have beyond the clips
};

/// A tile of one head.
struct TablePlace {
  int batch;
  int head;
  int tile;
  int number;
  bool visited;  // else nobody has written there
};

template <class T>
struct TableEnd {
  using Element = typename T::Element;
  AfterShared<T>& shared;
  const TableWork& w;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  /// Of the products with queries: all lines, a warp has so many columns of eight channels.
  static constexpr int kColumns = T::kWidth / 8 / T::kWarps;
  float sums[T::kLines / 16][kColumns][4] = {};

  __device__ __forceinline__ TableEnd(AfterShared<T>& of, const TableWork& parameter) : shared(of), w(parameter) {}

  __device__ __forceinline__ void bring(const TablePlace& at) {
    constexpr int kVectors = T::kWidth / 8, kLineVectors = T::kLines / 8;
    for (int x = threadIdx.x; x < T::kQueries * kVectors; x += T::kThreads) {
      const int row = at.tile * T::kQueries + x / kVectors, channel = x % kVectors * 8;
      const unsigned char* const from = w.q.row(at.batch, row, at.head);
      *reinterpret_cast<uint4*>(&shared.q[x / kVectors][channel]) = vector_at(from, row < w.tiles.queries, channel, w.q.width);
    }
    for (int x = threadIdx.x; x < T::kQueries * kLineVectors; x += T::kThreads) {
      *reinterpret_cast<uint4*>(&shared.ds[x / kLineVectors][x % kLineVectors * 8]) = {0, 0, 0, 0};
    }
  }
  /// To the L2, while another tile is at work: all that one reads.
  __device__ __forceinline__ void prefetch(const TableBlock& of, int tile) const {
    if (tile >= w.tiles.tiles()) return;
    prefetch_queries<T>(w, of, tile);
    constexpr int kStripBytes = kBlockKeys * T::kQueries * 2;
    const Span near = near_blocks(w.tiles, w.of.clips, tile), visitors = key_blocks(w.tiles, tile);
    const int number = w.tile_number(of.batch, of.head, tile), thread = threadIdx.x;
    if (thread < near.end - near.first) prefetch_bytes(strip_of<T>(w.of, number, thread), kStripBytes);
    if (thread != T::kThreads - 1 || visitors.first >= visitors.end) return;
    prefetch_bytes(w.dq_sums + std::int64_t{number} * dq_numbers(w.tiles, true), dq_numbers(w.tiles, true) * 4);
  }

  using Ends = float[2][4];  // of a thread's queries, on the left and on the right
  /// Eight gradients of scores that are all beyond one end.
  __device__ __forceinline__ static void add_beyond(const std::uint32_t (&words)[4], float (&ends)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 both = unpack<Element>(words[i]);
      ends[i / 2 * 2] += both.x, ends[i / 2 * 2 + 1] += both.y;
    }
  }
  /// Eight wherever they are; `distance`: of the place's key and its first query.
  __device__ __forceinline__ void add_each(const std::uint32_t (&words)[4], const StripPlace& place, int distance, Ends& ends) {
    const Clips& c = w.of.clips;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int further = 8 * (i / 4) + i % 2, at = distance + 8 * (i / 2 % 2) - further;
      const std::uint16_t bits = words[i / 2] >> i % 2 * 16;
      const float2 both = unpack<Element>(words[i / 2]);
      const float value = i % 2 == 0 ? both.x : both.y;
      const bool on_left = at <= -c.left, on_right = !on_left && at >= c.right;
      ends[0][i / 4 * 2 + i % 2] += on_left ? value : 0;
      ends[1][i / 4 * 2 + i % 2] += on_right ? value : 0;
      if (!on_left && !on_right) shared.ds[place.query + further][at + c.left] = bits;
    }
  }
  /// Of a tile that is not far: rows between the ends have one key each, what is beyond is summed. Most blocks of 16 x 16 are beyond one
  /// end as a whole.
  __device__ __forceinline__ void gather(const TablePlace& at) {
    const Clips& c = w.of.clips;
    const Span near = near_blocks(w.tiles, c, at.tile);
    const int n = warp % T::kQueryWarps, split = warp / T::kQueryWarps;
    const int position = at.tile * T::kQueries + w.tiles.offset();
    Ends ends = {};
    for (int block = near.first; block < near.end; ++block) {
      const uint4* const from = strip_of<T>(w.of, at.number, block - near.first);
#pragma unroll 4
      for (int s = split * (8 / T::kSplits); s < (split + 1) * (8 / T::kSplits); ++s) {
        const uint4 four = from[strip_index<T>(s, n, lane)];
        const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
        const StripPlace place = strip_place(s, n, lane);
        const int first = block * kBlockKeys + 16 * s - position - 16 * n;  // distance of the block's first key and query
        if (first + 15 <= -c.left) {
          add_beyond(words, ends[0]);
        } else if (first - 15 >= c.right && first - 15 > -c.left) {
          add_beyond(words, ends[1]);
        } else {
          add_each(words, place, block * kBlockKeys + place.key - position - place.query, ends);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float sum = ends[i / 4][i % 4];
#pragma unroll
      for (int x = 4; x < 32; x *= 2) sum += __shfl_xor_sync(~0u, sum, x);
      if (lane < 4) shared.ends[split][i / 4][16 * n + 8 * (i % 4 / 2) + 2 * lane + i % 2] = sum;
    }
  }
  /// Sums beyond the clips, in two numbers of 16 bits each, so that they lose nothing that counts.
  __device__ __forceinline__ void put_ends(const TablePlace& at) {
    const int x = threadIdx.x, side = x / T::kQueries, query = x % T::kQueries;
    if (side > 1) return;
    float sum = 0;
#pragma unroll
    for (int split = 0; split < T::kSplits; ++split) sum += shared.ends[split][side][query];
    if (at.visited) sum += w.dq_sums[std::int64_t{at.number} * dq_numbers(w.tiles, true) + kDqNumbers + x];
    std::uint16_t* const to = &shared.ds[query][w.of.clips.rows() + 2 * side];
    const std::uint32_t rounded = narrowed<Element>(sum);
    to[0] = std::uint16_t(rounded);
    to[1] = std::uint16_t(narrowed<Element>(sum - unpack<Element>(rounded).x));
  }
  /// dq: what keys gave, and the table's share; a warp has 16 queries of 64 channels, as a warp of the backward had.
  __device__ __forceinline__ void finish_queries(const TablePlace& at) const {
    if (w.dq.data == nullptr) return;
    float sum[8][4] = {};
    const int first = warp % T::kQueryWarps * 16, channels = warp / T::kQueryWarps * 64;
    for (int line = 0; line < table_lines(w.of.clips); line += 16) {
      std::uint32_t ds[4];
      load_blocks(ds, shared_address(&shared.ds[first + lane % 16][line + lane / 16 * 8]));
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        std::uint32_t rows[4];
        load_blocks_across(rows, shared_address(&shared.table[line + lane % 16][channels + 8 * n + lane / 16 * 8]));
        multiply_blocks<Element>(sum[n], ds, rows[0], rows[1]);
        multiply_blocks<Element>(sum[n + 1], ds, rows[2], rows[3]);
      }
    }
    const float* const numbers = w.dq_sums + std::int64_t{at.number} * dq_numbers(w.tiles, true);
    const float4* const from = reinterpret_cast<const float4*>(numbers + warp / 4 * (kDqNumbers / 2)) + warp % 4 * 32 + lane;
    const float of_table = w.of.clips.factor * w.scale;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float4 x = at.visited ? from[128 * n] : float4{0, 0, 0, 0};
      sum[n][0] = sum[n][0] * of_table + x.x * w.scale, sum[n][1] = sum[n][1] * of_table + x.y * w.scale;
      sum[n][2] = sum[n][2] * of_table + x.z * w.scale, sum[n][3] = sum[n][3] * of_table + x.w * w.scale;
    }
    store(at, sum, first, channels);
  }
  __device__ __forceinline__ void store(const TablePlace& at, const float (&sum)[8][4], int first, int channels) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = at.tile * T::kQueries + first + lane / 4 + 8 * r;
#pragma unroll
      for (int c = 0; c < 8; c += 4) {
        std::uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = pack<Element>(sum[c + i][2 * r], sum[c + i][2 * r + 1]);
        transpose_in_quad(x, lane);
        const int channel = channels + 8 * (c + lane % 4);
        if (row >= w.tiles.queries || channel >= w.dq.width) continue;
        *reinterpret_cast<uint4*>(w.dq.row(at.batch, row, at.head) + 2 * channel) = {x[0], x[1], x[2], x[3]};
      }
    }
  }
  /// Lines of the table's gradient: ds across times queries.
  __device__ __forceinline__ void add_lines() {
    std::uint32_t q[4];
#pragma unroll
    for (int x = 0; x < T::kQueryWarps; ++x) {
      if constexpr (kColumns == 2) {
        load_blocks_across(q, shared_address(&shared.q[16 * x + lane % 16][16 * warp + lane / 16 * 8]));
      } else if (x % 2 == 0) {  // of 32 queries
        load_blocks_across(q, shared_address(&shared.q[16 * x + lane][8 * warp]));
      }
#pragma unroll
      for (int m = 0; m < T::kLines / 16; ++m) {
        if (16 * m >= table_lines(w.of.clips)) continue;
        std::uint32_t ds[4];
        load_blocks_across(ds, shared_address(&shared.ds[16 * x + lane % 8 + lane / 16 * 8][16 * m + lane / 8 % 2 * 8]));
        if constexpr (kColumns == 2) {
          multiply_blocks<Element>(sums[m][0], ds, q[0], q[1]);
          multiply_blocks<Element>(sums[m][kColumns - 1], ds, q[2], q[3]);
        } else {
          multiply_blocks<Element>(sums[m][0], ds, q[x % 2 * 2], q[x % 2 * 2 + 1]);
        }
      }
    }
  }
  __device__ __forceinline__ void store_lines(float* to) const {
    const int lines = table_lines(w.of.clips), width = w.q.width;
#pragma unroll
    for (int m = 0; m < T::kLines / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 2 * kColumns; ++i) {
        const int line = 16 * m + lane / 4 + 8 * (i % 2), channel = 8 * (kColumns * warp + i / 2) + 2 * (lane % 4);
        if (line >= lines || channel >= width) continue;
        *reinterpret_cast<float2*>(to + line * width + channel) = {sums[m][i / 2][i % 2 * 2], sums[m][i / 2][i % 2 * 2 + 1]};
      }
    }
  }
  __device__ __forceinline__ void run(const TableBlock& of) {
    const KeyTiles& t = w.tiles;
    bring_table<T>(shared.table, w, of.head);
    for (int tile = of.part; tile < t.tiles(); tile += of.parts) {
      const Span visitors = key_blocks(t, tile);
      const TablePlace at = {of.batch, of.head, tile, w.tile_number(of.batch, of.head, tile), visitors.first < visitors.end};
      __syncthreads();
      bring(at);
      __syncthreads();
      prefetch(of, tile + of.parts);
      gather(at);
      __syncthreads();
      put_ends(at);
      __syncthreads();
      finish_queries(at);
      if (w.gradient != nullptr) add_lines();
    }
    const std::int64_t part = (std::int64_t{of.batch} * t.heads + of.head) * of.parts + of.part;
    if (w.gradient != nullptr) store_lines(w.of.parts + part * table_lines(w.of.clips) * w.q.width);
  }
};

/// Number x of the gradient of one of the table's heads, parts in order; rows that nobody sees have zeros.
__device__ __forceinline__ void add_parts(const TableWork& w, int x, int head, int heads) {
  const int width = w.q.width, row = x / width, channel = x % width;
  if (row >= w.rows) return;
  const KeyTiles& t = w.tiles;
  const Clips& c = w.of.clips;
  const int parts = w.of.blocks, lines = table_lines(c);
  const int first = c.by_head ? head : 0, end = c.by_head ? first + 1 : t.heads;
  float sum = 0;
  for (int batch = 0; batch < t.batch && row < c.rows(); ++batch) {
    for (int part = first * parts; part < end * parts; ++part) {
      const float* const from = w.of.parts + ((std::int64_t{batch} * t.heads * parts + part) * lines) * width + channel;
      float of_part = from[std::int64_t{row} * width];
      if (row == 0) of_part += from[std::int64_t{c.rows()} * width] + from[std::int64_t{c.rows() + 1} * width];
      if (row == c.rows() - 1) of_part += from[std::int64_t{c.rows() + 2} * width] + from[std::int64_t{c.rows() + 3} * width];
      sum += of_part;
    }
  }
  w.gradient[(std::int64_t{row} * heads + head) * width + channel] = sum * w.table_scale;
}

}  // namespace phasor::cuda::hopper
