// SPDX-License-Identifier: Apache-2.0
// Every check of a call on learned tables: views, and every position against the length of its table.
#include "job/learned.hpp"

#include "job/check.hpp"
#include "job/overlap.hpp"
#include "job/positions/positions.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

/// The rows that positions of one axis are checked against.
struct TableRows {
  std::int64_t axis;
  std::int64_t rows;
  std::int64_t offset;
};

Positions axis_of(const Positions& positions, std::int64_t axis) {
  if (positions.data == nullptr || positions.shape[0] == 1) return positions;
  Positions one = positions;
  const std::int64_t bytes = positions.type == PositionType::i32 ? 4 : 8;
  one.data = static_cast<const std::byte*>(positions.data) + axis * positions.strides[0] * bytes;
  one.shape[0] = 1;
  return one;
}

Status check_rows(const char* where, const Positions& positions, const PositionShape& shape, const TableRows& table) {
  if (positions.data != nullptr && positions.device.kind != DeviceKind::cpu) return {};  // their values are the caller's word
  const Positions one = axis_of(positions, table.axis);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
      const std::int64_t position = integer_at(one, b, t);
      std::int64_t row = 0;
      if (!__builtin_add_overflow(position, table.offset, &row) && row >= 0 && row < table.rows) continue;
      const std::string by = table.offset == 0 ? "" : spec::format(" + {}", table.offset);
      return error(where, "token {} of batch row {} is at position {}{}, the table has {} rows, 0 to {}", t, b, position, by, table.rows,
                   table.rows - 1);
    }
    if (one.data == nullptr || one.shape[1] == 1) break;  // every batch row has these positions
  }
  return {};
}

Status check_integers(const char* where, const Positions& positions) {
  if (positions.data == nullptr || positions.type != PositionType::f64) return {};
  return error(where, "positions are f64, wanted i32 or i64: a table has whole rows");
}

Status check_tables(const char* where, const InOut& x, std::span<const ConstTensorView> tables) {
  if (tables.empty() || tables.size() > static_cast<std::size_t>(kMaxAxes)) {
    return error(where, "there are {} tables, wanted 1 to {}", tables.size(), kMaxAxes);
  }
  std::int64_t width = 0;
  for (const ConstTensorView& table : tables) {
    if (Status s = check_learned_table(where, "table", table); !s) return s;
    if (table.dtype == DType::f64 && x.in.dtype != DType::f64)
      return error(where, "table is f64 and x is {}, wanted f32, f16 or bf16", name_of(x.in.dtype));
    if (Status s = check_device(where, "a table is", table.device, x.out.device); !s) return s;
    if (overlap(x.out, table) != Overlap::none) return error(where, "table overlaps x's output, wanted memory apart");
    width += table.shape[3];
  }
  return check_add_target(where, "x", x, width);
}

}  // namespace

Status check_learned_table(const char* where, const char* name, const ConstTensorView& table) {
  if (Status s = check_view(where, name, table); !s) return s;
  if (table.shape[0] != 1 || table.shape[2] != 1) {
    return error(where, "{} has shape ({}, {}, {}, {}), wanted (1, rows, 1, channels)", name, table.shape[0], table.shape[1],
                 table.shape[2], table.shape[3]);
  }
  return {};
}

Status check_written_table(const char* where, const Named& out, const Named& source) {
  const Extents& shape = out.view.shape;
  if (Status s = check_view(where, out.name, out.view); !s) return s;
  if (shape[2] != 1) return error(where, "{} has {} heads, wanted 1", out.name, shape[2]);
  if (shape[3] != source.view.shape[3]) {
    return error(where, "{} has {} channels, {} has {}", out.name, shape[3], source.name, source.view.shape[3]);
  }
  if (self_overlap(out.view) != Overlap::none) {
    return error(where, "{} is a view in which elements repeat, wanted each element once", out.name);
  }
  if (out.view.device != source.view.device) {
    return error(where, "{} is on {} and {} on {}, wanted one device", out.name, name_of(out.view.device), source.name,
                 name_of(source.view.device));
  }
  if (overlap(out.view, source.view) != Overlap::none) return error(where, "{} overlaps {}, wanted memory apart", out.name, source.name);
  return {};
}

Result<LookupJob> make_lookup_job(const InOut& x, std::span<const ConstTensorView> tables, const Positions& positions,
                                  std::int64_t offset) {
  const char* where = "lookup_add";
  if (Status s = check_view(where, "x", x.out); !s) return s;
  if (Status s = check_tables(where, x, tables); !s) return s;
  const PositionShape shape = {x.out.shape[0], x.out.shape[1], static_cast<std::int64_t>(tables.size()), x.out.device};
  if (Status s = check_positions(where, positions, shape); !s) return s;
  if (Status s = check_integers(where, positions); !s) return s;
  if (positions.data != nullptr && overlap(x.out, view_of(positions)) != Overlap::none) {
    return error(where, "positions overlap x's output, wanted memory apart");
  }
  LookupJob job;
  for (const ConstTensorView& table : tables) {
    if (Status s = check_rows(where, positions, shape, {job.table_count, table.shape[1], offset}); !s) return s;
    job.tables[job.table_count++] = {static_cast<const std::byte*>(table.data), table.dtype, table.strides[1], table.shape[3]};
  }
  job.device = x.out.device;
  job.target = target_of(x, true);
  job.positions = source_of(positions, job.table_count);
  job.offset = offset;
  job.batch = shape.batch;
  job.tokens = shape.tokens;
  return job;
}

Result<ScatterJob> make_scatter_job(const TensorView& table_gradient, const ConstTensorView& gradient, const Positions& positions,
                                    const ScatterOptions& options) {
  const char* where = "scatter_gradient";
  if (Status s = check_learned_table(where, "table_gradient", table_gradient); !s) return s;
  if (Status s = check_view(where, "gradient", gradient); !s) return s;
  if (gradient.shape[2] != 1) return error(where, "gradient has {} heads, wanted 1", gradient.shape[2]);
  if (Status s = check_written_table(where, {"table_gradient", table_gradient}, {"gradient", gradient}); !s) return s;
  const PositionShape shape = {gradient.shape[0], gradient.shape[1], 1, gradient.device};
  if (Status s = check_positions(where, positions, shape); !s) return s;
  if (Status s = check_integers(where, positions); !s) return s;
  if (positions.data != nullptr && overlap(table_gradient, view_of(positions)) != Overlap::none) {
    return error(where, "positions overlap table_gradient, wanted memory apart");
  }
  const std::int64_t rows = table_gradient.shape[1];
  if (Status s = check_rows(where, positions, shape, {0, rows, options.offset}); !s) return s;
  ScatterJob job{table_gradient.device,   table_gradient, gradient,
                 source_of(positions, 1), options.offset, options.padding_row.value_or(-1)};
  return job;
}

}  // namespace phasor::job
