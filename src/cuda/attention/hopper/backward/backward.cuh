// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper: a block of 128 keys stays, tiles of queries pass through two stages; each of two warpgroups has 64 keys.
//
// Scores are computed transposed (keys are rows), so that weights and their gradients leave the softmax as the left operands that dv and dk
// need, in registers. Only dq mixes the warpgroups: ds goes through shared memory, each computes a half of the tile's dq and adds it to
// float32 numbers in global memory that lie as the registers do.
#pragma once

#include "cuda/attention/hopper/backward/distances.cuh"
#include "cuda/attention/hopper/backward/producer.cuh"
#include "cuda/attention/hopper/forward/softmax.cuh"

namespace phasor::cuda::hopper {

/// d (64 x queries) = a b^T, or d += a b^T where it was preset: channels along K.
template <class B>
__device__ __forceinline__ void ask_dot(float (&d)[B::kQueries / 2], std::uint64_t a, std::uint64_t b, bool preset) {
  pin(d);
  products_begin();
#pragma unroll
  for (int x = 0; x < 4 * B::kPanels; ++x) {
    Product<typename B::Element, B::kQueries>::shared(d, further(a, x / 4 * (B::kKeys * 128) + x % 4 * 32),
                                                      further(b, x / 4 * (B::kQueries * 128) + x % 4 * 32), x != 0 || preset);
  }
  products_commit();
}
/// d (64 x channels) += a b: a (64 x queries) from registers.
template <class B>
__device__ __forceinline__ void ask_sum(float (&d)[B::kWidth / 2], std::uint32_t (&a)[B::kQueries / 4], std::uint64_t b) {
  pin(d), pin(a);
  products_begin();
#pragma unroll
  for (int x = 0; x < B::kQueries / 16; ++x) Product<typename B::Element, B::kWidth>::registers(d, a + 4 * x, further(b, x * 16 * 128));
  products_commit();
}

template <class B>
struct BackwardConsumer {
  using Element = typename B::Element;
  using Scores = float[B::kQueries / 2];
  using Halves = std::uint32_t[B::kQueries / 4];
  using Sums = float[B::kWidth / 2];
  typename B::Shared& shared;
  const BackwardParameter& p;
  const int group;
  const int lane = threadIdx.x % 32;
  const int key_in_block = 64 * group + threadIdx.x / 32 % 4 * 16 + lane / 4;
  Ring<B::kStages> stage = {};
  std::uint32_t turn_parity = 0;
  int buffer = 0;
  int odd_head = 0;  // of the heads that were walked: which sums of far tiles are theirs

  __device__ __forceinline__ BackwardConsumer(typename B::Shared& of, const BackwardParameter& parameter, int number)
      : shared(of), p(parameter), group(number) {}

  /// Zeros where there is nothing to preset, rather than a product that begins afresh at run time: else the scores would have to be kept
  /// through the whole loop.
  __device__ __forceinline__ void preset(Scores& s, const KeyWork& at, int row) {
    if constexpr (!B::kBias) return;
    const Windows& w = p.windows;
    const int side = far_side(p.tiles, w, at.key(), row);
    if (side != 0) {
#pragma unroll
      for (float& x : s) x = 0;
      return;
    }
    const int odd = key_in_block & 1;  // pairs of odd rows begin at odd places: they are read from the second copy
    const float* const v = shared.window[stage.stage][odd] - odd + 2 * (lane % 4) - key_in_block + B::kKeys;
    // Key r + 8 with query c + 8 has the distance of key r with query c: each pair serves twice.
    float2 before = *reinterpret_cast<const float2*>(v - 8);
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; ++c) {
      const float2 now = *reinterpret_cast<const float2*>(v + 8 * c);
      s[4 * c] = now.x, s[4 * c + 1] = now.y;
      s[4 * c + 2] = before.x, s[4 * c + 3] = before.y;
      before = now;
    }
  }
  /// Scores become weights; those of keys that a query does not see become 0.
  __device__ __forceinline__ void weigh(Scores& s, const KeyWork& at, int row) {
    const float* const lse = shared.lse[stage.stage] + 2 * (lane % 4);
    const float shift = B::kBias ? shared.shift[stage.stage] : 0;
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; ++c) {
      const float2 of = *reinterpret_cast<const float2*>(lse + 8 * c);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        s[4 * c + x] = exp2_approximate(fmaf(s[4 * c + x], p.scale_log2, shift - (x & 1 ? of.y : of.x)));
      }
    }
    if (!is_partial(p.tiles, at.key() + 64 * group, row)) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = at.key() + key_in_block + 8 * r;
      const unsigned seen = key < p.tiles.keys ? max(p.tiles.left + p.tiles.right + 1, 0) : 0;
      const int query = row + 2 * (lane % 4) - (key - p.tiles.right - p.tiles.offset());  // from the first that sees the key on
