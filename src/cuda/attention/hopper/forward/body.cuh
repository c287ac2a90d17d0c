// SPDX-License-Identifier: Apache-2.0
// What a forward kernel is made of: its numbers, its shared memory, and the ring of stages that producer and consumers walk.
#pragma once

#include "cuda/attention/hopper/parameter.cuh"
#include "cuda/attention/hopper/terms.cuh"

namespace phasor::cuda::hopper {

template <class Element_, int kOfWidths, class Term_, bool kCapped_>
struct Body {
  using Element = Element_;
  using Term = Term_;
  static constexpr Widths kOf = kWidths[kOfWidths];
  static constexpr bool kCapped = kCapped_;
  static constexpr int kQueries = kOf.queries(), kKeys = kOf.keys, kGroups = kOf.warpgroups, kStages = 2;
  static constexpr int kPanels = kOf.width / 64, kValuePanels = kOf.value_width / 64;  // of 64 channels: 128 bytes, the swizzle's width
  static constexpr int kShortKeys = kCapped ? 0 : kOf.short_keys;                      // a soft cap leaves no registers for it
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kProducerRegisters = kGroups == 2 ? 40 : 32, kConsumerRegisters = kGroups == 2 ? 232 : 160;

  struct Shared {
    alignas(1024) Element q[kPanels][kQueries][64];
    alignas(1024) Element k[kStages][kPanels][kKeys][64];
    alignas(1024) Element v[kStages][kValuePanels][kKeys][64];
    typename Term::template Shared<kQueries, kKeys, kStages> term;
    alignas(8) std::uint64_t q_full, q_empty, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    int work;  // its number; -1: there is no more
  };
  static_assert(sizeof(Shared) <= 227 * 1024);
  using Presets = typename Term::template Presets<kQueries, kKeys, decltype(Shared::term)>;
};

/// A place in a ring of stages: which one, and the parity of its barriers.
template <int kStages>
struct Ring {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

}  // namespace phasor::cuda::hopper
