// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/decode/call.hpp"

#include <algorithm>
#include <bit>

#include "cuda/attention/cached/gather.hpp"
#include "cuda/attention/hopper_call.hpp"

namespace phasor::cuda::decode {
namespace {

constexpr int64_t kMost = int64_t{1} << 30;
/// Of windows: differences with positions stay numbers.
constexpr int64_t kFarthest = int64_t{1} << 60;

bool is_storage(Storage storage, DType q) {
  if (storage == Storage::f8_e4m3 || storage == Storage::f8_e5m2) return q == DType::f16 || q == DType::bf16;
  return storage != Storage::f32 && storage == job::storage_of(q);
}
bool takes_cache(const job::CacheSource& cache, const job::CachedAttentionJob& job) {
  return cache.scales != CacheScales::Kind::made && attention::is_in_pieces(cache) && cache.storage == job.k.storage &&
         (cache.count == 64 || cache.count == 128 || cache.count == 256) && cache.count == job.k.count;
}
bool takes_content(const job::ContentJob& content) {
  if (content.kind == job::ContentKind::plain) return true;
  return content.kind == job::ContentKind::rotary && content.keys_rotated && content.map.kind == job::MapKind::none;
}
/// Whether positions that are given change nothing but where queries are rotated: tokens are then as good as positions.
bool is_seen_by_tokens(const job::AttentionJob& a) {
  const job::VisibilityJob& see = a.visibility;
  if (!a.query_positions.given && !a.key_positions.given) return true;
  const bool by_distance = a.term_count > 0 && a.terms[0].kind != job::TermKind::dense;
  return !see.causal && see.left == INT64_MAX && see.right == INT64_MAX && !by_distance;
}
bool takes(const job::CachedAttentionJob& job) {
  const job::AttentionJob& a = job.attention;
  const job::VisibilityJob& see = a.visibility;
  const Extents& s = a.q.shape;
  if (!is_storage(job.k.storage, a.q.dtype) || !takes_cache(job.k, job) || !takes_cache(job.v, job)) return false;
  const bool turns = a.content.kind != job::ContentKind::plain;
  if (!takes_content(a.content) || (turns && a.content_shift.data != nullptr) || a.term_count > 1 || a.dropout.probability > 0)
    return false;
  if (!is_seen_by_tokens(a) || see.prefix.size > 0 || see.query_starts.size > 0) return false;
  const int64_t group = a.k.shape[2] == 0 ? 1 : s[2] / a.k.shape[2];
  if (s[1] > kMostQueries || s[0] > 65535 || a.k.shape[2] > 65535 || group > 1024) return false;
  if (job::room_of(job) >= kMost || job.cache_blocks >= kMost || s[0] <= 0 || s[1] <= 0 || s[2] <= 0) return false;
  return (job::room_of(job) / kSplit + 1) * a.k.shape[2] * (group * s[1] / 8 + 1) < kMost;  // blocks of a sequence
}

CacheWork cache_of(const job::CacheSource& cache) {
  CacheWork work = {.data = cache.data};
  std::copy_n(cache.strides, 3, work.strides);
  if (cache.scales == CacheScales::Kind::none) return work;
  work.scales = reinterpret_cast<const float*>(cache.scale_data);
  work.scale_stride = cache.scale_strides[2] / static_cast<int64_t>(sizeof(float));
  work.scale = cache.scale;
  work.divides = cache.multiplies;
  return work;
}

DecodeWork work_of(const job::CachedAttentionJob& job) {
  const job::AttentionJob& a = job.attention;
  const job::VisibilityJob& see = a.visibility;
  DecodeWork work = {
      .q = a.q, .storage = job.k.storage, .k = cache_of(job.k), .v = cache_of(job.v), .blocks = job.blocks, .lengths = job.lengths};
  work.pages = job.pages;
  work.room = job::room_of(job);
  work.page_size = static_cast<int>(job.page_size);
  const auto page = static_cast<unsigned>(job.page_size);
  work.page_shift = std::has_single_bit(page) ? std::countr_zero(page) : -1;
  work.width = static_cast<int>(job.k.count);
  work.batch = static_cast<int>(a.q.shape[0]);
  work.queries = static_cast<int>(a.q.shape[1]);
  work.heads = static_cast<int>(a.q.shape[2]);
  work.key_heads = static_cast<int>(a.k.shape[2]);
  work.group = work.heads / work.key_heads;
  work.splits = static_cast<int>((work.room + kSplit - 1) / kSplit);
  work.scale = static_cast<float>(a.scale);
  work.softcap = static_cast<float>(a.softcap);
  work.left = std::clamp(see.left, -kFarthest, kFarthest);
  work.right = std::clamp(see.causal ? std::min<int64_t>(see.right, 0) : see.right, -kFarthest, kFarthest);
  work.mask = see.key_mask;
  work.sinks = a.sinks;
  work.outputs = a.outputs;
  return work;
}

/// A bias that all queries share; false: it does not go by distances.
bool take_bias(DecodeLayout& out) {
  const std::optional<hopper::Forward> by_distance = attention::hopper_forward(out.terms.work);
  if (!by_distance) return false;
  out.work.diagonal = by_distance->diagonal;
  out.work.diagonal_strides[2] = by_distance->distances;
  out.work.first_distance = by_distance->first_distance;
  out.work.distances = by_distance->distances;
  out.work.far_left = std::min(by_distance->far_left, by_distance->first_distance + by_distance->distances - 1);
  return true;
}

/// A table that meets queries, as a bias of each query: of all distances that there may be, or to where the table changes no more.
bool take_table(attend::Arena& arena, DecodeLayout& out) {
  constexpr int64_t kMostNumbers = int64_t{1} << 28;
  const attention::TableWork& term = out.terms.work.terms[0].table;
  if (term.use != attention::RowUse::query || term.kind != attention::RowKind::distance || term.map.has_buckets) return false;
  DecodeWork& work = out.work;
  const int64_t left = std::clamp(term.map.left, -kFarthest, kFarthest) + 1;  // from here on, and below -right: one row, or none
  const int64_t right = std::clamp(term.map.right, -kFarthest, kFarthest) + 1;
  RowBiasWork rows;
  rows.term = term;
  rows.batch = work.batch, rows.queries = work.queries, rows.heads = work.heads;
  rows.first_distance = std::clamp<int64_t>(-right, 1 - work.queries, work.room - 1);
  const int64_t last = std::clamp(left, rows.first_distance, std::max<int64_t>(work.room - 1, rows.first_distance));
  rows.distances = last - rows.first_distance + 1;
  const int64_t of_query = work.heads * rows.distances;
  if (rows.distances > kMostNumbers / work.heads / work.queries / work.batch) return false;
  rows.to = arena.take<float>(work.batch * work.queries * of_query);
  work.diagonal = rows.to;
  work.diagonal_strides[0] = work.queries * of_query, work.diagonal_strides[1] = of_query, work.diagonal_strides[2] = rows.distances;
  work.first_distance = rows.first_distance;
  work.distances = rows.distances;
  work.far_left = last;
  out.row_bias = rows;
  return true;
}

/// A bias given in full, as one of each query. Not under a soft cap, which the kernel gives to -infinity, too.
bool take_dense(const job::CachedAttentionJob& job, attend::Arena& arena, DecodeLayout& out) {
  constexpr int64_t kMostNumbers = int64_t{1} << 28;
  DecodeWork& work = out.work;
  if (job.attention.softcap != 0) return false;
  DenseBiasWork dense = {.bias = job.attention.terms[0].dense.bias, .lengths = job.lengths, .room = work.room};
  dense.batch = work.batch, dense.queries = work.queries;
  const int64_t of_query = dense.bias.shape[2] * dense_distances(dense);
  if (of_query > kMostNumbers / work.queries / work.batch) return false;
  dense.to = arena.take<float>(dense_bias_items(dense));
  work.diagonal = dense.to;
  work.diagonal_strides[0] = work.queries * of_query, work.diagonal_strides[1] = of_query;
  work.diagonal_strides[2] = dense.bias.shape[2] == 1 ? 0 : dense_distances(dense);
  work.first_distance = 1 - work.queries;
  work.distances = dense_distances(dense);
  work.far_left = work.room - 1;  // the last distance that there may be
  out.dense_bias = dense;
  return true;
}

/// The term of a call as a bias by distance; false: it is another.
bool lay_out_term(const job::CachedAttentionJob& job, attend::Arena& arena, DecodeLayout& out) {
  const job::AttentionJob& asked = job.attention;
  if (asked.terms[0].kind == job::TermKind::dense) return take_dense(job, arena, out);
  job::AttentionJob bias = asked;  // all that is not its term is the decoding kernel's own
  bias.content = {};
  bias.content_shift = {};
  bias.sinks = {};
  bias.softcap = 0;
  bias.visibility = {};
  bias.outputs.out.dtype = bias.q.dtype;
  if (!attention::lay_out(bias, "cached_attention", arena, out.terms).ok()) return false;
  return out.terms.work.terms[0].use == attention::TermUse::table ? take_table(arena, out) : take_bias(out);
}

/// q as it meets keys, in memory of its own.
void lay_out_queries(const job::AttentionJob& asked, DType dtype, attend::Arena& arena, DecodeLayout& out) {
  const Extents& s = asked.q.shape;
  out.rotated = {arena.take_bytes(s[0] * s[1] * s[2] * s[3] * bytes_of(dtype)), dtype, s, contiguous_strides(s), asked.device};
  out.work.q = out.rotated;
}
void lay_out_rotation(const job::AttentionJob& asked, attend::Arena& arena, DecodeLayout& out) {
  const Extents& s = asked.q.shape;
  out.rotates = true;
  if (asked.query_positions.given) {
    out.positions = asked.query_positions.at;
  } else {
    out.made_positions = arena.take<int64_t>(s[0] * s[1]);
    out.positions = {out.made_positions, PositionType::i64, {1, s[0], s[1]}, {0, s[1], 1}, 0, asked.device};
  }
  lay_out_queries(asked, asked.content.dtype, arena, out);
}

}  // namespace

std::optional<DecodeLayout> lay_out(const job::CachedAttentionJob& job, attend::Arena& arena) {
  if (!takes(job)) return std::nullopt;
  std::optional<DecodeLayout> out(std::in_place);
  out->work = work_of(job);
  const job::AttentionJob& asked = job.attention;
  if (asked.term_count > 0 && !lay_out_term(job, arena, *out)) return std::nullopt;
  if (asked.content.kind == job::ContentKind::rotary) lay_out_rotation(asked, arena, *out);
  if (asked.content_shift.data != nullptr) {
    out->content_shift = asked.content_shift;
    lay_out_queries(asked, DType::f32, arena, *out);
  }
  const int64_t numbers = partial_numbers(out->work);
  out->work.partial_out = arena.take<float>(numbers);
  const int64_t rows = numbers / (out->work.width + 2);
  out->work.partial_sum = out->work.partial_out == nullptr ? nullptr : out->work.partial_out + rows * out->work.width;
  return out;
}

}  // namespace phasor::cuda::decode