#pragma unroll
      for (int c = 0; c < B::kQueries / 8; ++c) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          if (unsigned(query + 8 * c + x) >= seen) s[4 * c + 2 * r + x] = 0;
        }
      }
    }
  }
  /// Gradients of weights become those of scores; returns their sum, where distances are summed.
  __device__ __forceinline__ float differentiate(Scores& d, const Scores& s) const {
    const float* const delta = shared.delta[stage.stage] + 2 * (lane % 4);
    float sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; ++c) {
      const float2 of = *reinterpret_cast<const float2*>(delta + 8 * c);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        d[4 * c + x] = s[4 * c + x] * (d[4 * c + x] - (x & 1 ? of.y : of.x));
        if constexpr (B::kSums) sum[x] += d[4 * c + x];
      }
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  /// 64 keys of ds to rows of 128 bytes, swizzled as the copy engine does it.
  __device__ __forceinline__ void put(const Halves& x) const {
    const int row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; c += 2) {
      store_blocks(shared_address(shared.ds[buffer][c / 8][64 * group + row]) + ((c % 8 + lane / 16 ^ row & 7) << 4), x[2 * c],
                   x[2 * c + 1], x[2 * c + 2], x[2 * c + 3]);
    }
  }
  /// A far tile's ds are of one distance, as far as its bias goes.
  __device__ __forceinline__ void add_far(float sum, const KeyWork& at, int row) {
    const int side = far_side(p.tiles, p.windows, at.key(), row);
    if (side != 0) shared.far[odd_head][side > 0 ? 1 : 0][threadIdx.x - 128] += sum;
  }
  /// This warpgroup's half of a tile: 64 channels of all queries, or 64 queries.
  __device__ __forceinline__ void ask_queries(float (&dq)[32]) const {
    const std::uint64_t ds = matrix(shared.ds[buffer][B::kQueryPanels == 2 ? group : 0], 0);
    const std::uint64_t k = matrix(shared.k[B::kPanels == 2 ? group : 0], 0);
    products_begin();
#pragma unroll
    for (int x = 0; x < B::kKeys / 16; ++x) {
      Product<Element, 64>::across(dq, further(ds, x * 16 * 128), further(k, x * 16 * 128), x != 0);
    }
    products_commit();
  }
  __device__ __forceinline__ void add_queries(const float (&dq)[32], const KeyWork& at, const Walk& walk) {
    constexpr int kHalf = 64 * 64;
    float* const to =
        p.dq + std::int64_t{p.tile_number(at.batch, walk.head, walk.tile)} * (2 * kHalf) + group * kHalf + threadIdx.x % 128 * 4;
    bool first = false;
    if (p.turns != nullptr) {
      barrier_wait(&shared.turn, turn_parity);
      turn_parity ^= 1;
      first = shared.first_turn != 0;
    }
    if (first) {
#pragma unroll
      for (int x = 0; x < 8; ++x) {
        *reinterpret_cast<float4*>(to + 512 * x) = {dq[4 * x], dq[4 * x + 1], dq[4 * x + 2], dq[4 * x + 3]};
      }
    } else {
#pragma unroll
      for (int x = 0; x < 8; ++x) add_to(to + 512 * x, dq[4 * x], dq[4 * x + 1], dq[4 * x + 2], dq[4 * x + 3]);
    }
    if (p.turns == nullptr) return;
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.added);
  }
  /// A warp at a time, since stages are read by ordinary loads, too.
  __device__ __forceinline__ void release_stage() {
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.q_empty[stage.stage]), barrier_arrive(&shared.g_empty[stage.stage]);
  }
  struct Registers {
    Sums dk, dv;
  };
  /// Products that went on from one turn of a loop to the next would be serialised (C7514). Accumulators of their own for every product,
  /// undefined before: what a product begins with would have to be kept (C7512).
  __device__ __forceinline__ void tile(Registers& r, const KeyWork& at, const Walk& walk) {
    Scores s, d;
    float dq[32];
    Halves weights, ds;
    const int row = walk.tile * B::kQueries;
    barrier_wait(&shared.q_full[stage.stage], stage.parity);
    preset(s, at, row);
    ask_dot<B>(s, matrix(shared.k[0][64 * group], 0), matrix(shared.q[stage.stage], 0), B::kBias);
    barrier_wait(&shared.g_full[stage.stage], stage.parity);
    ask_dot<B>(d, matrix(shared.v[0][64 * group], 0), matrix(shared.g[stage.stage], 0), false);
    products_wait<1>();
    pin(s);
    weigh(s, at, row);
    round_weights<Element, B::kQueries>(weights, s);
    products_wait<0>();
    pin(d);
    ask_sum<B>(r.dv, weights, matrix(shared.g[stage.stage], B::kQueries * 128));
    [[maybe_unused]] const float sum = differentiate(d, s);
    round_weights<Element, B::kQueries>(ds, d);
    put(ds);
    if constexpr (B::kSums) add_far(sum, at, row);
    fence_async();
    ask_sum<B>(r.dk, ds, matrix(shared.q[stage.stage], B::kQueries * 128));
    named_sync(1, B::kMeeting);
    ask_queries(dq);
    products_wait<0>();
    pin(r.dv), pin(r.dk), pin(dq), pin(weights), pin(ds);
    release_stage();
    stage.next();
    buffer ^= 1;
    add_queries(dq, at, walk);
    if (B::kSums && walk.is_last_of_head()) odd_head ^= 1;
  }
  /// Straight from the registers, 16 bytes a thread.
  __device__ __forceinline__ void store(const OutputRows& to, const KeyWork& at, const Sums& x) const {
    if (to.data == nullptr) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = at.key() + key_in_block + 8 * r;
      unsigned char* const row = to.row(at.batch, key, at.key_head);
#pragma unroll
      for (int c = 0; c < B::kWidth / 8; c += 4) {  // 32 channels: eight for each thread of the quad
        std::uint32_t y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) y[i] = pack<Element>(x[4 * (c + i) + 2 * r], x[4 * (c + i) + 2 * r + 1]);
        transpose_in_quad(y, lane);
        const int channel = 8 * (c + lane % 4);
        if (key < p.tiles.keys && channel < to.width) *reinterpret_cast<uint4*>(row + 2 * channel) = {y[0], y[1], y[2], y[3]};
      }
    }
  }
  __device__ __forceinline__ void run() {
    Registers r;
    std::uint32_t parity = 0;
    if constexpr (B::kSums) {
#pragma unroll
      for (int n = 0; n < 4; ++n) shared.far[n / 2][n % 2][threadIdx.x - 128] = 0;
    }
    for (;;) {
      barrier_wait(&shared.kv_full, parity);
      parity ^= 1;
      const int number = shared.work;
      if (number < 0) return;
      const KeyWork at = key_work_at(p.tiles, number);
#pragma unroll
      for (int i = 0; i < B::kWidth / 2; ++i) r.dk[i] = r.dv[i] = 0;
      for (Walk walk(p.tiles, at); walk.is_there(); walk.next()) tile(r, at, walk);
      __syncwarp();
      if (lane == 0) barrier_arrive(&shared.kv_empty);  // the next keys come meanwhile
      store(p.dv, at, r.dv);
#pragma unroll
      for (float& x : r.dk) x *= p.scale;
      store(p.dk, at, r.dk);
    }
  }
};

