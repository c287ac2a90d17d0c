// SPDX-License-Identifier: Apache-2.0
// What the attention kernels of one target are made of. Included once in each target's namespace, with PHASOR_LANES 1 where there are
// registers, 0 for plain C++.
// clang-format off
#if PHASOR_LANES
#include "cpu/common/lanes.inl"
#endif
#include "cpu/common/vec.inl"
#include "cpu/attention/tile/pack.inl"
#include "cpu/attention/tile/gemm.inl"
#include "cpu/attention/tile/softmax_rows.inl"
// clang-format on
