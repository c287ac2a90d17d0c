// SPDX-License-Identifier: Apache-2.0
// Whether a call on PyTorch tensors may go past PyTorch's dispatcher, asked from C++: from Python these questions cost more than a
// rotation.
#pragma once

#include <nanobind/nanobind.h>

namespace phasor::python {

/// Plain tensors on the CPU or a GPU (k may be None) that may be written in place now, positions that are plain too (or an int, or None),
/// and no transform, mode, trace or forward-mode gradient that would want to see an operator. False before `watch_torch`. Whether positions
/// learn is left to the caller, who knows whether they are numbers that can.
bool may_write_past_torch(nanobind::handle q, nanobind::handle k, nanobind::handle positions);
/// Whether a plain tensor wants a gradient.
bool learns(nanobind::handle positions);

/// Tells autograd that these tensors have changed.
void count_write(nanobind::handle q, nanobind::handle k);

void bind_torch_plain(nanobind::module_& m);

}  // namespace phasor::python
