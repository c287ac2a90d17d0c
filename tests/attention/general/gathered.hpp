// SPDX-License-Identifier: Apache-2.0
// Attention over caches as CUDA gathers it, run by the host: of calls over caches, and of calls of attention, whose keys then lie in pages
// of one token in an order of their own.
#pragma once

#include <algorithm>
#include <vector>

#include "attention/general/machine.hpp"
#include "cuda/attention/cached/layout.hpp"

namespace phasor::test {

/// How many gathered calls had their sequences one behind another, and how many as much room for each.
inline int packed_calls = 0;
inline int roomy_calls = 0;
inline int calls_in_pieces = 0;

template <class Machine>
Status gathered_on(Machine& machine, const job::CachedAttentionJob& job, const Workspace& workspace) {
  attend::Arena arena(workspace);
  cuda::attention::CachedLayout layout;
  if (Status s = cuda::attention::lay_out_cached(job, arena, layout); !s) return s;
  if (Status s = arena.check("cached_attention"); !s) return s;
  ++(layout.most_keys > 0 ? packed_calls : roomy_calls);
  calls_in_pieces += layout.gather.in_pieces ? 1 : 0;
  each_block(cuda::attention::gather_items(layout.gather), [&](std::int64_t n) { cuda::attention::gather_item(layout.gather, n); });
  for (const cuda::attention::KeyedWork& work : layout.keyed) {
    each_block(cuda::attention::keyed_items(work), [&](std::int64_t n) { cuda::attention::copy_keyed(work, n); });
  }
  constexpr int kThreads = 3;
  each_block(kThreads * cuda::attention::gather_tokens(layout.gather), [&](std::int64_t n) {
    const cuda::attention::GatherThread thread = {static_cast<int>(n % kThreads), kThreads};
    layout.gather.in_pieces ? cuda::attention::gather_token<true>(layout.gather, n / kThreads, thread)
                            : cuda::attention::gather_token<false>(layout.gather, n / kThreads, thread);
  });
  return cuda::attention::attention_on(machine, layout.job, Workspace(layout.workspace), layout.most_keys);
}

/// Calls over caches are gathered for a machine.
template <class Machine>
void cached_by(backend::Backend& backend) {
  backend.cached_attention_workspace = cuda::attention::gathered_workspace;
  backend.cached_attention = [](job::CachedAttentionJob& job, const Workspace& workspace, const Execution&) {
    Machine machine;
    return gathered_on(machine, job, workspace);
  };
}

/// A call of attention as one over a cache, in which its keys are where they are. Where tensors by key leave it that, there is room for
/// more, in pages that nobody may look at.
class PagedCall {
 public:
  explicit PagedCall(const job::AttentionJob& a) {
    const job::VisibilityJob& see = a.visibility;
    const bool ragged = see.query_starts.size > 0;
    job_.attention = a;
    job_.attention.visibility.key_starts = {};
    job_.sequences = ragged ? see.query_starts.size - 1 : a.q.shape[0];
    std::vector<std::int64_t> firsts;
    for (std::int64_t s = 0; s < job_.sequences; ++s) {
      firsts.push_back(ragged ? job::at(see.key_starts, s) : s * a.k.shape[1]);
      lengths_.push_back(ragged ? job::at(see.key_starts, s + 1) - firsts.back() : a.k.shape[1]);
    }
    const std::int64_t most = lengths_.empty() ? 0 : *std::ranges::max_element(lengths_);
    if (a.k.shape[0] == 1 || (is_in_a_row(a.k) && is_in_a_row(a.v))) {
      job_.pages = most + (goes_by_key(a) ? 0 : 3);
      for (std::int64_t s = 0; s < job_.sequences; ++s) {
        for (std::int64_t j = 0; j < job_.pages; ++j) {
          blocks_.push_back(j < lengths_[static_cast<std::size_t>(s)] ? firsts[static_cast<std::size_t>(s)] + j : INT32_MIN);
        }
      }
      job_.k = source_of(a.k, 1, 0);
      job_.v = source_of(a.v, 1, 0);
    } else {
      job_.page_size = most;
      job_.k = source_of(a.k, 0, 1);
      job_.v = source_of(a.v, 0, 1);
    }
    job_.blocks = Integers(blocks_);
    job_.lengths = Integers(lengths_);
    job_.attention.k = stand_in(a.k);
    job_.attention.v = stand_in(a.v);
    if (a.outputs.lse.data == nullptr) return;
    const Extents& rows = a.outputs.lse.shape;
    lse_.resize(static_cast<std::size_t>(rows[0] * rows[1] * rows[2]));
    job_.attention.outputs.lse = {lse_.data(), DType::f32, rows, contiguous_strides(rows)};
  }
  PagedCall(const PagedCall&) = delete;
  PagedCall& operator=(const PagedCall&) = delete;
  const job::CachedAttentionJob& job() const { return job_; }
  /// Those of callers lie by heads, which no row has.
  void store_lse(const TensorView& to) const {
    for (std::size_t n = 0; n < lse_.size(); ++n) {
      const auto heads = to.shape[2], row = static_cast<std::int64_t>(n);
      const std::int64_t token = row / heads;
      const std::int64_t at = token / to.shape[1] * to.strides[0] + token % to.shape[1] * to.strides[1] + row % heads * to.strides[2];
      static_cast<float*>(to.data)[at] = lse_[n];
    }
  }

