// SPDX-License-Identifier: Apache-2.0
// What only a GPU can say of decoding; docs/design/cuda-decode.md has what else was tried. Of caches of 8 and of 16 bits: how many times 16
// keys a warp takes at a time, how many stages it has, and how many blocks of few rows a multiprocessor has at least.
#pragma once

namespace phasor::cuda::decode {

constexpr int kGroups8 = 2, kStages8 = 2, kBlocks8 = 3;
constexpr int kGroups16 = 1, kStages16 = 3, kBlocks16 = 2;

}  // namespace phasor::cuda::decode
