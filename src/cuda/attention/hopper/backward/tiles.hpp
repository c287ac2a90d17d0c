// SPDX-License-Identifier: Apache-2.0
// How a backward is cut: blocks of keys stay, tiles of queries pass, from the last to the first. Host and device.
//
// Blocks are numbered, and claimed, in ascending order of keys, some heads side by side. Whoever must wait for another block waits for one
// with a smaller number, which somebody has claimed before: there is always one that need not wait. Under a causal mask those are the
// longest blocks, too; and since all walk from the last queries down, a block comes to a tile after those before it.
#pragma once

#include "cuda/attention/hopper/tiles.hpp"

namespace phasor::cuda::hopper {

/// What one kernel is made for.
struct BackwardWidths {
  int width;    // of q, k, v: up to it, missing channels are zeros
  int queries;  // of a tile
};
/// By what fits into the registers: scores of 64 keys and their gradients, beside dk and dv of those.
inline constexpr BackwardWidths kBackwardWidths[] = {{64, 128}, {128, 64}};
inline constexpr int kBackwardWidthsCount = sizeof(kBackwardWidths) / sizeof(kBackwardWidths[0]);
constexpr int kBlockKeys = 128;

struct KeyTiles {
  int queries;
  int keys;
  int heads;
  int batch;
  int heads_of_key;  // query heads that share a key head
  int together;      // key heads walked together
  int left;          // key >= query position - left; kFar: any
  int right;         // key <= query position + right
  int tile_queries;
  int tile_count;  // kept, since kernels would divide for every tile

  PHASOR_HD int offset() const { return keys - queries; }  // query i stands there beyond i
  PHASOR_HD int key_heads() const { return heads / heads_of_key; }
  PHASOR_HD int blocks() const { return (keys + kBlockKeys - 1) / kBlockKeys; }
  PHASOR_HD int tiles() const { return tile_count; }
  PHASOR_HD int rows() const { return tiles() * tile_queries; }  // queries with those that fill the last tile
  PHASOR_HD int work() const { return blocks() * key_heads() * batch; }
};

/// A block of keys of one key head.
struct KeyWork {
  int block;
  int key_head;
  int batch;

