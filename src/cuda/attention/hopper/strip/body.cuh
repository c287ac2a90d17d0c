// SPDX-License-Identifier: Apache-2.0
// What the kernels before a forward with strips have in common.
#pragma once

#include "cuda/attention/hopper/instructions.cuh"
#include "cuda/attention/hopper/strip/strips.hpp"
#include "cuda/attention/hopper/tensor_rows.hpp"
#include "cuda/attention/mma/instructions.cuh"

namespace phasor::cuda::hopper {

/// Queries and keys, and the tables that they meet: a row for each distance from the left end to the right, by key - query.
struct StripWork {
  Tiles tiles;
  Strips strips;
  InputRows queries;
  InputRows keys;
  InputRows of_queries;
  InputRows of_keys;
  float query_factor;  // scales over that of q . k
  float key_factor;
};

template <class Element_, int kWidth_>
struct StripBody {
  using Element = Element_;
  static constexpr int kWidth = kWidth_;
  static constexpr int kGroups = kWidth == 64 ? 3 : 2;  // of 64 queries: those of a block of queries of the forward
  static constexpr int kThreads = 128 * (kGroups + 1);  // a warpgroup for each, and one for keys
  static constexpr int kStep = 64;                      // keys, and distances, at a time
  static_assert(kStep == kStripQueries);
  static constexpr int kPanels = kWidth / 64;
  /// 64 rows, as products of a warpgroup read them: panels of 64 channels, pieces of 16 bytes swizzled.
  using Rows = std::uint16_t[kPanels][kStep][64];
  /// Batches of distances that a step reads, and the next one.
  static constexpr int kQuerySlots = kGroups + 1, kKeySlots = kGroups + 2;
  /// Rows that follow each other are in other banks.
  static constexpr int kQueryPitch = 3 * kStep + 8, kKeyPitch = (kGroups + 1) * kStep + 8;
  /// Of a thread: accumulators of keys are kGroups + 1 times as many.
  static constexpr int kQueryRegisters = kGroups == 2 ? 144 : 104, kKeyRegisters = kGroups == 2 ? 216 : 200;
  struct Shared {
    alignas(1024) Rows keys[2];
    Rows of_queries[kQuerySlots];
    Rows of_keys[kKeySlots];
    std::uint16_t query_products[kGroups][kStripQueries][kQueryPitch];
    std::uint16_t key_products[kStep][kKeyPitch];
  };
  static_assert(sizeof(Shared) <= 227 * 1024);
};

}  // namespace phasor::cuda::hopper
