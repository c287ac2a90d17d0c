// SPDX-License-Identifier: Apache-2.0
// A node's parameters as a rotary plan of Phasor.
#pragma once

#include <phasor/phasor.h>
#include <memory>

#include "rope.hpp"

namespace phasor_ggml {

struct FreeRotary {
  void operator()(phasor_rotary* rotary) const { phasor_rotary_free(rotary); }
};

/// Without a rotary: why not.
struct Plan {
  std::unique_ptr<phasor_rotary, FreeRotary> rotary;
  std::int64_t axes = 1;  // positions that the rotary takes a token, the first of ggml's four
  phasor_error error = {};
};

/// `factors` has a number for each pair where the rope has factors; NULL then stands for factors of 1. PHASOR_NUMERICS_EXACT turns every
/// pair by ggml's formula over the reals; PHASOR_NUMERICS_GGML by its float32 steps, with an error where that profile lacks the formula.
Plan make_plan(const Rope& rope, const float* factors, phasor_numerics numerics);

}  // namespace phasor_ggml
