// SPDX-License-Identifier: Apache-2.0
// What the module is made of, one function per family.
#pragma once

#include <nanobind/nanobind.h>

namespace phasor::python {

void bind_threads(nanobind::module_& m);
void bind_torch_plain(nanobind::module_& m);
void bind_rotary(nanobind::module_& m);
void bind_rotaries(nanobind::module_& m);
void bind_gradient(nanobind::module_& m);
void bind_additive(nanobind::module_& m);
void bind_learned(nanobind::module_& m);
void bind_bias(nanobind::module_& m);
void bind_attention(nanobind::module_& m);
void bind_cached_attention(nanobind::module_& m);
void bind_prepare(nanobind::module_& m);
void bind_positions(nanobind::module_& m);
void bind_model(nanobind::module_& m);
void bind_analysis(nanobind::module_& m);
void bind_properties(nanobind::module_& m);
void bind_serialised(nanobind::module_& m);
void bind_targets(nanobind::module_& m);
void bind_jax(nanobind::module_& m);

}  // namespace phasor::python
