// SPDX-License-Identifier: Apache-2.0
// Tensors as the copy engine of Hopper sees them.
#pragma once

#include <cuda.h>

#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::cuda::hopper {

/// Axes (channel in a panel, token, panel, head, batch row), a panel being 64 channels; where those are no multiple of 64, there is one
/// panel as wide as they are (map_shape). A box is 64 channels of `tokens` tokens of some panels of one head, swizzled by 128 bytes; what
/// is outside of the tensor is read as zeros and not written. The driver's function is asked for when the program runs, so that nobody has
/// to link libcuda.
Status make_map(const char* where, const ConstTensorView& view, int tokens, int panels, CUtensorMap& map);

}  // namespace phasor::cuda::hopper
