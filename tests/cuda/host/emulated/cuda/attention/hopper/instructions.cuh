// SPDX-License-Identifier: Apache-2.0
// In the place of src/cuda/attention/hopper/instructions.cuh, for kernels that the host runs (block.hpp): of its instructions those that
// are of a warp.
#pragma once

#include "cuda/attention/mma/instructions.cuh"

struct alignas(16) float4 {
  float x, y, z, w;
};
inline float __fdividef(float x, float y) { return x / y; }
inline std::uint32_t __byte_perm(std::uint32_t x, std::uint32_t y, std::uint32_t which) {
  const std::uint64_t bytes = x | std::uint64_t{y} << 32;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) result |= static_cast<std::uint32_t>(bytes >> (which >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

namespace phasor::cuda::hopper {

using attention::mma::exp2_approximate;
using attention::mma::pack;
using attention::mma::shared_address;

inline void load_blocks(std::uint32_t (&x)[4], std::uint32_t from) { attention::mma::load_matrices(x, from); }
inline void load_blocks_across(std::uint32_t (&x)[4], std::uint32_t from) { attention::mma::load_transposed(x, from); }
inline std::uint32_t transposed_block(std::uint32_t x) {
  struct Own {
    std::uint32_t x, y;
  } own = {x, 0};
  attention::mma::Block::running()->with_warp<Own>(own, [](const std::array<Own*, 32>& lanes) {
    const auto at = [&](std::size_t row, std::size_t column) { return lanes[4 * row + column / 2]->x >> 16 * (column % 2) & 0xffffU; };
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t row = lane / 4, column = 2 * (lane % 4);
      lanes[lane]->y = at(column, row) | at(column + 1, row) << 16;
    }
  });
  return own.y;
}
template <class Element>
void multiply_blocks(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b, std::uint32_t c) {
  attention::mma::add_product<Element>(d, a, b, c);
}
template <class Element>
float2 unpack(std::uint32_t x) {
  using attention::mma::widened;
  return {widened<Element>(static_cast<std::uint16_t>(x)), widened<Element>(static_cast<std::uint16_t>(x >> 16))};
}
inline std::uint32_t halves_of(float low, float high) {
  const auto inside = [](float x) { return std::min(std::max(x, -65504.0F), 65504.0F); };
  return pack<__half>(inside(low), inside(high));
}

}  // namespace phasor::cuda::hopper
