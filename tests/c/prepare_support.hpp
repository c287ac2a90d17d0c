// SPDX-License-Identifier: Apache-2.0
// A step of prepare_attention for tests of the C API: the same tensors in C and C++.
#pragma once

#include "c/call_support.hpp"
#include "phasor/phasor.h"
#include "phasor/prepare.hpp"

namespace phasor::test {

struct FreeRotary {
  void operator()(phasor_rotary* rotary) const { phasor_rotary_free(rotary); }
};
using RotaryPointer = std::unique_ptr<phasor_rotary, FreeRotary>;

inline RotaryPointer rotary_of(std::int64_t head_dim, double base) {
  phasor_rotary_spec spec = {};
  spec.size = sizeof spec;
  spec.head_dim = head_dim;
  spec.base = base;
  phasor_rotary* rotary = nullptr;
  succeeds([&](phasor_error* error) { return phasor_rotary_make(&spec, &rotary, error); });
  return RotaryPointer(rotary);
}

inline constexpr std::int64_t kTokens = 6, kHeads = 3, kKeyHeads = 1, kDim = 16, kBlocks = 4, kBlock = 3;
inline constexpr Extents kQ = {1, kTokens, kHeads, kDim};
inline constexpr Extents kK = {1, kTokens, kKeyHeads, kDim};

/// q, k and v of a step, the same in C and C++.
struct Step {
  CTensor<float> q = CTensor<float>({1, kTokens, kHeads, kDim}, sample(288, 1));
  CTensor<float> k = CTensor<float>({1, kTokens, kKeyHeads, kDim}, sample(96, 2));
  CTensor<float> v = CTensor<float>({1, kTokens, kKeyHeads, kDim}, sample(96, 3));
  CTensor<float> factors = CTensor<float>({1, kTokens, 1, 1}, sample(6, 4));
  CTensor<float> weight = CTensor<float>({1, 1, kHeads, 10}, sample(30, 5));
  CTensor<std::int32_t> at = CTensor<std::int32_t>({kTokens}, {9, 1, 4, 1000000, 0, 3});

  phasor_prepare_inputs inputs() const {
    auto c = sized<phasor_prepare_inputs>();
    c.q = q.get();
    c.k = k.get();
    c.v = v.get();
    c.query_factors = factors.get();
    return c;
  }
  PrepareInputs same_inputs() const { return {view_of(q, kQ), view_of(k, kK), view_of(v, kK), view_of(factors, {1, kTokens, 1, 1})}; }
  Positions positions() const { return phasor::positions(at.values.data(), 1, kTokens); }
};

}  // namespace phasor::test
