// SPDX-License-Identifier: Apache-2.0
// Jobs of learned tables: plain data in which every check has passed, every position among them.
#pragma once

#include <span>

#include "job/additive.hpp"
#include "phasor/learned.hpp"

namespace phasor::job {

/// Rows of one axis. The stride is in elements.
struct LookupTable {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;
  std::int64_t width = 0;
};

struct LookupJob {
  Device device;
  AddTarget target;
  LookupTable tables[kMaxAxes];
  std::int64_t table_count = 0;
  PositionSource positions;
  std::int64_t offset = 0;
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
};
Result<LookupJob> make_lookup_job(const InOut& x, std::span<const ConstTensorView> tables, const Positions& positions, std::int64_t offset);

/// Every row of a table gains the gradients of its tokens. Positions are whole and name rows of the table, or the row without gradient.
struct ScatterJob {
  Device device;
  TensorView table;
  ConstTensorView gradient;
  PositionSource positions;
  std::int64_t offset = 0;
  std::int64_t padding_row = -1;  // -1: none
};
Result<ScatterJob> make_scatter_job(const TensorView& table_gradient, const ConstTensorView& gradient, const Positions& positions,
                                    const ScatterOptions& options);

PHASOR_MEMBERS(LookupTable, data, dtype, row_stride, width)
PHASOR_MEMBERS(LookupJob, device, target, tables, table_count, positions, offset, batch, tokens)
PHASOR_MEMBERS(ScatterJob, device, table, gradient, positions, offset, padding_row)

/// A table that is read, (1, N, 1, D).
Status check_learned_table(const char* where, const char* name, const ConstTensorView& table);
/// A tensor, and what messages call it.
struct Named {
  const char* name;
  ConstTensorView view;
};
/// A table that is written, of as many channels as `source`: every element once, and none of `source`.
Status check_written_table(const char* where, const Named& out, const Named& source);

}  // namespace phasor::job
