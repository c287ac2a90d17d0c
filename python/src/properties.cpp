// SPDX-License-Identifier: Apache-2.0
// Properties of encodings that are added, for Python: what phasor/analysis.py measures on their values.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "arrays/arguments.hpp"
#include "bindings.hpp"
#include "fields/additive_fields.hpp"
#include "phasor/additive_properties.hpp"

namespace phasor::python {

namespace {

nb::any measured(const EncodingRows& rows, std::int64_t length, std::int64_t trained_length) {
  const auto properties = value_unlocked([&] { return measure_encoding(rows, length, trained_length); });
  return dataclass_of(properties, "phasor._types.analysis");
}

EncodingRows named_rows(const std::string& name, std::int64_t digits) {
  if (name == "raw_index") return raw_index_rows();
  if (name == "scaled_index") return scaled_index_rows();
  if (name == "binary") return binary_rows(digits);
  raise(PyExc_ValueError, "measure_encoding: encoding is \"" + name + "\", wanted raw_index, scaled_index or binary");
}

}  // namespace

void bind_properties(nb::module_& m) {
  m.def("measure_sinusoidal", [](const Sinusoidal& sinusoidal, std::int64_t length, std::int64_t trained_length) {
    return measured(sinusoidal_rows(sinusoidal), length, trained_length);
  });
  m.def("measure_table", [](nb::handle table, std::int64_t length, std::int64_t trained_length) {
    const TokensArgument rows(table, "table", Access::read);
    return measured(learned_rows(rows.get()), length, trained_length);
  });
  m.def("measure_named", [](const std::string& name, std::int64_t digits, std::int64_t length, std::int64_t trained_length) {
    return measured(named_rows(name, digits), length, trained_length);
  });
  m.def("compare_adding", [](nb::handle x, nb::handle encoding, nb::handle weights) {
    const RealsArgument token(x, "x");
    const RealsArgument added(encoding, "encoding");
    const RealsArgument matrix(weights, "weights");
    AddingConcatenating both = value_of(compare_adding(token.get(), added.get(), matrix.get()));
    return nb::make_tuple(numpy_array(std::move(both.added)), numpy_array(std::move(both.concatenated)), both.extra_parameters);
  });
}

}  // namespace phasor::python
