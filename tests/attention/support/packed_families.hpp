// SPDX-License-Identifier: Apache-2.0
// Calls of many packed sequences with a term of every family that keeps sums, and how much memory those may take.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "attention/support/problems.hpp"
#include "phasor/attention.hpp"

namespace phasor::test {

constexpr std::int64_t kWidth = 16;

inline std::vector<float> random_floats(std::int64_t count, std::uint64_t seed) {
  Numbers random(seed);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& x : result) x = static_cast<float>(random.uniform());
  return result;
}

/// Sequences of these lengths in turn; the last one is as long as the tables.
constexpr std::int64_t kLengths[] = {0, 1, 2, 5, 16, 31, 3, 70};
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kLongTable = 1024;  // rows on either side

/// A call of many sequences with one term, whose tables are per head, and the gradients of those.
struct Packed {
  explicit Packed(std::int64_t sequences, bool scattered = false) {
    for (std::int64_t n = 0; n < sequences; ++n) starts.push_back(starts.back() + kLengths[static_cast<std::size_t>(n) % 8]);
    starts.push_back(starts.back() + kLongTable);
    tokens = starts.back();
    inputs = random_floats(3 * tokens * kHeads * kWidth, 1);
    for (int i = 0; i < 3; ++i) in[i] = view(static_cast<const float*>(inputs.data()) + i * size(), {1, tokens, kHeads, kWidth});
    gradient.resize(static_cast<std::size_t>(3 * size()));
    gradients.q = view(gradient.data(), {1, tokens, kHeads, kWidth});
    gradients.k = view(gradient.data() + size(), {1, tokens, kHeads, kWidth});
    gradients.v = view(gradient.data() + 2 * size(), {1, tokens, kHeads, kWidth});
    spec.visibility.query_starts = spec.visibility.key_starts = starts;
    if (!scattered) return;
    for (std::int64_t t = 0; t < tokens; ++t) positions.push_back(t * 7919 % (3 * kLongTable));
    spec.query_positions = spec.key_positions =
        Positions{.data = positions.data(), .type = PositionType::i64, .shape = {1, 1, tokens}, .strides = {0, 0, 1}};
  }
  std::int64_t size() const { return tokens * kHeads * kWidth; }
  AttentionInputs call() const { return {in[0], in[1], in[2]}; }
  std::int64_t backward_bytes() const {
    const Result<std::int64_t> bytes = attention_backward_workspace(call(), spec, gradients);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    return bytes.ok() ? *bytes : 0;
  }
  /// What the gradients of terms take.
  std::int64_t term_bytes() const {
    Packed without = *this;
    without.gradients.terms.clear();
    return backward_bytes() - without.backward_bytes();
  }

  /// A table of some rows for the term, and where its gradient goes.
  ConstTensorView rows(std::int64_t count, std::int64_t width = kWidth) {
    table.resize(std::max(table.size(), static_cast<std::size_t>(count * kHeads * width)), 0.25F);
    return view(static_cast<const float*>(table.data()), {1, count, kHeads, width});
  }
  TensorView rows_gradient(std::int64_t count, std::int64_t width = kWidth) {
    std::vector<float>& to = table_gradients[table_gradients[0].empty() ? 0 : 1];
    to.assign(static_cast<std::size_t>(count * kHeads * width), 0);
    return view(to.data(), {1, count, kHeads, width});
  }
  Positions segments() {
    positions.resize(static_cast<std::size_t>(tokens));
    return {.data = positions.data(), .type = PositionType::i64, .shape = {1, 1, tokens}, .strides = {0, 0, 1}};
  }

  std::vector<std::int64_t> starts = {0};
  std::int64_t tokens = 0;
  std::vector<float> inputs;
  std::vector<float> gradient;
  std::vector<std::int64_t> positions;
  std::vector<float> table;
  std::vector<float> table_gradients[2];
  std::vector<double> parameters;
  ConstTensorView in[3];
  AttentionSpec spec;
  AttentionGradients gradients;
};

struct Family {
  const char* name;
  std::int64_t width;    // of a row
  std::int64_t rows;     // of the table
  bool by_distance;      // a sequence reaches as many rows as it has distances; else any
  bool takes_positions;  // any
  void (*add)(Packed& call);
  bool is_bias = false;  // its parameters are summed by diagonals with margins, then chained in float64
};

inline void add_table(Packed& call, TableSide side, const TableRows& rows) {
  const std::int64_t count = std::holds_alternative<Bias>(rows) ? std::get<Bias>(rows).rows() : 2 * kLongTable + 1;
  call.spec.terms = {TableTerm{.side = side, .table = call.rows(count), .rows = rows}};
  call.gradients.terms = {{.table = call.rows_gradient(count)}};
}
inline const ClipRows kLongClip = {kLongTable, kLongTable};
constexpr std::int64_t kBuckets = 512;
constexpr std::int64_t kUnits = 1024;

