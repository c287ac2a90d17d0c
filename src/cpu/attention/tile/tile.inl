// SPDX-License-Identifier: Apache-2.0
// What the loops of attention give to a term, and what a term may do with it. Included once in each target's namespace. A family of terms
// overloads the functions below for its job (terms/<family>.inl, included before the loops); what it does not overload does nothing.

/// A tile of queries of one head.
template <class T>
struct RowTile {
  const attend::AttentionJob* job;
  const attend::TokenTile* tile;
  std::int64_t batch;
  std::int64_t head;
  const T* q;                     // as given, not scaled: (tile->count, padded_width), row stride padded_width
  const std::int64_t* positions;  // of its queries
};

/// A tile of scores, or of what belongs to scores, row stride kKeyTile. Rows: rows.tile->count; columns: keys->count are real, the rest is
/// padding that a term may write anything finite to.
template <class T>
struct ScoreTile {
  const RowTile<T>* rows;
  const attend::TokenTile* keys;
  const std::int64_t* key_positions;
  T* scores;
  bool regular;  // both sides consecutive: the distance of (row i, column j) is distance + i - j
  std::int64_t distance;
  std::int64_t min_distance;  // of the tile, also where it is not regular
  std::int64_t max_distance;
  bool partial = false;  // regular, and distances or a short tile hide some of it: loops leave out what nobody sees (slab_at)
};

/// Room for a term to make what it adds in (AddedRows), where each row begins one place before the row above it.
constexpr std::int64_t kAddedLine = attend::kQueryTile + attend::kKeyTile;
static_assert(kAddedLine <= attend::kQueryTile * attend::kKeyTile);  // the loop lends its second tile of scores

// Forward, in this order for a tile of queries: term_begin once; for every visible tile of keys, from the last to the first, term_added, or
// where that gives nothing term_add (before soft cap and mask), then, when the maximum of rows has changed, term_rescale, then term_take
// with the probabilities (not yet divided by their sum; 0 where masked); term_finish once, when `out` holds the sum of p v, before it is
// divided. `scratch` is the term's own, as many T as its forward_scratch (cpu/attention/host/terms.hpp) asked for.
template <class T, class Term>
void term_begin(const Term& /*term*/, const RowTile<T>& /*rows*/, T* /*scratch*/) {}
/// Instead of term_add, for tiles that are seen whole and where the term can say what it adds: the softmax, which reads every score, adds
/// it. `line`: kAddedLine values.
template <class T, class Term>
AddedRows<T> term_added(const Term& /*term*/, const ScoreTile<T>& /*tile*/, T* /*scratch*/, T* /*line*/) {
  return {};
}
template <class T, class Term>
void term_add(const Term& /*term*/, const ScoreTile<T>& /*tile*/, T* /*scratch*/) {}
/// factors: one per row; 1 where nothing changed.
template <class T, class Term>
void term_rescale(const Term& /*term*/, const RowTile<T>& /*rows*/, const T* /*factors*/, T* /*scratch*/) {}
/// Whether a family overloads term_rescale or term_take: then no row may be left out of the softmax.
template <class Term>
constexpr bool takes_probabilities(const Term& /*term*/) {
  return false;
}
template <class T, class Term>
void term_take(const Term& /*term*/, const ScoreTile<T>& /*probabilities*/, T* /*scratch*/) {}
/// out: (count, padded_value_width).
template <class T, class Term>
void term_finish(const Term& /*term*/, const RowTile<T>& /*rows*/, T* /*out*/, T* /*scratch*/) {}

/// Certified skipping: whether the key tile of this number and those before it cannot matter, given the maxima of rows so far.
template <class T, class Term>
bool term_ends(const Term& /*term*/, const RowTile<T>& /*rows*/, const T* /*maximum*/, std::int64_t /*key_tile*/) {
  return false;
}

/// What the backward has beside the tile.
template <class T>
struct BackwardTile {
  const T* out_gradient;  // (count, padded_value_width) of the rows
  T* q_gradient;          // (count, padded_width): by q as given, to be added to; null: not wanted
  T* k_gradient;          // (kKeyTile, padded_width) of the key tile: by k as given, to be added to; null: not wanted
  std::int64_t slot;      // which of the term's sums this task adds to; see slot_of
};
/// Sums of terms are kept apart by group of sequences, part and head, and added up in that order at the end: the same bits for any threads.
inline std::int64_t slot_of(const attend::AttentionJob& job, std::int64_t group, std::int64_t part, std::int64_t head) {
  return (group * job.backward.parts + part) * job.shape.heads + head;
}

/// A slot's sums of a table: its rows from `first` to `end` - 1. No other row gets anything but zeros: those are left out.
template <class T>
struct SlotTable {
  T* rows = nullptr;  // of row `first`; null: not wanted
  std::int64_t first = 0;
  std::int64_t end = 0;
};
template <class T>
SlotTable<T> slot_table(const attend::AttentionJob& job, void* sums, const attend::SlotRows* slot_rows, std::int64_t slot,
                        std::int64_t padded_width) {
  if (sums == nullptr) return {};
  const attend::SlotRows& at = slot_rows[slot / job.shape.heads];
  return {static_cast<T*>(sums) + at.offset + slot % job.shape.heads * at.count * padded_width, at.first, at.first + at.count};
}

// Backward, for a tile of queries: term_backward_begin once (it usually is term_begin; k_gradient is null); for every visible tile of keys
// of the task's part, from the first to the last: term_add; term_backward_values adds <do_i, table[row]> to dp; term_backward_take gets the
// probabilities (divided); term_gradient gets the gradient by the scores before the soft cap (0 where masked);
// term_backward_finish once (k_gradient is null). Where the gradient by v alone is wanted, term_backward_values and term_gradient are left
// out.
template <class T, class Term>
void term_backward_begin(const Term& term, const RowTile<T>& rows, const BackwardTile<T>& /*backward*/, T* scratch) {
  term_begin(term, rows, scratch);
}
template <class T, class Term>
void term_backward_values(const Term& /*term*/, const ScoreTile<T>& /*dp*/, const BackwardTile<T>& /*backward*/, T* /*scratch*/) {}
template <class T, class Term>
void term_backward_take(const Term& /*term*/, const ScoreTile<T>& /*probabilities*/, const BackwardTile<T>& /*backward*/, T* /*scratch*/) {}
template <class T, class Term>
void term_gradient(const Term& /*term*/, const ScoreTile<T>& /*ds*/, const BackwardTile<T>& /*backward*/, T* /*scratch*/) {}
template <class T, class Term>
void term_backward_finish(const Term& /*term*/, const RowTile<T>& /*rows*/, const BackwardTile<T>& /*backward*/, T* /*scratch*/) {}
