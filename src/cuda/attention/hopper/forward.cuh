// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: 64 queries per consumer warpgroup; keys and values pass in tiles through two stages each.
//
// One thread, the producer, drives the copy engine. Each consumer warpgroup runs one tile ahead: it asks the tensor cores for the next
// scores and for this tile's weighted values together, and does the softmax of the next scores while the values are still being summed.
// The warpgroups take turns at asking, so that one's softmax falls into the other's products. Blocks stay on their multiprocessor and
// claim work by a counter.
#pragma once

#include "cuda/attention/hopper/parameter.cuh"
#include "cuda/attention/hopper/softmax.cuh"
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
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kProducerRegisters = kGroups == 2 ? 40 : 32, kConsumerRegisters = kGroups == 2 ? 232 : 160;

  struct Shared {
    alignas(1024) Element q[kPanels][kQueries][64];  // the output leaves through it
    alignas(1024) Element k[kStages][kPanels][kKeys][64];
    alignas(1024) Element v[kStages][kValuePanels][kKeys][64];
    typename Term::template Shared<kQueries, kKeys, kStages> term;
    alignas(8) std::uint64_t q_full, q_empty, k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
    int work;  // its number; -1: there is no more
  };
  static_assert(sizeof(Shared) <= 227 * 1024 && kValuePanels <= kPanels);
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

// ---- The producer ----

/// All panels of a tile.
template <class Panels>
__device__ __forceinline__ void copy_tile(Panels& to, const CUtensorMap* map, bool whole, std::uint64_t* full, int token, int head, int batch) {
  if (whole) return copy_in(to, map, full, 0, token, 0, head, batch);
  for (int x = 0; x < int(sizeof(to) / sizeof(to[0])); ++x) copy_in(to[x], map, full, 64 * x, token, 0, head, batch);
}

template <class B>
struct Producer {
  typename B::Shared& shared;
  const ForwardParameter& p;
  Ring<B::kStages> k, v;

  __device__ __forceinline__ void bring_keys(const Work& at, int key) {
    std::uint64_t* const full = &shared.k_full[k.stage];
    barrier_wait(&shared.k_empty[k.stage], k.parity ^ 1);
    barrier_expect(full, int(sizeof(shared.k[0])) + B::Term::template bytes<B::kQueries, B::kKeys>(p.tiles, p.windows, at, key));
    copy_tile(shared.k[k.stage], &p.k, p.whole, full, key, at.head / p.tiles.heads_of_key, at.batch);
    B::Term::template bring<B::kQueries, B::kKeys>(p.tiles, p.windows, at, key, shared.term, k.stage, full);
    k.next();
  }
  __device__ __forceinline__ void bring_values(const Work& at, int key) {
    std::uint64_t* const full = &shared.v_full[v.stage];
    barrier_wait(&shared.v_empty[v.stage], v.parity ^ 1);
    barrier_expect(full, sizeof(shared.v[0]));
    copy_tile(shared.v[v.stage], &p.v, p.whole_values, full, key, at.head / p.tiles.heads_of_key, at.batch);
    v.next();
  }
  __device__ __forceinline__ void run() {
    std::uint32_t q_parity = 1;
    const int all = p.tiles.work();
    for (int number = blockIdx.x;;) {
      const int after = gridDim.x + atomicAdd(p.next, 1);  // asked for early: the answer takes long
      barrier_wait(&shared.q_empty, q_parity);
      q_parity ^= 1;
      shared.work = number < all ? number : -1;
      if (number >= all) {
        barrier_arrive(&shared.q_full);
        return;
      }
      const Work at = work_at(p.tiles, number);
      barrier_expect(&shared.q_full, sizeof(shared.q));
      copy_tile(shared.q, &p.q, p.whole, &shared.q_full, at.row, at.head, at.batch);
      const TileSpan span = tiles_of(p.tiles, at.row);
      for (int j = span.end; j >= span.first; --j) {  // the keys one tile ahead of the values
        if (j > span.first) bring_keys(at, (j - 1) * B::kKeys);
        if (j < span.end) bring_values(at, j * B::kKeys);
      }
      number = after;
    }
  }
};

// ---- Products, asked for and not waited for ----

