// SPDX-License-Identifier: Apache-2.0
// In the place of src/cuda/attention/mma/instructions.cuh, for kernels that the host runs (block.hpp): what those instructions do, as PTX's
// manual has it, and the words of CUDA that kernels use. A test finds it first by -iquote.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "block.hpp"
#include "job/element.hpp"

#define __device__
#define __forceinline__ inline
#define __align__(n) alignas(n)

struct __half {};
struct __nv_bfloat16 {};
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
inline const phasor::test::emulated::ThreadIndex threadIdx;
inline void __syncthreads() { phasor::test::emulated::Block::running()->wait_for_block(); }
inline void __syncwarp() {
  struct Own {
  } own;
  phasor::test::emulated::Block::running()->with_warp<Own>(own, [](const std::array<Own*, 32>&) {});
}
inline float __ldg(const float* p) { return *p; }
inline void atomicMin(std::int32_t* at, std::int32_t x) { *at = std::min(*at, x); }
inline void atomicMax(std::int32_t* at, std::int32_t x) { *at = std::max(*at, x); }
using std::max;
using std::min;

/// x of lane `source` of the warp: each lane asks for one.
template <class T>
T of_lane(T x, unsigned source) {
  struct Own {
    T x;
    unsigned source;
    T y;
  } own = {x, source, 0};
  phasor::test::emulated::Block::running()->with_warp<Own>(own, [](const std::array<Own*, 32>& lanes) {
    for (Own* const lane : lanes) lane->y = lanes.at(lane->source)->x;
  });
  return own.y;
}
template <class T>
T __shfl_xor_sync(unsigned /*lanes*/, T x, int mask) {
  return of_lane(x, threadIdx.x % 32 ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_sync(unsigned /*lanes*/, T x, int source) {
  return of_lane(x, static_cast<unsigned>(source) % 32);
}
template <class T>
T __shfl_up_sync(unsigned /*lanes*/, T x, unsigned step) {
  const unsigned lane = threadIdx.x % 32;
  return of_lane(x, lane < step ? lane : lane - step);
}
inline unsigned __ballot_sync(unsigned /*lanes*/, bool x) {
  struct Own {
    bool x;
    unsigned all;
  } own = {x, 0};
  phasor::test::emulated::Block::running()->with_warp<Own>(own, [](const std::array<Own*, 32>& lanes) {
    unsigned all = 0;
    for (std::size_t n = 0; n < 32; ++n) all |= static_cast<unsigned>(lanes[n]->x) << n;
    for (Own* const lane : lanes) lane->all = all;
  });
  return own.all;
}
inline int __popc(unsigned x) { return std::popcount(x); }

namespace phasor::cuda::attention::mma {

using test::emulated::Block;

/// Where shared memory begins: addresses are 32 bits from there.
inline unsigned char*& shared_begin() {
  static unsigned char* begin = nullptr;
  return begin;
}
inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(p) - shared_begin());
}

inline void land(const Block::Copy& copy) {
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, 16);
  } else {
    std::memcpy(copy.to, copy.from, 16);
  }
}
/// A copy lands some time before it was waited for: whoever still reads what was there, or reads too early what comes, finds the other.
inline void copy_in(std::uint32_t to, const void* from, bool is_there) {
  const Block::Copy copy = {shared_begin() + to, is_there ? static_cast<const unsigned char*>(from) : nullptr};
  if (Block::running()->copies_at_once()) {
    land(copy);
  } else {
    Block::running()->copies().push_back(copy);
  }
}
inline void copies_commit() { Block::running()->copy_groups().push_back(Block::running()->copies().size()); }
/// Those of later groups, and of none, are still under way then.
template <int kPending>
void copies_wait() {
  std::vector<std::size_t>& groups = Block::running()->copy_groups();
  if (groups.size() <= kPending) return;
  const std::size_t ended = groups.size() - kPending;
  const std::size_t count = groups[ended - 1];
  std::vector<Block::Copy>& copies = Block::running()->copies();
  for (std::size_t n = 0; n < count; ++n) land(copies[n]);
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(count));
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(ended));
  for (std::size_t& group : groups) group -= count;
}

