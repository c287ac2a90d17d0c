// SPDX-License-Identifier: Apache-2.0
// Attention over a cache put on a stream: by the decoding kernel, or gathered for kernels that know no pages.
#include "cuda/attention/cached/layout.hpp"
#include "cuda/attention/decode/call.hpp"
#include "cuda/attention/prepare_terms.hpp"
#include "cuda/attention/run.hpp"
#include "cuda/device.hpp"
#include "cuda/run.hpp"
#include "cuda/threads.hpp"
#include "job/attention/make_job.hpp"

namespace phasor::cuda {
namespace {

constexpr const char* kWhere = "cached_attention";
constexpr int kThreads = 256;
constexpr int kMostBlocks = 8192;
unsigned blocks_of(std::int64_t items, std::int64_t of_block) { return std::min<unsigned>(blocks_for(items, of_block), kMostBlocks); }

__global__ void __launch_bounds__(kThreads) make_lists(const __grid_constant__ attention::GatherWork work) {
  const std::int64_t items = attention::gather_items(work);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t n = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; n < items; n += step) attention::gather_item(work, n);
}
Status gather_lists(const attention::GatherWork& work, const Execution& execution) {
  const std::int64_t items = attention::gather_items(work);
  if (items == 0) return {};
  attention::GatherWork parameter = work;
  const auto kernel = reinterpret_cast<const void*>(&make_lists);
  return launch(kWhere, {kernel, {blocks_of(items, kThreads)}, kThreads, 0, execution.stream}, &parameter);
}
__global__ void __launch_bounds__(kThreads) copy_by_key(const __grid_constant__ attention::KeyedWork work) {
  const std::int64_t items = attention::keyed_items(work);
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t n = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; n < items; n += step) attention::copy_keyed(work, n);
}
Status repeat_by_key(const std::vector<attention::KeyedWork>& all, const Execution& execution) {
  for (attention::KeyedWork work : all) {
    const std::int64_t items = attention::keyed_items(work);
    if (items == 0) continue;
    const auto kernel = reinterpret_cast<const void*>(&copy_by_key);
    if (Status s = launch(kWhere, {kernel, {blocks_of(items, kThreads)}, kThreads, 0, execution.stream}, &work); !s) return s;
  }
  return {};
}
/// A warp has a token at a time.
template <bool kInPieces>
__global__ void __launch_bounds__(kThreads) bring_tokens(const __grid_constant__ attention::GatherWork work) {
  constexpr int kWarps = kThreads / 32;
  const std::int64_t tokens = attention::gather_tokens(work);
  const std::int64_t step = std::int64_t{gridDim.x} * kWarps;
  const attention::GatherThread thread = {static_cast<int>(threadIdx.x) & 31, 32};
  for (std::int64_t n = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32; n < tokens; n += step)
    attention::gather_token<kInPieces>(work, n, thread);
}
Status gather(const attention::CachedLayout& layout, const Execution& execution) {
  const attention::GatherWork& work = layout.gather;
  if (Status s = gather_lists(work, execution); !s) return s;
  if (Status s = repeat_by_key(layout.keyed, execution); !s) return s;
  const std::int64_t tokens = attention::gather_tokens(work);
  if (tokens == 0) return {};
  attention::GatherWork parameter = work;
  const auto kernel =
      work.in_pieces ? reinterpret_cast<const void*>(&bring_tokens<true>) : reinterpret_cast<const void*>(&bring_tokens<false>);
  return launch(kWhere, {kernel, {blocks_of(tokens, kThreads / 32)}, kThreads, 0, execution.stream}, &parameter);
}

struct Shift {
  ConstTensorView from;
  ConstTensorView shift;  // (1, 1, heads or 1, channels)
  float* to;
  std::int64_t count;
};
__global__ void __launch_bounds__(kThreads) shift_queries(const __grid_constant__ Shift work) {
  const std::int64_t n = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n >= work.count) return;
  const Extents& s = work.from.shape;
  const std::int64_t token = n / s[3] / s[2];
  const std::int64_t at =
      token / s[1] * work.from.strides[0] + token % s[1] * work.from.strides[1] + n / s[3] % s[2] * work.from.strides[2];
  const auto x = static_cast<float>(job::load_element(work.from.data, work.from.dtype, at + n % s[3]));
  work.to[n] = x + attention::element_at<float>(work.shift, 0, 0, n / s[3] % s[2], n % s[3]);
}
/// In float32: an element and a shift have more digits than either.
Status shift(const ConstTensorView& q, const ConstTensorView& by, void* to, const Execution& execution) {
  Shift work = {q, by, static_cast<float*>(to), q.shape[0] * q.shape[1] * q.shape[2] * q.shape[3]};
  const auto kernel = reinterpret_cast<const void*>(&shift_queries);
  return launch(kWhere, {kernel, {blocks_for(work.count, kThreads)}, kThreads, 0, execution.stream}, &work);
}

