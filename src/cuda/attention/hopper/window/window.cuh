// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper with rows of a table that pass with the keys (body.cuh): the consumers and the kernel.
//
// A step asks the tensor cores for a tile's scores, for the products with the next rows and for the weighted values of the tile before, in
// this order, and does the softmax while the last two run. Queries stay in registers: products of 64 x 64 that read both sides from shared
// memory would take all of its time.
#pragma once

#include "cuda/attention/hopper/forward/outputs.cuh"
#include "cuda/attention/hopper/window/beyond.cuh"
#include "cuda/attention/hopper/window/kept.cuh"
#include "cuda/attention/hopper/window/producer.cuh"

namespace phasor::cuda::hopper {

template <class B>
struct WindowConsumer {
  typename B::Shared& shared;
  const ForwardParameter& p;
  const int group;  // of the warpgroups
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32 % 4;
  const int row_in_block = 16 * (lane / 4) + 2 * warp + group;  // and eight more: body.cuh says why
  Ring<B::kStages> k = {}, v = {};
  Rows rows = {};
  float shrink[2];
  Kept<B> kept;
  // Outside of the steps, as forward.cuh says.
  std::uint32_t q[4 * B::kSteps], features[4];
  float s[B::kKeys / 2], z[B::kKeys / 2], o[B::kOf.value_width / 2];
  std::uint32_t weights[B::kKeys / 4];

  __device__ __forceinline__ WindowConsumer(typename B::Shared& of, const ForwardParameter& parameter, int number)
      : shared(of), p(parameter), group(number), kept(of, number) {}

