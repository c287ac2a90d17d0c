// SPDX-License-Identifier: Apache-2.0
// Tiles of keys that a falling bias makes too small to matter.
#pragma once

#include "cuda/attention/hopper/run.hpp"

namespace phasor::cuda::hopper {

/// Writes, for every block of queries, the first tile that it has to visit; nothing where none are left out (may_skip).
Status find_first_tiles(const char* where, const Forward& forward, void* workspace, void* stream);

}  // namespace phasor::cuda::hopper
