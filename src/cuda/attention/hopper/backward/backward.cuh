// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper: a block of 128 keys stays, tiles of queries pass through two stages; each of two warpgroups has 64 keys.
//
// Scores are computed transposed (keys are rows), so that weights and their gradients leave the softmax as the left operands that dv and dk
// need, in registers. Only dq mixes the warpgroups: ds goes through shared memory, each computes a half of the tile's dq and leaves it in
// shared memory, from where the copy engine adds it to float32 numbers in global memory that lie as the registers do.
#pragma once

#include "cuda/attention/hopper/backward/distances.cuh"
#include "cuda/attention/hopper/backward/producer.cuh"
#include "cuda/attention/hopper/forward/softmax.cuh"

namespace phasor::cuda::hopper {

/// d (64 x queries) = a b^T: channels along K.
template <class B>
__device__ __forceinline__ void ask_dot(float (&d)[B::kQueries / 2], std::uint64_t a, std::uint64_t b) {
  pin(d);
  products_begin();
#pragma unroll
  for (int x = 0; x < 4 * B::kPanels; ++x) {
    Product<typename B::Element, B::kQueries>::shared(d, further(a, x / 4 * (B::kKeys * 128) + x % 4 * 32),
                                                      further(b, x / 4 * (B::kQueries * 128) + x % 4 * 32), x != 0);
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
  using Queries = float[B::kColumns / 2];
  typename B::Shared& shared;
  const BackwardParameter& p;
  const int group;
  const int lane = threadIdx.x % 32;
  const int key_in_block = 64 * group + threadIdx.x / 32 % 4 * 16 + lane / 4;
  Ring<B::kStages> stage = {};
  int odd_head = 0;  // of the heads that were walked: which sums of far tiles are theirs

  __device__ __forceinline__ BackwardConsumer(typename B::Shared& of, const BackwardParameter& parameter, int number)
      : shared(of), p(parameter), group(number) {}

  __device__ __forceinline__ float weight(float score, float minus) const { return exp2_approximate(fmaf(score, p.scale_log2, minus)); }
  /// Of a tile where one number serves, or one for each key, or nothing is added.
  __device__ __forceinline__ void weigh_shifted(Scores& s, const float* lse, [[maybe_unused]] const float2& of_keys) const {
    const float shift = B::kBias ? shared.shift[stage.stage] : 0;
    const auto minus = [&](float of, [[maybe_unused]] float of_key) {
      if constexpr (B::kKeyTable) return of_key - of;
      return B::kBias ? shift - of : -of;
    };
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; ++c) {
      const float2 of = *reinterpret_cast<const float2*>(lse + 8 * c);
      s[4 * c] = weight(s[4 * c], minus(of.x, of_keys.x)), s[4 * c + 1] = weight(s[4 * c + 1], minus(of.y, of_keys.x));
      s[4 * c + 2] = weight(s[4 * c + 2], minus(of.x, of_keys.y)), s[4 * c + 3] = weight(s[4 * c + 3], minus(of.y, of_keys.y));
    }
  }
  /// Where a far tile's numbers of this thread's first key are, among those of KeySide; the second one's are eight further.
  __device__ __forceinline__ std::int64_t far_key(int side) const {
    return (std::int64_t{shared.head[stage.stage]} * 2 + side) * (p.tiles.blocks() * B::kKeys) + shared.key + key_in_block;
  }
  __device__ __forceinline__ float2 far_products(int marks) const {
    if (!B::kKeyTable || (marks & (kFarLeft | kFarRight)) == 0) return {0, 0};
    const float* const from = p.keys.ends + far_key((marks & kFarRight) != 0 ? 1 : 0);
    return {from[0], from[8]};
  }
  __device__ __forceinline__ void weigh_biased(Scores& s, const float* lse) const {
    const int odd = key_in_block & 1;  // pairs of odd rows begin at odd places: they are read from the second copy
    const float* const v = shared.window[stage.stage][odd] - odd + 2 * (lane % 4) - key_in_block + B::kKeys;
    // Key r + 8 with query c + 8 has the distance of key r with query c: each pair serves twice.
    float2 before = *reinterpret_cast<const float2*>(v - 8);
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; ++c) {
      const float2 of = *reinterpret_cast<const float2*>(lse + 8 * c), now = *reinterpret_cast<const float2*>(v + 8 * c);
      s[4 * c] = weight(s[4 * c], now.x - of.x), s[4 * c + 1] = weight(s[4 * c + 1], now.y - of.y);
      s[4 * c + 2] = weight(s[4 * c + 2], before.x - of.x), s[4 * c + 3] = weight(s[4 * c + 3], before.y - of.y);
      before = now;
    }
  }
  /// Where in a tile's strip this thread's numbers are, 128 places apart.
  __device__ __forceinline__ uint4* strip() const {
    return p.table.strips + (std::int64_t{shared.strip[stage.stage]} * B::kGroups + group) * (B::kQueries / 16 * 128) + threadIdx.x % 128;
  }
  /// As many as there are registers for are asked for while scores are computed.
  using Products = uint4[B::kEarly > 0 ? B::kEarly : 1];
  __device__ __forceinline__ void read_rows(Products& products) const {
    const uint4* const from = strip();
#pragma unroll
    for (int n = 0; n < B::kEarly; ++n) products[n] = from[128 * n];
  }
  /// Products with a table, of a tile that is not far.
  __device__ __forceinline__ void weigh_rows(Scores& s, const float* lse, const Products& products) const {
    const uint4* const from = strip();
#pragma unroll
    for (int n = 0; n < B::kQueries / 16; ++n) {
      const uint4 four = n < B::kEarly ? products[n] : from[128 * n];
      const std::uint32_t z[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        const float2 of = *reinterpret_cast<const float2*>(lse + 16 * n + 8 * (x / 2)), product = unpack<__half>(z[x]);
        float* const to = s + 8 * n + 2 * x;
        to[0] = weight(to[0] + product.x, -of.x), to[1] = weight(to[1] + product.y, -of.y);
      }
    }
  }
  __device__ __forceinline__ void keep_rows(const Halves& ds) const {
    uint4* const to = strip();
#pragma unroll
    for (int n = 0; n < B::kQueries / 16; ++n) to[128 * n] = {ds[4 * n], ds[4 * n + 1], ds[4 * n + 2], ds[4 * n + 3]};
  }
  /// Scores become weights; those of keys that a query does not see become 0.
  __device__ __forceinline__ void weigh(Scores& s, int marks, [[maybe_unused]] const Products& products, const float2& of_keys) const {
    const float* const lse = shared.lse[stage.stage] + 2 * (lane % 4);
    if (!B::kHasFar || (marks & (kFarLeft | kFarRight)) != 0) {
      weigh_shifted(s, lse, of_keys);
    } else if constexpr (B::kTable) {
      weigh_rows(s, lse, products);
    } else {
      weigh_biased(s, lse);
    }
    if ((marks & kPartialForFirst << group) == 0) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = shared.key + key_in_block + 8 * r;
      const unsigned seen = key < p.tiles.keys ? max(p.tiles.left + p.tiles.right + 1, 0) : 0;
      const int query =
          shared.row[stage.stage] + 2 * (lane % 4) - (key - p.tiles.right - p.tiles.offset());  // from the first that sees the key on
#pragma unroll
      for (int c = 0; c < B::kQueries / 8; ++c) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          if (unsigned(query + 8 * c + x) >= seen) s[4 * c + 2 * r + x] = 0;
        }
      }
    }
  }
  /// Gradients of weights become those of scores; returns sums of them, where distances are summed: by query's parity then, by key beside a
  /// table of keys.
  __device__ __forceinline__ float2 differentiate(Scores& d, const Scores& s) const {
    const float* const delta = shared.delta[stage.stage] + 2 * (lane % 4);
    float sum[2] = {0, 0};
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; ++c) {
      const float2 of = *reinterpret_cast<const float2*>(delta + 8 * c);
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        d[4 * c + x] = s[4 * c + x] * (d[4 * c + x] - (x & 1 ? of.y : of.x));
        if constexpr (B::kSums) sum[x & 1] += d[4 * c + x];
        if constexpr (B::kKeyTable) sum[x / 2] += d[4 * c + x];
      }
    }
    return {sum[0], sum[1]};
  }
  /// 64 keys of ds to rows of 128 bytes, swizzled as the copy engine does it.
  __device__ __forceinline__ void put(const Halves& x) const {
    const int row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int c = 0; c < B::kQueries / 8; c += 2) {
      store_blocks(shared_address(shared.ds[stage.stage][c / 8][64 * group + row]) + ((c % 8 + lane / 16 ^ row & 7) << 4), x[2 * c],
                   x[2 * c + 1], x[2 * c + 2], x[2 * c + 3]);
    }
  }
  /// A far tile's ds are of one distance, as far as its bias goes.
  __device__ __forceinline__ void add_far(float sum, int marks) {
    if ((marks & (kFarLeft | kFarRight)) != 0) shared.far[odd_head][marks / kFarRight % 2][threadIdx.x - 128] += sum;
  }
  __device__ __forceinline__ void add_far_keys(const float2& sum, int marks) {
    if ((marks & (kFarLeft | kFarRight)) == 0) return;
    float(&of_side)[2][128 * B::kGroups] = shared.far_of_keys[marks / kFarRight % 2];
    of_side[0][threadIdx.x - 128] += sum.x, of_side[1][threadIdx.x - 128] += sum.y;
  }
  /// Of a head, whose last tile this is.
  __device__ __forceinline__ void put_far_keys() {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float& of = shared.far_of_keys[n / 2][n % 2][threadIdx.x - 128];
      float sum = of;
      of = 0;
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (lane % 4 == 0) p.keys.sums[far_key(n / 2) + 8 * (n % 2)] = sum;
    }
  }
  /// This warpgroup's half of a tile: 64 channels of all queries, or 64 queries.
  __device__ __forceinline__ void ask_queries(Queries& dq) const {
    const std::uint64_t ds = matrix(shared.ds[stage.stage][B::kQueryPanels == 2 ? group : 0], 0);
    const auto& panel = shared.k[B::kPanels == 2 ? group : 0];
    // The ones are the keys' second panel, the same for each 16 of them.
    const std::uint64_t k = matrix(panel, B::kTable ? int(shared_address(shared.ones) - shared_address(panel)) : 0);
    products_begin();
#pragma unroll
    for (int x = 0; x < B::kKeys / 16; ++x) {
      const std::uint64_t nearer = B::kTable ? std::uint64_t(x * 16 * 128 >> 4) << 16 : 0;
      Product<Element, B::kColumns>::across(dq, further(ds, x * 16 * 128), further(k, x * 16 * 128) - nearer, x != 0);
    }
    products_commit();
  }
  /// Sums of ds over the keys of a far tile, which are all of one end's row; those of others are in strips.
  __device__ __forceinline__ void put_ends(const Queries& dq, int marks) const {
    if (lane % 4 != 0 || (B::kQueryPanels == 1 && group != 0)) return;
    float* const to = shared.dq + 2 * 64 * 64 + (B::kQueryPanels == 2 ? 64 * group : 0) + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      to[8 * r] = (marks & kFarLeft) != 0 ? dq[32 + 2 * r] : 0;
      to[B::kQueries + 8 * r] = (marks & kFarRight) != 0 ? dq[32 + 2 * r] : 0;
    }
  }
  __device__ __forceinline__ void put_queries(const Queries& dq, [[maybe_unused]] int marks) {
    static_assert(B::kStages == 2);  // one is even, as a tile's number
    barrier_wait(&shared.dq_empty, stage.stage ^ 1);
    float* const to = shared.dq + 64 * 64 * group + threadIdx.x % 128 * 4;
#pragma unroll
    for (int x = 0; x < 8; ++x) {
      *reinterpret_cast<float4*>(to + 512 * x) = {dq[4 * x], dq[4 * x + 1], dq[4 * x + 2], dq[4 * x + 3]};
    }
    if constexpr (B::kTable) put_ends(dq, marks);
    fence_async();
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.dq_full);
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
  __device__ __forceinline__ void tile(Registers& r) {
    Scores s, d;
    Queries dq;
    Halves weights, ds;
    barrier_wait(&shared.q_full[stage.stage], stage.parity);
    ask_dot<B>(s, matrix(shared.k[0][64 * group], 0), matrix(shared.q[stage.stage], 0));
    barrier_wait(&shared.g_full[stage.stage], stage.parity);
    ask_dot<B>(d, matrix(shared.v[0][64 * group], 0), matrix(shared.g[stage.stage], 0));
    const int marks = shared.marks[stage.stage];
    [[maybe_unused]] Products products;
    if constexpr (B::kEarly > 0) {
      if ((marks & (kFarLeft | kFarRight)) == 0) read_rows(products);
    }
    const float2 of_keys = far_products(marks);
    products_wait<1>();
    pin(s);
    weigh(s, marks, products, of_keys);
    round_weights<Element, B::kQueries>(weights, s);
    products_wait<0>();
    pin(d);
    ask_sum<B>(r.dv, weights, matrix(shared.g[stage.stage], B::kQueries * 128));
    [[maybe_unused]] const float2 sum = differentiate(d, s);
    round_weights<Element, B::kQueries>(ds, d);
    put(ds);
    if constexpr (B::kSums) add_far(sum.x + sum.y, shared.marks[stage.stage]);
    if constexpr (B::kKeyTable) add_far_keys(sum, shared.marks[stage.stage]);
    if constexpr (B::kTable) {
      if ((shared.marks[stage.stage] & (kFarLeft | kFarRight)) == 0) keep_rows(ds);
    }
    fence_async();
    ask_sum<B>(r.dk, ds, matrix(shared.q[stage.stage], B::kQueries * 128));
    named_sync(1, B::kMeeting);
    ask_queries(dq);
    products_wait<0>();
    pin(r.dv), pin(r.dk), pin(dq), pin(weights), pin(ds);
    if (B::kSums && (shared.marks[stage.stage] & kLastOfHead) != 0) odd_head ^= 1;
    [[maybe_unused]] const int far = B::kTable ? shared.marks[stage.stage] : 0;
    if (B::kKeyTable && (far & kLastOfHead) != 0) put_far_keys();
    release_stage();
    put_queries(dq, far);
    stage.next();
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
  /// As the registers lie: what keys get of a table is not in it yet.
  __device__ __forceinline__ void keep_keys(const KeyWork& at, const Sums& x) const {
    const std::int64_t block = (std::int64_t{at.batch} * p.tiles.key_heads() + at.key_head) * p.tiles.blocks() + at.block;
    float* const to = p.keys.dk + (block * B::kGroups + group) * (64 * B::kWidth) + threadIdx.x % 128 * 4;
#pragma unroll
    for (int c = 0; c < B::kWidth / 8; ++c) *reinterpret_cast<float4*>(to + 512 * c) = {x[4 * c], x[4 * c + 1], x[4 * c + 2], x[4 * c + 3]};
  }
  __device__ __forceinline__ void run() {
    Registers r;
    std::uint32_t parity = 0;
    if constexpr (B::kSums) {
#pragma unroll
      for (int n = 0; n < 4; ++n) shared.far[n / 2][n % 2][threadIdx.x - 128] = 0;
    }
    if constexpr (B::kKeyTable) {
#pragma unroll
      for (int n = 0; n < 4; ++n) shared.far_of_keys[n / 2][n % 2][threadIdx.x - 128] = 0;
    }
    for (;;) {
      barrier_wait(&shared.kv_full, parity);
      parity ^= 1;
      const int number = shared.work;
      if (number < 0) return;
#pragma unroll
      for (int i = 0; i < B::kWidth / 2; ++i) r.dk[i] = r.dv[i] = 0;
      for (int n = Walk(p.tiles, key_work_at(p.tiles, number)).steps(); n > 0; --n) tile(r);
      const KeyWork at = key_work_at(p.tiles, shared.work);  // again: no register holds it through the loop
      __syncwarp();
      if (lane == 0) barrier_arrive(&shared.kv_empty);  // the next keys come meanwhile
      store(p.dv, at, r.dv);
      if constexpr (B::kKeyTable) {
        keep_keys(at, r.dk);
      } else {
#pragma unroll
        for (float& x : r.dk) x *= p.scale;
        store(p.dk, at, r.dk);
      }
    }
  }
};

