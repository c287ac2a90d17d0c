// SPDX-License-Identifier: Apache-2.0
// Positions that are sums of gates (CoPE), on the host side.
#include <algorithm>
#include <cmath>

#include "cpu/attention/host/term_tensors.hpp"
#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/host_tables/key_features.hpp"
#include "cpu/common/runner.hpp"
#include "job/check.hpp"
#include "job/positions/positions.hpp"

namespace phasor::attend {
namespace {

bool is_masked(const KeyMask& mask, std::int64_t b, std::int64_t key) {
  return mask.data != nullptr && mask.data[b * mask.strides[0] + key * mask.strides[1]] == 0;
}

/// Gates are added up in the order of keys: it must be that of positions, but for keys that the mask hides.
Status check_order(const TermContext& context) {
  const job::AttentionJob& asked = *context.asked;
  const Positions& at = asked.key_positions.at;
  const AttentionShape& s = context.job->shape;
  if (!asked.key_positions.given || at.data == nullptr) return {};
  const Integers& starts = asked.visibility.key_starts;
  for (std::int64_t b = 0; b < s.batch; ++b) {
    std::int64_t sequence = 0;
    std::int64_t last = -1;  // a key that is seen, of the same sequence
    for (std::int64_t j = 0; j < s.keys; ++j) {
      while (starts.size > 0 && sequence + 1 < starts.size && job::at(starts, sequence + 1) <= j) ++sequence, last = -1;
      if (is_masked(asked.visibility.key_mask, b, j)) continue;
      if (last >= 0 && job::integer_at(at, b, j) <= job::integer_at(at, b, last)) {
        return Status::unsupported(spec::format("{}: keys {} and {} of batch row {} are at positions {} and {}, wanted rising positions",
                                                context.where, last, j, b, job::integer_at(at, b, last), job::integer_at(at, b, j)));
      }
      last = j;
    }
  }
  return {};
}

/// 1 where row >= column, or its transpose.
void* pack_triangle(bool transposed, const AttentionJob& job, Arena& arena) {
  constexpr std::int64_t n = kKeyTile;
  void* const memory = arena.take_bytes(n * n * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T) {
    for (std::int64_t at = 0; at < n * n; ++at) {
      const bool below = transposed ? at / n <= at % n : at / n >= at % n;
      static_cast<T*>(memory)[at] = below ? T{1} : T{0};
    }
  });
  return memory;
}

/// (Hk, key tiles, padded_width, kKeyTile) from packed rows of keys.
void* pack_transposed_keys(const KeyFeatures& keys, const TermContext& context, Arena& arena) {
  const AttentionJob& job = *context.job;
  const std::int64_t width = job.shape.padded_width;
  const auto tiles = static_cast<std::int64_t>(job.key_tiles.size());
  void* const memory = arena.take_bytes(job.shape.key_heads * tiles * width * kKeyTile * bytes_of(job.arithmetic));
  if (memory == nullptr) return nullptr;
  with_arithmetic(job.arithmetic, [&]<class T>(T zero) {
    cpu::run_each(*context.runner, job.shape.key_heads * tiles, [&](std::int64_t n) {
      const TokenTile& tile = job.key_tiles[static_cast<std::size_t>(n % tiles)];
      const std::int64_t batch = job.sequences[static_cast<std::size_t>(tile.sequence)].batch;
      const T* const in = static_cast<const T*>(keys.data) + batch * keys.batch_stride + n / tiles * keys.head_stride + tile.first * width;
      T* const out = static_cast<T*>(memory) + n * width * kKeyTile;
      for (std::int64_t c = 0; c < width; ++c) {
        for (std::int64_t j = 0; j < kKeyTile; ++j) out[c * kKeyTile + j] = j < tile.count ? in[j * width + c] : zero;
      }
    });
  });
  return memory;
}

/// Of a sequence, at most: xPos has tiles of fewer keys than kKeyTile.
std::int64_t most_key_tiles(const AttentionJob& job) {
  std::int64_t most = 0;
  for (const Sequence& sequence : job.sequences) most = std::max(most, sequence.end_key_tile - sequence.first_key_tile);
  return most;
}

CopeLayout layout_of(const CopeJob& made, const AttentionJob& job, bool backward) {
  CopeLayout at;
  const auto take = [&at](std::int64_t& offset, std::int64_t count) {
    offset = at.size;
    at.size += count;
  };
  take(at.backward, kPadding);
  take(at.running, kQueryTile);
  take(at.products, kQueryTile * made.padded_rows);
  take(at.steps, kQueryTile * made.padded_rows);
  take(at.gates, kQueryTile * kKeyTile);
  take(at.counts, kQueryTile * kKeyTile);
  if (!backward) return at;
  take(at.carry, kQueryTile);
  take(at.gradients, kQueryTile * made.padded_rows);
  take(at.by_scores, kQueryTile * kKeyTile);
  take(at.later, most_key_tiles(job) * kQueryTile);
  return at;
}

}  // namespace

Status make_term(const CopeTerm& term, const TermContext& context, Arena& arena, TermJob& out) {
  if (Status status = check_order(context); !status) return status;
  const AttentionJob& job = *context.job;
  const std::int64_t width = job.shape.padded_width;
  const bool backward = context.gradient != nullptr;
  CopeJob made;
  made.rows = term.table.shape[1];
  made.padded_rows = padded(made.rows);
  made.gate_scale = term.gate_scale;
  made.shares_heads = heads_of(term.table) == 1;
  made.columns = pack_columns(term.table, {.padded = made.padded_rows, .factor = term.scale}, job, arena);
  const KeyFeatures keys = pack_key_features(job.k, context, arena);
  made.keys = keys.data;
  made.key_strides[0] = keys.batch_stride;
  made.key_strides[1] = keys.head_stride;
  made.keys_transposed = pack_transposed_keys(keys, context, arena);
  made.sum_later = pack_triangle(false, job, arena);
  if (backward) {
    made.sum_earlier = pack_triangle(true, job, arena);
    made.packed = pack_rows(term.table, {.padded = width, .factor = term.scale}, job, arena);
    if (is_given(context.gradient->table)) made.sums = take_sums(made.rows * width, job, arena);
  }
  made.layout = layout_of(made, job, backward);
  out = made;
  return {};
}

std::int64_t scratch_of(const CopeJob& term, const AttentionJob& /*job*/, bool /*backward*/) { return term.layout.size; }

void finish_term(const CopeTerm& term, const CopeJob& made, const TermContext& context) {
  if (made.sums == nullptr) return;
  const AttentionShape& s = context.job->shape;
  const std::int64_t size = made.rows * s.padded_width;
  for (std::int64_t h = 0; h < s.heads; ++h) {
    for (std::int64_t n = 0; n < made.rows * s.width; ++n) {
      const std::int64_t row = n / s.width;
      const double sum = sum_of_slots(made.sums, size, *context.job, h, row * s.padded_width + n % s.width);
      add_to_element(context.gradient->table, {0, row, h}, n % s.width, term.scale * sum);
    }
  }
}

/// Without what saturation saves.
TermCost cost_of(const CopeJob& term, const AttentionJob& job) {
  const auto product = 2 * static_cast<double>(job.shape.width);
  return {
      .per_score = product + 2 * static_cast<double>(kKeyTile) + 10, .per_query = product * static_cast<double>(term.rows), .name = "CoPE"};
}

}  // namespace phasor::attend
