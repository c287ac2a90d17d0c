// SPDX-License-Identifier: Apache-2.0
#include "cuda/attention/mma/call.hpp"

#include <algorithm>
#include <cstdint>

#include "cuda/attention/bias.hpp"
#include "cuda/attention/mma/kernels.hpp"
#include "cuda/attention/mma/tiles.hpp"
#include "cuda/attention/place.hpp"

namespace phasor::cuda::attention::mma {
namespace {

/// Tokens of a row are below this, and blocks below their own bound: numbers of the kernels have 32 bits.
constexpr int64_t kMostTokens = int64_t{1} << 28;
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
constexpr int kMostWidth = 256;

const char* why_not(const TermWork& term, DType dtype) {
  if (term.use == TermUse::cope) return term.cope.table.dtype != dtype ? "a table of another dtype" : nullptr;
  if (term.use == TermUse::bias && term.bias.distances == 0 && !has_short_formula(term.bias.bias)) {
    return "a bias that is computed at every score, and neither ALiBi nor a table";
  }
  if (term.use != TermUse::table || term.table.use == RowUse::number) return nullptr;
  const TableWork& table = term.table;
  if (table.table.dtype != dtype || table.features.dtype != dtype) return "a table of another dtype";
  if (table.table.shape[3] > kMostWidth) return "a table of more than 256 channels";
  const bool apart = table.use == RowUse::value && !is_in_pieces(table.table);
  return apart ? "a value-side table whose channels do not lie in aligned pieces of 16 bytes" : nullptr;
}

/// Rows by distance that q, k or weights meet, where copies can bring them; or features of their own for queries.
bool is_by_distance(const TermWork& term) {
  const TableWork& table = term.table;
  const bool has_rows = term.use == TermUse::table && table.use != RowUse::number && table.kind == RowKind::distance;
  const bool meets = !table.own_features || (table.use == RowUse::query && is_in_pieces(table.features));
  return has_rows && meets && is_in_pieces(table.table);
}

int64_t widest(const AttentionWork& work) {
  int64_t width = std::max(work.shape.width, work.shape.value_width);
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::table && term.table.use != RowUse::number) width = std::max(width, term.table.table.shape[3]);
  }
  return width;
}

/// Scores stay in registers at positions of tokens without dropout, with at most one bias by distance without a gate, and at most two
/// tables by distance, at most one of them of values.
ScoresIn scores_in(const AttentionWork& work) {
  if (has_cope(work)) return ScoresIn::counted;
  const auto count = [&](const auto& is_one) { return static_cast<int>(std::count_if(work.terms, work.terms + work.term_count, is_one)); };
  const int biases =
      count([](const TermWork& term) { return term.use == TermUse::bias && term.bias.distances > 0 && term.bias.gate.data == nullptr; });
  const int tables = count(is_by_distance);
  const int valued = count(is_of_values);
  const int featured = count([](const TermWork& term) { return is_by_distance(term) && term.table.own_features; });
  const ScoresIn otherwise = valued > 0 ? ScoresIn::shared_with_values : ScoresIn::shared;
  const bool at_tokens = !work.has_positions[0] && !work.has_positions[1] && !work.dropout.present;
  if (!at_tokens || biases > 1 || tables > kMostTables || valued > 1 || biases + tables < work.term_count || featured * tables > 1)
    return otherwise;
  if (tables > 0) return widest(work) <= kMostTabledWidth ? ScoresIn::tabled : otherwise;
  if (work.content_shift.data != nullptr) return ScoresIn::shared;
  return work.term_count == 0 && work.softcap == 0 && work.scale > 0 ? ScoresIn::registers : ScoresIn::changed_in_registers;
}

/// CoPE counts by itself, in registers, at the positions of tokens.
const char* why_not_cope(const AttentionWork& work) {
  const ConstTensorView& table = work.terms[0].cope.table;
  if (work.term_count > 1) return "CoPE beside other terms";
  if (work.has_positions[0] || work.has_positions[1]) return "CoPE at given positions";
  if (work.content_shift.data != nullptr) return "CoPE with a shift of the content";
  if (work.dropout.present) return "CoPE with dropout";
  if (!is_in_pieces(table)) return "a table whose channels do not lie in aligned pieces of 16 bytes";
  return fits_counted(cut_of(work), table.shape[1]) ? nullptr : "CoPE with a table of more rows than shared memory has room for";
}

