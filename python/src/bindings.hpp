// SPDX-License-Identifier: Apache-2.0
// What the module is made of, one function a family.
#pragma once

#include <nanobind/nanobind.h>

namespace phasor::python {

void bind_threads(nanobind::module_& m);
void bind_rotary(nanobind::module_& m);

}  // namespace phasor::python
