// SPDX-License-Identifier: Apache-2.0
// The instructions of Hopper that attention needs, one small function each: barriers, copies of tensors, products of warpgroups. Nothing
// else of the library writes PTX for them.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace phasor::cuda::hopper {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

// ---- Barriers in shared memory: a phase ends when every expected arrival came and every expected byte landed ----

__device__ __forceinline__ void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
__device__ __forceinline__ void barrier_fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives, and says how many bytes copies will bring.
__device__ __forceinline__ void barrier_expect(std::uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra over;\nbra again;\nover:\n}" ::"r"(
          shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// ---- Named barriers, between warpgroups ----

__device__ __forceinline__ void named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

/// Of a thread of the calling warpgroup, from now on.
template <int kCount>
__device__ __forceinline__ void registers_raise() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void registers_lower() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- The copy engine. Coordinates of a tensor are (channel, token, panel, head, batch row): tensor_map.hpp ----

struct BoxPlace {
  int channel, token, panel, head, batch;
};
__device__ __forceinline__ void copy_in(void* to, const CUtensorMap* map, std::uint64_t* full, const BoxPlace& at) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(
                   shared_address(to)),
               "l"(map), "r"(shared_address(full)), "r"(at.channel), "r"(at.token), "r"(at.panel), "r"(at.head), "r"(at.batch)
               : "memory");
}
/// 16 bytes are the unit, of both addresses, too.
__device__ __forceinline__ void copy_in_bytes(void* to, const void* from, int bytes, std::uint64_t* full) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(full))
               : "memory");
}
/// To the L2; the same units.
__device__ __forceinline__ void prefetch_bytes(const void* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
/// The way back: stored, or added to what is there, number by number. What a thread asked for since its last commit is waited for together.
__device__ __forceinline__ void copy_out_bytes(void* to, const void* from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void add_floats(float* to, const float* from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void copies_out_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until what they read may be written again.
__device__ __forceinline__ void copies_out_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
/// Until what they write is there.
__device__ __forceinline__ void copies_out_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Global memory as ordinary loads and stores of this thread see it, and as its copies do: what came before is seen by what follows.
__device__ __forceinline__ void fence_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
/// What ordinary stores wrote to shared memory becomes visible to the copy engine and to products.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Numbers that blocks pass to each other through global memory ----

/// What was written before the number that is read, by whom the writer knew of, is seen from here on.
__device__ __forceinline__ int load_acquired(const int* from) {
  int x;
  asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(x) : "l"(from) : "memory");
  return x;
}
/// Whoever sees the number sees what this thread wrote before, and what it knows others of the block to have written.
__device__ __forceinline__ void store_released(int* to, int x) {
  asm volatile("fence.acq_rel.gpu;\nst.relaxed.gpu.global.b32 [%0], %1;" ::"l"(to), "r"(x) : "memory");
}

// ---- Blocks of 8 x 8 numbers of 16 bits, by a warp ----

/// Two of float16, by the address in shared memory.
__device__ __forceinline__ float2 halves_at(std::uint32_t from) {
  __half2 x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(reinterpret_cast<std::uint32_t&>(x)) : "r"(from) : "memory");
  return __half22float2(x);
}
/// Four of them from the accumulators' layout to rows of 16 bytes in shared memory, a row for each thread.
__device__ __forceinline__ void store_blocks(std::uint32_t to, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
/// The way back: rows of 16 bytes, a row for each thread, to the layout of a product's left operand.
__device__ __forceinline__ void load_blocks(std::uint32_t* x, std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(from)
               : "memory");
}
/// The same, each transposed.
__device__ __forceinline__ void load_blocks_across(std::uint32_t (&x)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(from)
               : "memory");
}
/// One of them in registers, transposed.
__device__ __forceinline__ std::uint32_t transposed_block(std::uint32_t x) {
  std::uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
/// a += x, b += y, two numbers of each a thread: a product of a warp with the unit matrix, a half of which is `unit`.
template <class Element>
__device__ __forceinline__ void add_blocks(float (&a)[2], float (&b)[2], std::uint32_t unit, std::uint32_t x, std::uint32_t y) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %5, %4}, {%6, %7}, {%0, %1, %2, %3};"
                 : "+f"(a[0]), "+f"(a[1]), "+f"(b[0]), "+f"(b[1])
                 : "r"(unit), "r"(0), "r"(x), "r"(y));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %5, %4}, {%6, %7}, {%0, %1, %2, %3};"
                 : "+f"(a[0]), "+f"(a[1]), "+f"(b[0]), "+f"(b[1])
                 : "r"(unit), "r"(0), "r"(x), "r"(y));
  }
}