template <class B>
__global__ void __launch_bounds__(B::kThreads, 1) differentiate_attention(const __grid_constant__ BackwardParameter parameter) {
  extern __shared__ __align__(1024) unsigned char memory[];  // no arithmetic on it, or the compiler forgets that it is shared memory
  auto& shared = *reinterpret_cast<typename B::Shared*>(memory);
  if (threadIdx.x == 0) {
    if (shared_address(memory) % 1024 != 0) __trap();
    barrier_init(&shared.kv_full, 1), barrier_init(&shared.kv_empty, 4 * B::kGroups + 1 + (B::kSums ? B::kSummers / 32 : 0));
    for (int i = 0; i < B::kStages; ++i) {
      barrier_init(&shared.q_full[i], 1), barrier_init(&shared.q_empty[i], 4 * B::kGroups);
      barrier_init(&shared.g_full[i], 1), barrier_init(&shared.g_empty[i], 4 * B::kGroups);
    }
    barrier_init(&shared.dq_full, 4 * B::kGroups), barrier_init(&shared.dq_empty, 1);
    barrier_fence_init();
  }
  if constexpr (B::kTable) {
    auto* const ones = reinterpret_cast<typename B::Element*>(shared.ones);
    for (int x = threadIdx.x; x < 16 * 64; x += B::kThreads) ones[x] = typename B::Element(1.0f);
    fence_async();
  }
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1;  // the same for the warp, and the compiler shall know
  if (group < 0) {
    registers_lower<B::kHelperRegisters>();
    if (threadIdx.x == 0) BackwardProducer<B>{shared, parameter}.run();
    if (threadIdx.x == 32) take_queries<B>(shared, parameter);
    if constexpr (B::kSums) {
      if (threadIdx.x >= 128 - B::kSummers) DistanceSummer<B>(shared, parameter).run();
    }
  } else {
    registers_raise<B::kConsumerRegisters>();
    BackwardConsumer<B>(shared, parameter, group).run();
  }
}

}  // namespace phasor::cuda::hopper
