// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/cached/layout.hpp"

#include "cuda/attention/layout.hpp"
#include "spec/format.hpp"

namespace phasor::cuda::attention {
namespace {

bool is_ragged(const job::CachedAttentionJob& asked) { return asked.attention.visibility.query_starts.size > 0; }

/// What goes by key would have to be laid out for every sequence.
Status check_ragged(const job::CachedAttentionJob& asked) {
  const job::AttentionJob& a = asked.attention;
  const char* by_key = a.visibility.key_mask.data != nullptr ? "a key mask" : a.key_positions.given ? "key positions" : nullptr;
  for (int64_t t = 0; t < a.term_count; ++t) {
    const job::AttentionTermJob& term = a.terms[t];
    if (term.kind == job::TermKind::segment) by_key = "segments";
    if (term.kind == job::TermKind::dense && term.dense.bias.shape[3] != 1) by_key = "a dense bias";
    if (term.kind == job::TermKind::table && term.table.side == TableSide::key && term.table.features.data != nullptr)
      by_key = "features of keys";
  }
  if (!is_ragged(asked) || by_key == nullptr) return {};
  return Status::unsupported(
      spec::format("cached_attention: query_starts beside {} are not on CUDA yet, wanted a batch row for each sequence", by_key));
}

void lay_out_gather(const job::CachedAttentionJob& asked, attend::Arena& arena, GatherWork& gather) {
  const job::AttentionJob& a = asked.attention;
  const bool plain = job::is_plain_cache(asked.k, a.q.dtype) && job::is_plain_cache(asked.v, a.q.dtype);
  gather.k = asked.k;
  gather.v = asked.v;
  gather.blocks = asked.blocks;
  gather.lengths = asked.lengths;
  gather.query_starts = a.visibility.query_starts;
  gather.page_size = asked.page_size;
  gather.pages = asked.pages;
  gather.sequences = asked.sequences;
  gather.room = job::room_of(asked);
  gather.heads = a.k.shape[2];
  gather.width = a.k.shape[3];
  gather.value_width = a.v.shape[3];
  gather.queries = a.q.shape[1];
  gather.dtype = plain ? a.q.dtype : DType::f32;
  gather.given = a.visibility.key_mask;
  const int64_t tokens = asked.sequences * gather.room;
  gather.k_to = arena.take_bytes(tokens * gather.heads * gather.width * bytes_of(gather.dtype));
  gather.v_to = arena.take_bytes(tokens * gather.heads * gather.value_width * bytes_of(gather.dtype));
  gather.mask = arena.take<std::uint8_t>(tokens);
  if (!a.query_positions.given) gather.query_positions = arena.take<int64_t>(a.q.shape[0] * a.q.shape[1]);
  if (is_ragged(asked)) gather.key_starts = arena.take<int64_t>(asked.sequences + 1);
}

}  // namespace

Status lay_out_cached(const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out) {
  if (Status s = check_ragged(asked); !s) return s;
  lay_out_gather(asked, arena, out.gather);
  const GatherWork& gather = out.gather;
  const bool ragged = is_ragged(asked);
  job::AttentionJob& job = out.job;
  job = asked.attention;
  const int64_t batch = ragged ? 1 : asked.sequences;
  const int64_t keys = ragged ? asked.sequences * gather.room : gather.room;
  const Extents k = {batch, keys, gather.heads, gather.width};
  const Extents v = {batch, keys, gather.heads, gather.value_width};
  job.k = {gather.k_to, gather.dtype, k, contiguous_strides(k), job.device};
  job.v = {gather.v_to, gather.dtype, v, contiguous_strides(v), job.device};
  job.visibility.key_mask = {gather.mask, {keys, 1}, job.device};
  if (ragged) {
    job.visibility.key_starts.data = gather.key_starts;
    job.visibility.key_starts.size = asked.sequences + 1;
    job.visibility.key_starts.bytes = 8;
    job.visibility.key_starts.device = job.device;
  }
  if (!asked.attention.query_positions.given) {
    const Extents& q = job.q.shape;
    job.query_positions = {true, {gather.query_positions, PositionType::i64, {1, q[0], q[1]}, {0, q[1], 1}, 0, job.device}};
  }
  const Result<int64_t> bytes = forward_workspace(job);
  if (!bytes.ok()) return bytes.status();
  out.workspace = {arena.take<std::byte>(*bytes), static_cast<std::size_t>(*bytes)};
  return {};
}

}  // namespace phasor::cuda::attention
