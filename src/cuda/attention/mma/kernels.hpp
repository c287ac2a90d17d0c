// SPDX-License-Identifier: Apache-2.0
// The kernels, and how large their blocks are; a file per width compiles them.
#pragma once

#include "cuda/attention/mma/call.hpp"
#include "cuda/attention/mma/cope/room.hpp"

namespace phasor::cuda::attention::mma {

/// Registers hold 32 rows of a warp where they can: rows of keys are then read once for two products. Shared memory is 96 KiB at most.
constexpr Cut cut_for(int width, ScoresIn scores) {
  const bool shared = is_shared(scores);
  if (scores == ScoresIn::tabled) return {width, 64, width > 64 ? 32 : 64, scores};
  if (scores == ScoresIn::counted) return {width, cope::kQueries, width > 128 ? 32 : 64, scores};
  return {width, shared || width > 128 ? 64 : 128, shared && width > 64 ? 32 : 64, scores};
}
/// Bytes of a block's queries, keys and values.
constexpr int row_bytes(const Cut& cut) { return (cut.queries + 2 * cut.keys) * cut.width * 2; }
/// Of a block of CoPE's.
constexpr int64_t counted_bytes(const Cut& cut, int64_t rows) { return row_bytes(cut) + cope::product_bytes(rows); }
constexpr bool fits_counted(const Cut& cut, int64_t rows) {
  return rows <= cope::kMostRows && counted_bytes(cut, rows) <= cope::kMostBytes;
}

/// Channels of heads whose scores stay in registers beside tables.
constexpr int64_t kMostTabledWidth = 128;

/// `table_bytes`: of the rows of a table.
struct Kernel {
  const void* kernel;
  std::size_t shared_bytes;
  std::size_t table_bytes = 0;
};
/// What a block of a call takes of a kernel's bytes: CoPE's products come on top of them; without a second table, and features in its
/// place, its rows are left out.
std::size_t shared_bytes_of(const AttentionWork& work, std::size_t most, std::size_t table_bytes);
Kernel kernel_64(DType dtype, ScoresIn scores);
Kernel kernel_128(DType dtype, ScoresIn scores);
Kernel kernel_256(DType dtype, ScoresIn scores);
/// With tables of values.
Kernel valued_kernel_64(DType dtype);
Kernel valued_kernel_128(DType dtype);
Kernel valued_kernel_256(DType dtype);
/// With CoPE; the products with its table come on top of these bytes.
Kernel counted_kernel_64(DType dtype);
Kernel counted_kernel_128(DType dtype);
Kernel counted_kernel_256(DType dtype);
/// With tables by distance.
Kernel tabled_kernel_64(DType dtype);
Kernel tabled_kernel_128(DType dtype);

}  // namespace phasor::cuda::attention::mma
