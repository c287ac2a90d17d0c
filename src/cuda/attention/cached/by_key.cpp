// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/cached/by_key.hpp"

#include <algorithm>

#include "cuda/attention/cached/layout.hpp"

namespace phasor::cuda::attention {
namespace {

/// A ragged call being packed: its gathering is known, its lists have places.
struct Packed {
  const job::CachedAttentionJob& asked;
  attend::Arena& arena;
  CachedLayout& out;

  int64_t keys() const { return out.gather.sequences * out.gather.room; }
  /// Memory of a copy that goes to `out`.
  void* add(const KeyedCopy& copy) const {
    // What is measured has no memory yet, and null would say that there is no such tensor.
    alignas(64) static std::byte somewhere[64];
    KeyedWork work = {out.gather, asked.attention.visibility.query_starts, copy};
    work.copy.to = arena.take_bytes(copy.outer * keyed_places(work) * copy.x * copy.y * copy.size);
    out.keyed.push_back(work);
    return work.copy.to == nullptr ? somewhere : work.copy.to;
  }
};

void repeat(KeyMask& mask, const Packed& packed) {
  if (mask.data == nullptr) return;
  const void* const to = packed.add({.from = mask.data, .size = 1, .from_strides = {0, 0, mask.strides[1], 0, 0}});
  mask = {static_cast<const std::uint8_t*>(to), {packed.keys(), 1}, mask.device};
}

/// (axes, 1, room); those that are counted become numbers, since each sequence begins anew.
void repeat(Positions& p, const Packed& packed) {
  const bool counted = p.data == nullptr;
  const int64_t axes = counted ? 1 : p.shape[0];
  KeyedCopy copy = {.from = p.data, .size = !counted && p.type == PositionType::i32 ? 4 : 8, .offset = p.offset, .outer = axes};
  copy.from_strides[0] = p.strides[0], copy.from_strides[2] = p.strides[2];
  const int64_t keys = packed.keys();
  p = {packed.add(copy), counted ? PositionType::i64 : p.type, {axes, 1, keys}, {keys, keys, 1}, 0, packed.out.job.device};
}

/// Features (1, room, heads, width).
void repeat_features(ConstTensorView& v, const Packed& packed) {
  const Extents& s = v.strides;
  const Extents to = {1, packed.keys(), v.shape[2], v.shape[3]};
  const KeyedCopy copy = {
      .from = v.data, .size = bytes_of(v.dtype), .x = v.shape[2], .y = v.shape[3], .from_strides = {0, 0, s[1], s[2], s[3]}};
  v = {packed.add(copy), v.dtype, to, contiguous_strides(to), v.device};
}

/// A bias (1, queries or 1, heads or 1, room), in a view whose rows overlap where nobody looks.
void repeat_dense(ConstTensorView& v, const Packed& packed) {
  const int64_t queries = v.shape[1] == 1 ? 0 : v.shape[1];
  const Extents& s = v.strides;
  const KeyedCopy copy = {
      .from = v.data, .size = bytes_of(v.dtype), .outer = v.shape[2], .queries = queries, .from_strides = {s[2], s[1], s[3], 0, 0}};
  const int64_t room = packed.out.gather.room;
  const Extents strides = {0, room, (packed.out.gather.sequences + queries) * room, 1};
  v = {packed.add(copy), v.dtype, {1, v.shape[1], v.shape[2], packed.keys()}, strides, v.device};
}

void repeat(job::AttentionTermJob& term, const Packed& packed) {
  if (term.kind == job::TermKind::segment) repeat(term.segment.key_segments, packed);
  if (term.kind == job::TermKind::dense && term.dense.bias.shape[3] != 1) repeat_dense(term.dense.bias, packed);
  const bool of_keys = term.kind == job::TermKind::table && term.table.side == TableSide::key;
  if (of_keys && term.table.features.data != nullptr) repeat_features(term.table.features, packed);
}

}  // namespace

void lay_out_by_key(const job::CachedAttentionJob& asked, attend::Arena& arena, CachedLayout& out) {
  if (asked.sequences <= 1) return;  // keys lie as they are numbered
  const Packed packed = {asked, arena, out};
  job::AttentionJob& job = out.job;
  repeat(job.visibility.key_mask, packed);
  if (job.key_positions.given) repeat(job.key_positions.at, packed);
  out.terms.assign(job.terms, job.terms + job.term_count);
  job.terms = out.terms.data();
  for (job::AttentionTermJob& term : out.terms) repeat(term, packed);
}

}  // namespace phasor::cuda::attention
