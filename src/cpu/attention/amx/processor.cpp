// SPDX-License-Identifier: Apache-2.0
// AMX: whether it is there, its set-up per thread, and the one translation unit of its kernels.
#include "cpu/attention/amx/processor.hpp"

#if PHASOR_AMX
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <limits>

#include "cpu/common/processor.hpp"
#include "hwy/base.h"

// g++ 12 calls the undefined operands of its own AVX-512 intrinsics uninitialized.
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace phasor::cpu::amx {
namespace {

/// Tile data is large, so Linux wants to be asked, once for all threads of the process.
bool system_allows_tiles() {
  constexpr long kRequest = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

}  // namespace

bool available() {
  static const bool answer = has_amx() && system_allows_tiles();
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
