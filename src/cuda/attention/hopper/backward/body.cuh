// SPDX-License-Identifier: Apache-2.0
// What a backward kernel is made of: its numbers and its shared memory.
#pragma once

#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/forward/body.cuh"

namespace phasor::cuda::hopper {

/// What is added to scores: nothing, a bias by distance, one whose gradient is wanted.
enum class BackwardTerm { none, bias, learned_bias };

template <class Element_, int kOfWidths, BackwardTerm kTerm>
struct BackwardBody {
  using Element = Element_;
  static constexpr BackwardWidths kOf = kBackwardWidths[kOfWidths];
  static constexpr int kWidth = kOf.width, kQueries = kOf.queries, kKeys = kBlockKeys, kGroups = 2, kStages = 2;
  static constexpr int kPanels = kWidth / 64, kQueryPanels = kQueries / 64;
  static constexpr bool kBias = kTerm != BackwardTerm::none, kSums = kTerm == BackwardTerm::learned_bias;
  static constexpr int kThreads = 384;
  /// Threads of the first warpgroup: warp 0 drives the copy engine, warp 1 gives turns, the others sum by distance.
  static constexpr int kSummers = 64;
  /// Together as many as the block is launched with.
  static constexpr bool kScarce = kWidth == 128 && !kSums;
  static constexpr int kHelperRegisters = kScarce ? 24 : 40, kConsumerRegisters = kScarce ? 240 : 232;
  /// Who meets once a tile's ds is in shared memory.
  static constexpr int kMeeting = 128 * kGroups + (kSums ? kSummers : 0);
  /// A window of values by distance, in two copies, half of the banks apart (terms.cuh of the forward says why).
  static constexpr int kWindow = kKeys + kQueries, kWindowPitch = kWindow + (kWindow % 32 + 16) % 32;
  /// Sums of 8 x 8 blocks of ds along diagonals of blocks, with room for zeros on both sides.
  static constexpr int kDiagonals = kKeys / 8 + kQueries / 8 - 1, kDiagonalPitch = 8 * kDiagonals + 16;

  struct Shared {
    alignas(1024) Element k[kPanels][kKeys][64];
    alignas(1024) Element v[kPanels][kKeys][64];
    alignas(1024) Element q[kStages][kPanels][kQueries][64];
    alignas(1024) Element g[kStages][kPanels][kQueries][64];
    alignas(1024) Element ds[2][kQueryPanels][kKeys][64];  // keys are rows
    alignas(16) float lse[kStages][kQueries];
    alignas(16) float delta[kStages][kQueries];
    alignas(16) float window[kBias ? kStages : 1][2][kBias ? kWindowPitch : 4];
    alignas(16) float diagonal[kSums ? 8 : 1][kSums ? kDiagonalPitch : 4];
    float far[2][2][kSums ? 128 * kGroups : 1];  // of even and odd heads, left and right: of a thread
    alignas(8) std::uint64_t kv_full, kv_empty, q_full[kStages], q_empty[kStages], g_full[kStages], g_empty[kStages];
    std::uint64_t turn, added;
    int first_turn;        // whether nobody has added to the tile before
    float shift[kStages];  // what every score of a far tile lacks, in powers of 2
    int work;              // its number; -1: there is no more
  };
  static_assert(sizeof(Shared) <= 227 * 1024);
};

}  // namespace phasor::cuda::hopper
