// SPDX-License-Identifier: Apache-2.0
// Which calls of attention the kernels of mma.sync take, how those are cut into blocks, and the launch. 16-bit tensors on compute
// capability 8 and newer, every scheme but those that why_not names.
#pragma once

#include <cstddef>

#include "cuda/attention/work.hpp"
#include "phasor/result.hpp"

namespace phasor::cuda::attention::mma {

/// The least that has the instructions.
constexpr int kComputeMajor = 8;

/// Channels of a row in shared memory: those of queries, keys, values and tables, and zeros.
constexpr int kWidths[] = {64, 128, 256};

/// How scores become what the softmax takes: in the registers of products (at tokens' own positions, without terms), there with one bias by
/// distance or a soft cap, or by way of shared memory, where threads add every other term. Shared with values: with tables that are added
/// to values, and tiles whose distances all have one row stay in registers. Counted: CoPE alone, in registers, with products of queries and
/// its table in shared memory. Tabled: in registers, with tables by distance, one of them of values or none.
enum class ScoresIn : std::uint8_t { registers, changed_in_registers, shared, shared_with_values, counted, tabled };
constexpr bool is_shared(ScoresIn scores) { return scores == ScoresIn::shared || scores == ScoresIn::shared_with_values; }

/// A block has so many queries of a head, and walks tiles of so many keys.
struct Cut {
  int width = 0;
  int queries = 0;
  int keys = 0;
  ScoresIn scores = ScoresIn::registers;
};

/// Channels side by side in pieces of 16 bytes, as copies want them.
bool is_in_pieces(const ConstTensorView& v);
bool has_cope(const AttentionWork& work);
/// Queries, or both sides, are copies that the call rotates.
bool is_rotated_here(const AttentionWork& work);
/// nullptr: a call that has been laid out is taken; else what of it is not, in words.
const char* why_not(const AttentionWork& work);
/// Of a call that is taken.
Cut cut_of(const AttentionWork& work);
int64_t block_count(const AttentionWork& work, const Cut& cut);

/// Puts it on a stream: one kernel, which neither allocates nor waits. A value of v in a row that a query does not see must be finite
/// nevertheless, unless it is masked as padding.
Status run(const char* where, const AttentionWork& work, void* stream);

}  // namespace phasor::cuda::attention::mma
