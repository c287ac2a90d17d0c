// SPDX-License-Identifier: Apache-2.0
// Attention over a cache: sequence after sequence, its keys and values gathered into the workspace, then attention over them.
#include <algorithm>
#include <cstring>
#include <vector>

#include "cpu/attention/host/run.hpp"
#include "cpu/common/runner.hpp"
#include "job/attention/cached_value.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "job/memory/arena.hpp"

namespace phasor::cpu {
namespace {

using job::CachedAttentionJob;
using job::CacheSource;

constexpr const char* kWhere = "cached_attention";

/// Queries of a sequence among the tokens of its batch row, and its keys.
struct Part {
  std::int64_t sequence;
  std::int64_t batch;
  std::int64_t first_query;
  std::int64_t queries;
  std::int64_t keys;
};

bool is_ragged(const CachedAttentionJob& asked) { return asked.attention.visibility.query_starts.size > 0; }

Part part_of(const CachedAttentionJob& asked, std::int64_t s) {
  const std::int64_t keys = job::at(asked.lengths, s);
  if (!is_ragged(asked)) return {s, s, 0, asked.attention.q.shape[1], keys};
  const Integers& starts = asked.attention.visibility.query_starts;
  const std::int64_t first = job::at(starts, s);
  return {s, 0, first, job::at(starts, s + 1) - first, keys};
}

// ---- What memory holds ----

Status check_starts(const CachedAttentionJob& asked) {
  const Integers& starts = asked.attention.visibility.query_starts;
  const std::int64_t tokens = asked.attention.q.shape[1];
  std::int64_t before = 0;
  for (std::int64_t s = 0; s < starts.size; ++s) {
    const std::int64_t at = job::at(starts, s);
    if (s == 0 ? at != 0 : at < before) {
      return job::error(kWhere, "query_starts[{}] is {}, wanted {}", s, at, s == 0 ? "0" : "starts that rise");
    }
    before = at;
  }
  if (before == tokens) return {};
  return job::error(kWhere, "query_starts ends with {}, q has {} tokens, wanted the same", before, tokens);
}

Status check_pages(const CachedAttentionJob& asked, const Part& part) {
  const std::int64_t room = job::room_of(asked);
  if (part.keys < 0 || part.keys > room) {
    return job::error(kWhere, "lengths[{}] is {}, wanted 0 to {}, for which there are pages", part.sequence, part.keys, room);
  }
  for (std::int64_t page = 0; page * asked.page_size < part.keys; ++page) {
    const std::int64_t block = job::block_of(asked.blocks, asked.pages, part.sequence, page);
    if (block >= 0 && block < asked.cache_blocks) continue;
    return job::error(kWhere, "page {} of sequence {} is block {}, the caches have {}", page, part.sequence, block, asked.cache_blocks);
  }
  return {};
}

Status check_lists(const CachedAttentionJob& asked) {
  if (is_ragged(asked)) {
    if (Status s = check_starts(asked); !s) return s;
  }
  for (std::int64_t s = 0; s < asked.sequences; ++s) {
    if (Status status = check_pages(asked, part_of(asked, s)); !status) return status;
  }
  return {};
}

// ---- A sequence as a call of its own ----

/// A batch row, unless all share one, and some tokens, unless all share one.
template <class View>
void take_rows(View& v, std::int64_t batch, std::int64_t first, std::int64_t count) {
  if (v.data == nullptr) return;
  const std::int64_t row = v.shape[0] == 1 ? 0 : batch * v.strides[0];
  const bool whole = v.shape[1] == 1 && count != 1;  // shared
  const std::int64_t at = row + (v.shape[1] == 1 ? 0 : first * v.strides[1]);
  using Byte = std::conditional_t<std::is_same_v<View, TensorView>, std::byte, const std::byte>;
  v.data = static_cast<Byte*>(v.data) + at * bytes_of(v.dtype);
  v.shape[0] = 1;
  if (!whole) v.shape[1] = count;
}
void take_batch(ConstTensorView& v, std::int64_t batch) { take_rows(v, batch, 0, v.shape[1]); }

void take_positions(Positions& p, std::int64_t batch, std::int64_t first, std::int64_t count) {
  if (p.data == nullptr) {
    p.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(p.offset) + static_cast<std::uint64_t>(first));
    return;
  }
  const std::int64_t at = (p.shape[1] == 1 ? 0 : batch * p.strides[1]) + first * p.strides[2];
  p.data = static_cast<const std::byte*>(p.data) + at * (p.type == PositionType::i32 ? 4 : 8);
  p.shape[1] = 1;
  p.shape[2] = count;
}

void take_keys_of_dense(ConstTensorView& bias, std::int64_t keys) {
  if (bias.shape[3] != 1) bias.shape[3] = keys;
}

void take_term(job::AttentionTermJob& term, const Part& part) {
  const std::int64_t queries = part.queries;
  take_rows(term.bias.gate, part.batch, part.first_query, queries);
  take_batch(term.table.table, part.batch);
  const bool by_key = term.table.side == TableSide::key;
  take_rows(term.table.features, part.batch, by_key ? 0 : part.first_query, by_key ? part.keys : queries);
  take_positions(term.segment.query_segments, part.batch, part.first_query, queries);
  take_positions(term.segment.key_segments, part.batch, 0, part.keys);
  take_rows(term.dense.bias, part.batch, part.first_query, queries);
  take_keys_of_dense(term.dense.bias, part.keys);
}

void take_visibility(job::VisibilityJob& see, const Part& part) {
  see.query_starts = {};
  if (see.prefix.size > 0) {
    see.prefix.data = static_cast<const std::byte*>(see.prefix.data) + part.sequence * see.prefix.bytes;
    see.prefix.size = 1;
  }
  if (see.key_mask.data != nullptr) see.key_mask.data += part.batch * see.key_mask.strides[0];
}

/// The job of one sequence, without keys, values and terms' memory.
job::AttentionJob job_of(const CachedAttentionJob& asked, const Part& part, std::vector<job::AttentionTermJob>& terms) {
  job::AttentionJob one = asked.attention;
  take_rows(one.q, part.batch, part.first_query, part.queries);
  take_rows(one.outputs.out, part.batch, part.first_query, part.queries);
  take_rows(one.outputs.lse, part.batch, part.first_query, part.queries);
  for (ConstTensorView* const view : {&one.k, &one.v}) {
    view->shape[0] = 1;
    view->shape[1] = part.keys;
    view->strides = contiguous_strides(view->shape);
  }
  terms.assign(asked.attention.terms, asked.attention.terms + asked.attention.term_count);
  for (job::AttentionTermJob& term : terms) take_term(term, part);
  one.terms = terms.data();
  take_visibility(one.visibility, part);
  if (one.query_positions.given) take_positions(one.query_positions.at, part.batch, part.first_query, part.queries);
  if (one.key_positions.given) take_positions(one.key_positions.at, part.batch, 0, part.keys);
  one.dropout.first_sequence += part.sequence;
  return one;
}

// ---- Memory ----

std::int64_t elements_of(const ConstTensorView& v) { return v.shape[0] * v.shape[1] * v.shape[2] * v.shape[3]; }

/// Bytes of each buffer, the longest of the sequences', and of attention's own workspace.
struct Needs {
  std::int64_t k = 0;
  std::int64_t v = 0;
  std::int64_t q = 0;    // in float32
  std::int64_t out = 0;  // the same
  std::int64_t attention = 0;
};
struct Buffers {
  void* k;
  void* v;
  void* q;
  void* out;
  std::span<std::byte> attention;
};

/// Whether keys and values are q's elements; if not, all is float32.
bool is_plain(const CachedAttentionJob& asked) {
  return job::is_plain_cache(asked.k, asked.attention.q.dtype) && job::is_plain_cache(asked.v, asked.attention.q.dtype);
}
/// q and out in float32, where they are not.
struct Wide {
  bool q;
  bool out;
};
Wide wide_of(const CachedAttentionJob& asked) {
  const bool wide = !is_plain(asked) && asked.attention.q.dtype != DType::f32;
  return {wide, wide && asked.attention.outputs.out.dtype != DType::f32};
}

void place(const Buffers& to, const CachedAttentionJob& asked, job::AttentionJob& one) {
  const DType dtype = is_plain(asked) ? asked.attention.q.dtype : DType::f32;
  one.k.dtype = one.v.dtype = dtype;
  one.k.data = to.k;
  one.v.data = to.v;
  const Wide wide = wide_of(asked);
  if (wide.q) one.q = {to.q, DType::f32, one.q.shape, contiguous_strides(one.q.shape), one.q.device};
  if (!wide.out) return;
  const Extents shape = {1, one.q.shape[1], one.q.shape[2], one.v.shape[3]};
  one.outputs.out = {to.out, DType::f32, shape, contiguous_strides(shape), one.q.device};
}

Result<Needs> needs_of(const CachedAttentionJob& asked) {
  Needs needs;
  std::vector<job::AttentionTermJob> terms;
  alignas(64) static std::byte somewhere[64];  // nothing is read where a layout is measured
  const Buffers nowhere = {somewhere, somewhere, somewhere, somewhere, {}};
  for (std::int64_t s = 0; s < asked.sequences; ++s) {
    const Part part = part_of(asked, s);
    if (part.queries == 0) continue;
    job::AttentionJob one = job_of(asked, part, terms);
    place(nowhere, asked, one);
    const Result<std::int64_t> attention = attention_workspace(one);
    if (!attention.ok()) return attention.status();
    const Wide wide = wide_of(asked);
    const std::int64_t out = part.queries * one.q.shape[2] * one.v.shape[3];
    needs.k = std::max(needs.k, elements_of(one.k) * bytes_of(one.k.dtype));
    needs.v = std::max(needs.v, elements_of(one.v) * bytes_of(one.v.dtype));
    needs.q = std::max(needs.q, wide.q ? elements_of(one.q) * 4 : 0);
    needs.out = std::max(needs.out, wide.q ? out * 4 : 0);
    needs.attention = std::max(needs.attention, *attention);
  }
  return needs;
}

Buffers take(const Needs& needs, attend::Arena& arena) {
  Buffers buffers = {arena.take_bytes(needs.k), arena.take_bytes(needs.v), arena.take_bytes(needs.q), arena.take_bytes(needs.out), {}};
  auto* const rest = arena.take<std::byte>(needs.attention);
  buffers.attention = {rest, static_cast<std::size_t>(needs.attention)};
  return buffers;
}

// ---- Gathering ----

/// A row of channels, as it is stored or decoded.
void gather_row(const CacheSource& cache, const job::CachePlace& at, bool plain, std::int64_t channels, void* to) {
  const std::byte* const row = job::row_of(cache, at);
  const std::int64_t size = bytes_of(cache.storage);
  if (!plain) {
    for (std::int64_t c = 0; c < channels; ++c) static_cast<float*>(to)[c] = job::cached_value(cache, at, c);
    return;
  }
  if (cache.strides[4] == size && (cache.inner == channels || cache.strides[3] == cache.inner * size)) {
    std::memcpy(to, row, static_cast<std::size_t>(channels * size));
    return;
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    std::memcpy(static_cast<std::byte*>(to) + c * size, job::channel_of(cache, row, c), static_cast<std::size_t>(size));
  }
}

void gather(const CachedAttentionJob& asked, const Part& part, const Buffers& to, const Runner& runner) {
  constexpr std::int64_t kTokens = 64;  // of a task
  const std::int64_t heads = asked.attention.k.shape[2];
  const bool plain = is_plain(asked);
  const std::int64_t size = plain ? bytes_of(asked.attention.q.dtype) : 4;
  const struct {
    const CacheSource* cache;
    void* to;
    std::int64_t channels;
  } sides[] = {{&asked.k, to.k, asked.attention.k.shape[3]}, {&asked.v, to.v, asked.attention.v.shape[3]}};
  run_each(runner, (part.keys + kTokens - 1) / kTokens, [&](std::int64_t task) {
    for (std::int64_t j = task * kTokens; j < std::min(part.keys, (task + 1) * kTokens); ++j) {
      const std::int64_t block = job::block_of(asked.blocks, asked.pages, part.sequence, j / asked.page_size);
      for (std::int64_t h = 0; h < heads; ++h) {
        for (const auto& side : sides) {
          auto* const row = static_cast<std::byte*>(side.to) + (j * heads + h) * side.channels * size;
          gather_row(*side.cache, {block, j % asked.page_size, h}, plain, side.channels, row);
        }
      }
    }
  });
}

/// Every element of a tensor, from one to another of the same shape.
void copy_tensor(const ConstTensorView& from, const TensorView& to) {
  const auto [batch, tokens, heads, channels] = from.shape;
  for (std::int64_t n = 0; n < batch * tokens * heads; ++n) {
    const std::int64_t index[] = {n / heads / tokens, n / heads % tokens, n % heads};
    const auto row = [&](const Extents& strides) { return index[0] * strides[0] + index[1] * strides[1] + index[2] * strides[2]; };
    for (std::int64_t c = 0; c < channels; ++c) {
      job::store_element(to.data, to.dtype, row(to.strides) + c, job::load_element(from.data, from.dtype, row(from.strides) + c));
    }
  }
}

Status run_part(const CachedAttentionJob& asked, const Part& part, const Buffers& to, const Execution& execution) {
  std::vector<job::AttentionTermJob> terms;
  job::AttentionJob one = job_of(asked, part, terms);
  const ConstTensorView q = one.q;
  const TensorView out = one.outputs.out;
  place(to, asked, one);
  gather(asked, part, to, execution.runner);
  const Wide wide = wide_of(asked);
  if (wide.q) copy_tensor(q, {to.q, DType::f32, one.q.shape, one.q.strides, q.device});
  if (Status s = run_attention(one, Workspace(to.attention), execution); !s) return s;
  if (wide.out) copy_tensor(one.outputs.out, out);
  return {};
}

}  // namespace

Result<std::int64_t> cached_attention_workspace(const CachedAttentionJob& asked) {
  if (Status s = check_lists(asked); !s) return s;
  const Result<Needs> needs = needs_of(asked);
  if (!needs.ok()) return needs.status();
  attend::Arena measure;
  take(*needs, measure);
  return measure.needed();
}

Status run_cached_attention(CachedAttentionJob& asked, const Workspace& workspace, const Execution& execution) {
  if (Status s = check_lists(asked); !s) return s;
  const Result<Needs> needs = needs_of(asked);
  if (!needs.ok()) return needs.status();
  attend::Arena arena(workspace);
  const Buffers buffers = take(*needs, arena);
  if (Status s = arena.check(kWhere); !s) return s;
  for (std::int64_t s = 0; s < asked.sequences; ++s) {
    const Part part = part_of(asked, s);
    if (part.queries == 0) continue;
    if (Status status = run_part(asked, part, buffers, execution); !status) return status;
  }
  return {};
}

}  // namespace phasor::cpu