__global__ void __launch_bounds__(kThreads) make_row_biases(const __grid_constant__ decode::RowBiasWork work) {
  const std::int64_t n = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n < decode::row_bias_items(work)) decode::make_row_bias(work, n);
}

__global__ void __launch_bounds__(kThreads) make_dense_biases(const __grid_constant__ decode::DenseBiasWork work) {
  const std::int64_t n = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (n < decode::dense_bias_items(work)) decode::make_dense_bias(work, n);
}

/// q at its positions, which lengths on the device decide where none are given.
Status rotate_queries(const job::CachedAttentionJob& job, const decode::DecodeLayout& layout, const Execution& execution) {
  const ConstTensorView& q = job.attention.q;
  attention::GatherWork positions = {.lengths = job.lengths, .sequences = job.sequences, .room = job::room_of(job), .queries = q.shape[1]};
  positions.query_positions = layout.made_positions;
  if (Status s = gather_lists(positions, execution); !s) return s;
  job::RotateJob rotation = job::rotation_of(job.attention.content.queries, InOut(q, layout.rotated), layout.positions);
  return run_rotate(rotation, execution);
}

Status run_decode(const job::CachedAttentionJob& job, const decode::DecodeLayout& layout, const Execution& execution) {
  if (job.attention.term_count > 0 && !layout.dense_bias) {
    if (Status s = attention::prepare_terms(layout.terms, kWhere, execution); !s) return s;
  }
  if (layout.row_bias) {
    decode::RowBiasWork work = *layout.row_bias;
    const auto kernel = reinterpret_cast<const void*>(&make_row_biases);
    if (Status s = launch(kWhere, {kernel, {blocks_for(row_bias_items(work), kThreads)}, kThreads, 0, execution.stream}, &work); !s)
      return s;
  }
  if (layout.dense_bias) {
    decode::DenseBiasWork work = *layout.dense_bias;
    const auto kernel = reinterpret_cast<const void*>(&make_dense_biases);
    if (Status s = launch(kWhere, {kernel, {blocks_for(dense_bias_items(work), kThreads)}, kThreads, 0, execution.stream}, &work); !s)
      return s;
  }
  if (layout.content_shift.data != nullptr) {
    if (Status s = shift(job.attention.q, layout.content_shift, layout.rotated.data, execution); !s) return s;
  }
  if (layout.rotates) {
    if (Status s = rotate_queries(job, layout, execution); !s) return s;
  }
  return decode::run(kWhere, layout.work, execution.stream);
}

/// A call for the decoding kernel; nullopt: it is not, or the device is too small.
std::optional<decode::DecodeLayout> decoding(const job::CachedAttentionJob& job, attend::Arena& arena) {
  std::optional<decode::DecodeLayout> layout = decode::lay_out(job, arena);
  if (layout && !decode::fits(layout->work, job.attention.device)) layout.reset();
  return layout;
}

}  // namespace

Result<std::int64_t> cached_attention_workspace(const job::CachedAttentionJob& job) {
  attend::Arena measure;
  if (decoding(job, measure)) return measure.needed();
  return attention::gathered_workspace(job);
}

Status run_cached_attention(job::CachedAttentionJob& job, const Workspace& workspace, const Execution& execution) {
  const CurrentDevice current(kWhere, job.attention.device);
  if (!current.status().ok()) return current.status();
  {
    attend::Arena measure;
    if (decoding(job, measure)) {
      attend::Arena arena(workspace);
      const std::optional<decode::DecodeLayout> decoded = decode::lay_out(job, arena);
      if (Status s = arena.check(kWhere); !s) return s;
      return run_decode(job, *decoded, execution);
    }
  }
  attend::Arena arena(workspace);
  attention::CachedLayout layout;
  if (Status s = attention::lay_out_cached(job, arena, layout); !s) return s;
  if (Status s = arena.check(kWhere); !s) return s;
  if (job::is_empty(job.attention.outputs.out)) return {};
  if (Status s = gather(layout, execution); !s) return s;
  const Workspace of_attention(layout.workspace);
  if (layout.most_keys == 0) return run_attention(layout.job, of_attention, execution);
  return run_attention(layout.most_keys, layout.job, of_attention, execution);
}

}  // namespace phasor::cuda
