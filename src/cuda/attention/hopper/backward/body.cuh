// SPDX-License-Identifier: Apache-2.0
// What a backward kernel is made of: its numbers and its shared memory.
#pragma once

#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/forward/body.cuh"

namespace phasor::cuda::hopper {

/// What is added to scores: nothing, a bias by distance, one whose gradient is wanted, products of queries with rows by
/// distance, or of keys, alone or beside those.
enum class BackwardTerm { none, bias, learned_bias, table, key_table };

/// What the producer knows of a tile, so that not every thread finds it out.
enum TileMark : int {
  kPartialForFirst = 1,   // some query does not see some key of the first warpgroup
  kPartialForSecond = 2,  // of the second
  kFarLeft = 4,           // far_side is -1
  kFarRight = 8,          // 1
  kLastOfHead = 16,
};

template <class Element_, int kOfWidths, BackwardTerm kTerm>
struct BackwardBody {
  using Element = Element_;
  static constexpr BackwardWidths kOf = kBackwardWidths[kOfWidths];
  static constexpr int kWidth = kOf.width, kQueries = kOf.queries, kKeys = kBlockKeys, kGroups = 2, kStages = 2;
  static constexpr int kPanels = kWidth / 64, kQueryPanels = kQueries / 64;
  static constexpr bool kSums = kTerm == BackwardTerm::learned_bias, kBias = kTerm == BackwardTerm::bias || kSums;
  static constexpr bool kKeyTable = kTerm == BackwardTerm::key_table;
  static constexpr bool kTable = kTerm == BackwardTerm::table || kKeyTable, kHasFar = kBias || kTable;
  /// Columns of dq's product: beside a table eight more, of ones in the place of keys, which give the sums of ds over keys.
  static constexpr int kColumns = kTable ? 72 : 64;
  /// Of a thread's vectors of products with a table, so many are asked for early: at 64 channels there are no registers for them.
  static constexpr int kEarly = kTable && kWidth == 128 ? 4 : 0;
  static constexpr int kThreads = 384;
  /// Threads of the first warpgroup: warp 0 brings tiles, warp 1 takes dq away, the others sum by distance.
  static constexpr int kSummers = 64;
  /// Together as many as the block is launched with.
  static constexpr int kHelperRegisters = kSums ? 40 : 24, kConsumerRegisters = kSums ? 232 : 240;
  /// Who meets once a tile's ds is in shared memory.
  static constexpr int kMeeting = 128 * kGroups + (kSums ? kSummers : 0);
  /// A window of values by distance, in two copies, half of the banks apart (terms.cuh of the forward says why).
  static constexpr int kWindow = kKeys + kQueries, kWindowPitch = kWindow + (kWindow % 32 + 16) % 32;
  /// Sums of 8 x 8 blocks of ds along diagonals of blocks: a tile's, and the first ones of the tile before. Rows are 12 banks apart.
  static constexpr int kDiagonalPitch = kQueries + 12;
  static constexpr int kFours = kQueries / kSummers;  // of diagonals, of a warp
  static constexpr int kAround = kKeys / kQueries;    // how often one comes to the end of a tile

  struct Shared {
    alignas(1024) Element k[kPanels][kKeys][64];
    alignas(1024) Element v[kPanels][kKeys][64];
    alignas(1024) Element q[kStages][kPanels][kQueries][64];
    alignas(1024) Element g[kStages][kPanels][kQueries][64];
    alignas(1024) Element ds[2][kQueryPanels][kKeys][64];                    // keys are rows
    alignas(128) float dq[kGroups * 64 * 64 + (kTable ? 2 * kQueries : 0)];  // as the warpgroups' registers lie; then sums of far tiles
    alignas(kTable ? 1024 : 16) Element ones[kTable ? 16 : 1][kTable ? 64 : 8];
    alignas(16) float lse[kStages][kQueries];
    alignas(16) float delta[kStages][kQueries];
    alignas(16) float window[kBias ? kStages : 1][2][kBias ? kWindowPitch : 4];
    alignas(16) float diagonal[kSums ? 8 : 1][kSums ? kDiagonalPitch : 4];
    alignas(16) float2 open[kSums ? kFours : 1][kSums ? kAround : 1][4][kSums ? kSummers : 1];
    float far[2][2][kSums ? 128 * kGroups : 1];              // of even and odd heads, left and right: of a thread
    float far_of_keys[2][2][kKeyTable ? 128 * kGroups : 1];  // left and right, a thread's first and second key
    alignas(8) std::uint64_t kv_full, kv_empty, q_full[kStages], q_empty[kStages], g_full[kStages], g_empty[kStages];
    std::uint64_t dq_full, dq_empty;
    float shift[kStages];  // what every score of a far tile lacks, in powers of 2
    int row[kStages];      // the tile's first query
    int marks[kStages];    // TileMark, together
    unsigned strip[kStages];
    int head[kStages];  // of all batch rows; beside a table of keys
    int key;            // the block's first
    int work;           // its number; -1: there is no more
  };
  static_assert(sizeof(Shared) <= 227 * 1024);
};

}  // namespace phasor::cuda::hopper