struct Matrices {
  std::uint32_t row;
  std::uint32_t (*to)[4];
};
template <bool kTransposed>
void load_four(const std::array<Matrices*, 32>& lanes) {
  for (std::size_t m = 0; m < 4; ++m) {
    std::uint16_t matrix[8][8];
    for (std::size_t r = 0; r < 8; ++r) std::memcpy(matrix[r], shared_begin() + lanes[8 * m + r]->row, 16);
    for (std::size_t lane = 0; lane < 32; ++lane) {
      const std::size_t g = lane / 4;
      const std::size_t t = lane % 4;
      const std::uint32_t low = kTransposed ? matrix[2 * t][g] : matrix[g][2 * t];
      const std::uint32_t high = kTransposed ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
      (*lanes[lane]->to)[m] = low | high << 16;
    }
  }
}
inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  Matrices own = {row, &to};
  if (row % 16 != 0) std::abort();
  Block::running()->with_warp<Matrices>(own, &load_four<false>);
}
inline void load_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
  Matrices own = {row, &to};
  if (row % 16 != 0) std::abort();
  Block::running()->with_warp<Matrices>(own, &load_four<true>);
}

template <class Element>
float widened(std::uint16_t bits) {
  const math::u32 wide = bits;
  return std::is_same_v<Element, __half> ? math::widen_f16(math::One<float>(), wide) : math::widen_bf16(math::One<float>(), wide);
}
template <class Element>
std::uint32_t pack(float low, float high) {
  const auto narrow = [](float x) {
    return static_cast<std::uint32_t>(std::is_same_v<Element, __half> ? math::narrow_f16(math::One<float>(), x)
                                                                      : math::narrow_bf16(math::One<float>(), x)) &
           0xffffU;
  };
  return narrow(low) | narrow(high) << 16;
}

struct Product {
  float (*d)[4];
  const std::uint32_t (*a)[4];
  std::uint32_t b[2];
};
template <class Element>
void multiply_16(const std::array<Product*, 32>& lanes) {
  float a[16][16], b[16][8];
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t g = lane / 4, t = lane % 4;
    for (std::size_t x = 0; x < 8; ++x) {
      const auto bits = static_cast<std::uint16_t>((*lanes[lane]->a)[x / 2] >> 16 * (x % 2));
      a[g + 8 * (x / 2 % 2)][2 * t + x % 2 + 8 * (x / 4)] = widened<Element>(bits);
    }
    for (std::size_t x = 0; x < 4; ++x) {
      b[2 * t + x % 2 + 8 * (x / 2)][g] = widened<Element>(static_cast<std::uint16_t>(lanes[lane]->b[x / 2] >> 16 * (x % 2)));
    }
  }
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t x = 0; x < 4; ++x) {
      float& d = (*lanes[lane]->d)[x];
      for (std::size_t k = 0; k < 16; ++k) d += a[lane / 4 + 8 * (x / 2)][k] * b[k][2 * (lane % 4) + x % 2];
    }
  }
}
template <class Element>
void add_product(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  Product own = {&d, &a, {b0, b1}};
  Block::running()->with_warp<Product>(own, &multiply_16<Element>);
}

inline int anew(int x) { return x; }
inline void add_one(float* to, float x) { *to += x; }
inline void add_two(float* to, float x, float y) {
  if (reinterpret_cast<std::uintptr_t>(to) % 8 != 0) std::abort();
  to[0] += x;
  to[1] += y;
}

inline float exp2_approximate(float x) { return std::exp2(x); }
inline float reciprocal_approximate(float x) { return 1 / x; }
inline float log2_approximate(float x) { return std::log2(x); }

}  // namespace phasor::cuda::attention::mma