  static bool goes_by_key(const job::AttentionJob& a) {
    bool by_key = a.visibility.key_mask.data != nullptr || a.key_positions.given;
    for (std::int64_t t = 0; t < a.term_count; ++t) {
      const job::AttentionTermJob& term = a.terms[t];
      const bool of_keys = term.kind == job::TermKind::table && term.table.side == TableSide::key && term.table.features.data != nullptr;
      by_key = by_key || of_keys || term.kind == job::TermKind::segment || term.kind == job::TermKind::dense;
    }
    return by_key;
  }

 private:
  static bool is_in_a_row(const ConstTensorView& v) { return v.strides[0] == v.shape[1] * v.strides[1]; }
  /// Strides of a block and of its tokens are those of these axes.
  static job::CacheSource source_of(const ConstTensorView& v, std::size_t block, std::size_t token) {
    job::CacheSource source;
    const std::int64_t size = bytes_of(v.dtype);
    source.data = static_cast<std::byte*>(const_cast<void*>(v.data));
    source.storage = job::storage_of(v.dtype);
    source.count = source.inner = v.shape[3];
    const std::int64_t strides[] = {v.strides[block], block == 1 ? 0 : v.strides[token], v.strides[2], 0, v.strides[3]};
    for (std::size_t n = 0; n < 5; ++n) source.strides[n] = strides[n] * size;
    return source;
  }
  ConstTensorView stand_in(const ConstTensorView& v) const {
    return {nullptr, v.dtype, {v.shape[0], job::room_of(job_), v.shape[2], v.shape[3]}, {0, 0, 0, 1}};
  }

  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> blocks_;
  std::vector<float> lse_;
  job::CachedAttentionJob job_;
};

/// Calls of attention are gathered for a machine; ragged ones with something by key are as they are: over a cache all sequences share it.
template <class Machine>
void paged_by(backend::Backend& backend) {
  static const auto stays = [](const job::AttentionJob& job) {
    return job.visibility.query_starts.size > 0 && PagedCall::goes_by_key(job);
  };
  backend.attention_workspace = [](const job::AttentionJob& job) {
    return stays(job) ? cuda::attention::forward_workspace(job) : cuda::attention::gathered_workspace(PagedCall(job).job());
  };
  backend.attention = [](job::AttentionJob& job, const Workspace& workspace, const Execution&) -> Status {
    Machine machine;
    if (stays(job)) return cuda::attention::attention_on(machine, job, workspace);
    const PagedCall paged(job);
    if (Status s = gathered_on(machine, paged.job(), workspace); !s) return s;
    paged.store_lse(job.outputs.lse);
    return {};
  };
}

}  // namespace phasor::test