  PHASOR_HD int key() const { return block * kBlockKeys; }
};
PHASOR_HD inline KeyWork key_work_at(const KeyTiles& t, int number) {
  const int blocks = t.blocks();
  const int all = t.key_heads() * t.batch;
  const int first = number / (blocks * t.together) * t.together;
  const int width = t.together < all - first ? t.together : all - first;
  const int inside = number - first * blocks;
  const int head = first + inside % width;
  return {inside / width, head % t.key_heads(), head / t.key_heads()};
}

/// Numbers from first to end - 1; none where end <= first.
struct Span {
  int first;
  int end;
};
/// Tiles of queries some of which see some key of a block.
PHASOR_HD inline Span query_tiles(const KeyTiles& t, int block) {
  const int key = block * kBlockKeys;
  const int last_key = (key + kBlockKeys < t.keys ? key + kBlockKeys : t.keys) - 1;
  int first = key - t.right - t.offset();
  int last = last_key + t.left - t.offset();
  if (first < 0) first = 0;
  if (last > t.queries - 1) last = t.queries - 1;
  if (last < first) return {0, 0};
  return {first / t.tile_queries, last / t.tile_queries + 1};
}
/// Blocks of keys that visit a tile of queries: those whose query_tiles have it.
PHASOR_HD inline Span key_blocks(const KeyTiles& t, int tile) {
  const int row = tile * t.tile_queries;
  const int last_row = (row + t.tile_queries < t.queries ? row + t.tile_queries : t.queries) - 1;
  int first = row + t.offset() - t.left;
  int last = last_row + t.offset() + t.right;
  if (first < 0) first = 0;
  if (last > t.keys - 1) last = t.keys - 1;
  if (last < first) return {0, 0};
  return {first / kBlockKeys, last / kBlockKeys + 1};
}
/// Whether some query of the tile from `row` on does not see some of 64 keys from `key` on. Queries beyond the last need no mask.
PHASOR_HD inline bool is_partial(const KeyTiles& t, int key, int row) {
  const int position = row + t.offset();
  const int last = position + t.right < t.keys - 1 ? position + t.right : t.keys - 1;
  return key + 63 > last || key < position + t.tile_queries - 1 - t.left;
}

/// Windows of a backward have values of row - key (of the query's number) from `first` on. Whether one value serves a block and a tile: -1
/// on the left, 1 on the right, 0 no.
PHASOR_HD inline int far_side(const KeyTiles& t, const Windows& w, int key, int row) {
  if (row + t.offset() - (key + kBlockKeys - 1) >= w.far_left) return -1;
  return key - (row + t.tile_queries - 1 + t.offset()) >= w.far_right ? 1 : 0;
}

/// Of a table of clipped rows: blocks of keys that visit a tile of queries and are not far from it (far_side is 0).
PHASOR_HD inline Span near_blocks(const KeyTiles& t, const Clips& c, int tile) {
  const Span all = key_blocks(t, tile);
  const int position = tile * t.tile_queries + t.offset();
  const int least = position - c.left - kBlockKeys + 2, most = position + t.tile_queries - 2 + c.right;  // of a block's first key
  int first = least <= 0 ? 0 : (least + kBlockKeys - 1) / kBlockKeys;
  int end = most < 0 ? 0 : most / kBlockKeys + 1;
  if (first < all.first) first = all.first;
  if (end > all.end) end = all.end;
  return first < end ? Span{first, end} : Span{0, 0};
}
/// No tile has more of them: it depends on where in a block of keys a tile begins.
PHASOR_HD inline int most_near_blocks(const KeyTiles& t, const Clips& c) {
  int most = 0;
  for (int tile = 0; tile * t.tile_queries < kBlockKeys; ++tile) {
    // Some whole blocks on, so that nothing is negative.
    const int on = 4 + (c.left + kBlockKeys - 1) / kBlockKeys;
    const int position = tile * t.tile_queries + t.offset() % kBlockKeys + on * kBlockKeys;
    const int before = (position - c.left - kBlockKeys + 1) / kBlockKeys, last = (position + t.tile_queries - 2 + c.right) / kBlockKeys;
    if (last - before > most) most = last - before;
  }
  return most < t.blocks() ? most : t.blocks();
}

/// Numbers of a tile's dq; beside a table two for each query behind them: sums of what lies beyond the clips, in far tiles.
constexpr int kDqNumbers = 64 * 128;
PHASOR_HD inline int dq_numbers(const KeyTiles& t, bool table) { return kDqNumbers + (table ? 2 * t.tile_queries : 0); }
/// Tiles of a head are dealt to so many blocks before and after a backward with a table, by the shape alone; each adds up its own part of
/// the table's gradient.
PHASOR_HD inline int parts_of(const KeyTiles& t) {
  constexpr int kBlocks = 512;
  const int heads = t.heads * t.batch, parts = (kBlocks + heads - 1) / heads;
  return parts < t.tiles() ? parts : t.tiles();
}
/// Parts of the gradient of what is added to queries: 16 of these each.
PHASOR_HD inline int shift_parts(const KeyTiles& t) { return (t.queries + 15) / 16; }
/// Rows of the table, and four for sums beyond its clips: each is two numbers of 16 bits.
PHASOR_HD inline int table_lines(const Clips& c) { return c.rows() + 4; }

/// The steps of a block: its tiles from the last to the first, for one query head after the other.
struct Walk {
  Span tiles;
  int head;  // of the queries
  int end_head;
  int tile;

  PHASOR_HD Walk(const KeyTiles& t, const KeyWork& at)
      : tiles(query_tiles(t, at.block)),
        head(at.key_head * t.heads_of_key),
        end_head(tiles.first < tiles.end ? head + t.heads_of_key : head),
        tile(tiles.end - 1) {}
  PHASOR_HD bool is_there() const { return head < end_head; }
  PHASOR_HD int steps() const { return (end_head - head) * (tiles.end - tiles.first); }  // of a walk that begins
  PHASOR_HD bool is_last_of_head() const { return tile == tiles.first; }
  PHASOR_HD bool is_last() const { return is_last_of_head() && head + 1 == end_head; }
  PHASOR_HD void next() {
    if (--tile < tiles.first) tile = tiles.end - 1, ++head;
  }
};

}  // namespace phasor::cuda::hopper
