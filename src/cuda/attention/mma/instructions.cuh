// SPDX-License-Identifier: Apache-2.0
// The instructions of sm_80 and newer that attention needs, one small function each: copies to shared memory that go on by themselves,
// matrices read from there, products of a warp. Nothing else of these kernels writes PTX.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace phasor::cuda::attention::mma {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

// ---- Copies: asked for, gathered in groups, waited for. Code of older devices is empty: calls there go to the general kernels ----

/// 16 bytes of the device's memory, or zeros where there is nothing.
__device__ __forceinline__ void copy_in(std::uint32_t to, const void* from, bool is_there) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
#endif
}
__device__ __forceinline__ void copies_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Until at most so many groups of this thread are under way.
template <int kPending>
__device__ __forceinline__ void copies_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// ---- Four matrices of 8 x 8 numbers; lane l has the address of a row of matrix l / 8 ----

__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
#endif
}
__device__ __forceinline__ void load_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
#if __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
#endif
}

/// d (16 x 8) += a (16 x 16) b (16 x 8). With g = lane / 4 and t = lane % 4, a lane has d of rows g (two) and g + 8 (two) in columns 2 t
/// and 2 t + 1.
template <class Element>
__device__ __forceinline__ void add_product(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Element, __half>) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  __trap();  // built for older devices alone, and run on a newer one
#endif
}

// ---- Sums in the device's memory, which one thread at a time adds to: the value does not come back, so nobody waits for it ----

__device__ __forceinline__ void add_one(float* to, float x) {
  asm volatile("red.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "f"(x) : "memory");
}
/// To two numbers at a multiple of 8 bytes.
__device__ __forceinline__ void add_two(float* to, float x, float y) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "f"(x), "f"(y) : "memory");
#else
  add_one(to, x);
  add_one(to + 1, y);
#endif
}

// ---- Numbers ----

/// x, of which compilers know nothing more: what follows from it is computed where it is used, and not kept over a loop.
__device__ __forceinline__ int anew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float log2_approximate(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Two numbers rounded to 16 bits, the first in the low half.
template <class Element>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<Element, __half>) {
    const __half2 v = __floats2half2_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(v);
  } else {
    const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(v);
  }
}
template <class Element>
__device__ __forceinline__ float widened(std::uint16_t bits) {
  if constexpr (std::is_same_v<Element, __half>) {
    return __half2float(__ushort_as_half(bits));
  } else {
    return __uint_as_float(std::uint32_t{bits} << 16);
  }
}

}  // namespace phasor::cuda::attention::mma
