// SPDX-License-Identifier: Apache-2.0
// Exponentials are powers of two here, which a GPU has an instruction for: scores and log-sum-exps are multiplied by log2(e) first.
#pragma once

namespace phasor::cuda {

constexpr double kLog2EWide = 1.4426950408889634;
constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

}  // namespace phasor::cuda