/// Sums of float64: as many as parameters, or three for each of the segments that units make of a line. Every unit has a knot.
inline void add_fire(Packed& call, const std::vector<std::int64_t>& widths) {
  Mlp mlp{.widths = widths};
  for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    mlp.parameters.insert(mlp.parameters.end(), static_cast<std::size_t>(widths[layer] * widths[layer + 1]), 0.5);
    for (std::int64_t unit = 0; unit < widths[layer + 1]; ++unit) mlp.parameters.push_back(-static_cast<double>(unit) / 2048);
  }
  const Result<Bias> fire = Bias::make(Fire{.mlp = mlp, .length = 2 * kLongTable});
  ASSERT_TRUE(fire.ok()) << fire.status().message();
  call.parameters.resize(static_cast<std::size_t>(fire->parameter_count()));
  call.spec.terms = {BiasTerm{.bias = *fire}};
  call.gradients.terms = {{.parameters = list_view(call.parameters)}};
}

inline const Family kFamilies[] = {
    {"query table", kWidth, 2 * kLongTable + 1, true, true, [](Packed& call) { add_table(call, TableSide::query, kLongClip); }},
    {"key table", kWidth, 2 * kLongTable + 1, true, true, [](Packed& call) { add_table(call, TableSide::key, kLongClip); }},
    {"value table", kWidth, 2 * kLongTable + 1, true, true, [](Packed& call) { add_table(call, TableSide::value, kLongClip); }},
    {"query buckets", kWidth, 2 * kLongTable + 1, true, true,
     [](Packed& call) {
       add_table(call, TableSide::query, *Bias::make(DebertaBuckets{.heads = 1, .buckets = kBuckets, .max_distance = kLongTable}));
     }},
    {"key buckets", kWidth, 2 * kBuckets, true, true,
     [](Packed& call) {
       add_table(call, TableSide::key, *Bias::make(DebertaBuckets{.heads = 1, .buckets = kBuckets, .max_distance = kLongTable}));
     }},
    {"learned diagonal", 1, 2 * kLongTable + 1, true, true,
     [](Packed& call) {
       call.parameters.resize(static_cast<std::size_t>(kHeads * (2 * kLongTable + 1)));
       call.spec.terms = {
           BiasTerm{.bias = *Bias::make(ShawClip{.heads = kHeads, .left = kLongTable, .right = kLongTable, .table = call.parameters})}};
       call.gradients.terms = {{.parameters = list_view(call.parameters)}};
     },
     true},
    {"FIRE, segments", 1, 6 * (kUnits + 1), false, true, [](Packed& call) { add_fire(call, {1, kUnits, kHeads}); }, true},
    {"FIRE, two layers", 1, 2 * (2 * 64 + 65 * 64 + 65 * kHeads + 2), false, true,
     [](Packed& call) { add_fire(call, {1, 64, 64, kHeads}); }, true},
    {"segments", kWidth, 3, false, true,
     [](Packed& call) {
       call.spec.terms = {SegmentTerm{.table = call.rows(2), .query_segments = call.segments(), .key_segments = call.segments()}};
       call.gradients.terms = {{.table = call.rows_gradient(2)}};
     }},
    {"grid", 1, 91 * 91, false, false,
     [](Packed& call) {
       call.spec.terms = {GridTerm{.window = {46, 46}, .table = call.rows(91 * 91, 1)}};
       call.gradients.terms = {{.table = call.rows_gradient(91 * 91, 1)}};
     }},
    {"decomposed grid", 2 * kWidth, 2 * kLongTable - 1, false, false,
     [](Packed& call) {
       const Window line = {kLongTable, 1};
       call.spec.terms = {
           DecomposedTerm{.query_grid = line, .key_grid = line, .rows_h = call.rows(2 * kLongTable - 1), .rows_w = call.rows(1)}};
       call.gradients.terms = {{.table = call.rows_gradient(2 * kLongTable - 1), .second = call.rows_gradient(1)}};
     }},
    {"CoPE", kWidth, kLongTable, false, false,
     [](Packed& call) {
       call.spec.visibility.mask = Mask::causal;
       call.spec.terms = {CopeTerm{.table = call.rows(kLongTable)}};
       call.gradients.terms = {{.table = call.rows_gradient(kLongTable)}};
     }},
};

/// A sequence has as many rows of sums as distances, fewer than it has tokens, queries and keys alike; groups of sequences that could
/// reach more have at most four per token, or are as few as sixteen tasks need. A diagonal has margins, and is
/// chained to parameters in float64, of all sequences at once. And a few words per sequence.
inline std::int64_t most_term_bytes(const Packed& call, const Family& family, bool scattered) {
  const auto sequences = static_cast<std::int64_t>(call.starts.size()) - 1;
  const std::int64_t few_groups = 16 / kHeads + 1;
  const std::int64_t margins = family.is_bias ? 336 * sequences : 32;
  std::int64_t rows = 2 * call.tokens + margins;
  if (!family.by_distance || scattered) rows = 4 * 2 * call.tokens + few_groups * (family.rows + 256) + margins;
  const std::int64_t chained = family.is_bias ? 8 * (kHeads + 1) * family.rows : 0;
  return kHeads * rows * family.width * 4 + chained + 256 * sequences + 4096;
}

}  // namespace phasor::test