/// d (16 x 8) += a (16 x 16) b (16 x 8), by a warp.
template <class Element>
__device__ __forceinline__ void multiply_blocks(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b, std::uint32_t c) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(c));
  } else {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(c));
  }
}

// ---- Numbers ----

__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// To float16; what is beyond its largest number becomes that.
__device__ __forceinline__ __half half_of(float x) {
  std::uint16_t y;
  asm("cvt.rn.satfinite.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return reinterpret_cast<const __half&>(y);
}
/// The same of two, the first in the low half.
__device__ __forceinline__ std::uint32_t halves_of(float low, float high) {
  std::uint32_t y;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
/// Sums of two and two of float16, rounded once; what is beyond its largest number becomes that.
__device__ __forceinline__ std::uint32_t sums_of_halves(std::uint32_t x, std::uint32_t y) {
  const __half2 most = __half2half2(__ushort_as_half(0x7bff));
  const __half2 sum = __hadd2(reinterpret_cast<const __half2&>(x), reinterpret_cast<const __half2&>(y));
  const __half2 inside = __hmax2_nan(__hmin2_nan(sum, most), __hneg2(most));
  return reinterpret_cast<const std::uint32_t&>(inside);
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
__device__ __forceinline__ float2 unpack(std::uint32_t x) {
  if constexpr (std::is_same_v<Element, __half>) {
    return __half22float2(reinterpret_cast<const __half2&>(x));
  } else {
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(x));
  }
}

// ---- Products of a warpgroup: d (64 x N, f32 in registers) += a (64 x 16) b (16 x N), asked for and not waited for ----

__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Until at most so many groups of products are under way.
template <int kPending>
__device__ __forceinline__ void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// The compiler neither moves nor keeps copies of these registers across this point: products read and write them unseen.
template <class T, int kCount>
__device__ __forceinline__ void pin(T (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      asm volatile("" : "+f"(registers[i])::"memory");
    } else {
      asm volatile("" : "+r"(registers[i])::"memory");
    }
  }
}

/// A matrix in shared memory in the copy engine's swizzle of 128 bytes: panels of 64 channels, a row of a panel after the other.
/// `panel_bytes` lie between panels; it is read only where the product's N runs along channels.
__device__ __forceinline__ std::uint64_t matrix(const void* p, int panel_bytes) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62, kEightRows = std::uint64_t{1024 >> 4} << 32;
  return std::uint64_t((shared_address(p) & 0x3FFFF) >> 4) | std::uint64_t(panel_bytes >> 4) << 16 | kEightRows | kSwizzle128;
}
/// So many bytes further on in it.
__device__ __forceinline__ std::uint64_t further(std::uint64_t matrix, int bytes) { return matrix + (bytes >> 4); }

/// `shared`: a and b from shared memory, channels along K in both; keep 0: what d held is not added to. `registers`: a from registers, b
/// from shared memory with channels along N. `by_rows`: the same with channels along K; begin_by_rows does not add to what d held.
/// `across`: a from shared memory with its rows along a panel, b with channels along N.
template <class Element, int kColumns>
struct Product;

// Lists of registers: eight more in each line, by their numbers in the instruction and as its operands.
#define PHASOR_R8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define PHASOR_R16 PHASOR_R8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define PHASOR_R32 PHASOR_R16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define PHASOR_R36 PHASOR_R32 ",%32,%33,%34,%35"
#define PHASOR_R40 PHASOR_R32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define PHASOR_R48 PHASOR_R40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define PHASOR_R64 PHASOR_R48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define PHASOR_R72 PHASOR_R64 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define PHASOR_R80 PHASOR_R72 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define PHASOR_R88 PHASOR_R80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define PHASOR_R128                                                                                              \
  PHASOR_R88                                                                                                     \
  ",%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define PHASOR_O8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define PHASOR_O32 PHASOR_O8(0), PHASOR_O8(8), PHASOR_O8(16), PHASOR_O8(24)
