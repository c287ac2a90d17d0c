// SPDX-License-Identifier: Apache-2.0
// AMX: whether it is there, its set-up per thread, and the one translation unit of its kernels.
#include "cpu/attention/amx/processor.hpp"

#if PHASOR_AMX
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

#include "hwy/base.h"

// g++ 12 calls the undefined operands of its own AVX-512 intrinsics uninitialized.
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace phasor::cpu::amx {
namespace {

constexpr std::uint32_t bit(int n) { return std::uint32_t{1} << n; }

/// AVX-512 F, DQ, BW, VL; AMX tiles and bfloat16 products.
bool processor_has_amx() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr std::uint32_t kVectors = bit(16) | bit(17) | bit(30) | bit(31);
  constexpr std::uint32_t kTiles = bit(22) | bit(24);
  return (b & kVectors) == kVectors && (d & kTiles) == kTiles;
}

/// The system keeps vector registers and tiles for a thread that waits.
bool system_saves_tiles() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit(27)) == 0) return false;  // OSXSAVE
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr std::uint32_t kSaved = 0xe6 | bit(17) | bit(18);  // SSE, AVX, the three of AVX-512; tile configuration and data
  return (low & kSaved) == kSaved;
}

/// Tile data is large, so Linux wants to be asked, once for all threads of the process.
bool system_allows_tiles() {
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

}  // namespace

bool available() {
  static const bool answer = processor_has_amx() && system_saves_tiles() && system_allows_tiles();
  return answer;
}

}  // namespace phasor::cpu::amx

HWY_PUSH_ATTRIBUTES("amx-tile,amx-bf16,avx512f,avx512bw,avx512vl,avx512dq")
namespace phasor::cpu::amx {
namespace {

#include "math/exp2_avx512.inl"

/// Eight tiles of 16 rows of 64 bytes, as LDTILECFG reads it.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

constexpr std::int64_t kTile = 512;  // bfloat16 numbers of a tile

/// g++'s tile intrinsics are assembly that does not say it touches memory: nothing may move over them.
inline void memory_barrier() { asm volatile("" ::: "memory"); }

// g++ takes the target of a member function from its declaration, so these stand alone.
void load_config() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}

void release_tiles() { _tile_release(); }

}  // namespace

Session::Session() : control_(_mm_getcsr()) {
  constexpr std::uint32_t kSubnormalsAreZero = 0x8040;
  _mm_setcsr(control_ | kSubnormalsAreZero);
  load_config();
}

Session::~Session() {
  release_tiles();
  _mm_setcsr(control_);
}

// clang-format off: each needs the ones before.
#include "cpu/attention/amx/pack.inl"
#include "cpu/attention/amx/product.inl"
#include "cpu/attention/amx/softmax.inl"
// clang-format on

}  // namespace phasor::cpu::amx
HWY_POP_ATTRIBUTES
#endif
