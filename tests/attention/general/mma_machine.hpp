// SPDX-License-Identifier: Apache-2.0
// Blocks of attention by mma.sync, forward and backward, run by the host with emulated instructions (tests/cuda/host/emulated).
#pragma once

#include "cuda/attention/work.hpp"

namespace phasor::test {

void run_mma_forward(const cuda::attention::AttentionWork& work);
void run_mma_backward(const cuda::attention::AttentionWork& work);

}  // namespace phasor::test