#define PHASOR_O36 PHASOR_O32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define PHASOR_O40 PHASOR_O32, PHASOR_O8(32)
#define PHASOR_O48 PHASOR_O40, PHASOR_O8(40)
#define PHASOR_O64 PHASOR_O48, PHASOR_O8(48), PHASOR_O8(56)
#define PHASOR_O72 PHASOR_O64, PHASOR_O8(64)
#define PHASOR_O88 PHASOR_O72, PHASOR_O8(72), PHASOR_O8(80)
#define PHASOR_O128 PHASOR_O88, PHASOR_O8(88), PHASOR_O8(96), PHASOR_O8(104), PHASOR_O8(112), PHASOR_O8(120)
// element and its name in PTX; columns; registers; the numbers of the five operands that follow these.
#define PHASOR_PRODUCT(element, name, columns, count, a, b, c, e, f)                                                                   \
  template <>                                                                                                                          \
  struct Product<element, columns> {                                                                                                   \
    static __device__ __forceinline__ void shared(float (&d)[count], std::uint64_t x, std::uint64_t y, int keep) {                     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name \
                   " {" PHASOR_R##count "}, %" #a ", %" #b ", p, 1, 1, 0, 0;\n}"                                                       \
                   : PHASOR_O##count                                                                                                   \
                   : "l"(x), "l"(y), "r"(keep));                                                                                       \
    }                                                                                                                                  \
    static __device__ __forceinline__ void registers(float (&d)[count], const std::uint32_t* x, std::uint64_t y) {                     \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" PHASOR_R##count                          \
                   "}, {%" #a ",%" #b ",%" #c ",%" #e "}, %" #f ", 1, 1, 1, 1;"                                                        \
                   : PHASOR_O##count                                                                                                   \
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y));                                                              \
    }                                                                                                                                  \
    static __device__ __forceinline__ void by_rows(float (&d)[count], const std::uint32_t* x, std::uint64_t y) {                       \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" PHASOR_R##count                          \
                   "}, {%" #a ",%" #b ",%" #c ",%" #e "}, %" #f ", 1, 1, 1, 0;"                                                        \
                   : PHASOR_O##count                                                                                                   \
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y));                                                              \
    }                                                                                                                                  \
    static __device__ __forceinline__ void begin_by_rows(float (&d)[count], const std::uint32_t* x, std::uint64_t y) {                 \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name " {" PHASOR_R##count                          \
                   "}, {%" #a ",%" #b ",%" #c ",%" #e "}, %" #f ", 0, 1, 1, 0;"                                                        \
                   : PHASOR_O##count                                                                                                   \
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y));                                                              \
    }                                                                                                                                  \
    static __device__ __forceinline__ void across(float (&d)[count], std::uint64_t x, std::uint64_t y, int keep) {                     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #c ", 0;\nwgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." name "." name \
                   " {" PHASOR_R##count "}, %" #a ", %" #b ", p, 1, 1, 1, 1;\n}"                                                       \
                   : PHASOR_O##count                                                                                                   \
                   : "l"(x), "l"(y), "r"(keep));                                                                                       \
    }                                                                                                                                  \
  };
#define PHASOR_PRODUCTS(element, name)                       \
  PHASOR_PRODUCT(element, name, 64, 32, 32, 33, 34, 35, 36)  \
  PHASOR_PRODUCT(element, name, 72, 36, 36, 37, 38, 39, 40)  \
  PHASOR_PRODUCT(element, name, 80, 40, 40, 41, 42, 43, 44)  \
  PHASOR_PRODUCT(element, name, 96, 48, 48, 49, 50, 51, 52)  \
  PHASOR_PRODUCT(element, name, 128, 64, 64, 65, 66, 67, 68) \
  PHASOR_PRODUCT(element, name, 144, 72, 72, 73, 74, 75, 76) \
  PHASOR_PRODUCT(element, name, 176, 88, 88, 89, 90, 91, 92) \
  PHASOR_PRODUCT(element, name, 256, 128, 128, 129, 130, 131, 132)
PHASOR_PRODUCTS(__nv_bfloat16, "bf16")
PHASOR_PRODUCTS(__half, "f16")
#undef PHASOR_PRODUCTS
#undef PHASOR_PRODUCT
#undef PHASOR_O128
#undef PHASOR_O88
#undef PHASOR_O72
#undef PHASOR_O64
#undef PHASOR_O48
#undef PHASOR_O40
#undef PHASOR_O36
#undef PHASOR_O32
#undef PHASOR_O8
#undef PHASOR_R128
#undef PHASOR_R88
#undef PHASOR_R80
#undef PHASOR_R72
#undef PHASOR_R64
#undef PHASOR_R48
#undef PHASOR_R40
#undef PHASOR_R36
#undef PHASOR_R32
#undef PHASOR_R16
#undef PHASOR_R8

}  // namespace phasor::cuda::hopper
