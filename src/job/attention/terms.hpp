// SPDX-License-Identifier: Apache-2.0
// Terms of attention as plain data: those of phasor/attention.hpp, with a bias by its source, optional numbers resolved, and where their
// gradients go.
#pragma once

#include <cstdint>

#include "job/bias.hpp"
#include "job/plain.hpp"
#include "job/positions/build.hpp"
#include "job/views.hpp"
#include "phasor/attention.hpp"

namespace phasor {
PHASOR_MEMBERS(KeyMask, data, strides, device)
PHASOR_MEMBERS(Dropout, probability, seed, offset, first_head, first_sequence)
PHASOR_MEMBERS(AttentionOutputs, out, lse)
PHASOR_MEMBERS(AttentionSaved, out, lse, out_gradient, lse_gradient)
PHASOR_MEMBERS(AttentionRows, batch, query, head)
PHASOR_MEMBERS(AttentionWeights, weights, factors)
PHASOR_MEMBERS(AttentionPart, out, lse)
PHASOR_MEMBERS(GridTerm, window, class_token, table)
PHASOR_MEMBERS(DecomposedTerm, query_grid, key_grid, rows_h, rows_w, scale)
PHASOR_MEMBERS(DenseTerm, bias)
PHASOR_MEMBERS(CopeTerm, table, gate_scale, scale)
PHASOR_MEMBERS(TermGradient, table, second, features, shift, parameters)
}  // namespace phasor

namespace phasor::job {

struct BiasTermJob {
  plan::BiasSource bias;
  std::int64_t parameter_count = 0;
  std::int64_t first_head = 0;
  ConstTensorView gate = {};
  ConstTensorView parameters = {};  // in the place of the source's own; data null: those
};

/// Which row of a table a distance reads: buckets, or clipped.
struct RowMap {
  bool has_buckets = false;
  plan::RowRule buckets = {};
  std::int64_t left = 0;
  std::int64_t right = 0;
  bool zero_outside = false;
};

struct TableTermJob {
  TableSide side = TableSide::query;
  ConstTensorView table = {};
  RowMap rows;
  std::int64_t row_count = 0;  // of the map
  ConstTensorView features = {};
  ConstTensorView shift = {};
  double scale = 1;
};

struct SegmentTermJob {
  ConstTensorView table = {};
  ConstTensorView shift = {};
  Positions query_segments = {};
  Positions key_segments = {};
  double scale = 1;
};

/// One of them counts: that of the kind.
enum class TermKind : std::uint8_t { bias, table, segment, grid, decomposed, dense, cope };
struct AttentionTermJob {
  TermKind kind = TermKind::bias;
  BiasTermJob bias;
  TableTermJob table;
  SegmentTermJob segment;
  GridTerm grid = {};
  DecomposedTerm decomposed = {};
  DenseTerm dense = {};
  CopeTerm cope = {};
  TermGradient gradient = {};  // of a backward job
};

/// body(the one that counts).
template <class Body>
auto with_term(const AttentionTermJob& term, const Body& body) {
  switch (term.kind) {
    case TermKind::bias:
      return body(term.bias);
    case TermKind::table:
      return body(term.table);
    case TermKind::segment:
      return body(term.segment);
    case TermKind::grid:
      return body(term.grid);
    case TermKind::decomposed:
      return body(term.decomposed);
    case TermKind::dense:
      return body(term.dense);
    case TermKind::cope:
      break;
  }
  return body(term.cope);
}

/// read(view) for every tensor that a term reads.
template <class Read>
void each_tensor_of(const AttentionTermJob& term, const Read& read) {
  const BiasTermJob& bias = term.bias;
  const TableTermJob& table = term.table;
  const SegmentTermJob& segment = term.segment;
  // Those of other kinds are empty.
  for (const ConstTensorView& view : {bias.gate, bias.parameters, table.table, table.features, table.shift, segment.table, segment.shift,
                                      term.grid.table, term.decomposed.rows_h, term.decomposed.rows_w, term.dense.bias, term.cope.table}) {
    read(view);
  }
  for (const Positions& segments : {segment.query_segments, segment.key_segments}) {
    if (segments.data != nullptr) read(view_of(segments));
  }
}

PHASOR_MEMBERS(BiasTermJob, bias, parameter_count, first_head, gate, parameters)
PHASOR_MEMBERS(RowMap, has_buckets, buckets, left, right, zero_outside)
PHASOR_MEMBERS(TableTermJob, side, table, rows, row_count, features, shift, scale)
PHASOR_MEMBERS(SegmentTermJob, table, shift, query_segments, key_segments, scale)
PHASOR_MEMBERS(AttentionTermJob, kind, bias, table, segment, grid, decomposed, dense, cope, gradient)

}  // namespace phasor::job
