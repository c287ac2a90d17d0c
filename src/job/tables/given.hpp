// SPDX-License-Identifier: Apache-2.0
// Rotations by given tables: their checks and their rows; and what jobs have in common, whatever their rows are made from.
#pragma once

#include "job/rotation.hpp"

namespace phasor::job {

/// What a spec and a table layout have in common once the widths are known.
struct Geometry {
  std::int64_t width;
  std::int64_t offset;
  std::int64_t segments;
  Pairing pairing;
  Pairing output_pairing;
};

/// Which channels of a head a job turns.
inline void fill_geometry(const Geometry& g, Direction direction, RotateJob& job) {
  job.pairs = g.width / 2;
  job.offset = g.offset;
  job.read = direction == Direction::forward ? g.pairing : g.output_pairing;
  job.write = direction == Direction::forward ? g.output_pairing : g.pairing;
  // Neighbours are neighbours in any part.
  job.segments = job.read == Pairing::interleaved && job.write == Pairing::interleaved ? 1 : g.segments;
}

inline bool is_16_bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

/// How a profile rotates by tables of `table` (a plan's own: as the profile keeps them).
inline void fill_numerics(Numerics numerics, DType table, RotateJob& job) {
  job.turns_all = numerics != Numerics::exact;
  job.rounds_products = numerics == Numerics::hf && is_16_bit(job.dtype) && table == job.dtype;
}

Geometry geometry_of(const TableLayout& layout, std::int64_t head_dim);

/// Both tables against a tensor and each other; the layout has been checked.
Status check_tables(const char* where, const GivenTables& tables, const NamedTensor& turned, std::int64_t head_dim);

/// Rows and numerics of a job whose geometry is filled.
void fill_tables(const GivenTables& tables, std::int64_t head_dim, Direction direction, RotateJob& job);

}  // namespace phasor::job
