// SPDX-License-Identifier: Apache-2.0
// Blocks of the backward by mma.sync, run by the host with emulated instructions (tests/cuda/host/emulated).
#pragma once

#include "cuda/attention/work.hpp"

namespace phasor::test {

void run_mma_backward(const cuda::attention::AttentionWork& work);

}  // namespace phasor::test
