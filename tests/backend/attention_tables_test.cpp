// SPDX-License-Identifier: Apache-2.0
// The jobs of attention as a device sees them: their host tables, and the list of terms that is one, may lie elsewhere.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "backend/elsewhere.hpp"

namespace phasor::test {
namespace {

constexpr std::int64_t kWidth = 12;
const Extents kHeads = {1, kTokens, 2, kWidth};
const Extents kRows = {1, kTokens, 2, 1};

AttentionInputs inputs_of(Memory& m) { return {m.tensor(kHeads), m.tensor(kHeads), m.tensor(kHeads)}; }

/// Memory that a call asks for.
struct Blocks {
  Workspace workspace() {
    return {{}, [this](std::int64_t bytes) { return std::span(blocks.emplace_back(static_cast<std::size_t>(bytes))); }};
  }
  std::deque<std::vector<std::byte>> blocks;
};

/// A spec whose tensors are of the memory that it is given, as of each call.
struct NamedSpec {
  std::string name;
  std::function<AttentionSpec(Memory&)> make;
  std::function<TermGradient(Memory&)> gradient = nullptr;  // of its one term; none where it has none
};

/// Forward, backward and weights. Returns the tables of the forward, which the others have too.
int tables_of_attention(const NamedSpec& named) {
  Blocks blocks;
  const int forward = tables_of(named.name, [&](Memory& m) {
    const AttentionSpec spec = named.make(m);
    return attention(inputs_of(m), spec, {m.tensor(kHeads), m.tensor(kRows)}, blocks.workspace());
  });
  const int backward = tables_of(named.name + ", backward", [&](Memory& m) {
    const AttentionSpec spec = named.make(m);
    AttentionGradients gradients = {.q = m.tensor(kHeads), .k = m.tensor(kHeads), .v = m.tensor(kHeads)};
    if (named.gradient) gradients.terms = {named.gradient(m)};
    const AttentionSaved saved = {m.tensor(kHeads), m.tensor(kRows), m.tensor(kHeads)};
    return attention_backward(inputs_of(m), spec, saved, gradients, blocks.workspace());
  });
  const int weights = tables_of(named.name + ", weights", [&](Memory& m) {
    const AttentionSpec spec = named.make(m);
    return attention_weights(inputs_of(m), spec, {.query = 3}, {m.tensor({1, 5, 2, kTokens})}, blocks.workspace());
  });
  EXPECT_EQ(backward, forward) << named.name;
  EXPECT_EQ(weights, forward) << named.name;
  return forward;
}

AttentionSpec placed(Memory& m, std::int64_t axes = 1) {
  const Positions at = m.at(3, axes, kTokens);
  return {.visibility = {.mask = Mask::causal}, .query_positions = at, .key_positions = at};
}

TEST(HostTables, of_contents_may_lie_elsewhere) {
  for (const NamedRotary& r : rotations()) {
    const Rotary rotary = *Rotary::make(r.spec);
    if (r.axes == 2) continue;  // ladders of three heads
    const auto make = [&](Memory& m) {
      AttentionSpec spec = placed(m, r.axes);
      spec.content = RotaryContent{rotary};
      return spec;
    };
    EXPECT_EQ(tables_of_attention({r.name, make}), 4 * r.tables);  // of q and of k, there and back
  }
  const Rotary plain = *Rotary::make({.head_dim = kWidth});
  for (const AttentionContent& content :
       {AttentionContent(RotaryContent{plain, KeyState::unrotated, LeakyReRope{5, 3}}),
        AttentionContent(RotaryContent{plain, KeyState::unrotated, DualChunk{16, 4}}), AttentionContent(XposContent{plain})}) {
    const auto make = [&](Memory& m) {
      AttentionSpec spec = placed(m);
      spec.content = content;
      return spec;
    };
    EXPECT_EQ(tables_of_attention({"map or xPos", make}), 12);
  }
  EXPECT_EQ(tables_of_attention({"none", [](Memory& m) { return placed(m); }}), 0);
}

TEST(HostTables, of_terms_may_lie_elsewhere) {
  for (const NamedBias& named : every_bias()) {
    const Bias bias = *Bias::make(named.spec);
    if (bias.heads() < 2 || job::window_of(named.spec) != nullptr) continue;
    const auto own = [&](Memory& m) {
      AttentionSpec spec = placed(m);
      spec.terms = {BiasTerm{.bias = bias}};
      return spec;
    };
    const auto given = [&](Memory& m) {
      AttentionSpec spec = placed(m);
      spec.terms = {BiasTerm{.bias = bias, .parameters = m.tensor({1, 1, 1, bias.parameter_count()})}};
      return spec;
    };
    const auto gradient = [&](Memory& m) { return TermGradient{.parameters = m.sums(bias.parameter_count())}; };
    const bool learns = bias.parameter_count() > 0;
    EXPECT_GE(tables_of_attention({named.name, own, learns ? std::function<TermGradient(Memory&)>(gradient) : nullptr}), 2);
    if (!learns) continue;
    EXPECT_GE(tables_of_attention({named.name + ", given", given, gradient}), 2);
  }
  const Bias buckets = *Bias::make(T5Buckets{.heads = 2, .buckets = 8, .max_distance = 20});
  for (const TableSide side : {TableSide::query, TableSide::key}) {
    const auto make = [&](Memory& m) {
      AttentionSpec spec = placed(m);
      spec.terms = {TableTerm{.side = side, .table = m.tensor({1, 8, 2, kWidth}), .rows = buckets}};
      return spec;
    };
    const auto gradient = [](Memory& m) { return TermGradient{.table = m.tensor({1, 8, 2, kWidth})}; };
    EXPECT_EQ(tables_of_attention({"buckets", make, gradient}), 2);
  }
}

TEST(HostTables, of_parts_may_lie_elsewhere) {
  EXPECT_EQ(tables_of("merge",
                      [](Memory& m) {
                        AttentionPart parts[] = {{m.tensor(kHeads), m.tensor(kRows)}, {m.tensor(kHeads), m.tensor(kRows)}};
                        return merge_attention(parts, {m.tensor(kHeads), m.tensor(kRows)});
                      }),
            1);
}

}  // namespace
}  // namespace phasor::test
