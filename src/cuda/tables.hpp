// SPDX-License-Identifier: Apache-2.0
// Host tables of a job on a device: as a part of the kernel's parameter where they fit, their place in it where each pointer was; else as
// copies in memory of the device, which the plan keeps, and pointers as they seem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "cuda/tuning.hpp"
#include "job/additive.hpp"
#include "job/bias.hpp"
#include "job/phase_gradient.hpp"
#include "job/rotary.hpp"

namespace phasor::cuda {

/// The tables of a parameter.
struct TableRoom {
  alignas(16) std::byte bytes[kTableBytes];
  bool elsewhere = false;  // they did not fit: the pointers are to memory of the device

  /// What places are counted from; null: pointers are what they seem.
  PHASOR_HD const std::byte* data() const { return elsewhere ? nullptr : bytes; }
};

/// A job as the parameter of a kernel.
template <class Job>
struct Parameter {
  Job job;
  TableRoom tables;

  explicit Parameter(const Job& given) : job(given) {}  // the room is not cleared: that would take as long as the launch
};

// ---- Which tables a device reads: each(pointer, count, where their plan keeps copies) ----

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
/// Not the turns from row to row, which are for recurrences.
template <class Each>
PHASOR_HD void each_table(job::RowSource& rows, const Each& each) {
  rows.turn_cos = rows.turn_sin = nullptr;
  each(rows.steps, rows.step_count, rows.copies);
  each(rows.axis_of_pair, rows.step_count, rows.copies);
  each(rows.profile.frequencies, rows.profile.count, rows.copies);
  each(rows.profile.running, rows.profile.count, rows.copies);
}

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Each>
PHASOR_HD void each_table(job::AddJob& job, const Each& each) {
  each_table(job.rows, each);
  each(job.parts, job.part_count, job.rows.copies);
}

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Each>
PHASOR_HD void each_table(job::LadderSource& ladder, const Each& each) {
  each(ladder.frequencies, ladder.count, ladder.copies);
  each(ladder.axis_of_pair, ladder.count, ladder.copies);
}

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Each>
PHASOR_HD void each_table(plan::BiasSource& bias, const Each& each) {
  each(bias.slopes, bias.heads, bias.copies);
  each(bias.table, bias.heads * bias.rows, bias.copies);
  each(bias.row.thresholds, bias.row.threshold_count, bias.copies);
  each(bias.r1, bias.heads, bias.copies);
  each(bias.r2, bias.heads, bias.copies);
  each(bias.steps, bias.step_count, bias.copies);
  each(bias.mlp.widths, bias.mlp.width_count, bias.copies);
  each(bias.mlp.parameters, bias.mlp.parameter_count, bias.copies);
}

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Job, class Each>
  requires requires(Job& job) { job.ladder; }
PHASOR_HD void each_table(Job& job, const Each& each) {
  each_table(job.ladder, each);
}

#ifdef __CUDACC__
#pragma nv_exec_check_disable
#endif
template <class Job, class Each>
  requires requires(Job& job) { job.bias.scheme; }
PHASOR_HD void each_table(Job& job, const Each& each) {
  each_table(job.bias, each);
}

// ---- Packed, and found again ----

/// Where a table begins among those of a parameter.
template <class T>
PHASOR_HD inline const T* found_table(const std::byte* tables, const T* packed) {
  if (tables == nullptr || packed == nullptr) return packed;
  return reinterpret_cast<const T*>(tables + reinterpret_cast<std::uintptr_t>(packed) - 1);
}

/// Makes pointers of places.
struct FindTables {
  const std::byte* tables;
  template <class T>
  PHASOR_HD void operator()(const T*& table, std::int64_t /*count*/, const plan::DeviceCopies* /*copies*/) const {
    table = found_table(tables, table);
  }
};

/// Copies tables into a room and puts the place of each, counted from 1, where the pointer was; null stays. What does not fit is only
/// counted.
class TablePacker {
 public:
  /// `before`: bytes of the parameter's tables that lie before these.
  TablePacker(std::byte* to, std::size_t room, std::size_t before = 0) : to_(to), room_(room), before_(before) {}

  template <class T>
  void pack(const T*& table, std::int64_t count) {
    if (table == nullptr) return;
    used_ = (used_ + 15) / 16 * 16;
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (used_ + bytes <= room_) std::memcpy(to_ + used_, table, bytes);
    table = reinterpret_cast<const T*>(before_ + used_ + 1);  // NOLINT(performance-no-int-to-ptr): a place, not an address
    used_ += bytes;
  }
  bool fits() const { return used_ <= room_; }

 private:
  std::byte* to_;
  std::size_t room_;
  std::size_t before_;
  std::size_t used_ = 0;
};

inline void pack_tables(job::RowSource& rows, TablePacker& packer) {
  each_table(rows, [&](auto& table, std::int64_t count, const plan::DeviceCopies*) { packer.pack(table, count); });
}

/// Packs the tables of some jobs or sources into one room; false where they do not fit, and then nothing has changed.
template <class... Jobs>
bool pack_tables(TableRoom& room, Jobs&... jobs) {
  const std::tuple<Jobs...> before(jobs...);
  TablePacker packer(room.bytes, kTableBytes);
  (each_table(jobs, [&](auto& table, std::int64_t count, const plan::DeviceCopies*) { packer.pack(table, count); }), ...);
  room.elsewhere = !packer.fits();
  if (room.elsewhere) std::tie(jobs...) = before;
  return packer.fits();
}

}  // namespace phasor::cuda
