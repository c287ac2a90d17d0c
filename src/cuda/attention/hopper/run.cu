// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper put on a stream: the bias by distance made ready, then one kernel that stays on every multiprocessor.
#include "cuda/attention/hopper/run.hpp"

#include <algorithm>
#include <cmath>

#include "cuda/attention/base2.hpp"
#include "cuda/attention/hopper/parameter.cuh"
#include "cuda/attention/hopper/skip.hpp"
#include "cuda/attention/hopper/strip/before.hpp"
#include "cuda/attention/hopper/strip/work.hpp"
#include "cuda/attention/hopper/tensor_map.hpp"
#include "cuda/attention/hopper/window/before.hpp"
#include "cuda/attention/hopper/work.hpp"
#include "cuda/device.hpp"

namespace phasor::cuda::hopper {
namespace {

/// Values by distance as they were given, and as they are to be.
struct WindowsWork {
  Windows to;
  const float* diagonal;
  std::int64_t of_head;
  int first_distance;
  int last_distance;
  int offset;
  int heads;  // 1: shared
  float scale;
  int* next;  // of the work: 0 from here on
};

__device__ float raw_value(const WindowsWork& w, int head, int distance) {
  const int r = min(max(distance, w.first_distance), w.last_distance);
  return w.diagonal[head * w.of_head + r - w.first_distance] / w.scale;
}
/// A thread per value; key - row falls with the distance.
__global__ void fill_windows(const __grid_constant__ WindowsWork w) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int head = blockIdx.y;
  if (x == 0 && head == 0) *w.next = 0;
  if (x < 2) const_cast<float*>(w.to.far)[head * w.to.far_of_head + x] = raw_value(w, head, x == 0 ? w.to.far_left : -w.to.far_right);
  if (x >= w.to.length) return;
  const int distance = w.offset - (w.to.first + x);
  float* const values = const_cast<float*>(w.to.values) + head * w.to.of_head;
  values[x] = raw_value(w, head, distance);
  values[w.to.length + x] = raw_value(w, head, distance - 1);
}

Status make_windows(const char* where, const Forward& f, const ForwardParameter& p, void* stream) {
  if (f.diagonal == nullptr) {
    return status_of(where, cudaMemsetAsync(p.next, 0, sizeof(int), static_cast<cudaStream_t>(stream)));
  }
  WindowsWork work = {.to = p.windows,
                      .diagonal = f.diagonal,
                      .of_head = f.diagonal_stride,
                      .first_distance = static_cast<int>(f.first_distance),
                      .last_distance = static_cast<int>(f.first_distance + f.distances - 1),
                      .offset = p.tiles.offset(),
                      .heads = f.diagonal_stride == 0 ? 1 : p.tiles.heads,
                      .scale = p.scale,
                      .next = p.next};
  constexpr unsigned kThreadsOfFill = 256;
  const unsigned blocks = (static_cast<unsigned>(p.windows.length) + kThreadsOfFill - 1) / kThreadsOfFill;
  return launch(
      where, {reinterpret_cast<const void*>(&fill_windows), {blocks, static_cast<unsigned>(work.heads)}, kThreadsOfFill, 0, stream}, &work);
}

Status make_maps(const char* where, const Forward& f, void* workspace, ForwardParameter& p) {
  const Widths& widths = kWidths[widths_for(f)];
  const int panels = p.whole ? widths.width / 64 : 1, value_panels = p.whole_values ? widths.value_width / 64 : 1;
  if (Status s = make_map(where, f.q, p.tiles.block_queries, panels, p.q); !s) return s;
  if (Status s = make_map(where, f.k, p.tiles.tile_keys, panels, p.k); !s) return s;
  if (f.table.data != nullptr) {
    const int rows = p.tiles.tile_keys + (has_windows(f) ? 8 : 0);  // WindowBody::kRows
    const int of_rows = f.features.data != nullptr ? 1 : panels;
    if (Status s = make_map(where, window_table(f, workspace), rows, of_rows, p.table); !s) return s;
  }
  if (f.features.data != nullptr) {
    if (Status s = make_map(where, f.features, p.tiles.block_queries, 1, p.features); !s) return s;
    if (Status s = make_map(where, f.k, kBeyondKeys, panels, p.beyond_k); !s) return s;
    if (Status s = make_map(where, f.v, kBeyondKeys, value_panels, p.beyond_v); !s) return s;
  }
  if (f.value_table.data != nullptr) {
    if (Status s = make_map(where, f.value_table, p.tiles.tile_keys, value_panels, p.value_table); !s) return s;
  }
  return make_map(where, f.v, p.tiles.tile_keys, value_panels, p.v);
}

void place_strips(const Forward& f, std::uintptr_t begin, ForwardParameter& p) {
  if (!has_strips(f)) return;
  p.strips = strips_of(f, p.tiles);
  const StripLayout layout = strip_layout_of(f, p.tiles, p.strips);
  if (f.of_queries.table.data != nullptr) p.strips.rows = reinterpret_cast<const float*>(begin + layout.rows);
  if (f.of_keys.table.data != nullptr) p.strips.columns = reinterpret_cast<const float*>(begin + layout.columns);
  p.strips.values = reinterpret_cast<uint4*>(begin + layout.values);
}

/// All of a parameter but its maps.
void fill_parameter(const Forward& f, void* workspace, ForwardParameter& p) {
  p.whole = is_whole(f.q);
  p.whole_values = is_whole(f.v);
  p.tiles = tiles_of(f);
  p.windows = windows_of(f, p.tiles);
  // Rows beyond what is seen are not wanted: half of them under a causal mask.
  p.clips = {static_cast<int>(f.table_left), static_cast<int>(std::clamp<std::int64_t>(p.tiles.right, 0, f.table_right)),
             f.table.shape[2] > 1, static_cast<float>(f.table_scale / f.scale)};
  p.has_key_table = f.table.data != nullptr;
  p.value_rows = static_cast<const unsigned char*>(f.value_table.data);
  p.value_rows_row = f.value_table.strides[1] * 2;
  p.value_rows_head = f.value_table.shape[2] > 1 ? f.value_table.strides[2] * 2 : 0;
  if (needs_spread(f)) p.clips.left = static_cast<int>(seen_by(f).left);
  p.rows_left = f.zero_outside && f.table_shift.data == nullptr && f.content_shift.data == nullptr ? p.clips.left : kFar;
  const Layout layout = layout_of(f, p.tiles);
  const std::uintptr_t begin = aligned(workspace);
  p.next = reinterpret_cast<int*>(begin);
  p.windows.values = reinterpret_cast<const float*>(begin + layout.windows);
  p.sums = sums_of(f, p.tiles);
  if (p.sums.columns_length > 0) {
    p.sums.columns = reinterpret_cast<const float*>(begin + layout.columns);
    p.sums.lines = reinterpret_cast<const float*>(begin + layout.lines);
  }
  p.windows.far = reinterpret_cast<const float*>(begin + layout.far);
  place_strips(f, begin + layout.strips, p);
  p.first_tiles = may_skip(f) ? reinterpret_cast<const int*>(begin + layout.first_tiles) : nullptr;
  p.scale = static_cast<float>(f.scale);
  p.scale_log2 = static_cast<float>(f.scale * kLog2EWide);
  p.cap = static_cast<float>(f.softcap / f.scale);
  p.lse = f.lse;
  p.out = static_cast<unsigned char*>(f.out.data);
  p.value_width = static_cast<int>(f.v.shape[3]);
  for (int i = 0; i < 3; ++i) p.lse_strides[i] = f.lse_strides[i], p.out_strides[i] = f.out.strides[i] * 2;
}

ForwardKernel kernel_for(const Forward& f) {
  if (has_strips(f)) return widths_for(f) == 0 ? strip_kernel_64(f.q.dtype) : strip_kernel_128(f.q.dtype);
  constexpr ForwardKernel (*kKernels[])(const KernelWish&) = {kernel_64, kernel_128, kernel_192, kernel_256};
  if (has_windows(f)) {
    const bool narrow = widths_for(f) == kWindowWidths;
    if (f.features.data != nullptr) return narrow ? featured_kernel_64(f.q.dtype) : featured_kernel_128(f.q.dtype);
    return narrow ? window_kernel_64(f.q.dtype) : window_kernel_128(f.q.dtype);
  }
  if (f.value_table.data != nullptr) return widths_for(f) == kTableWidths ? valued_kernel_128(f.q.dtype) : valued_kernel_64(f.q.dtype);
  if (f.table.data != nullptr) return widths_for(f) == kTableWidths ? table_kernel_128(f.q.dtype) : table_kernel_64(f.q.dtype);
  return kKernels[widths_for(f)]({f.q.dtype, f.diagonal != nullptr, f.softcap != 0});
}

/// Blocks of queries, so many, by a kernel that stays on every multiprocessor.
Status launch_forward(const char* where, const Forward& f, ForwardParameter& parameter, int work, void* stream) {
  const ForwardKernel kernel = kernel_for(f);
  int multiprocessors = 0;
  if (Status s = status_of(where, cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, f.q.device.index)); !s) return s;
  const cudaError_t error = cudaFuncSetAttribute(kernel.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes);
  if (error != cudaSuccess) return status_of(where, error);
  const int blocks = std::min(work, multiprocessors);
  void* parameters[] = {&parameter};
  return status_of(where, cudaLaunchKernel(kernel.kernel, dim3(static_cast<unsigned>(blocks)), dim3(kernel.threads), parameters,
                                           static_cast<std::size_t>(kernel.shared_bytes), static_cast<cudaStream_t>(stream)));
}

