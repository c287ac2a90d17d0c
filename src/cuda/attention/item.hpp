// SPDX-License-Identifier: Apache-2.0
// What threads do by themselves before and after the blocks of attention, an item each.
#pragma once

#include "cuda/attention/backward/items.hpp"
#include "cuda/attention/forward.hpp"
#include "plan/position_map.hpp"

namespace phasor::cuda::attention {

enum class ItemKind : std::uint8_t {
  parameters,
  diagonal,
  positions,
  copy,
  round,  // numbers of a copy in float32, to those of another dtype
  merge,
  clear,      // of a backward, from here on: sums
  delta,      // what the softmax subtracts
  sink_rows,  // the gradient of sinks by some rows
  add_parts,  // of a chunk of keys, to the first part
  add_slots,  // of blocks, to a tensor
  add_sums,   // of the call, to a tensor
  store       // sums, as a tensor
};

struct ItemWork {
  ItemKind kind = ItemKind::parameters;
  int64_t count = 0;
  int term = 0;                     // parameters, diagonal
  MapSide side = MapSide::queries;  // positions
  int pass = 0;
  job::MapJob map = {};
  PositionsView to = {};  // (1, B or 1, T)
  ConstTensorView from = {};
  TensorView copy = {};
  DType rounded = DType::f32;  // round
  SumWork sum = {};
};

/// The sequence of a token of a batch row; `of` says where sequences begin.
PHASOR_HD inline int64_t sequence_of(const AttentionWork& work, const Integers& of, int64_t batch, int64_t token) {
  if (!is_varlen(work)) return batch;
  return last_begun(work.sequences, token, [&](int64_t s) { return at_list(of, s); });
}

PHASOR_HD inline plan::PassPosition mapped_position(const job::MapJob& map, const MapPass& pass, int64_t at) {
  switch (map.kind) {
    case job::MapKind::rerope:
      return plan::position_in(ReRope{map.window}, pass, at);
    case job::MapKind::leaky_rerope:
      return plan::position_in(LeakyReRope{map.window, map.factor}, pass, at);
    case job::MapKind::self_extend:
      return plan::position_in(SelfExtend{map.window, map.group}, pass, at);
    case job::MapKind::dual_chunk:
      return plan::position_in(DualChunk{map.chunk, map.local, map.critical}, pass, at);
    case job::MapKind::none:
      break;
  }
  return {.base = at};
}

/// Where a token is rotated.
PHASOR_HD inline void write_position(const AttentionWork& work, const ItemWork& item, int64_t n) {
  const int64_t tokens = item.to.shape[2];
  const int64_t batch = n / tokens;
  const int64_t token = n % tokens;
  const bool queries = item.side == MapSide::queries;
  const Sequence s = sequence_at(work, sequence_of(work, queries ? work.see.query_starts : work.see.key_starts, batch, token));
  const int64_t at = queries ? query_position(work, s, token) : key_position(work, s, token);
  const plan::PassPosition position = mapped_position(item.map, {item.pass, item.side}, at);
  if (item.to.type == PositionType::f64) {
    static_cast<double*>(item.to.data)[n] = position.whole ? static_cast<double>(position.base + position.n) : position.fraction;
  } else {
    static_cast<int64_t*>(item.to.data)[n] = position.base + position.n;
  }
}

/// Element n of a tensor, widened; the copy is contiguous.
template <class T>
PHASOR_HD inline void copy_element(const ItemWork& item, int64_t n) {
  const Extents& s = item.from.shape;
  const int64_t token = n / s[3] / s[2];
  static_cast<T*>(item.copy.data)[n] = element_at<T>(item.from, token / s[1], token % s[1], n / s[3] % s[2], n % s[3]);
}

/// Element n of a contiguous copy.
PHASOR_HD inline void round_element(const ItemWork& item, int64_t n) {
  float& x = static_cast<float*>(item.copy.data)[n];
  x = static_cast<float>(rounded_to(item.rounded, x));
}

/// Of a backward: what one thread does for one sum, of which there are as many as elements. They have a kernel of their own, with few
/// registers.
PHASOR_HD inline bool is_of_sums(ItemKind kind) { return kind >= ItemKind::clear; }
template <class T>
PHASOR_HD inline void do_sum(const AttentionWork& work, const ItemWork& item, int64_t n) {
  switch (item.kind) {
    case ItemKind::clear:
      static_cast<T*>(work.backward.sums)[n] = 0;
      return;
    case ItemKind::delta:
      return write_delta<T>(work, n);
    case ItemKind::sink_rows:
      return add_sink_rows<T>(work, item.sum, n);
    case ItemKind::add_parts:
      return add_parts<T>(work, item.sum, n);
    case ItemKind::add_slots:
      return add_slots<T>(work, item.sum, n);
    case ItemKind::add_sums:
      return add_sums<T>(work, item.sum, n);
    case ItemKind::store:
      return store_sums<T>(work, item.sum, n);
    default:
      return;
  }
}
template <class T>
PHASOR_HD inline void do_item(const AttentionWork& work, const ItemWork& item, int64_t n) {
  switch (item.kind) {
    case ItemKind::parameters:
      return widen_parameter(work.terms[item.term].bias, n);
    case ItemKind::diagonal:
      return fill_diagonal<T>(work.terms[item.term].bias, item.count / work.terms[item.term].bias.distances, n);
    case ItemKind::positions:
      return write_position(work, item, n);
    case ItemKind::copy:
      return copy_element<T>(item, n);
    case ItemKind::round:
      return round_element(item, n);
    case ItemKind::merge:
      return merge_splits<T>(work, n);
    default:
      return;
  }
}

}  // namespace phasor::cuda::attention