  __device__ __forceinline__ void release_keys() {
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.k_empty[k.stage]);
    k.next();
  }
  __device__ __forceinline__ void release_values() {
    if (threadIdx.x % 128 == 0) barrier_arrive(&shared.v_empty[v.stage]);
    v.next();
  }
  /// To the registers of a product's left operand; then their shared memory is free for the next ones, unless they are read from there
  /// `again`.
  __device__ __forceinline__ void read_queries(bool again) {
    const int row = 16 * (lane % 8) + 8 * (lane / 8 % 2) + 2 * warp + group;
#pragma unroll
    for (int x = 0; x < B::kSteps; ++x) {
      const int piece = (x % 4 * 2 + lane / 16) ^ (row % 8);
      load_blocks(q + 4 * x, shared_address(shared.q[x / 4][row]) + 16 * piece);
    }
    if constexpr (B::kFeatured) load_blocks(features, shared_address(shared.features.rows[row]) + 16 * (lane / 16 ^ (row % 8)));
    if (B::kBeyond && again) return arrange_queries<B>(shared, group, q);
    __syncwarp();
    if (lane == 0) barrier_arrive(&shared.q_empty);
  }
  /// d += a rows^T, asked for and not waited for; panels of 64 channels are so many bytes apart.
  template <int kSteps>
  __device__ __forceinline__ void ask_rows(float (&d)[B::kKeys / 2], const std::uint32_t (&a)[4 * kSteps], std::uint64_t of,
                                           int panel_bytes) {
    pin(d);
    products_begin();
#pragma unroll
    for (int x = 0; x < kSteps; ++x) {
      Product<typename B::Element, B::kKeys>::by_rows(d, a + 4 * x, further(of, x / 4 * panel_bytes + x % 4 * 32));
    }
    products_commit();
  }
  __device__ __forceinline__ void ask_block() {
    const std::uint64_t of = matrix(shared.table[k.stage][0][1 - group], 0);
    if constexpr (B::kFeatured) {
      ask_rows<1>(z, features, of, 0);
    } else {
      ask_rows<B::kSteps>(z, q, of, B::kRows * 128);
    }
  }
  /// What is added to queries has these sums with the rows, which everybody's products begin with.
  __device__ __forceinline__ void preset_block() {
    if (p.sums.columns == nullptr) {
#pragma unroll
      for (float& x : z) x = 0;
      return;
    }
    const float* const from = shared.lines[k.stage][group] + 2 * (lane % 4);
#pragma unroll
    for (int c = 0; c < B::kKeys / 8; ++c) {
      const float2 x = *reinterpret_cast<const float2*>(from + 8 * c);
      z[4 * c] = z[4 * c + 2] = x.x, z[4 * c + 1] = z[4 * c + 3] = x.y;
    }
  }
  template <bool kWithRows>
  __device__ __forceinline__ void preset_scores() {
    if constexpr (!kWithRows) {
#pragma unroll
      for (float& x : s) x = 0;
      return;
    }
    kept.read(s);
    if (p.sums.columns == nullptr) return;
    const float* const from = shared.columns[k.stage] + 2 * (lane % 4);
#pragma unroll
    for (int c = 0; c < B::kKeys / 8; ++c) {
      const float2 x = *reinterpret_cast<const float2*>(from + 8 * c);
      s[4 * c] += x.x, s[4 * c + 2] += x.x, s[4 * c + 1] += x.y, s[4 * c + 3] += x.y;
    }
  }
  /// Blocks that the first tile reads; what no query of it sees is not there.
  __device__ __forceinline__ void first_blocks(const Work& w, const TileSpan& span) {
    kept.begin();
    for (int n = first_window_block(p.tiles, w.row, span); n < B::kBlocks; ++n) {
      barrier_wait(&shared.k_full[k.stage], k.parity);
      preset_block();
      ask_block();
      products_wait<0>();
      pin(z);
      release_keys();
      kept.write(z, kept.place - n * B::kKeys, p.clips.factor);
    }
  }
  /// Everything of one tile. Whether it is masked, and whether rows of the table meet it, is known to the compiler: a branch while
  /// products run would make it wait for them.
  template <bool kFirst, bool kMasked, bool kWithRows>
  __device__ __forceinline__ void step(const Work& w, int key) {
    barrier_wait(&shared.k_full[k.stage], k.parity);
    preset_scores<kWithRows>();
    if constexpr (kWithRows) preset_block();
    if constexpr (!kFirst) barrier_wait(&shared.v_full[v.stage], v.parity);
    ask_rows<B::kSteps>(s, q, matrix(shared.k[k.stage], 0), B::kKeys * 128);
    if constexpr (kWithRows) ask_block();
    if constexpr (!kFirst) ask_values<B>(o, weights, matrix(shared.v[v.stage], B::kKeys * 128));
    products_wait<(kFirst ? 0 : 1) + (kWithRows ? 1 : 0)>();
    pin(s);
    if constexpr (!kWithRows) release_keys();
    if constexpr (kMasked) mask_scores<B::kKeys>(s, p.tiles, w.row + row_in_block, key + 2 * (lane % 4));
    update_softmax<B::kKeys>(s, rows, shrink, 0.0f, p.scale_log2);
    if constexpr (kWithRows) {  // while values are summed
      products_wait<kFirst ? 0 : 1>();
      pin(z);
      if constexpr (!B::kBeyond) release_keys();
      kept.write(z, kept.place, p.clips.factor);
      kept.next();
      if constexpr (B::kBeyond) {
        fence_async();  // the copy engine may write there when the last keys are released
        release_keys();
      }
    }
    if constexpr (!kFirst) {
      products_wait<0>();
      pin(o), pin(weights);
      release_values();
      rescale(o, shrink);
    }
    round_weights<typename B::Element, B::kKeys>(weights, s);
  }
  /// Tiles from one to another before it.
  template <bool kWithRows>
  __device__ __forceinline__ void steps(const Work& w, int from, int to) {
    for (int j = from; j >= to; --j) {
      const int key = j * B::kKeys;
      if (is_partial(p.tiles, w.row, B::kQueries, key)) {
        step<false, true, kWithRows>(w, key);
      } else {
        step<false, false, kWithRows>(w, key);
      }
    }
  }
  __device__ __forceinline__ void block(const Work& w) {
    const TileSpan span = tiles_of(p.tiles, w.row);
    const int with_rows = first_tile_with_rows(p.tiles, w.row, span, p.rows_left);
    const BeyondRows beyond = beyond_rows(p.tiles, span, with_rows);
    read_queries(beyond.count > 0);
    first_blocks(w, span);
    rows = {};
    step<true, true, true>(w, (span.end - 1) * B::kKeys);
#pragma unroll
    for (float& x : o) x = 0;
    steps<true>(w, span.end - 2, with_rows);
    if constexpr (!B::kBeyond) steps<false>(w, with_rows - 1, span.first);
    if (B::kBeyond && beyond.count > 0) {
      attend_beyond<B>(*this, w, beyond);
    } else {
      barrier_wait(&shared.v_full[v.stage], v.parity);
      ask_values<B>(o, weights, matrix(shared.v[v.stage], B::kKeys * 128));
      products_wait<0>();
      pin(o);
      release_values();
    }
    write_outputs<B>(p, w, w.row + row_in_block, rows, o);
  }
  __device__ __forceinline__ void run() {
    std::uint32_t q_parity = 0;
    for (;;) {
      barrier_wait(&shared.q_full, q_parity);
      q_parity ^= 1;
      const int number = shared.work;
      if (number < 0) return;
      block(work_at(p.tiles, number));
    }
  }
};

template <class B>
__global__ void __launch_bounds__(B::kThreads, 1) attend_window(const __grid_constant__ ForwardParameter parameter) {
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
    if (threadIdx.x == 0) WindowProducer<B>{shared, parameter, {}, {}}.run();
  } else {
    registers_raise<B::kConsumerRegisters>();
    WindowConsumer<B>(shared, parameter, group).run();
  }
}

template <int kOfWidths, bool kFeatured = false>
ForwardKernel window_kernel_of(DType dtype) {
  using Half = WindowBody<__half, kOfWidths, kFeatured>;
  using BFloat = WindowBody<__nv_bfloat16, kOfWidths, kFeatured>;
  const void* const kernel =
      dtype == DType::f16 ? reinterpret_cast<const void*>(&attend_window<Half>) : reinterpret_cast<const void*>(&attend_window<BFloat>);
  return {kernel, unsigned{Half::kThreads}, int{sizeof(typename Half::Shared)}};
}

}  // namespace phasor::cuda::hopper
