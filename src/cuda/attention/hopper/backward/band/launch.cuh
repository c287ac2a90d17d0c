// SPDX-License-Identifier: Apache-2.0
// How the kernels around a backward with tables by distance are put on a stream.
#pragma once

#include "cuda/attention/hopper/backward/band/body.cuh"
#include "cuda/attention/hopper/backward/band/run.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {

/// Of the side of queries or of keys.
BandWork band_work(const Backward& b, const BackwardParameter& p, const BandMemory& memory, int side);

/// body.operator()<BandBody>() of the call.
template <int kSide, class Body>
Status with_band_body(const Backward& b, const KeyTiles& t, const Body& body) {
  const bool half = b.forward.q.dtype == DType::f16;
  if (t.tile_queries == kBackwardWidths[0].queries) {
    return half ? body.template operator()<BandBody<__half, 0, kSide>>() : body.template operator()<BandBody<__nv_bfloat16, 0, kSide>>();
  }
  return half ? body.template operator()<BandBody<__half, 1, kSide>>() : body.template operator()<BandBody<__nv_bfloat16, 1, kSide>>();
}
/// Blocks of 128 features.
template <class T>
Grid blocks_of_features(const BandWork& w, int heads) {
  constexpr int kOfBlock = 128;
  return {static_cast<unsigned>((w.feature_count(T::kSide) + kOfBlock - 1) / kOfBlock), static_cast<unsigned>(heads),
          static_cast<unsigned>(w.tiles.batch)};
}

}  // namespace phasor::cuda::hopper
