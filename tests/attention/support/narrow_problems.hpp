// SPDX-License-Identifier: Apache-2.0
// Problems in 16 bits, their tables too, as models are trained: what tensor cores of a GPU take. Heads are of multiples of 8 channels.
#pragma once

#include <string>
#include <vector>

#include "attention/support/held.hpp"

namespace phasor::test {

struct NarrowProblem {
  std::string name;
  ref::Problem problem;
};

constexpr ref::Shape kNarrow{.batch = 2, .queries = 70, .keys = 131, .heads = 2, .key_heads = 1, .width = 24, .value_width = 16};
constexpr ref::Shape kNarrowWide{.batch = 1, .queries = 70, .keys = 90, .heads = 2, .key_heads = 2, .width = 72, .value_width = 40};

/// No terms, every mask.
std::vector<NarrowProblem> masked_problems(const ref::Shape& s);
/// Tables that clip within a tile, within the sequence, and not at all; rows that heads share; both sides; shifts; biases by distance.
std::vector<NarrowProblem> term_problems(const ref::Shape& s);
/// Which kernels take all of a list: the forward with tables beside scores in registers (at most two tables, one of them alone where
/// queries have features of their own for it), or the backward (any number of tables, none of such features).
enum class TablesBy { forward, backward };
/// Tables of scores over so many tokens that whole tiles read one row, ahead and behind, and some a few: buckets and clips of queries and
/// keys, shifts, rows of heads; causal, in a window, ragged, heads that share keys, biases beside. Of the forward soft caps, sinks, every
/// mask, and parts of keys, too.
std::vector<NarrowProblem> long_table_problems(TablesBy by);
/// Many terms at once, with masks, sinks, and in a ragged batch.
std::vector<NarrowProblem> mixed_problems();
/// Soft caps from far below to far above the scores: without terms, with many, with tables of values; masks, sinks.
std::vector<NarrowProblem> capped_problems(const ref::Shape& s);
/// Dropout: without terms, with many, with a cap; masks, sinks, more queries than keys, a ragged batch, heads of a larger call.
std::vector<NarrowProblem> dropped_problems(const ref::Shape& s);
/// Tables that are added to values: alone, beside one of queries, shared by heads or not, with one row, with a clip within a tile, within
/// the sequence and beyond it; with masks, biases, other tables, sinks and in a ragged batch.
std::vector<NarrowProblem> value_problems(const ref::Shape& s);
/// The same with so many tokens that whole tiles are beyond the clip, on both sides, and some tiles in the middle of a sequence are not.
std::vector<NarrowProblem> long_value_problems();

// ---- Features of their own ----

/// Features of 8 to 64 channels in the place of queries, rows of one distance, of some and of all, zeros outside; scales; biases and a soft
/// cap beside, sinks, dropout, every mask, a ragged batch.
std::vector<NarrowProblem> feature_problems(const ref::Shape& s);
/// Lengths at the ends of tiles, fewer queries than keys and more; heads that share keys; so many keys that whole tiles have no row.
std::vector<NarrowProblem> feature_lengths();
/// All of that as it comes: number `seed`.
NarrowProblem random_feature_problem(std::uint64_t seed);

// ---- CoPE ----

/// Tables of one row, of few, of as many as the paper has and of more than there are keys; shared by heads or not; sinks; a ragged batch.
std::vector<NarrowProblem> cope_problems(const ref::Shape& s);
/// Every mask, made causal: CoPE wants that.
std::vector<NarrowProblem> masked_cope_problems(const ref::Shape& s);
/// Lengths of one token and at the ends of tiles, more queries than keys (some see nothing) and fewer.
std::vector<NarrowProblem> cope_lengths();
/// Gates that are one half: counts are whole numbers or end in one half, and some are the last row exactly. Gates that are nearly 0, so
/// that nothing is counted, or nearly 1.
std::vector<NarrowProblem> cope_clips();
/// So many keys that whole tiles are beyond the last row, for every query and for some.
std::vector<NarrowProblem> long_cope_problems();

/// While it lives, what schemes learn is in the dtype of the call.
class NarrowParameters {
 public:
  NarrowParameters() { parameters_are_narrow = true; }
  NarrowParameters(const NarrowParameters&) = delete;
  NarrowParameters& operator=(const NarrowParameters&) = delete;
  ~NarrowParameters() { parameters_are_narrow = false; }
};

}  // namespace phasor::test
