// SPDX-License-Identifier: Apache-2.0
// Targets and version for Python.
#include "phasor/targets.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "arrays/place.hpp"
#include "bindings.hpp"
#include "status.hpp"

namespace phasor::python {

void bind_targets(nanobind::module_& m) {
  using nanobind::literals::operator""_a;
  m.def("targets", &targets);
  m.def("active_target", [] { return value_of(active_target()); });
  m.def("force_target", [](const std::string& name) { check(force_target(name)); }, "name"_a);
  m.def("version", &version);
  m.def("has_cuda", [] { return has_backend(DeviceKind::cuda); }, "Whether this build has kernels for memory of CUDA.");
  m.def("cuda_advice", &get_cuda_advice, "What is said when memory is on a GPU and this build has no kernels for it.");
  m.def("set_cuda_advice", &set_cuda_advice, "advice"_a, "Changes that.");
}

}  // namespace phasor::python
