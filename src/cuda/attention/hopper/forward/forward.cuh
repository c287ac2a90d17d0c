// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper: 64 queries per consumer warpgroup; keys and values pass in tiles through two stages each.
//
// One thread, the producer, drives the copy engine. Each consumer warpgroup runs one tile ahead: it asks the tensor cores for the next
// scores and for this tile's weighted values together, and does the softmax of the next scores while the values are still being summed.
// Where there are three, the warpgroups take turns at asking, so that one's softmax falls into the others' products; two do that better by
// themselves. Blocks stay on their multiprocessor and claim work by a counter.
#pragma once

#include "cuda/attention/hopper/forward/body.cuh"
#include "cuda/attention/hopper/forward/outputs.cuh"
#include "cuda/attention/hopper/forward/producer.cuh"
#include "cuda/attention/hopper/forward/softmax.cuh"
#include "cuda/attention/hopper/forward/valued.cuh"

namespace phasor::cuda::hopper {

// ---- Products, asked for and not waited for ----

/// s = q k^T, or s += q k^T where it was preset.
template <class B, int kCount>
__device__ __forceinline__ void ask_scores(float (&s)[kCount], std::uint64_t q, std::uint64_t k, bool preset) {
  pin(s);
  products_begin();
#pragma unroll
  for (int x = 0; x < 4 * B::kPanels; ++x) {
    Product<typename B::Element, 2 * kCount>::shared(s, further(q, x / 4 * (B::kQueries * 128) + x % 4 * 32),
                                                     further(k, x / 4 * (B::kKeys * 128) + x % 4 * 32), x != 0 || preset);
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
  float shrink[2];
  typename B::Term::Shift shift = {};

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

  /// After the last scores of a block, `last`.
  __device__ __forceinline__ void release_queries(bool last) {
    __syncwarp();
    if (lane == 0 && last) barrier_arrive(&shared.q_empty);
  }

  /// Scores become weights.
  template <int kCount>
  __device__ __forceinline__ void weigh(float (&s)[kCount], typename B::Presets& presets, const Place& at, bool masked) {
    release_keys();
    if constexpr (B::kCapped) {
      cap_scores<2 * kCount>(s, p.cap, shift);
      shift = 0;
    }
    if (masked) mask_scores<2 * kCount>(s, p.tiles, at.row, at.key + 2 * (lane % 4));
    update_softmax<2 * kCount>(s, rows, shrink, shift, p.scale_log2);
    if constexpr (B::Term::kHasValueRows) presets.weights().keep(p.tiles, p.clips, at, s, rows, shrink);
  }
  /// Waits for a stage of keys and asks for its scores.
  template <int kCount>
  __device__ __forceinline__ void ask(float (&s)[kCount], const typename B::Presets& presets, const Place& at, bool by_turns) {
    barrier_wait(&shared.k_full[k.stage], k.parity);
    const bool preset = presets(p, at, k.stage, s, shift);
    if (B::kOf.turns && by_turns) named_sync(1 + group, 256);
    ask_scores<B>(s, matrix(shared.q[0][64 * group], 0), matrix(shared.k[k.stage], 0), preset);
  }
  /// Products with the rows of a table, before the first scores.
  __device__ __forceinline__ void read_table(const Work& w, float (&s)[B::kKeys / 2], typename B::Presets& presets) {
    presets.begin(p, w.row + row_in_block);
    if (B::Term::kHasValueRows && !p.has_key_table) return;
    for (int x = 0; x * B::kKeys < p.clips.rows(); ++x) {
      barrier_wait(&shared.k_full[k.stage], k.parity);
      ask_scores<B>(s, matrix(shared.q[0][64 * group], 0), matrix(shared.k[k.stage], 0), false);
      products_wait<0>();
      pin(s);
      release_keys();
      presets.keep(p.clips, s, x);
    }
    presets.ready(p.clips);
  }
  /// Scores of the first tile, which nothing overlaps; of its first columns alone, where no query sees the others.
  template <int kCount>
  __device__ __forceinline__ void first_tile(float (&s)[B::kKeys / 2], std::uint32_t (&weights)[B::kKeys / 4], typename B::Presets& presets,
                                             const Place& at, bool masked, bool only) {
    auto& seen = reinterpret_cast<float(&)[kCount]>(s);
    ask(seen, presets, at, false);
    products_wait<0>();
    pin(seen);
    release_queries(only);
    weigh(seen, presets, at, masked);
    round_weights<typename B::Element, 2 * kCount>(reinterpret_cast<std::uint32_t(&)[kCount / 2]>(weights), seen);
#pragma unroll
    for (int i = kCount / 2; i < B::kKeys / 4; ++i) weights[i] = 0;
#pragma unroll
    for (int i = kCount; i < B::kKeys / 2; ++i) s[i] = 0;  // defined on every way, as `block` says
  }
  /// After the last values were asked for: weights by distance meet the table of values.
  template <int kSteps>
  __device__ __forceinline__ void add_value_rows(const Work& w, typename B::Presets& presets, const Place& at,
                                                 float (&o)[B::kOf.value_width / 2]) {
    std::uint32_t by_distance[4 * kSteps];
    float near[2], of_left[2], of_right[2];
    presets.weights().template read<typename B::Element, kSteps>(p.tiles, p.clips, at, rows, p.scale_log2, by_distance, near);
    products_wait<0>();
    pin(o);
    release_values();
    barrier_wait(&shared.v_full[v.stage], v.parity);
    ask_rows<B, kSteps>(o, by_distance, values());
    EndRows<B::kOf.value_width> ends;
    ends.read(p, w);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position = at.row + 8 * r + p.tiles.offset();
      of_right[r] = sum_of_quad(presets.right[r]);
      of_left[r] = left_of_sum(p.tiles, p.clips, position, sum_of_quad(rows.sum[r]), of_right[r] + sum_of_quad(near[r]));
    }
    products_wait<0>();
    pin(o);
    release_values();
    ends.template add<typename B::Element>(of_left, of_right, o);
  }
  /// The registers come from outside: declared here, a tile whose scores are not preset would leave them undefined, and the compiler then
  /// makes so many copies of them that products wait for each other (C7512).
  __device__ __forceinline__ void block(const Work& w, float (&s)[B::kKeys / 2], float (&o)[B::kOf.value_width / 2],
                                        std::uint32_t (&weights)[B::kKeys / 4]) {
    if constexpr (B::Term::kHasValueRows) {
#pragma unroll
      for (float& x : s) x = 0;  // so the block before need not keep them where it needs their registers
    }
    typename B::Presets presets(p.windows, shared.term, w);
    if constexpr (B::Term::kHasTable) read_table(w, s, presets);
    const TileSpan span = B::Term::span(p, w);
    const auto place = [&](int j) { return Place{w.row, w.row + 64 * group, w.row + row_in_block, j * B::kKeys}; };
    rows = {};
    Place at = place(span.end - 1);
    const bool only = span.end - 1 == span.first;
    if (B::kShortKeys > 0 && span.keys_in_last <= B::kShortKeys) {
      first_tile<(B::kShortKeys > 0 ? B::kShortKeys : B::kKeys) / 2>(s, weights, presets, at, true, only);
    } else {
      first_tile<B::kKeys / 2>(s, weights, presets, at, is_partial(p.tiles, at.group_row, 64, at.key), only);
    }
#pragma unroll
    for (float& x : o) x = 0;
    for (int j = span.end - 2; j >= span.first; --j) {
      at = place(j);
      ask(s, presets, at, true);
      barrier_wait(&shared.v_full[v.stage], v.parity);
      ask_values<B>(o, weights, values());
      if (B::kOf.turns) named_arrive(1 + (group + 1) % B::kGroups, 256);
      products_wait<1>();
      pin(s);
      release_queries(j == span.first);
      weigh(s, presets, at, is_partial(p.tiles, at.group_row, 64, at.key));
      products_wait<0>();
      pin(o), pin(weights);
      release_values();
      rescale(o, shrink);
      round_weights<typename B::Element, B::kKeys>(weights, s);
    }
    barrier_wait(&shared.v_full[v.stage], v.parity);
    ask_values<B>(o, weights, values());
    if constexpr (B::Term::kHasValueRows) {
      constexpr int kMostSteps = (Clips::kMostRows - 1) / 16;
      if (p.clips.rows() - 1 <= 8 * kMostSteps) {  // as under a causal mask
        add_value_rows<kMostSteps / 2>(w, presets, at, o);
      } else {
        add_value_rows<kMostSteps>(w, presets, at, o);
      }
    } else {
      products_wait<0>();
      pin(o);
      release_values();
    }
    write_outputs<B>(p, w, w.row + row_in_block, rows, o);
  }
  __device__ __forceinline__ void run() {
    float s[B::kKeys / 2], o[B::kOf.value_width / 2];
    std::uint32_t weights[B::kKeys / 4];
    std::uint32_t q_parity = 0;
    if (B::kOf.turns && group == B::kGroups - 1) named_arrive(1, 256);  // the first turn
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
    barrier_init(&shared.q_full, 1), barrier_init(&shared.q_empty, 4 * B::kGroups);
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
