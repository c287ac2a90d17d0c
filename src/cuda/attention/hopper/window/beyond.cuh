// SPDX-License-Identifier: Apache-2.0
// Tiles of keys that are beyond a table's rows, in the plain forward's size: a phase of its own behind the tiles with rows, whose shared
// memory it takes over. Queries come from shared memory then, since larger tiles need the registers; they lie there in the order that
// products of the first phase have them in, so sums go on in their places.
#pragma once

#include "cuda/attention/hopper/forward/forward.cuh"
#include "cuda/attention/hopper/window/body.cuh"

namespace phasor::cuda::hopper {

/// A phase's tiles as products see them.
template <class B>
struct BeyondBody {
  using Element = typename B::Element;
  static constexpr Widths kOf = B::kOf;
  static constexpr int kQueries = B::kQueries, kPanels = B::kPanels, kKeys = kBeyondKeys;
};

/// Queries from registers to shared memory, in the order of a product's rows. All warps have theirs in registers before any is written.
template <class B>
__device__ __forceinline__ void arrange_queries(typename B::Shared& shared, int group, const std::uint32_t (&q)[4 * B::kSteps]) {
  const int lane = threadIdx.x % 32, row = 64 * group + threadIdx.x / 32 % 4 * 16 + lane % 16;
  named_sync(1, 128 * B::kGroups);
#pragma unroll
  for (int x = 0; x < B::kSteps; ++x) {
    const int piece = (x % 4 * 2 + lane / 16) ^ (row % 8);
    store_blocks(shared_address(shared.q[x / 4][row]) + 16 * piece, q[4 * x], q[4 * x + 1], q[4 * x + 2], q[4 * x + 3]);
  }
  fence_async();
  named_sync(2 + group, 128);
}

/// Of a WindowConsumer: one tile; `index` counts from the first one of the phase, whose weights are for the values of the tile before it.
template <bool kFirst, class B, class Consumer>
__device__ __forceinline__ void step_beyond(Consumer& c, const Work& w, const BeyondRows& beyond, int index, float (&s)[kBeyondKeys / 2],
                                            std::uint32_t (&weights)[kBeyondKeys / 4]) {
  using Far = BeyondBody<B>;
  Tiles tiles = c.p.tiles;
  tiles.tile_keys = kBeyondKeys;
  const int key = beyond.key(index);
  barrier_wait(&c.shared.k_full[c.k.stage], c.k.parity);
  ask_scores<Far>(s, matrix(c.shared.q[0][64 * c.group], 0), matrix(&c.shared.beyond_keys(index), 0), false);
  barrier_wait(&c.shared.v_full[c.v.stage], c.v.parity);
  if constexpr (kFirst) {
    ask_values<B>(c.o, c.weights, matrix(c.shared.v[c.v.stage], B::kKeys * 128));
  } else {
    ask_values<Far>(c.o, weights, matrix(&c.shared.beyond_values(index - 1), kBeyondKeys * 128));
  }
  products_wait<1>();
  pin(s);
  c.release_keys();
  if (c.lane == 0 && index == beyond.count - 1) barrier_arrive(&c.shared.q_empty);  // all lanes are here: keys were released
  if (key < 0 || is_partial(tiles, w.row, B::kQueries, key)) {
    mask_scores<kBeyondKeys>(s, c.p.tiles, w.row + c.row_in_block, key + 2 * (c.lane % 4));
  }
  update_softmax<kBeyondKeys>(s, c.rows, c.shrink, 0.0f, c.p.scale_log2);
  products_wait<0>();
  pin(c.o);
  if constexpr (kFirst) {
    pin(c.weights);
  } else {
    pin(weights);
  }
  c.release_values();
  rescale(c.o, c.shrink);
  round_weights<typename B::Element, kBeyondKeys>(weights, s);
}
/// All of them, to the last values.
template <class B, class Consumer>
__device__ __forceinline__ void attend_beyond(Consumer& c, const Work& w, const BeyondRows& beyond) {
  float s[kBeyondKeys / 2];
  std::uint32_t weights[kBeyondKeys / 4];
#pragma unroll
  for (float& x : s) x = 0;  // defined: products are asked for with what they held
  step_beyond<true, B>(c, w, beyond, 0, s, weights);
  for (int index = 1; index < beyond.count; ++index) step_beyond<false, B>(c, w, beyond, index, s, weights);
  barrier_wait(&c.shared.v_full[c.v.stage], c.v.parity);
  ask_values<BeyondBody<B>>(c.o, weights, matrix(&c.shared.beyond_values(beyond.count - 1), kBeyondKeys * 128));
  products_wait<0>();
  pin(c.o);
  c.release_values();
}

}  // namespace phasor::cuda::hopper
