// SPDX-License-Identifier: Apache-2.0
// Host tables of a job as a part of a kernel's parameter: their bytes, and in the job, in the place of each pointer, where they begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "job/rotary.hpp"

namespace phasor::cuda {

/// Room for the tables, and how much is taken. A call whose tables do not fit is not launched.
class TablePacker {
 public:
  TablePacker(std::byte* to, std::size_t room) : to_(to), room_(room) {}

  /// Copies a table and puts its place, counted from 1, where the pointer was; null stays.
  template <class T>
  void pack(const T*& table, std::int64_t count) {
    if (table == nullptr) return;
    used_ = (used_ + 15) / 16 * 16;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (used_ + bytes <= room_) std::memcpy(to_ + used_, table, bytes);
    table = reinterpret_cast<const T*>(used_ + 1);
    used_ += bytes;
  }
  bool fits() const { return used_ <= room_; }

 private:
  std::byte* to_;
  std::size_t room_;
  std::size_t used_ = 0;
};

/// What a GPU reads of a row source: not the turns from row to row, which are for recurrences.
inline void pack_tables(job::RowSource& rows, TablePacker& packer) {
  rows.turn_cos = rows.turn_sin = nullptr;
  packer.pack(rows.steps, rows.step_count);
  packer.pack(rows.axis_of_pair, rows.step_count);
  packer.pack(rows.profile.frequencies, rows.profile.count);
  packer.pack(rows.profile.running, rows.profile.count);
}
}  // namespace phasor::cuda
