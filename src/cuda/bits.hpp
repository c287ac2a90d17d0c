// SPDX-License-Identifier: Apache-2.0
// Bits of a word, a token each.
#pragma once

#include <cstdint>

#include "math/sincos_pairs.hpp"

namespace phasor::cuda {

PHASOR_HD inline int bit_count(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}
/// body(j) for each bit.
template <class Body>
PHASOR_HD inline void each_bit(std::uint32_t bits, const Body& body) {
  for (; bits != 0; bits &= bits - 1) body(31 - math::detail::leading_zeros(bits & (0U - bits)));
}

}  // namespace phasor::cuda
