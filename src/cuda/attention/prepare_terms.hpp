// SPDX-License-Identifier: Apache-2.0
// Tables and values by distance of a call's terms, put into its workspace for a kernel of its own.
#pragma once

#include "cuda/attention/layout.hpp"

namespace phasor::cuda::attention {

Status prepare_terms(const Layout& layout, const char* where, const Execution& execution);

}  // namespace phasor::cuda::attention
