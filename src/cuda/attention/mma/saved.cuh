// SPDX-License-Identifier: Apache-2.0
// What a block of the backward brings of its queries: what the forward saved of them, their rows, and the gradients of their outputs.
#pragma once

#include "cuda/attention/backward/place.hpp"
#include "cuda/attention/base2.hpp"
#include "cuda/attention/mma/rows.cuh"

namespace phasor::cuda::attention::mma {

/// room.lse, times log2(e), and room.delta. Infinity: the query is not there, or sees no key. The log-sum-exp of one that sees no key is
/// its sink, and its delta has nothing of an output (write_delta). One that sees keys may look like that, too, but then its
/// lse does not know them: all they weigh is below half an ulp of the sink.
template <int kQueries, class Room>
__device__ inline void load_saved(const AttentionWork& work, const QueryTile& queries, int64_t head, Room& room) {
  const int64_t batch = queries.sequence.batch;
  const AttentionSaved& saved = work.backward.saved;
  const float sink = work.sinks.data == nullptr ? -INFINITY : element_at<float>(work.sinks, 0, 0, head, 0);
  for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += kBlockThreads) {
    const bool is_there = i < queries.count;
    const int64_t token = queries.first + i;
    const float lse = is_there ? element_at<float>(saved.lse, batch, token, head, 0) : -INFINITY;
    const float delta = is_there ? sums_at<float>(work, work.backward.delta)[row_number(work, batch, token, head)] : 0;
    bool is_seeing = lse != -INFINITY;
    if (is_seeing && lse == sink) {
      const float g = saved.lse_gradient.data == nullptr ? 0 : element_at<float>(saved.lse_gradient, batch, token, head, 0);
      is_seeing = g == g && delta != -g;
    }
    room.lse[i] = is_seeing ? lse * kLog2E : INFINITY;
    room.delta[i] = delta;
  }
}
/// A tile's rows of the gradient of the outputs; in float32 they are rounded, and there at once.
template <class Element, int kQueries, int kWidth, int kThreads, class Room, class IsThere>
__device__ __forceinline__ void bring_out_gradients(const AttentionWork& work, const QueryTile& queries, int64_t head, Room& room,
                                                    const IsThere& is_there) {
  const ConstTensorView& from = work.backward.saved.out_gradient;
  const int64_t batch = queries.sequence.batch;
  if (from.dtype == DType::f32) {
    const RowsOfHead<float> rows = head_rows<float>(from, batch, head, queries.first, queries.count);
    bring_rounded_rows<Element, kQueries, kWidth, kThreads>(room.out_gradient, rows, is_there);
  } else {
    const HeadRows rows = head_rows(from, batch, head, queries.first, queries.count);
    bring_rows<kQueries, kWidth, kThreads>(shared_address(room.out_gradient), rows, is_there);
  }
}
/// Rows of q and of the gradient of the outputs; zeros for queries that see no key. All threads see what load_saved wrote.
template <class Element, int kQueries, int kWidth, class Room>
__device__ inline void bring_query_rows(const AttentionWork& work, const QueryTile& queries, int64_t head, Room& room) {
  const int64_t batch = queries.sequence.batch;
  const auto is_there = [&](int row) { return room.lse[row] != INFINITY; };
  bring_rows<kQueries, kWidth>(shared_address(room.q), head_rows(work.contents[0].q, batch, head, queries.first, queries.count), is_there);
  bring_out_gradients<Element, kQueries, kWidth, kBlockThreads>(work, queries, head, room, is_there);
  copies_commit();
}

}  // namespace phasor::cuda::attention::mma
