// SPDX-License-Identifier: Apache-2.0
// Learned tables for Python: what phasor/_learned.py is made of.
#include "phasor/learned.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "fields/additive_fields.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;

/// One table, or a list of them, one for each axis.
void add_rows(nb::handle x, nb::handle table, nb::handle positions, nb::handle out, std::int64_t offset) {
  const TokensInOut tokens(x, out, "x");
  const PositionsArgument at(positions);
  std::vector<TokensArgument> arguments;
  if (nb::isinstance<nb::list>(table) || nb::isinstance<nb::tuple>(table)) {
    for (const nb::handle one : table) arguments.emplace_back(one, "table", Access::read);
  } else {
    arguments.emplace_back(table, "table", Access::read);
  }
  std::vector<ConstTensorView> tables;
  for (const TokensArgument& one : arguments) tables.emplace_back(one.get());
  Place place = common_place({tokens.place(), at.place()});
  for (const TokensArgument& one : arguments) place = common_place({place, one.place()});
  run_unlocked(place, tokens.elements(), [&](const Execution& execution) {
    return lookup_add(tokens.get(), tables, at.get(), {.offset = offset, .execution = execution});
  });
}

void scatter(nb::handle table_gradient, nb::handle gradient, nb::handle positions, std::int64_t offset,
             std::optional<std::int64_t> padding_row) {
  const TokensArgument to(table_gradient, "table_gradient", Access::write);
  const TokensArgument from(gradient, "gradient", Access::read);
  const PositionsArgument at(positions);
  run_unlocked(common_place({to.place(), from.place(), at.place()}), elements_of(from.get()), [&](const Execution& execution) {
    return scatter_gradient(to.get(), from.get(), at.get(), {.offset = offset, .padding_row = padding_row, .execution = execution});
  });
}

void hierarchical(nb::handle out, nb::handle table, double alpha) {
  const TokensArgument to(out, "out", Access::write);
  const TokensArgument from(table, "table", Access::read);
  run_unlocked(to.place(), 0, [&](const Execution& /*execution*/) { return fill_hierarchical(to.get(), from.get(), alpha); });
}

void resample(nb::handle out, nb::handle table, nb::handle kernel, bool align_corners) {
  const TokensArgument to(out, "out", Access::write);
  const TokensArgument from(table, "table", Access::read);
  const Resampling resampling{.kernel = read<Resampling::Kernel>(kernel, "kernel"), .align_corners = align_corners};
  run_unlocked(to.place(), 0, [&](const Execution& /*execution*/) { return resample_table(to.get(), from.get(), resampling); });
}

/// The bytes, the name of their dtype, rows and width.
nb::tuple read_table(const std::string& path, const std::string& tensor) {
  const LearnedTable table = value_unlocked([&] { return read_learned_table(path, tensor); });
  const nb::bytes bytes(table.bytes.data(), table.bytes.size());
  return nb::make_tuple(bytes, name_of(table.dtype), table.rows, table.width);
}

}  // namespace

void bind_learned(nb::module_& m) {
  m.def("lookup_add", &add_rows, "x"_a, "table"_a, "positions"_a.none(), "out"_a.none(), "offset"_a = 0,
        "x plus a row of the table for each token; out of None: in place.");
  m.def("scatter_gradient", &scatter, "table_grad"_a, "grad"_a, "positions"_a.none(), "offset"_a = 0, "padding_row"_a = nb::none(),
        "Adds the gradient of lookup_add by its table.");
  m.def("fill_hierarchical", &hierarchical, "out"_a, "table"_a, "alpha"_a = 0.4, "More rows from those of a table.");
  m.def("resample_table", &resample, "out"_a, "table"_a, "kernel"_a = "cubic", "align_corners"_a = false, "A table of another size.");
  m.def("read_learned_table", &read_table, "path"_a, "tensor"_a);
}

}  // namespace phasor::python
