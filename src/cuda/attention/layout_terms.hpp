// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/attention/layout.hpp"

namespace phasor::cuda::attention {

/// Terms as the kernels see them, their numbers and lists in the workspace.
Status lay_out_terms(const job::AttentionJob& job, const char* where, attend::Arena& arena, Layout& out);

}  // namespace phasor::cuda::attention
