// SPDX-License-Identifier: Apache-2.0
// Builders of positions in C: offsets, sequences, masks, pages, trees, shards, random ones.
#include <algorithm>
#include <array>
#include <cstdint>

#include "core/call.hpp"
#include "core/fields.hpp"
#include "core/tensor.hpp"
#include "phasor/c/positions.h"
#include "phasor/position_builders.hpp"
#include "specs/position_map.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

// In C the default comes first.
constexpr std::array kShardOrders = {ShardOrder::zigzag, ShardOrder::contiguous, ShardOrder::striped, ShardOrder::permuted};

Shard shard_of(const char* where, const phasor_shard* shard) {
  phasor_shard c = known(where, "the shard", need(where, "the shard", shard));
  Shard value;
  const Read way(where);
  way("rank", c.rank, value.rank);
  way("ranks", c.ranks, value.ranks);
  way.choice("order", c.order, value.order, kShardOrders);
  way("tokens", c.tokens, value.tokens);
  value.whole = ragged_of(where, c.whole);
  value.permutation = integers_of(where, "permutation", c.permutation);
  return value;
}

AttentionMask attention_mask_of(const char* where, const phasor_attention_mask* mask) {
  phasor_attention_mask c = known(where, "the mask", need(where, "the mask", mask));
  AttentionMask value;
  const Read way(where);
  value.values = integers_of(where, "values", c.values);
  way("past", c.past, value.past);
  way.flagged("pad", c.has_pad, c.pad, value.pad);
  return value;
}

}  // namespace

extern "C" {

phasor_status phasor_fill_from_offset(const phasor_tensor* out, int64_t offset, const phasor_execution* execution, phasor_error* error) {
  return call(error, [&] { must(fill_from_offset(positions_view_of("fill_from_offset", "out", out), offset, execution_of(execution))); });
}

phasor_status phasor_fill_from_offsets(const phasor_tensor* out, const phasor_tensor* offsets, const phasor_execution* execution,
                                       phasor_error* error) {
  constexpr const char* kWhere = "fill_from_offsets";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    must(fill_from_offsets(to, integers_of(kWhere, "offsets", offsets), execution_of(execution)));
  });
}

phasor_status phasor_fill_from_cu_seqlens(const phasor_tensor* out, const phasor_ragged* ragged, const phasor_execution* execution,
                                          phasor_error* error) {
  constexpr const char* kWhere = "fill_from_cu_seqlens";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    must(fill_from_cu_seqlens(to, ragged_of(kWhere, *need(kWhere, "ragged", ragged)), execution_of(execution)));
  });
}

phasor_mask_rule phasor_roberta_rule(int64_t padding_idx) {
  const std::int64_t before_last = std::min(padding_idx, INT64_MAX - 1);  // there is none behind the last
  const MaskRule rule{.first = roberta_rule(before_last).first, .masked = padding_idx};
  return {rule.first, rule.masked};
}

phasor_status phasor_fill_from_mask(const phasor_tensor* out, const phasor_attention_mask* mask, const phasor_mask_rule* rule,
                                    phasor_error* error) {
  constexpr const char* kWhere = "fill_from_mask";
  return call(error, [&] {
    const MaskRule by = rule == nullptr ? MaskRule{} : MaskRule{.first = rule->first, .masked = rule->masked};
    const PositionsView to = positions_view_of(kWhere, "out", out);
    must(fill_from_mask(to, attention_mask_of(kWhere, mask), by));
  });
}

phasor_status phasor_fill_from_pages(const phasor_tensor* out, const phasor_page_table* table, int64_t empty, phasor_error* error) {
  constexpr const char* kWhere = "fill_from_pages";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    must(fill_from_pages(to, page_table_of(kWhere, *need(kWhere, "table", table)), empty));
  });
}

phasor_status phasor_fill_slots(const phasor_slots_call* call_of, phasor_error* error) {
  constexpr const char* kWhere = "fill_slots";
  return call(error, [&] {
    const phasor_slots_call c = known(kWhere, "the call", need(kWhere, "the call", call_of));
    const PositionsView out = positions_view_of(kWhere, "out", c.out);
    const PageTable table = page_table_of(kWhere, c.table);
    const Positions at = positions_of(kWhere, "at", c.at);
    must(fill_slots(out, table, at, integers_of(kWhere, "cu_seqlens", c.cu_seqlens), execution_of(c.execution)));
  });
}

phasor_status phasor_fill_from_tree(const phasor_tensor* out, const phasor_draft_tree* tree, phasor_error* error) {
  constexpr const char* kWhere = "fill_from_tree";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    need(kWhere, "tree", tree);
    const DraftTree of{.parents = integers_of(kWhere, "parents", tree->parents), .offsets = integers_of(kWhere, "offsets", tree->offsets)};
    must(fill_from_tree(to, of));
  });
}

phasor_status phasor_fill_shard(const phasor_tensor* out, const phasor_shard* shard, phasor_error* error) {
  constexpr const char* kWhere = "fill_shard";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    must(fill_shard(to, shard_of(kWhere, shard)));
  });
}

phasor_status phasor_fill_shard_tokens(const phasor_tensor* out, const phasor_shard* shard, phasor_error* error) {
  constexpr const char* kWhere = "fill_shard_tokens";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    must(fill_shard_tokens(to, shard_of(kWhere, shard)));
  });
}

phasor_status phasor_fill_random(const phasor_tensor* out, const phasor_random_positions* random, phasor_error* error) {
  constexpr const char* kWhere = "fill_random";
  return call(error, [&] {
    const PositionsView to = positions_view_of(kWhere, "out", out);
    const phasor_random_positions c = known(kWhere, "random", need(kWhere, "random", random));
    must(fill_random(to, {.length = c.length, .seed = c.seed}));
  });
}

}  // extern "C"
