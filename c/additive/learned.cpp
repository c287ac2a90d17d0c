// SPDX-License-Identifier: Apache-2.0
// Learned tables in C: looked up, differentiated, lengthened, resized, read; and positions made for them.
#include "phasor/learned.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/lists.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "phasor/c/additive.h"

namespace {

using namespace phasor;
using namespace phasor::c;

// In C the default comes first.
constexpr std::array kKernels = {Resampling::Kernel::cubic, Resampling::Kernel::linear};
// Elements of C are numbered as dtypes.
static_assert(static_cast<int>(DType::f32) == PHASOR_F32 && static_cast<int>(DType::f64) == PHASOR_F64 &&
              static_cast<int>(DType::f16) == PHASOR_F16 && static_cast<int>(DType::bf16) == PHASOR_BF16);

std::vector<ConstTensorView> tables_of(const char* where, const phasor_lookup& c) {
  std::vector<ConstTensorView> tables;
  for (const phasor_tensor* table : span_of(where, "tables", c.tables, c.table_count)) {
    tables.emplace_back(tensor_of(where, "a table", need(where, "a table", table)));
  }
  return tables;
}

Resampling resampling_of(const char* where, const phasor_resampling* resampling) {
  phasor_resampling c = known(where, "the resampling", resampling);
  Resampling value;
  const Read way(where);
  way.choice("kernel", c.kernel, value.kernel, kKernels);
  way("align_corners", c.align_corners, value.align_corners);
  return value;
}

}  // namespace

extern "C" {

phasor_status phasor_lookup_add(const phasor_lookup* lookup, phasor_error* error) {
  constexpr const char* kWhere = "lookup_add";
  return call(error, [&] {
    const phasor_lookup c = known(kWhere, "the lookup", need(kWhere, "the lookup", lookup));
    const LookupOptions options{.offset = c.offset, .execution = execution_of(c.execution)};
    const InOut x = in_out_of(kWhere, "x", c.x, "out", c.out);
    const auto tables = tables_of(kWhere, c);
    must(lookup_add(x, tables, positions_of(kWhere, "positions", c.positions), options));
  });
}

phasor_status phasor_scatter_gradient(const phasor_scatter* scatter, phasor_error* error) {
  constexpr const char* kWhere = "scatter_gradient";
  return call(error, [&] {
    phasor_scatter c = known(kWhere, "the call", need(kWhere, "the call", scatter));
    ScatterOptions options{.offset = c.offset, .execution = execution_of(c.execution)};
    const Read way(kWhere);
    way.flagged("padding_row", c.has_padding_row, c.padding_row, options.padding_row);
    const TensorView sum = tensor_of(kWhere, "table_gradient", need(kWhere, "table_gradient", c.table_gradient));
    const TensorView gradient = tensor_of(kWhere, "gradient", need(kWhere, "gradient", c.gradient));
    must(scatter_gradient(sum, gradient, positions_of(kWhere, "positions", c.positions), options));
  });
}

phasor_status phasor_fill_hierarchical(const phasor_tensor* out, const phasor_tensor* table, double alpha, phasor_error* error) {
  constexpr const char* kWhere = "fill_hierarchical";
  return call(error, [&] {
    const TensorView to = tensor_of(kWhere, "out", need(kWhere, "out", out));
    const ConstTensorView from = tensor_of(kWhere, "table", need(kWhere, "table", table));
    must(alpha == 0 ? fill_hierarchical(to, from) : fill_hierarchical(to, from, alpha));
  });
}

phasor_status phasor_resample_table(const phasor_tensor* out, const phasor_tensor* table, const phasor_resampling* resampling,
                                    phasor_error* error) {
  constexpr const char* kWhere = "resample_table";
  return call(error, [&] {
    const TensorView to = tensor_of(kWhere, "out", need(kWhere, "out", out));
    const TensorView from = tensor_of(kWhere, "table", need(kWhere, "table", table));
    must(resample_table(to, from, resampling_of(kWhere, resampling)));
  });
}

phasor_status phasor_read_learned_table(const char* path, const char* tensor, phasor_learned_table** table, phasor_error* error) {
  constexpr const char* kWhere = "read_learned_table";
  return call(error, [&] {
    need(kWhere, "table", table);
    auto made = std::make_unique<phasor_learned_table>();
    LearnedTable& value = made->value;
    need(kWhere, "path", path);
    value = value_of(read_learned_table(path, need(kWhere, "tensor", tensor)));
    made->shape[0] = value.rows;
    made->shape[1] = value.width;
    made->tensor = phasor_tensor_of(value.bytes.data(), static_cast<phasor_element>(value.dtype), made->shape, 2);
    *table = made.release();
  });
}

void phasor_learned_table_free(phasor_learned_table* table) { delete table; }

const phasor_tensor* phasor_learned_table_tensor(const phasor_learned_table* table) { return table == nullptr ? nullptr : &table->tensor; }

phasor_status phasor_fill_abacus(const phasor_tensor* out, const phasor_abacus_tokens* tokens, phasor_error* error) {
  constexpr const char* kWhere = "fill_abacus";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    const phasor_abacus_tokens c = known(kWhere, "the tokens", need(kWhere, "the tokens", tokens));
    must(fill_abacus(to, {.input_ids = integers_of(kWhere, "input_ids", c.input_ids),
                          .digits = integers_of(kWhere, "digits", c.digits),
                          .offset = c.offset}));
  });
}

phasor_status phasor_fill_detr(const phasor_tensor* out, const phasor_detr_grid* grid, phasor_error* error) {
  constexpr const char* kWhere = "fill_detr";
  return call(error, [&] {
    const phasor_detr_grid c = known(kWhere, "the grid", need(kWhere, "the grid", grid));
    must(fill_detr(positions_view_of(kWhere, "out", out),
                   {.rows = c.rows, .columns = c.columns, .mask = integers_of(kWhere, "mask", c.mask), .normalised = c.normalised != 0}));
  });
}

}  // extern "C"