/// Rotated queries and keys are there once, and q and k as they are given are not.
const char* why_not_rotated(const AttentionWork& work) {
  if (work.content_count != 1) return "queries and keys that are rotated to several positions";
  if (work.decay.present) return "rotated queries and keys that decay";
  for (int t = 0; t < work.term_count; ++t) {
    const TermWork& term = work.terms[t];
    if (term.use == TermUse::cope) return "CoPE beside queries that are rotated here";
    const bool meets = term.use == TermUse::table && (term.table.use == RowUse::query || term.table.use == RowUse::key);
    if (meets && !term.table.own_features) return "a table that meets queries or keys, beside those that are rotated here";
  }
  return nullptr;
}

}  // namespace

bool is_rotated_here(const AttentionWork& work) { return work.contents[0].q.data != work.q.data || work.contents[0].k.data != work.k.data; }

bool has_cope(const AttentionWork& work) {
  return std::any_of(work.terms, work.terms + work.term_count, [](const TermWork& term) { return term.use == TermUse::cope; });
}

bool is_in_pieces(const ConstTensorView& v) {
  constexpr int64_t kPiece = 8;
  if (v.shape[3] % kPiece != 0 || v.strides[3] != 1 || reinterpret_cast<std::uintptr_t>(v.data) % 16 != 0) return false;
  return std::all_of(v.strides.begin(), v.strides.begin() + 3, [](int64_t stride) { return stride % kPiece == 0; });
}

Cut cut_of(const AttentionWork& work) {
  const int64_t width = widest(work);
  const int* const fits = std::find_if(std::begin(kWidths), std::end(kWidths) - 1, [&](int w) { return w >= width; });
  return cut_for(*fits, scores_in(work));
}

std::size_t shared_bytes_of(const AttentionWork& work, std::size_t most, std::size_t table_bytes) {
  const Cut cut = cut_of(work);
  if (cut.scores == ScoresIn::counted) return static_cast<std::size_t>(counted_bytes(cut, work.terms[0].cope.table.shape[1]));
  const TableList tables = tables_of(work);
  return cut.scores == ScoresIn::tabled && tables.count == 1 && !tables.own_features ? most - table_bytes : most;
}

int64_t block_count(const AttentionWork& work, const Cut& cut) {
  return most_query_tiles(work, cut.queries) * work.shape.heads * work.partial.splits;
}

const char* why_not(const AttentionWork& work) {
  const DType dtype = work.q.dtype;
  if (dtype != DType::bf16 && dtype != DType::f16) return "tensors of more than 16 bits";
  if (work.outputs.out.dtype != dtype && work.outputs.out.dtype != DType::f32) return "outputs of another dtype";
  if (work.k.dtype != dtype || work.v.dtype != dtype) return "keys or values of another dtype";
  for (const ConstTensorView& v : {work.q, work.k, work.v}) {
    if (!is_in_pieces(v)) return "channels that do not lie in aligned pieces of 16 bytes";
    if (v.shape[3] < 1 || v.shape[3] > kMostWidth) return "heads of no channels, or of more than 256";
    if (v.shape[0] < 1 || v.shape[1] < 1 || v.shape[1] >= kMostTokens || v.shape[2] < 1) return "an empty tensor, or one of 2^28 tokens";
  }
  if (is_rotated_here(work)) {
    if (const char* const why = why_not_rotated(work); why != nullptr) return why;
  }
  for (int t = 0; t < work.term_count; ++t) {
    if (const char* const why = why_not(work.terms[t], dtype); why != nullptr) return why;
  }
  if (has_cope(work)) {
    if (const char* const why = why_not_cope(work); why != nullptr) return why;
  }
  if (has_values(work) && (work.has_positions[0] || work.has_positions[1])) return "a value-side table at given positions";
  return block_count(work, cut_of(work)) > kMostBlocks ? "more than 2^31 blocks" : nullptr;
}

}  // namespace phasor::cuda::attention::mma
