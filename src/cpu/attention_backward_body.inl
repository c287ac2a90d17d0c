// SPDX-License-Identifier: Apache-2.0
// The backward kernels of one target. Included once in each target's namespace by cpu/attention_backward.cpp, with PHASOR_LANES 1 where
// there are registers, 0 for plain C++.
// clang-format off
#if PHASOR_LANES
#include "cpu/lanes.inl"
#endif
#include "cpu/vec.inl"
#include "cpu/gemm.inl"
#include "cpu/pack.inl"
#include "cpu/softmax_rows.inl"
#include "cpu/attention_tile.inl"
#include "cpu/attention_sight.inl"
#include "cpu/attention_content.inl"
#include "cpu/attention_loops.inl"
#include "cpu/attention_backward_rows.inl"
#include "cpu/attention_backward_tile.inl"
#include "cpu/attention_backward.inl"
// clang-format on
