// SPDX-License-Identifier: Apache-2.0
// In the place of src/cuda/attention/hopper/instructions.cuh, for kernels that the host runs (block.hpp): of its instructions those that
// are of a warp, barriers of the whole block, and products of a warpgroup, which are done when they are asked for, a warp's 16 rows each.
#pragma once

#include "cuda/attention/mma/instructions.cuh"

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

inline std::uint32_t sums_of_halves(std::uint32_t x, std::uint32_t y) {
  const float2 a = unpack<__half>(x), b = unpack<__half>(y);
  return halves_of(a.x + b.x, a.y + b.y);
}

inline void named_sync(int id, int threads) { attention::mma::Block::running()->wait_at(id, threads); }
inline void named_arrive(int id, int threads) { attention::mma::Block::running()->arrive_at(id, threads); }
inline void fence_async() {}
inline void prefetch_bytes(const void* /*from*/, int /*bytes*/) {}
template <int kCount>
void registers_raise() {}
template <int kCount>
void registers_lower() {}

inline void store_blocks(std::uint32_t to, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  struct Own {
    std::uint32_t to;
    std::array<std::uint32_t, 4> blocks;
  } own = {to, {a, b, c, d}};
  if (to % 16 != 0) std::abort();
  attention::mma::Block::running()->with_warp<Own>(own, [](const std::array<Own*, 32>& lanes) {
    for (std::size_t m = 0; m < 4; ++m) {
      for (std::size_t lane = 0; lane < 32; ++lane) {
        std::memcpy(attention::mma::shared_begin() + lanes[8 * m + lane / 4]->to + 4 * (lane % 4), &lanes[lane]->blocks[m], 4);
      }
    }
  });
}

// ---- Products of a warpgroup ----

inline void products_begin() {}
inline void products_commit() {}
template <int kPending>
void products_wait() {}
template <class T, int kCount>
void pin(T (& /*registers*/)[kCount]) {}

/// Its address in shared memory, in the copy engine's swizzle of 128 bytes: pieces of 16 bytes lie where bits of the row move them to. The
/// high half has the bytes between panels.
inline std::uint64_t matrix(const void* p, int panel_bytes) {
  if (shared_address(p) % 1024 != 0) std::abort();
  return shared_address(p) | static_cast<std::uint64_t>(panel_bytes) << 32;
}
inline std::uint64_t further(std::uint64_t matrix, int bytes) { return matrix + static_cast<std::uint64_t>(bytes); }
template <class Element>
float number_of(std::uint64_t matrix, std::size_t row, std::size_t channel) {
  const std::uint64_t plain = (matrix & 0xffffffff) + channel / 64 * (matrix >> 32) + 128 * row + 2 * (channel % 64);
  const std::uint64_t at = plain ^ (plain >> 7 & 7) << 4;
  std::uint16_t bits;
  std::memcpy(&bits, attention::mma::shared_begin() + at, 2);
  return attention::mma::widened<Element>(bits);
}

/// d (64 x kColumns) += a (64 x 16) b (16 x kColumns); a row of memory is one of b's columns, but for `registers`, where it is one of its
/// rows.
template <class Element, int kColumns>
struct Product {
  struct Own {
    float* d;
    const std::uint32_t* a;  // null: in shared memory
    std::uint64_t x, y;
    bool keep;
    std::size_t warp;
    bool across = false;
  };
  static void registers(float (&d)[kColumns / 2], const std::uint32_t* a, std::uint64_t y) { multiply({d, a, 0, y, true, warp(), true}); }
  static void by_rows(float (&d)[kColumns / 2], const std::uint32_t* a, std::uint64_t y) { multiply({d, a, 0, y, true, warp()}); }
  static void begin_by_rows(float (&d)[kColumns / 2], const std::uint32_t* a, std::uint64_t y) { multiply({d, a, 0, y, false, warp()}); }
  static void shared(float (&d)[kColumns / 2], std::uint64_t x, std::uint64_t y, int keep) {
    multiply({d, nullptr, x, y, keep != 0, warp()});
  }

 private:
  static std::size_t warp() { return threadIdx.x / 32 % 4; }
  static void multiply(Own own) {
    attention::mma::Block::running()->with_warp<Own>(own, [](const std::array<Own*, 32>& lanes) {
      for (std::size_t r = 0; r < 16; ++r) {
        float a[16];
        for (std::size_t k = 0; k < 16; ++k) a[k] = left(lanes, r, k);
        for (std::size_t n = 0; n < kColumns; ++n) {
          const Own& to = *lanes[r % 8 * 4 + n % 8 / 2];
          float& sum = to.d[n / 8 * 4 + r / 8 * 2 + n % 2];
          if (!to.keep) sum = 0;
          for (std::size_t k = 0; k < 16; ++k) sum += a[k] * (to.across ? number_of<Element>(to.y, k, n) : number_of<Element>(to.y, n, k));
        }
      }
    });
  }
  static float left(const std::array<Own*, 32>& lanes, std::size_t row, std::size_t k) {
    const Own& of = *lanes[row % 8 * 4 + k % 8 / 2];
    if (of.a == nullptr) return number_of<Element>(of.x, 16 * of.warp + row, k);
    return attention::mma::widened<Element>(static_cast<std::uint16_t>(of.a[k / 8 * 2 + row / 8] >> 16 * (k % 2)));
  }
};

}  // namespace phasor::cuda::hopper
