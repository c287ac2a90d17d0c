// SPDX-License-Identifier: Apache-2.0
// A ROPE node, run.
#pragma once

#include "plans.hpp"

namespace phasor_ggml {

/// ROPE, or its gradient ROPE_BACK. PHASOR_OK, or an error that says why nothing was written. Up to `threads` threads.
phasor_status rotate(const ggml_tensor& node, Plans& plans, int threads, phasor_error& error);

}  // namespace phasor_ggml
