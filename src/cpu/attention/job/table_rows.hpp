// SPDX-License-Identifier: Apache-2.0
// Tables whose row a distance chooses, as plain data: what the query, key and value side share.
#pragma once

#include <cstdint>

namespace phasor::attend {

/// Which row of a packed table a distance reads: that of its column, key - query - first. Columns below 0 read what column 0 does, columns
/// from count on what the last one does.
struct TableBand {
  std::int64_t first = 0;              // key - query of column 0
  std::int64_t count = 0;              // of columns, at least 1
  const std::int32_t* rows = nullptr;  // (count): the row of the caller's table, where buckets choose it; null: no buckets, or no memory
};

/// A table of T in the workspace: one for every batch row and head that has its own.
struct PackedTable {
  void* data = nullptr;
  std::int64_t size = 0;          // T of one table
  std::int64_t batch_stride = 0;  // in tables; 0: shared
  std::int64_t head_stride = 0;

  template <class T>
  const T* of(std::int64_t batch, std::int64_t head) const {
    return static_cast<const T*>(data) + (batch * batch_stride + head * head_stride) * size;
  }
};

/// How products of a tile of queries and a table, and sums that belong to them, are kept. whole: every column of the band. sliding: the
/// columns that a tile of scores needs, and some beside; the packed table then has kTableMargin more rows at both ends.
enum class TableWay : std::uint8_t { whole, sliding };

/// Columns beyond either end of the band that a row of scores may touch: as many as a tile has keys.
constexpr std::int64_t kTableMargin = 64;
/// Lanes that a sum is spread over, at most.
constexpr std::int64_t kTableLanes = 16;
/// What a tile of queries has made so far, in float32 words of scratch.
constexpr std::int64_t kTableTags = 32;

/// Where a tile's buffers begin in the scratch of a term, in T; a buffer that is not used has no size. See
/// cpu/attention/terms/table_windows.inl.
struct TableBuffers {
  std::int64_t stride = 0;    // of a query's products and sums
  std::int64_t tags = 0;      // kTableTags words
  std::int64_t features = 0;  // (kQueryTile, padded_width)
  std::int64_t products = 0;  // (kQueryTile, stride), and kTableMargin before and after
  std::int64_t end_products = 0;
  std::int64_t sums = 0;
  std::int64_t end_sums = 0;
  std::int64_t pending = 0;
  std::int64_t result = 0;       // (kQueryTile, padded_width)
  std::int64_t column_sums = 0;  // (kTableMargin), or (row_count) where it is whole
  std::int64_t size = 0;
};

/// Backward: the rows of a packed table that the distances of a group of sequences reach, and where their sums lie: (heads, count,
/// padded_width) T. Many short sequences then have short sums, however long the table is.
struct SlotRows {
  std::int64_t first = 0;
  std::int64_t count = 0;   // 0: nothing is ever seen
  std::int64_t offset = 0;  // T before them
};

/// What the query and the value side share.
struct TableParts {
  TableBand band;
  TableWay way = TableWay::whole;
  std::int64_t width = 0;
  std::int64_t padded_width = 0;        // of a packed row: padded(width)
  std::int64_t row_count = 0;           // of the packed table, margins included
  PackedTable panels;                   // (panels, width, kKeyTile): the table transposed, for products; data null: not needed
  PackedTable rows;                     // (row_count, padded_width); data null: not needed
  void* sums = nullptr;                 // backward: the table's gradient, by slots; null: not wanted
  const SlotRows* slot_rows = nullptr;  // (groups, parts)
  TableBuffers layout;
};

}  // namespace phasor::attend
