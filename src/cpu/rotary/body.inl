// SPDX-License-Identifier: Apache-2.0
// The rotary kernels of one target: rows, heads, and the loops around them. Included once in each target's namespace by
// cpu/common/every_target.inl, with PHASOR_LANES 1 where there are registers, 0 for plain C++.
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

constexpr RotaryKernels kKernels = {
#if !PHASOR_LANES
    .target = "scalar",
    .available = always,
#elif HWY_TARGET == HWY_AVX3
    .target = "avx512",
    .available = has_avx512,
#elif HWY_TARGET == HWY_AVX2
    .target = "avx2",
    .available = has_avx2,
#elif HWY_TARGET == HWY_NEON
    .target = "neon",
    .available = always,
#elif HWY_TARGET == HWY_WASM
    .target = "wasm_simd",
    .available = always,
#endif
    .rotate = rotate_task,
    .fill_rows = fill_rows_task,
    .add = add_task,
    .lookup = lookup_task,
};