template <class B>
__global__ void __launch_bounds__(B::kThreads, 1) differentiate_attention(const __grid_constant__ BackwardParameter parameter) {
  extern __shared__ __align__(1024) unsigned char memory[];  // no arithmetic on it, or the compiler forgets that it is shared memory
  auto& shared = *reinterpret_cast<typename B::Shared*>(memory);
  const bool by_turns = parameter.turns != nullptr;
  if (threadIdx.x == 0) {
    if (shared_address(memory) % 1024 != 0) __trap();
    barrier_init(&shared.kv_full, 1),
        barrier_init(&shared.kv_empty, 4 * B::kGroups + (by_turns ? 1 : 0) + (B::kSums ? B::kSummers / 32 : 0));
    for (int i = 0; i < B::kStages; ++i) {
      barrier_init(&shared.q_full[i], 1), barrier_init(&shared.q_empty[i], 4 * B::kGroups);
      barrier_init(&shared.g_full[i], 1), barrier_init(&shared.g_empty[i], 4 * B::kGroups);
    }
    barrier_init(&shared.turn, 1), barrier_init(&shared.added, 4 * B::kGroups);
    barrier_fence_init();
  }
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1;  // the same for the warp, and the compiler shall know
  if (group < 0) {
    registers_lower<B::kHelperRegisters>();
    if (threadIdx.x == 0) BackwardProducer<B>{shared, parameter}.run();
    if (threadIdx.x == 32 && by_turns) give_turns<B>(shared, parameter);
    if constexpr (B::kSums) {
      if (threadIdx.x >= 128 - B::kSummers) DistanceSummer<B>(shared, parameter).run();
    }
  } else {
    registers_raise<B::kConsumerRegisters>();
    BackwardConsumer<B>(shared, parameter, group).run();
  }
}

}  // namespace phasor::cuda::hopper
