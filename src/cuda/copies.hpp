// SPDX-License-Identifier: Apache-2.0
// Tables that do not fit into a kernel's parameter: copied to the device by the first call, and kept there by their plan.
#pragma once

#include "cuda/tables.hpp"
#include "phasor/result.hpp"

namespace phasor::cuda {

/// The copy of a list on the current device, `device`.
Result<const void*> copy_on_device(const char* where, const plan::DeviceCopies* copies, const plan::DeviceCopies::Of& of);

/// For each_table: puts the pointer to its copy on the current device, `device`, in the place of each; not after the first that failed.
struct CopyTables {
  const char* where;
  Device device;
  Status& status;

  template <class T>
  void operator()(const T*& table, std::int64_t count, const plan::DeviceCopies* copies) const {
    if (table == nullptr || !status.ok()) return;
    const auto copied = copy_on_device(where, copies, {device.index, table, static_cast<std::size_t>(count) * sizeof(T)});
    (void)(status = copied.status());
    if (copied.ok()) table = static_cast<const T*>(*copied);
  }
};

/// Puts the tables of some jobs or sources where their kernel reads them: into the parameter's room, or onto the current device.
template <class... Jobs>
Status place_tables(const char* where, Device device, TableRoom& room, Jobs&... jobs) {
  if (pack_tables(room, jobs...)) return {};
  Status status;
  (each_table(jobs, CopyTables{where, device, status}), ...);
  return status;
}

}  // namespace phasor::cuda