/// s = q k^T, or s += q k^T where it was preset.
template <class B>
__device__ __forceinline__ void ask_scores(float (&s)[B::kKeys / 2], std::uint64_t q, std::uint64_t k, bool preset) {
  pin(s);
  products_begin();
#pragma unroll
  for (int x = 0; x < 4 * B::kPanels; ++x) {
    Product<typename B::Element, B::kKeys>::shared(s, further(q, x / 4 * (B::kQueries * 128) + x % 4 * 32),
                                                   further(k, x / 4 * (B::kKeys * 128) + x % 4 * 32), x != 0 || preset);
  }
  products_commit();
}
/// o += p v.
template <class B>
__device__ __forceinline__ void ask_values(float (&o)[B::kOf.value_width / 2], std::uint32_t (&p)[B::kKeys / 4], std::uint64_t v) {
  pin(o), pin(p);
  products_begin();
#pragma unroll
  for (int x = 0; x < B::kKeys / 16; ++x) {
    Product<typename B::Element, B::kOf.value_width>::registers(o, p + 4 * x, further(v, x * 16 * 128));
  }
  products_commit();
}

// ---- The consumers ----

template <class B>
struct Consumer {
  typename B::Shared& shared;
  const ForwardParameter& p;
  const int group;  // of the warpgroups
  const int lane = threadIdx.x % 32;
  const int row_in_block = 64 * group + threadIdx.x / 32 % 4 * 16 + lane / 4;
  Ring<B::kStages> k = {}, v = {};
  Rows rows = {};
  float shrink[2], shift = 0;

  __device__ __forceinline__ Consumer(typename B::Shared& of, const ForwardParameter& parameter, int number)
      : shared(of), p(parameter), group(number) {}

