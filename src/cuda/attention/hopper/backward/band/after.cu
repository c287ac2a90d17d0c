// SPDX-License-Identifier: Apache-2.0
// What follows a backward with tables by distance, put on a stream.
#include "cuda/attention/hopper/backward/band/features.cuh"
#include "cuda/attention/hopper/backward/band/launch.cuh"
#include "cuda/attention/hopper/backward/band/lines.cuh"
#include "cuda/attention/hopper/backward/band/shifts.cuh"

namespace phasor::cuda::hopper {
namespace {

template <class T>
__global__ void __launch_bounds__(BandFeatures<T>::kThreads, 2) finish_features(const __grid_constant__ BandWork w) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const int heads = T::kSide == kOfQueries ? 1 : w.tiles.heads_of_key;
  const BandPlace at = {int(blockIdx.z), int(blockIdx.y) * heads, int(blockIdx.x) * (BandFeatures<T>::kFeatures / kChunkLines)};
  BandFeatures<T>(*reinterpret_cast<FeaturesShared<T>*>(memory), w, at).run();
}
template <class T>
__global__ void __launch_bounds__(T::kThreads, T::kWidth == 64 ? 3 : 2) sum_lines(const __grid_constant__ BandWork w) {
  extern __shared__ __align__(16) unsigned char lines[];  // a name of its own, since its alignment is another
  const LinesPlace at = {int(blockIdx.z), int(blockIdx.y), int(blockIdx.x) / w.parts * T::kWarps, int(blockIdx.x) % w.parts};
  BandLines<T>(*reinterpret_cast<LinesShared<T>*>(lines), w, at).run();
}
constexpr unsigned kThreads = 256;
__global__ void __launch_bounds__(kThreads) sum_parts(const __grid_constant__ BandWork w) {
  add_parts(w, int(blockIdx.x * kThreads + threadIdx.x), int(blockIdx.y));
}
__global__ void __launch_bounds__(kThreads) store_lines(const __grid_constant__ BandWork w) {
  add_lines(w, int(blockIdx.x * kThreads + threadIdx.x), int(blockIdx.y));
}

__global__ void __launch_bounds__(kThreads) sum_queries(const __grid_constant__ ShiftEnds w) {
  add_queries(w, int(threadIdx.x), int(blockIdx.x));
}
__global__ void __launch_bounds__(kThreads) store_shifts(const __grid_constant__ ShiftEnds w) {
  store_shift(w, int(threadIdx.x), int(blockIdx.x));
}

/// Of what was added to queries.
Status finish_shift(const char* where, const Backward& b, const BackwardParameter& p, const BandMemory& memory, int n, void* stream) {
  const QueryShift& shift = b.shifts[n];
  if (shift.gradient == nullptr) return {};
  ShiftEnds w = {.tiles = p.tiles,
                 .sums = reinterpret_cast<float*>(memory.begin + memory.layout.shift_sums[n]),
                 .pitch = kBackwardWidths[backward_widths_for(b.forward.q.shape[3], b.forward.v.shape[3])].width,
                 .channels = static_cast<int>(b.forward.q.shape[3]),
                 .heads = static_cast<int>(shift.vector.shape[2]),
                 .scale = static_cast<float>(n == kOfContent ? b.forward.scale : b.tables[kOfQueries].scale),
                 .gradient = shift.gradient,
                 .adds = shift.adds};
  const auto* const sum = reinterpret_cast<const void*>(&sum_queries);
  const auto* const store = reinterpret_cast<const void*>(&store_shifts);
  if (Status s = launch(where, {sum, {static_cast<unsigned>(p.tiles.heads)}, kThreads, 0, stream}, &w); !s) return s;
  return launch(where, {store, {static_cast<unsigned>(w.heads)}, kThreads, 0, stream}, &w);
}

Status finish_table(const char* where, BandWork& w, void* stream) {
  const unsigned heads = w.clips.by_head ? static_cast<unsigned>(w.tiles.heads) : 1;
  const auto blocks_for = [&](int rows) { return (static_cast<unsigned>(rows * w.rows.width) + kThreads - 1) / kThreads; };
  const auto* const parts = reinterpret_cast<const void*>(&sum_parts);
  if (Status s = launch(where, {parts, {blocks_for(w.span.lines()), heads}, kThreads, 0, stream}, &w); !s) return s;
  return launch(where, {reinterpret_cast<const void*>(&store_lines), {blocks_for(w.row_count), heads}, kThreads, 0, stream}, &w);
}

template <int kSide>
Status finish_side(const char* where, const Backward& b, const BackwardParameter& p, const BandMemory& memory, void* stream) {
  BandWork w = band_work(b, p, memory, kSide);
  return with_band_body<kSide>(b, p.tiles, [&]<class T>() {
    if (finishes_features(w, kSide)) {
      const auto* const features = reinterpret_cast<const void*>(&finish_features<T>);
      const Grid blocks = blocks_of_features<T>(w, kSide == kOfQueries ? w.tiles.heads : w.tiles.key_heads());
      if (Status s = launch(where, {features, blocks, unsigned{BandFeatures<T>::kThreads}, sizeof(FeaturesShared<T>), stream}, &w); !s) {
        return s;
      }
    }
    if (w.gradient == nullptr) return Status();
    const auto* const lines = reinterpret_cast<const void*>(&sum_lines<T>);
    const int units = (w.span.units() + 2 + T::kWarps - 1) / T::kWarps;
    const Grid blocks = {static_cast<unsigned>(units * w.parts), static_cast<unsigned>(w.tiles.heads),
                         static_cast<unsigned>(w.tiles.batch)};
    if (Status s = launch(where, {lines, blocks, unsigned{T::kThreads}, sizeof(LinesShared<T>), stream}, &w); !s) return s;
    return finish_table(where, w, stream);
  });
}

}  // namespace

Status finish_band(const char* where, const Backward& b, const BackwardParameter& p, const BandMemory& memory, void* stream) {
  if (Status s = finish_side<kOfQueries>(where, b, p, memory, stream); !s) return s;
  for (const int shift : {kOfContent, kOfRows}) {
    if (Status s = finish_shift(where, b, p, memory, shift, stream); !s) return s;
  }
  return finish_side<kOfKeys>(where, b, p, memory, stream);
}

}  // namespace phasor::cuda::hopper
