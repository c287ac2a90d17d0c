// SPDX-License-Identifier: Apache-2.0
// Attention backward on Hopper put on a stream: rows and the bias or the table made ready, one kernel that stays on every multiprocessor,
// then dq and the gradient by distance, or of the table.
#include "cuda/attention/hopper/backward/run.hpp"

#include "cuda/attention/base2.hpp"
#include "cuda/attention/hopper/backward/band/run.hpp"
#include "cuda/attention/hopper/backward/parameter.cuh"
#include "cuda/attention/hopper/backward/parts.hpp"
#include "cuda/attention/hopper/backward/rows.hpp"
#include "cuda/attention/hopper/backward/table/run.hpp"
#include "cuda/attention/hopper/backward/work.hpp"
#include "cuda/attention/hopper/tensor_map.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {
namespace {

Status make_maps(const char* where, const Backward& b, const ConstTensorView& q, BackwardParameter& p) {
  const Forward& f = b.forward;
  const BackwardWidths& widths = kBackwardWidths[backward_widths_for(f.q.shape[3], f.v.shape[3])];
  const int panels = p.whole ? static_cast<int>(f.q.shape[3]) / 64 : 1,
            value_panels = p.whole_values ? static_cast<int>(f.v.shape[3]) / 64 : 1;
  if (Status s = make_map(where, q, widths.queries, panels, p.q); !s) return s;
  if (Status s = make_map(where, f.k, kBlockKeys, panels, p.k); !s) return s;
  if (Status s = make_map(where, f.v, kBlockKeys, value_panels, p.v); !s) return s;
  return make_map(where, b.out_gradient, widths.queries, value_panels, p.g);
}

/// All of a parameter but its maps; returns how many bytes are to be zeros.
std::int64_t fill_parameter(const Backward& b, std::byte* begin, BackwardParameter& p) {
  const Forward& f = b.forward;
  const int width = kBackwardWidths[backward_widths_for(f.q.shape[3], f.v.shape[3])].width;
  // One copy for a tile only where it fills all panels.
  p.whole = f.q.shape[3] == width;
  p.whole_values = f.v.shape[3] == width;
  p.tiles = key_tiles_of(b);
  p.windows = windows_of(b, p.tiles);
  const BackwardLayout layout = layout_of(b, p.tiles, p.windows);
  const auto at = [&](std::int64_t place) { return reinterpret_cast<float*>(begin + place); };
  p.windows.values = at(layout.windows);
  p.windows.far = at(layout.far_values);
  p.scale = static_cast<float>(f.scale);
  p.scale_log2 = static_cast<float>(f.scale * kLog2EWide);
  p.lse = at(layout.lse);
  p.delta = at(layout.delta);
  p.dq = at(layout.dq);
  p.turns = reinterpret_cast<int*>(begin + layout.turns);
  p.deterministic = b.deterministic;
  p.next = reinterpret_cast<int*>(begin);
  p.dk = output_rows(b.k);
  p.dv = output_rows(b.v);
  p.sums = {at(layout.slots), at(layout.far), reinterpret_cast<int*>(begin + layout.done)};
  const Clips clips = clips_of(b, p.tiles);
  const bool has_lines = b.forward.table.data != nullptr || b.tables[0].rows.data != nullptr;
  p.table = {.clips = clips,
             .near_blocks = most_near_blocks(p.tiles, clips),
             .lse_of_side = has_lines ? std::int64_t{p.tiles.batch} * p.tiles.heads * p.tiles.rows() : 0,
             .strips = reinterpret_cast<uint4*>(begin + layout.strips),
             .blocks = parts_of(p.tiles),
             .parts = at(layout.parts)};
  p.keys = {at(layout.key_ends), at(layout.key_sums), at(layout.dk)};
  return layout.zeros;
}

BackwardKernel kernel_for(const Backward& b) {
  constexpr BackwardKernel (*kKernels[kBackwardWidthsCount])(const BackwardWish&) = {backward_kernel_64, backward_kernel_128};
  constexpr BackwardKernel (*kTableKernels[kBackwardWidthsCount])(DType) = {backward_table_kernel_64, backward_table_kernel_128};
  constexpr BackwardKernel (*kKeysKernels[kBackwardWidthsCount])(DType) = {backward_keys_kernel_64, backward_keys_kernel_128};
  const int widths = backward_widths_for(b.forward.q.shape[3], b.forward.v.shape[3]);
  if (b.tables[1].rows.data != nullptr) return kKeysKernels[widths](b.forward.q.dtype);
  if (has_rows(b)) return kTableKernels[widths](b.forward.q.dtype);
  return kKernels[widths]({b.forward.q.dtype, b.forward.diagonal != nullptr, b.diagonal != nullptr});
}

Status run_kernel(const char* where, const Backward& b, BackwardParameter& p, void* stream) {
  const BackwardKernel kernel = kernel_for(b);
  int multiprocessors = 0;
  if (Status s = status_of(where, cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, b.forward.q.device.index)); !s) {
    return s;
  }
  const cudaError_t error = cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
  if (error != cudaSuccess) return status_of(where, error);
  const int blocks = p.tiles.work() < multiprocessors ? p.tiles.work() : multiprocessors;
  void* parameters[] = {&p};
  return status_of(where, cudaLaunchKernel(kernel.kernel, dim3(static_cast<unsigned>(blocks)), dim3(kernel.threads), parameters,
                                           static_cast<std::size_t>(kernel.shared_bytes), static_cast<cudaStream_t>(stream)));
}

Status run_part(const char* where, const Backward& b, std::byte* begin, void* stream) {
  BackwardParameter parameter;
  const std::int64_t zeros = fill_parameter(b, begin, parameter);
  const BackwardLayout layout = layout_of(b, parameter.tiles, parameter.windows);
  if (Status s = make_maps(where, b, queries_of(b, layout, begin, kOfContent), parameter); !s) return s;
  const auto on = static_cast<cudaStream_t>(stream);
  if (Status s = status_of(where, cudaMemsetAsync(begin, 0, static_cast<std::size_t>(zeros), on)); !s) return s;
  if (Status s = make_rows(where, b, parameter, stream); !s) return s;
  if (Status s = make_windows(where, b, parameter, stream); !s) return s;
  const bool table = b.forward.table.data != nullptr, tables = has_tables(b);
  const BandMemory memory = {begin, layout};
  if (table) {
    if (Status s = make_strips(where, b, parameter, stream); !s) return s;
  } else if (tables) {
    if (Status s = make_band(where, b, parameter, memory, stream); !s) return s;
  }
  if (Status s = run_kernel(where, b, parameter, stream); !s) return s;
  if (tables) return finish_band(where, b, parameter, memory, stream);
  if (table) return finish_table(where, b, parameter, stream);
  if (Status s = finish_queries(where, b, parameter, stream); !s) return s;
  return finish_distances(where, b, parameter, stream);
}

}  // namespace

Status run(const char* where, const Backward& b, void* workspace, void* stream) {
  const CurrentDevice current(where, b.forward.q.device);
  if (!current.status().ok()) return current.status();
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(workspace) + kAlignment - 1) / kAlignment * kAlignment;
  const Parts parts = parts_for(b);
  for (std::int64_t n = 0; n < parts.count(b); ++n) {
    if (Status s = run_part(where, part_of(b, parts, n), reinterpret_cast<std::byte*>(begin), stream); !s) return s;
  }
  return {};
}

}  // namespace phasor::cuda::hopper
