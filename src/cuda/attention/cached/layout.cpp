// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/cached/layout.hpp"

#include <algorithm>

#include "cuda/attention/layout.hpp"

namespace phasor::cuda::attention {
namespace {

bool is_ragged(const job::CachedAttentionJob& asked) { return asked.attention.visibility.query_starts.size > 0; }

// ---- Batch rows as one row, in which sequence b has queries b Tq to (b + 1) Tq ----

/// (B or 1, T or 1, heads, channels) as (1, B T, heads, channels) in the same memory; false: no strides say that.
template <class View>
bool lay_in_a_row(View& v, int64_t batch) {
  const bool is_shared = v.shape[0] == 1 && batch != 1;
  if (v.shape[1] != 1 && (is_shared || v.strides[0] != v.shape[1] * v.strides[1])) return false;
  if (v.shape[1] == 1) v.strides[1] = is_shared ? 0 : v.strides[0];
  v.shape[1] *= batch;
  v.shape[0] = 1;
  return true;
}
/// The same of what may not be there, or is not known yet.
template <class View>
bool lay_in_a_row_if_there(View& v, int64_t batch) {
  return v.data == nullptr || lay_in_a_row(v, batch);
}
bool lay_in_a_row(job::AttentionTermJob& term, int64_t batch) {
  switch (term.kind) {
    case job::TermKind::bias:
      return lay_in_a_row_if_there(term.bias.gate, batch);
    case job::TermKind::table: {
      job::TableTermJob& table = term.table;
      const bool by_sequence = table.table.shape[0] != 1 || (table.side == TableSide::key && table.features.data != nullptr);
      return !by_sequence && lay_in_a_row_if_there(table.features, batch);
    }
    case job::TermKind::grid:
    case job::TermKind::decomposed:
    case job::TermKind::cope:
      return true;  // by positions alone
    case job::TermKind::segment:
    case job::TermKind::dense:
      break;
  }
  return false;
}
/// A job of batch rows as one of a row; false: it must stay.
bool lay_in_a_row(job::AttentionJob& job, std::vector<job::AttentionTermJob>& terms) {
  const int64_t batch = job.q.shape[0];
  if (batch == 1) return true;  // and what goes by batch row or key goes by the same
  if (job.query_positions.given || job.key_positions.given || job.visibility.key_mask.data != nullptr) return false;
  if (!lay_in_a_row_if_there(job.outputs.out, batch) || !lay_in_a_row_if_there(job.outputs.lse, batch)) return false;
  terms.assign(job.terms, job.terms + job.term_count);
  job.terms = terms.data();
  return lay_in_a_row(job.q, batch) &&
         std::all_of(terms.begin(), terms.end(), [&](job::AttentionTermJob& term) { return lay_in_a_row(term, batch); });
}

// ---- What is gathered ----

GatherWork gather_of(const job::CachedAttentionJob& asked) {
  const job::AttentionJob& a = asked.attention;
  GatherWork gather;
  gather.k = asked.k;
  gather.v = asked.v;
  gather.blocks = asked.blocks;
  gather.lengths = asked.lengths;
  gather.page_size = asked.page_size;
  gather.pages = asked.pages;
  gather.sequences = asked.sequences;
  gather.room = job::room_of(asked);
  gather.heads = a.k.shape[2];
  gather.width = a.k.shape[3];
  gather.value_width = a.v.shape[3];
  gather.queries = a.q.shape[1];
  const bool plain = job::is_plain_cache(asked.k, a.q.dtype) && job::is_plain_cache(asked.v, a.q.dtype);
  gather.dtype = plain ? a.q.dtype : DType::f32;
  const int64_t size = bytes_of(gather.dtype);
  const auto whole = [&](int64_t width) { return width * size % 16 == 0 && gather.heads * width <= INT32_MAX / size; };
  gather.in_pieces = plain && is_in_pieces(asked.k) && is_in_pieces(asked.v) && whole(gather.width) && whole(gather.value_width);
  return gather;
}
Integers list_of(const int64_t* data, int64_t size, Device device) { return {data, static_cast<std::size_t>(size), device}; }

/// Sequences one behind another: tokens stand where varlen attention has them without being told, and nobody is absent.
void pack(const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out) {
  GatherWork& gather = out.gather;
  job::AttentionJob& job = out.job;
  const int64_t starts = asked.sequences + 1;
  gather.fills = job.content.kind != job::ContentKind::plain && !job.content.keys_rotated;
  gather.key_starts = arena.take<int64_t>(starts);
  job.visibility.key_starts = list_of(gather.key_starts, starts, job.device);
  if (!is_ragged(asked)) {
    gather.query_starts = arena.take<int64_t>(starts);
    job.visibility.query_starts = list_of(gather.query_starts, starts, job.device);
  } else {
    lay_out_by_key(asked, arena, out);
  }
  out.most_keys = gather.room;
}
/// As much room for each: absent keys are masked, and queries stand where lengths say.
void give_room(attend::Arena& arena, CachedLayout& out) {
  GatherWork& gather = out.gather;
  job::AttentionJob& job = out.job;
  gather.fills = true;
  gather.given = job.visibility.key_mask;
  gather.mask = arena.take<std::uint8_t>(gather.sequences * gather.room);
  job.visibility.key_mask = {gather.mask, {gather.room, 1}, job.device};
  if (job.query_positions.given) return;
  const Extents& q = job.q.shape;
  gather.query_positions = arena.take<int64_t>(q[0] * q[1]);
  job.query_positions = {true, {gather.query_positions, PositionType::i64, {1, q[0], q[1]}, {0, q[1], 1}, 0, job.device}};
}

/// `may_pack` false: even where that can be.
Status lay_out_as(bool may_pack, const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out) {
  out.job = asked.attention;
  const bool packed = may_pack && lay_in_a_row(out.job, out.terms);
  if (!packed) out.job = asked.attention;
  out.gather = gather_of(asked);
  GatherWork& gather = out.gather;
  const Extents k = {packed ? 1 : gather.sequences, packed ? gather.sequences * gather.room : gather.room, gather.heads, gather.width};
  const Extents v = {k[0], k[1], gather.heads, gather.value_width};
  gather.k_to = arena.take_bytes(k[0] * k[1] * k[2] * k[3] * bytes_of(gather.dtype));
  gather.v_to = arena.take_bytes(v[0] * v[1] * v[2] * v[3] * bytes_of(gather.dtype));
  out.job.k = {gather.k_to, gather.dtype, k, contiguous_strides(k), out.job.device};
  out.job.v = {gather.v_to, gather.dtype, v, contiguous_strides(v), out.job.device};
  packed ? pack(asked, arena, out) : give_room(arena, out);
  const Result<int64_t> bytes = forward_workspace(out.job, out.most_keys);
  if (!bytes.ok()) return bytes.status();
  out.workspace = {arena.take<std::byte>(*bytes), static_cast<std::size_t>(*bytes)};
  return {};
}

}  // namespace

Status lay_out_cached(const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out) {
  return lay_out_as(true, asked, arena, out);
}

Result<int64_t> gathered_workspace(const job::CachedAttentionJob& asked) {
  int64_t most = 0;
  for (const bool may_pack : {true, false}) {
    if (!may_pack && is_ragged(asked)) continue;
    attend::Arena measure;
    CachedLayout layout;
    if (Status s = lay_out_as(may_pack, asked, measure, layout); !s) return s;
    most = std::max(most, measure.needed());
  }
  return most;
}

}  // namespace phasor::cuda::attention
