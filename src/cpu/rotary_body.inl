// SPDX-License-Identifier: Apache-2.0
// The rotary kernels of one target: rows, heads, and the loops around them. Included once in each target's namespace by cpu/rotary.cpp,
// with PHASOR_LANES 1 where there are registers, 0 for plain C++.
// clang-format off
#if PHASOR_LANES
#include "cpu/lanes.inl"
#endif
#include "cpu/rotary_rounding.inl"
#include "cpu/rotary_rows.inl"
#include "cpu/rotary_tables.inl"
#include "cpu/rotary_axes.inl"
#include "cpu/rotary_angles.inl"
#include "cpu/difference_rows.inl"
#include "cpu/rotary_heads.inl"
#include "cpu/identity_pairs.inl"
#include "cpu/row_layout.inl"
#include "cpu/rotary_loop.inl"
#include "cpu/additive.inl"
// clang-format on
