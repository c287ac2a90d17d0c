// SPDX-License-Identifier: Apache-2.0
// Targets and version for Python.
#include "phasor/targets.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "bindings.hpp"
#include "status.hpp"

namespace phasor::python {

void bind_targets(nanobind::module_& m) {
  using nanobind::literals::operator""_a;
  m.def("targets", &targets);
  m.def("active_target", [] { return value_of(active_target()); });
  m.def("force_target", [](const std::string& name) { check(force_target(name)); }, "name"_a);
  m.def("version", &version);
}

}  // namespace phasor::python