  /// A warp at a time, since the term reads the stage by ordinary loads.
  __device__ __forceinline__ void release_keys() {
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.k_empty[k.stage]);
    k.next();
  }
  __device__ __forceinline__ void release_values() {
    if (threadIdx.x % 128 == 0) barrier_arrive(&shared.v_empty[v.stage]);
    v.next();
  }
  __device__ __forceinline__ std::uint64_t values() const { return matrix(shared.v[v.stage], B::kKeys * 128); }

  /// Scores become weights.
  __device__ __forceinline__ void weigh(float (&s)[B::kKeys / 2], const Place& at) {
    release_keys();
    if constexpr (B::kCapped) {
      cap_scores<B::kKeys>(s, p.cap, shift);
      shift = 0;
    }
    if (is_partial(p.tiles, at.group_row, 64, at.key)) mask_scores<B::kKeys>(s, p.tiles, at.row, at.key + 2 * (lane % 4));
    update_softmax<B::kKeys>(s, rows, shrink, shift, p.scale_log2);
  }
  /// Waits for a stage of keys and asks for its scores.
  __device__ __forceinline__ void ask(float (&s)[B::kKeys / 2], const typename B::Presets& presets, const Place& at, bool by_turns) {
    barrier_wait(&shared.k_full[k.stage], k.parity);
    const bool preset = presets(p.tiles, p.windows, at, k.stage, s, shift);
    if (by_turns) named_sync(1 + group, 256);
    ask_scores<B>(s, matrix(shared.q[0][64 * group], 0), matrix(shared.k[k.stage], 0), preset);
  }
  /// The registers come from outside: declared here, a tile whose scores are not preset would leave them undefined, and the compiler then
  /// makes so many copies of them that products wait for each other (C7512).
  __device__ __forceinline__ void block(const Work& w, float (&s)[B::kKeys / 2], float (&o)[B::kOf.value_width / 2],
                                        std::uint32_t (&weights)[B::kKeys / 4]) {
    const typename B::Presets presets(p.windows, shared.term, w);
    const TileSpan span = tiles_of(p.tiles, w.row);
    const auto place = [&](int j) { return Place{w.row, w.row + 64 * group, w.row + row_in_block, j * B::kKeys}; };
    rows = {};
    Place at = place(span.end - 1);
    ask(s, presets, at, false);
    products_wait<0>();
    pin(s);
    weigh(s, at);
    round_weights<typename B::Element, B::kKeys>(weights, s);
#pragma unroll
    for (float& x : o) x = 0;
    for (int j = span.end - 2; j >= span.first; --j) {
      at = place(j);
      ask(s, presets, at, true);
      barrier_wait(&shared.v_full[v.stage], v.parity);
      ask_values<B>(o, weights, values());
      named_arrive(1 + (group + 1) % B::kGroups, 256);
      products_wait<1>();
      pin(s);
      weigh(s, at);
      products_wait<0>();
      pin(o), pin(weights);
      release_values();
      rescale(o, shrink);
      round_weights<typename B::Element, B::kKeys>(weights, s);
    }
    barrier_wait(&shared.v_full[v.stage], v.parity);
    ask_values<B>(o, weights, values());
    products_wait<0>();
    pin(o);
    release_values();
    finish(w, o);
  }
  /// The factor of a row's output; writes its log-sum-exp.
  __device__ __forceinline__ float finish_row(const Work& w, int r) {
    float sum = rows.sum[r];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const int row = w.row + row_in_block + 8 * r;
    if (p.lse != nullptr && lane % 4 == 0 && row < p.tiles.queries) {
      p.lse[w.batch * p.lse_strides[0] + row * p.lse_strides[1] + w.head * p.lse_strides[2]] = rows.greatest[r] * p.scale + logf(sum);
    }
    return sum == 0 ? 0 : 1 / sum;  // a NaN stays one
  }
  __device__ __forceinline__ void finish(const Work& w, float (&o)[B::kOf.value_width / 2]) {
    const float factor[2] = {finish_row(w, 0), finish_row(w, 1)};
    rescale(o, factor);
    // Through the warpgroup's own rows of q, which nobody reads any more, in the swizzle that the copy engine undoes.
    const int row = 64 * group + threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int c = 0; c < B::kOf.value_width / 8; c += 2) {
      const int chunk = c % 8 + lane / 16;
      std::uint32_t pairs[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = pack<typename B::Element>(o[4 * c + 2 * i], o[4 * c + 2 * i + 1]);
      store_blocks(shared_address(shared.q[c / 8][row]) + ((chunk ^ (row & 7)) << 4), pairs);
    }
    fence_async();
    named_sync(8 + group, 128);
    if (threadIdx.x % 128 == 0) {
      if (w.row + 64 * group < p.tiles.queries) {
        for (int x = 0; x < B::kValuePanels; ++x) {
          copy_out(shared.q[x][64 * group], &p.out, p.whole_values ? 0 : 64 * x, w.row + 64 * group, p.whole_values ? x : 0, w.head, w.batch);
        }
      }
      copy_out_commit();
      copy_out_wait();
      barrier_arrive(&shared.q_empty);
    }
  }
  __device__ __forceinline__ void run() {
    float s[B::kKeys / 2], o[B::kOf.value_width / 2];
    std::uint32_t weights[B::kKeys / 4];
    std::uint32_t q_parity = 0;
    if (group == B::kGroups - 1) named_arrive(1, 256);  // the first turn
    for (;;) {
      barrier_wait(&shared.q_full, q_parity);
      q_parity ^= 1;
      const int number = shared.work;
      if (number < 0) return;
      block(work_at(p.tiles, number), s, o, weights);
    }
  }
};

template <class B>
__global__ void __launch_bounds__(B::kThreads, 1) attend(const __grid_constant__ ForwardParameter parameter) {
  extern __shared__ __align__(1024) unsigned char memory[];  // no arithmetic on it, or the compiler forgets that it is shared memory
  auto& shared = *reinterpret_cast<typename B::Shared*>(memory);
  if (threadIdx.x == 0) {
    if (shared_address(memory) % 1024 != 0) __trap();
    barrier_init(&shared.q_full, 1), barrier_init(&shared.q_empty, B::kGroups);
    for (int i = 0; i < B::kStages; ++i) {
      barrier_init(&shared.k_full[i], 1), barrier_init(&shared.k_empty[i], 4 * B::kGroups);
      barrier_init(&shared.v_full[i], 1), barrier_init(&shared.v_empty[i], B::kGroups);
    }
    barrier_fence_init();
  }
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1;  // the same for the warp, and the compiler shall know
  if (group < 0) {
    registers_lower<B::kProducerRegisters>();
    if (threadIdx.x == 0) Producer<B>{shared, parameter, {}, {}}.run();
  } else {
    registers_raise<B::kConsumerRegisters>();
    Consumer<B>(shared, parameter, group).run();
  }
}

}  // namespace phasor::cuda::hopper
