// SPDX-License-Identifier: Apache-2.0
// The extension module phasor._core: the library as the package's Python files use it.
#include <nanobind/nanobind.h>

#include "bindings.hpp"

NB_MODULE(_core, m) {
  nanobind::set_leak_warnings(false);  // what is alive when the interpreter ends is no matter, and a library does not print
  m.doc() = "The compiled core of phasor; use the package phasor.";
  phasor::python::bind_threads(m);
  phasor::python::bind_torch_plain(m);
  phasor::python::bind_rotary(m);
  phasor::python::bind_rotaries(m);
  phasor::python::bind_gradient(m);
  phasor::python::bind_additive(m);
  phasor::python::bind_learned(m);
  phasor::python::bind_bias(m);
  phasor::python::bind_attention(m);
  phasor::python::bind_cached_attention(m);
  phasor::python::bind_prepare(m);
  phasor::python::bind_positions(m);
  phasor::python::bind_model(m);
  phasor::python::bind_analysis(m);
  phasor::python::bind_properties(m);
  phasor::python::bind_serialised(m);
  phasor::python::bind_targets(m);
  phasor::python::bind_jax(m);
}
