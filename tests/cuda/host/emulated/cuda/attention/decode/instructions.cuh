// SPDX-License-Identifier: Apache-2.0
// In the place of src/cuda/attention/decode/instructions.cuh, for a kernel that the host runs (block.hpp). Most are what kernels of
// mma.sync have.
#pragma once

#include "cuda/attention/mma/instructions.cuh"
#include "math/float8_value.hpp"

struct alignas(8) uint2 {
  std::uint32_t x, y;
};
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline bool __any_sync(unsigned lanes, bool x) { return __ballot_sync(lanes, x) != 0; }
/// Bytes of low and high, which a digit each of the selector names.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t both = low | std::uint64_t{high} << 32;
  unsigned result = 0;
  for (unsigned n = 0; n < 4; ++n) result |= static_cast<unsigned>(both >> (selector >> n * 4 & 7) * 8 & 0xff) << n * 8;
  return result;
}

namespace phasor::cuda::decode {

namespace mma = attention::mma;
using mma::load_matrices;
using mma::load_transposed;
using mma::shared_address;

template <bool kBrain>
using Element = std::conditional_t<kBrain, __nv_bfloat16, __half>;

template <int kRowBytes>
void copy_16(std::uint32_t to, const void* from) {
  if (to % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) std::abort();
  mma::copy_in(to, from, true);
}
inline void end_copies() { mma::copies_commit(); }
template <int kLeft>
void wait_copies() {
  mma::copies_wait<kLeft>();
}
template <class T>
T loaded(std::uint32_t from) {
  if (from % sizeof(T) != 0) std::abort();
  T x;
  std::memcpy(&x, mma::shared_begin() + from, sizeof(T));
  return x;
}
inline uint4 load_16(std::uint32_t from) { return loaded<uint4>(from); }
inline uint2 load_8(std::uint32_t from) { return loaded<uint2>(from); }

inline std::uint32_t transposed(std::uint32_t two) {
  struct Own {
    std::uint32_t x, y;
  } own = {two, 0};
  test::emulated::Block::running()->with_warp<Own>(own, [](const std::array<Own*, 32>& lanes) {
    const auto at = [&](std::size_t row, std::size_t column) { return lanes.at(row * 4 + column / 2)->x >> column % 2 * 16 & 0xffff; };
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t row = lane / 4, column = lane % 4 * 2;
      lanes[lane]->y = at(column, row) | at(column + 1, row) << 16;
    }
  });
  return own.y;
}

template <bool kBrain>
void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  mma::add_product<Element<kBrain>>(c, a, b0, b1);
}
template <bool kBrain>
std::uint32_t packed(float low, float high) {
  return mma::pack<Element<kBrain>>(low, high);
}
template <bool kBrain>
float low_of(std::uint32_t x) {
  return mma::widened<Element<kBrain>>(static_cast<std::uint16_t>(x));
}
template <bool kE5m2>
uint2 widened_f8(std::uint32_t four) {
  const auto value = [&](unsigned n) {
    const std::uint32_t bits = four >> n * 8 & 0xff;
    return kE5m2 ? math::value_of_e5m2(bits) : math::value_of_e4m3(bits);
  };
  return {packed<false>(value(0), value(1)), packed<false>(value(2), value(3))};
}
inline float power_of_two(float x) { return std::exp2(x); }

}  // namespace phasor::cuda::decode
