// SPDX-License-Identifier: Apache-2.0
// The PTX of decoding, one small function each.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "math/float8_value.hpp"

namespace phasor::cuda::decode {

__device__ inline std::uint32_t shared_address(const void* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

/// 16 bytes from global to shared memory, on their own. What is brought together is a key of kRowBytes: beyond it lies another head's.
template <int kRowBytes>
__device__ inline void copy_16(std::uint32_t to, const void* from) {
  if constexpr (kRowBytes >= 256) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
  }
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Until at most so many groups of copies are under way.
template <int kLeft>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft) : "memory");
}

__device__ inline void load_matrices(std::uint32_t (&m)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(from)
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&m)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(from)
               : "memory");
}
/// The matrix of a warp, two numbers of a row in each lane, transposed.
__device__ inline std::uint32_t transposed(std::uint32_t two) {
  std::uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(result) : "r"(two));
  return result;
}
__device__ inline uint4 load_16(std::uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];\n" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(from) : "memory");
  return x;
}
__device__ inline uint2 load_8(std::uint32_t from) {
  uint2 x;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];\n" : "=r"(x.x), "=r"(x.y) : "r"(from) : "memory");
  return x;
}

/// c += a b, (16, 16) times (16, 8).
template <bool kBrain>
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (kBrain) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Two numbers rounded to 16 bits, `low` in the low half.
template <bool kBrain>
__device__ inline std::uint32_t packed(float low, float high) {
  std::uint32_t result;
  if constexpr (kBrain) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(result) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(result) : "f"(high), "f"(low));
  }
  return result;
}
/// The low half's value.
template <bool kBrain>
__device__ inline float low_of(std::uint32_t x) {
  if constexpr (kBrain) return __uint_as_float(x << 16);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(x & 0xffff)));
}

/// Four float8 as f16, exactly, two to a number. Devices before sm_89 have no instruction for it.
template <bool kE5m2>
__device__ inline uint2 widened_f8(std::uint32_t four) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
  const auto value = [](std::uint32_t bits) { return kE5m2 ? math::value_of_e5m2(bits & 0xff) : math::value_of_e4m3(bits & 0xff); };
  return {packed<false>(value(four), value(four >> 8)), packed<false>(value(four >> 16), value(four >> 24))};
#else
  uint2 result;  // halves of a register by mov: the conversion reads either, and a shift would be an instruction
  if constexpr (kE5m2) {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e5m2x2 %0, low; cvt.rn.f16x2.e5m2x2 %1, high; }\n"
        : "=r"(result.x), "=r"(result.y)
        : "r"(four));
  } else {
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }\n"
        : "=r"(result.x), "=r"(result.y)
        : "r"(four));
  }
  return result;
#endif
}

__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace phasor::cuda::decode
