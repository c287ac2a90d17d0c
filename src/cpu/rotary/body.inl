// SPDX-License-Identifier: Apache-2.0
// The rotary kernels of one target: rows, heads, and the loops around them. Included once in each target's namespace by
// cpu/rotary/kernels.cpp, with PHASOR_LANES 1 where there are registers, 0 for plain C++.
// clang-format off
#if PHASOR_LANES
#include "cpu/common/lanes.inl"
#endif
#include "cpu/rotary/rounding.inl"
#include "cpu/rotary/rows.inl"
#include "cpu/rotary/tables.inl"
#include "cpu/rotary/axes.inl"
#include "cpu/rotary/angles.inl"
#include "cpu/rotary/difference_rows.inl"
#include "cpu/rotary/heads.inl"
#include "cpu/rotary/identity_pairs.inl"
#include "cpu/rotary/row_layout.inl"
#include "cpu/rotary/loop.inl"
#include "cpu/rotary/additive.inl"
// clang-format on
