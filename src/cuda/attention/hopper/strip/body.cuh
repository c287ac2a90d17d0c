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
  static constexpr int kWarps = 8, kThreads = 32 * kWarps;
  static constexpr int kBlocks = kWidth > 64 ? 2 : 3;  // of a multiprocessor, by their shared memory
  static constexpr int kStep = 64;                     // keys, and distances, at a time
  static_assert(kStep == kStripQueries);
  /// Rows that follow each other are in other banks.
  static constexpr int kPitch = kWidth + 8, kQueryPitch = 3 * kStep + 8, kKeyPitch = 88;
  static constexpr int kKeyColumns = kStripQueries + 16;  // of 16 keys
  struct Shared {
    alignas(16) std::uint16_t keys[kStep][kPitch];
    alignas(16) std::uint16_t of_queries[kStep][kPitch];   // rows of the last distances
    alignas(16) std::uint16_t of_keys[2 * kStep][kPitch];  // and of those before
    alignas(16) std::uint16_t query_products[kStripQueries][kQueryPitch];
    alignas(16) std::uint16_t key_products[kStep][kKeyPitch];
  };
};

}  // namespace phasor::cuda::hopper
