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
  static constexpr int kThreads = 256;  // a warpgroup multiplies queries, one keys
  static constexpr int kBlocks = 2;     // of a multiprocessor, by their shared memory and registers
  static constexpr int kStep = 64;      // keys, and distances, at a time
  static_assert(kStep == kStripQueries);
  static constexpr int kPanels = kWidth / 64;
  /// 64 rows, as products of a warpgroup read them: panels of 64 channels, pieces of 16 bytes swizzled.
  using Rows = std::uint16_t[kPanels][kStep][64];
  /// Rows that follow each other are in other banks.
  static constexpr int kQueryPitch = 3 * kStep + 8, kKeyPitch = 2 * kStep + 8;
  struct Shared {
    alignas(1024) Rows keys;
    Rows of_queries;  // rows of the last distances
    Rows of_keys[2];  // and of those before
    std::uint16_t query_products[kStripQueries][kQueryPitch];
    std::uint16_t key_products[kStep][kKeyPitch];
  };
};

}  // namespace phasor::cuda::hopper
