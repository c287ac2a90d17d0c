// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper with a table of rows by distance that is as long as the call (Transformer-XL, XLNet, Conformer) or longer
// than what `Clipped` keeps, or that features meet in the place of queries (Inkling): what the kernel is made of.
//
// Queries of a block meet rows of the table in blocks of as many as a tile has keys (tiles.hpp): each tile of keys needs one more, which is
// brought with it and multiplied one tile ahead. Products stay in shared memory as float16, a row for a query, some blocks in a ring, and
// are read back shifted by the query's number into the accumulators of the scores.
//
// Which query a thread has is chosen for that. A warpgroup has those of one parity, so that all shifts are even and pairs stay pairs;
// a thread's two are eight apart, so that they share places; those of a warp's eight quads are 16 apart, so that all 32 banks are read.
#pragma once

#include "cuda/attention/hopper/forward/body.cuh"

namespace phasor::cuda::hopper {

/// Features of a block of queries, as panels of queries are.
template <class Element, int kQueries>
struct FeatureRows {
  alignas(1024) Element rows[kQueries][64];
  static constexpr int kBytes = sizeof(rows);
};
template <class Element>
struct FeatureRows<Element, 0> {
  static constexpr int kBytes = 0;
};

/// What a phase's memory lacks of the next one's; some in any case, since there are no arrays of nothing.
constexpr int room_behind(int have, int want) { return want > have ? want - have : 16; }

template <class Element_, int kOfWidths, bool kHasFeatures>
struct WindowBody {
  using Element = Element_;
  static constexpr bool kFeatured = kHasFeatures;
  static constexpr bool kBeyond = kFeatured;  // tiles beyond the rows are in another size (beyond.cuh)
  static constexpr Widths kOf = kWidths[kOfWidths];
  static constexpr int kQueries = kOf.queries(), kKeys = kOf.keys, kGroups = kOf.warpgroups, kStages = 2;
  static constexpr int kPanels = kOf.width / 64, kValuePanels = kOf.value_width / 64, kSteps = kOf.width / 16;
  static constexpr int kTablePanels = kFeatured ? 1 : kPanels, kTableSteps = kFeatured ? 1 : kSteps;
  static constexpr int kRows = kKeys + 8;  // of the table in a stage: one is read before the others by odd queries, in units of the swizzle
  static constexpr int kBlocks = window_blocks(kQueries, kKeys), kKept = kBlocks * kKeys;
  static constexpr int kPitch = kKept + 8;  // an odd multiple of four words
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
  static_assert(kGroups == 2 && kKeys % 16 == 0 && kPitch / 2 % 8 == 4);

  using BeyondPanels = Element[kPanels][kBeyondKeys][64];
  using BeyondValues = Element[kValuePanels][kBeyondKeys][64];
  static constexpr int kKeptBytes = kQueries * kPitch * 2, kTableBytes = kStages * kTablePanels * kRows * 128;
  static constexpr int kKeyBytes = kStages * kPanels * kKeys * 128, kValueBytes = kStages * kValuePanels * kKeys * 128;
  static_assert(kKeptBytes % 1024 == 0);  // the table begins there
  struct Shared {
    alignas(1024) Element q[kPanels][kQueries][64];
    FeatureRows<Element, kFeatured ? kQueries : 0> features;
    alignas(1024) __half kept[kQueries][kPitch];  // by warpgroup and the product's row
    alignas(1024) Element table[kStages][kTablePanels][kRows][64];
    unsigned char behind_table[room_behind(kKeptBytes + kTableBytes, kBeyond ? 2 * int(sizeof(BeyondPanels)) : 0)];
    alignas(1024) Element k[kStages][kPanels][kKeys][64];
    unsigned char behind_k[room_behind(kKeyBytes, kBeyond ? int(sizeof(BeyondValues)) : 0)];
    alignas(1024) Element v[kStages][kValuePanels][kKeys][64];
    unsigned char behind_v[room_behind(kValueBytes, kBeyond ? int(sizeof(BeyondValues)) : 0)];
    alignas(16) float columns[kStages][kKeys];
    alignas(16) float lines[kStages][kGroups][kKeys];
    alignas(8) std::uint64_t q_full, q_empty, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    int work;  // its number; -1: there is no more

    /// Tiles beyond the rows, by their numbers: keys in the place of products and rows, values in that of keys, and of values.
    __device__ __forceinline__ BeyondPanels& beyond_keys(int index) { return reinterpret_cast<BeyondPanels*>(&kept)[index % 2]; }
    __device__ __forceinline__ BeyondValues& beyond_values(int index) {
      return index % 2 == 0 ? reinterpret_cast<BeyondValues&>(k) : reinterpret_cast<BeyondValues&>(v);
    }
  };
  static_assert(sizeof(Shared) <= 227 * 1024);
};

}  // namespace phasor::cuda::hopper
