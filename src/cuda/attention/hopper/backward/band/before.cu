// SPDX-License-Identifier: Apache-2.0
// What is made before a backward with tables by distance, put on a stream.
#include "cuda/attention/hopper/backward/band/before.cuh"

#include "cuda/attention/hopper/backward/band/launch.cuh"
#include "cuda/attention/hopper/backward/band/lines.cuh"
#include "cuda/attention/hopper/backward/band/shifts.cuh"

namespace phasor::cuda::hopper {
namespace {

constexpr unsigned kLineThreads = 128;
template <class T>
__global__ void __launch_bounds__(kLineThreads) make_lines(const __grid_constant__ BandWork w) {
  lay_out_lines<T>(w, int(blockIdx.x * kLineThreads + threadIdx.x), int(blockIdx.y));
}
template <class T>
__global__ void __launch_bounds__(BandProducts<T>::kThreads, 2) make_products(const __grid_constant__ BandWork w) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const BandPlace at = {int(blockIdx.z), int(blockIdx.y), int(blockIdx.x) * (BandProducts<T>::kFeatures / kChunkLines)};
  const int rows = T::kSide == kOfQueries ? w.tiles.rows() : w.tiles.blocks() * kBlockKeys;
  BandProducts<T>(*reinterpret_cast<ProductsShared<T>*>(memory), w, at).run(rows);
}

template <class Element>
__global__ void __launch_bounds__(kLineThreads) shift_queries(const __grid_constant__ ShiftedWork w) {
  shift_query<Element>(w, int(blockIdx.x * kLineThreads + threadIdx.x), int(blockIdx.y), int(blockIdx.z));
}

Status add_shift(const char* where, const Backward& b, const KeyTiles& t, int shift, const ConstTensorView& to, void* stream) {
  if (b.shifts[shift].vector.data == nullptr) return {};
  ShiftedWork w = {t, input_rows(b.forward.q), b.shifts[shift].vector, static_cast<uint4*>(const_cast<void*>(to.data))};
  const auto count = static_cast<unsigned>(std::int64_t{t.queries} * w.from.width / 8);
  const Grid blocks = {(count + kLineThreads - 1) / kLineThreads, static_cast<unsigned>(t.heads), static_cast<unsigned>(t.batch)};
  const auto* const kernel = b.forward.q.dtype == DType::f16 ? reinterpret_cast<const void*>(&shift_queries<__half>)
                                                             : reinterpret_cast<const void*>(&shift_queries<__nv_bfloat16>);
  return launch(where, {kernel, blocks, kLineThreads, 0, stream}, &w);
}

template <class T>
__global__ void __launch_bounds__(kLineThreads) line_sums(const __grid_constant__ LineSumsWork w) {
  multiply_line<typename T::Element, T::kWidth>(w, int(blockIdx.x * kLineThreads + threadIdx.x), int(blockIdx.y));
}
/// What is added to queries by the lines.
template <class T>
Status multiply_lines(const char* where, const Backward& b, const BandWork& of, void* stream) {
  if (of.of_lines == nullptr) return {};
  LineSumsWork w = {of.lines, (of.span.chunks() + 2) * kChunkLines, of.clips.by_head, b.shifts[kOfRows].vector,
                    const_cast<float*>(of.of_lines)};
  const Grid blocks = {(static_cast<unsigned>(w.of_head) + kLineThreads - 1) / kLineThreads, static_cast<unsigned>(of.tiles.heads)};
  return launch(where, {reinterpret_cast<const void*>(&line_sums<T>), blocks, kLineThreads, 0, stream}, &w);
}

template <int kSide>
Status make_side(const char* where, const Backward& b, const BackwardParameter& p, const BandMemory& memory, void* stream) {
  BandWork w = band_work(b, p, memory, kSide);
  if (w.span.chunks() == 0) return {};
  return with_band_body<kSide>(b, p.tiles, [&]<class T>() {
    const int count = (w.span.chunks() + 2) * kChunkLines * (T::kWidth / 8);  // more than there are lines
    const Grid lines = {(static_cast<unsigned>(count) + kLineThreads - 1) / kLineThreads,
                        w.clips.by_head ? static_cast<unsigned>(w.tiles.heads) : 1};
    const auto* const first = reinterpret_cast<const void*>(&make_lines<T>);
    if (Status s = launch(where, {first, lines, kLineThreads, 0, stream}, &w); !s) return s;
    if (Status s = multiply_lines<T>(where, b, w, stream); !s) return s;
    const auto* const then = reinterpret_cast<const void*>(&make_products<T>);
    const Grid blocks = blocks_of_features<T>(w, w.tiles.heads);
    return launch(where, {then, blocks, unsigned{BandProducts<T>::kThreads}, sizeof(ProductsShared<T>), stream}, &w);
  });
}

}  // namespace

Status make_band(const char* where, const Backward& b, const BackwardParameter& p, const BandMemory& memory, void* stream) {
  for (const int shift : {kOfContent, kOfRows}) {
    if (Status s = add_shift(where, b, p.tiles, shift, queries_of(b, memory.layout, memory.begin, shift), stream); !s) return s;
  }
  if (Status s = make_side<kOfQueries>(where, b, p, memory, stream); !s) return s;
  return make_side<kOfKeys>(where, b, p, memory, stream);
}

}  // namespace phasor::cuda::hopper
