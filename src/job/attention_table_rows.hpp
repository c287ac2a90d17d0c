// SPDX-License-Identifier: Apache-2.0
// Tables whose row a distance chooses, as plain data: what the query, key and value side share.
#pragma once

#include <cstdint>

namespace phasor::job {

/// Which row of a packed table a distance reads, by column = key - query - first: columns below 0 read what column 0 does, columns from
/// count on what the last one does. The packed row of a column is the column itself, or rows[column] where that is given (buckets).
struct TableBand {
  std::int64_t first = 0;              // key - query of column 0
  std::int64_t count = 0;              // of columns, at least 1
  std::int64_t packed_rows = 0;        // count, or the rows of the table where `rows` is given
  const std::int32_t* rows = nullptr;  // (count); null: the column
  bool bucketed = false;               // `rows` is given (it is null while measuring, too)
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

}  // namespace phasor::job
