// SPDX-License-Identifier: Apache-2.0
// A list of specs put where a kernel reads it. A list may be longer than a parameter: then a launch takes some of it, and leaves the tokens
// of the others to the next; nothing is allocated for it but what plans keep of their own tables.
#pragma once

#include <algorithm>
#include <cstring>

#include "cuda/copies.hpp"
#include "cuda/rotary/specs.hpp"

namespace phasor::cuda {

static_assert(sizeof(job::RowSource) <= kTableBytes);

inline job::RowSource* in_room(TableRoom& room) { return reinterpret_cast<job::RowSource*>(room.bytes); }

/// Sources first, then the tables of each. False where all of it does not fit; then the list is as before.
inline bool pack_specs(TableRoom& room, job::SpecList& list) {
  const std::size_t bytes = static_cast<std::size_t>(list.count) * sizeof(job::RowSource);
  if (bytes > kTableBytes) return false;
  TablePacker packer(room.bytes + bytes, kTableBytes - bytes, bytes);
  for (std::int64_t i = 0; i < list.count; ++i) {
    job::RowSource source = list.rows[i];
    pack_tables(source, packer);
    std::memcpy(static_cast<void*>(in_room(room) + i), &source, sizeof source);
  }
  room.elsewhere = !packer.fits();
  return packer.fits();
}

/// Puts a list, or as much of it as a launch takes, into a room; list.count says how much. What does not fit with its tables has them
/// elsewhere: copy(table, count, copies) makes a pointer of the device of each.
template <class Copy>
void place_specs(TableRoom& room, job::SpecList& list, const Copy& copy) {
  if (!pack_specs(room, list)) {
    room.elsewhere = true;
    list.count = std::min(list.count, static_cast<std::int64_t>(kTableBytes / sizeof(job::RowSource)));
    for (std::int64_t i = 0; i < list.count; ++i) {
      job::RowSource source = list.rows[i];
      each_table(source, copy);
      std::memcpy(static_cast<void*>(in_room(room) + i), &source, sizeof source);
    }
  }
}

/// Where a kernel whose parameter has such a room finds its specs.
PHASOR_HD inline SpecsAt specs_in(const TableRoom& room, const job::SpecList& list) {
  return {&list, list.count == 0 ? nullptr : reinterpret_cast<const job::RowSource*>(room.bytes), room.data()};
}

/// launch(some) for all specs of a list, some at a time: those that `room`, a part of the kernel's parameter, holds. To the first error.
template <class Copy, class Launch>
Status each_part(TableRoom& room, const job::SpecList& all, const Copy& copy, const Launch& launch) {
  job::SpecList left = all;
  while (left.count > 0) {
    job::SpecList some = left;
    place_specs(room, some, copy);
    if (Status s = launch(some); !s) return s;
    left.rows += some.count;
    left.first += some.count;
    left.count -= some.count;
  }
  return {};
}
template <class Launch>
Status launch_specs(const char* where, Device device, TableRoom& room, const job::SpecList& all, const Launch& launch) {
  Status copied;
  const CopyTables copy = {where, device, copied};
  // Where there are several parts, all tables come first: a copy that fails then fails before anything is launched.
  if (all.count > static_cast<std::int64_t>(kTableBytes / sizeof(job::RowSource))) {
    if (Status s = each_part(room, all, copy, [&](const job::SpecList&) { return copied; }); !s) return s;
  }
  return each_part(room, all, copy, [&](const job::SpecList& some) { return copied.ok() ? launch(some) : copied; });
}

}  // namespace phasor::cuda