/// Strips of as many blocks of queries as there is room for, then those, and so on.
Status run_stripped(const char* where, const Forward& f, ForwardParameter& p, void* workspace, void* stream) {
  if (Status s = make_ends(where, f, p, workspace, stream); !s) return s;
  const Strips first = p.strips;
  for (int n = 0; n < strip_parts(p.tiles, first); ++n) {
    p.strips = strip_part(p.tiles, first, n);
    if (Status s = make_windows(where, f, p, stream); !s) return s;
    if (Status s = make_strips(where, f, p, workspace, stream); !s) return s;
    if (Status s = launch_forward(where, f, p, p.strips.end - p.strips.first, stream); !s) return s;
  }
  return {};
}

}  // namespace

Status run(const char* where, const Forward& f, void* workspace, void* stream) {
  const CurrentDevice current(where, f.q.device);
  if (!current.status().ok()) return current.status();
  ForwardParameter parameter = {};
  fill_parameter(f, workspace, parameter);
  if (Status s = make_maps(where, f, workspace, parameter); !s) return s;
  if (has_strips(f)) return run_stripped(where, f, parameter, workspace, stream);
  if (has_windows(f)) {
    if (Status s = make_window_rows(where, f, parameter, workspace, stream); !s) return s;
  }
  if (Status s = make_windows(where, f, parameter, stream); !s) return s;
  if (Status s = find_first_tiles(where, f, workspace, stream); !s) return s;
  return launch_forward(where, f, parameter, parameter.tiles.work(), stream);
}

}  // namespace phasor::cuda::hopper
