// SPDX-License-Identifier: Apache-2.0
// Jobs of the position builders that a decode loop calls on any device: plain data in which every check of shapes has passed. What the
// lists hold is checked by the CPU alone; in memory of another device it is the caller's word.
#pragma once

#include <cstdint>

#include "job/rotary.hpp"
#include "phasor/position_builders.hpp"

namespace phasor {
PHASOR_MEMBERS(Integers, data, size, bytes, device)
}

namespace phasor::job {

/// Element i of a list that check_list has seen.
PHASOR_HD inline std::int64_t at(const Integers& list, std::int64_t i) {
  if (list.bytes == 8) return static_cast<const std::int64_t*>(list.data)[i];
  if (list.bytes == 4) return static_cast<const std::int32_t*>(list.data)[i];
  return static_cast<const std::uint8_t*>(list.data)[i];
}

struct BuildJob {
  enum class Kind : std::uint8_t { offset, offsets, ragged, slots };
  Device device;
  Kind kind = Kind::offset;
  PositionsView out;
  std::int64_t offset = 0;
  Integers offsets;     // one per row, or per sequence; may be empty
  Integers cu_seqlens;  // ragged; of slots, empty: row b is sequence b
  // Slots of a paged cache
  Integers blocks;   // (sequences, pages)
  Integers lengths;  // may be empty
  std::int64_t page_size = 1;
  std::int64_t sequences = 0;
  PositionSource at;
};
PHASOR_MEMBERS(BuildJob, device, kind, out, offset, offsets, cu_seqlens, blocks, lengths, page_size, sequences, at)

Result<BuildJob> make_offset_job(const PositionsView& out, std::int64_t offset);
Result<BuildJob> make_offsets_job(const PositionsView& out, const Integers& offsets);
Result<BuildJob> make_ragged_job(const PositionsView& out, const Ragged& ragged);
Result<BuildJob> make_slots_job(const PositionsView& out, const PageTable& table, const Positions& at, const Integers& cu_seqlens);

/// Of a page table, (sequences, pages), and its lengths.
Status check_table(const char* where, const PageTable& table, std::int64_t sequences, const PositionsView& out);

/// The function that a job is of, which begins every message.
inline const char* name_of(BuildJob::Kind kind) {
  constexpr const char* names[] = {"fill_from_offset", "fill_from_offsets", "fill_from_cu_seqlens", "fill_slots"};
  return names[static_cast<int>(kind)];
}

}  // namespace phasor::job
