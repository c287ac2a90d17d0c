// SPDX-License-Identifier: Apache-2.0
// Given tables, checked and made the source of a job's rows.
#include "job/tables/given.hpp"

#include "job/check.hpp"

namespace phasor::job {
namespace {

bool is_pairing(Pairing p) { return p == Pairing::half || p == Pairing::interleaved; }

std::int64_t width_of(const TableLayout& layout, std::int64_t head_dim) {
  return layout.rotary_width == 0 ? head_dim : layout.rotary_width;
}

/// cos or sin: (B or 1, T, 1 or H, R/2 or R).
Status check_table(const char* where, const NamedTensor& given, const NamedTensor& turned, std::int64_t width) {
  const auto& [name, table] = given;
  const ConstTensorView& q = turned.view;
  if (Status s = check_view(where, name, table); !s) return s;
  if (table.device != q.device) {
    return error(where, "{} is on {} and {} on {}, wanted one device", name, name_of(table.device), turned.name, name_of(q.device));
  }
  if (table.dtype == DType::f64 && q.dtype != DType::f64)
    return error(where, "{} is f64 and {} is {}, wanted f32, f16 or bf16 tables", name, turned.name, name_of(q.dtype));
  if (table.shape[0] != 1 && table.shape[0] != q.shape[0])
    return error(where, "{} has batch {}, wanted 1 or {}", name, table.shape[0], q.shape[0]);
  if (table.shape[1] != q.shape[1]) return error(where, "{} has {} tokens, wanted {}", name, table.shape[1], q.shape[1]);
  if (table.shape[2] != 1 && table.shape[2] != q.shape[2])
    return error(where, "{} has {} heads, wanted 1 or {}", name, table.shape[2], q.shape[2]);
  if (table.shape[3] != width / 2 && table.shape[3] != width) {
    return error(where, "{} has width {}, wanted {} (one value per pair) or {} (one value per channel)", name, table.shape[3], width / 2,
                 width);
  }
  return {};
}

void fill_rows_of(const ConstTensorView& cos, const ConstTensorView& sin, const TableLayout& layout, Direction direction, RowSource& rows) {
  rows.kind = RowSource::Kind::tables;
  rows.sine_sign = (layout.sense == Sense::clockwise) != (direction != Direction::forward) ? -1 : 1;
  rows.tables.cos = static_cast<const std::byte*>(cos.data);
  rows.tables.sin = static_cast<const std::byte*>(sin.data);
  rows.tables.dtype = cos.dtype;
  rows.tables.cos_strides[0] = cos.shape[0] == 1 ? 0 : cos.strides[0];
  rows.tables.cos_strides[1] = cos.strides[1];
  rows.tables.sin_strides[0] = sin.shape[0] == 1 ? 0 : sin.strides[0];
  rows.tables.sin_strides[1] = sin.strides[1];
  rows.tables.cos_head_stride = cos.shape[2] == 1 ? 0 : cos.strides[2];
  rows.tables.sin_head_stride = sin.shape[2] == 1 ? 0 : sin.strides[2];
  rows.shared = rows.tables.cos_strides[0] == 0 && rows.tables.sin_strides[0] == 0;
}

}  // namespace

Geometry geometry_of(const TableLayout& layout, std::int64_t head_dim) {
  return {width_of(layout, head_dim), layout.rotary_offset, layout.segments, layout.pairing,
          layout.output_pairing.value_or(layout.pairing)};
}

Status check_layout(const char* where, const TableLayout& layout, std::int64_t head_dim) {
  if (!is_pairing(layout.pairing) || !is_pairing(layout.output_pairing.value_or(layout.pairing))) {
    return error(where, "layout has an unknown pairing, wanted half or interleaved");
  }
  if (layout.sense != Sense::counterclockwise && layout.sense != Sense::clockwise) {
    return error(where, "layout has an unknown sense ({}), wanted counterclockwise or clockwise", static_cast<int>(layout.sense));
  }
  if (layout.numerics > Numerics::ggml) {
    return error(where, "layout has unknown numerics ({}), wanted exact, hf, hf_float32, vllm or ggml", static_cast<int>(layout.numerics));
  }
  const std::int64_t width = width_of(layout, head_dim);
  if (width < 0 || width % 2 != 0) return error(where, "rotary_width is {}, wanted an even number", width);
  if (layout.segments < 1 || (width / 2) % layout.segments != 0) {
    return error(where, "segments is {}, wanted a divisor of {}, half the rotary width", layout.segments, width / 2);
  }
  if (layout.rotary_offset < 0 || width > head_dim || layout.rotary_offset > head_dim - width) {
    return error(where, "rotary_width {} at rotary_offset {} does not fit head_dim {}", width, layout.rotary_offset, head_dim);
  }
  return {};
}

Status check_tables(const char* where, const GivenTables& tables, const NamedTensor& turned, std::int64_t head_dim) {
  const auto& [cos, sin, layout] = tables;
  const std::int64_t width = width_of(layout, head_dim);
  if (Status s = check_table(where, {"cos", cos}, turned, width); !s) return s;
  if (Status s = check_table(where, {"sin", sin}, turned, width); !s) return s;
  if (cos.dtype != sin.dtype) return error(where, "cos is {} and sin is {}, wanted one dtype", name_of(cos.dtype), name_of(sin.dtype));
  if (cos.shape[3] != sin.shape[3]) return error(where, "cos has width {} and sin has {}, wanted the same", cos.shape[3], sin.shape[3]);
  if (cos.shape[2] != sin.shape[2]) return error(where, "cos has {} heads and sin has {}, wanted the same", cos.shape[2], sin.shape[2]);
  return {};
}

void fill_tables(const GivenTables& tables, std::int64_t head_dim, Direction direction, RotateJob& job) {
  const Geometry geometry = geometry_of(tables.layout, head_dim);
  fill_rows_of(tables.cos, tables.sin, tables.layout, direction, job.rows);
  fill_numerics(tables.layout.numerics, tables.cos.dtype, job);
  if (tables.cos.shape[3] != geometry.width || geometry.width == 0) return;
  const bool half = geometry.output_pairing == Pairing::half;
  job.rows.pair_stride = half ? 1 : 2;
  job.rows.second_lane = half ? geometry.width / 2 / geometry.segments : 1;
  job.rows.swap_sines = direction != Direction::forward;
}

Result<RotateJob> make_rotation(const char* where, const GivenTables& tables, const NamedTensor& turned, std::int64_t head_dim,
                                Direction direction) {
  if (Status s = check_layout(where, tables.layout, head_dim); !s) return s;
  if (Status s = check_tables(where, tables, turned, head_dim); !s) return s;
  Result<RotateJob> job(std::in_place);
  job->device = turned.view.device;
  job->dtype = turned.view.dtype;
  job->batch = turned.view.shape[0];
  job->tokens = turned.view.shape[1];
  job->head_dim = head_dim;
  fill_geometry(geometry_of(tables.layout, head_dim), direction, *job);
  fill_tables(tables, head_dim, direction, *job);
  return job;
}

}  // namespace phasor::job
