// SPDX-License-Identifier: Apache-2.0
// Gradients that are asked of a term: those that it does not have are refused, whatever the term.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attention/support/bridge.hpp"
#include "attention/support/problems.hpp"

namespace phasor::test {
namespace {

constexpr ref::Shape kShape{.batch = 1, .queries = 8, .keys = 8, .heads = 2, .key_heads = 1, .width = 6, .value_width = 3};

struct Field {
  const char* name;
  TensorView TermGradient::* view;  // null: parameters
};
constexpr Field kFields[] = {{"table", &TermGradient::table},
                             {"second", &TermGradient::second},
                             {"features", &TermGradient::features},
                             {"shift", &TermGradient::shift},
                             {"parameters", nullptr}};

/// What a term is called, and the gradients that it may have.
struct Kind {
  std::string name;
  std::vector<std::string> fields;
};
Kind kind_of(const AttentionTerm& term) {
  if (std::holds_alternative<BiasTerm>(term)) return {"a bias", {"features", "parameters"}};
  if (std::holds_alternative<SegmentTerm>(term)) return {"a segment term", {"table", "shift"}};
  if (std::holds_alternative<GridTerm>(term)) return {"a grid bias", {"table"}};
  if (std::holds_alternative<DecomposedTerm>(term)) return {"a decomposed term", {"table", "second"}};
  if (std::holds_alternative<DenseTerm>(term)) return {"a dense bias", {"table"}};
  if (std::holds_alternative<CopeTerm>(term)) return {"CoPE", {"table"}};
  switch (std::get<TableTerm>(term).side) {
    case TableSide::query:
      return {"a table on the query side", {"table", "features", "shift"}};
    case TableSide::key:
      return {"a table on the key side", {"table", "features"}};
    case TableSide::value:
      break;
  }
  return {"a table on the value side", {"table"}};
}

/// What the call says when term t is asked for this gradient, too.
std::string refusal(Bridge& bridge, std::size_t t, const Field& field, std::vector<double>& memory) {
  const std::vector<TermGradient> before = bridge.gradients.terms;
  if (field.view == nullptr) {
    bridge.gradients.terms[t].parameters = list_view(memory);
  } else {
    bridge.gradients.terms[t].*field.view = view(memory.data(), {1, 1, 1, 1});
  }
  const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
  bridge.gradients.terms = before;
  return bytes.ok() ? "no refusal" : bytes.status().message();
}

std::vector<NamedScheme> schemes_of_every_kind(std::uint64_t seed) {
  Numbers random(seed);
  std::vector<NamedScheme> schemes = table_schemes(kShape, random);
  for (NamedScheme& scheme : diagonal_schemes(kShape, random)) schemes.push_back(std::move(scheme));
  return schemes;
}
/// A scheme by itself, in a call that it can be in.
ref::Problem problem_of(const NamedScheme& scheme, std::uint64_t seed) {
  ref::Problem p = random_problem(kShape, seed);
  p.visibility.causal = scheme.name.starts_with("cope");
  p.schemes = {scheme.scheme};
  return p;
}

TEST(attention_term_gradients, that_a_term_does_not_have_are_refused) {
  const std::vector<NamedScheme> schemes = schemes_of_every_kind(4);
  std::vector<double> memory(1);
  int refused = 0;
  for (const NamedScheme& scheme : schemes) {
    const ref::Problem p = problem_of(scheme, 3);
    Bridge bridge(p, DType::f64);
    for (std::size_t t = 0; t < bridge.spec.terms.size(); ++t) {
      const Kind kind = kind_of(bridge.spec.terms[t]);
      for (const Field& field : kFields) {
        if (std::find(kind.fields.begin(), kind.fields.end(), field.name) != kind.fields.end()) continue;
        ++refused;
        EXPECT_EQ(refusal(bridge, t, field, memory), "attention_backward: terms[" + std::to_string(t) + "]: the gradient of " + field.name +
                                                         " is asked for, which " + kind.name + " does not have")
            << scheme.name;
      }
    }
  }
  EXPECT_GT(refused, 80);
}

/// A view with extents and without memory is no wish that may be passed over.
TEST(attention_term_gradients, without_memory_are_refused) {
  Numbers random(5);
  for (const NamedScheme& scheme : table_schemes(kShape, random)) {
    const ref::Problem p = problem_of(scheme, 6);
    Bridge bridge(p, DType::f64);
    for (std::size_t t = 0; t < bridge.spec.terms.size(); ++t) {
      for (const Field& field : kFields) {
        if (field.view == nullptr || (bridge.gradients.terms[t].*field.view).data == nullptr) continue;
        const std::vector<TermGradient> before = bridge.gradients.terms;
        (bridge.gradients.terms[t].*field.view).data = nullptr;
        const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
        bridge.gradients.terms = before;
        ASSERT_FALSE(bytes.ok()) << scheme.name << ", " << field.name;
        EXPECT_NE(bytes.status().message().find("has null data"), std::string::npos) << bytes.status().message();
      }
    }
  }
}

/// The operand that a gradient is by; null: a table, which no term is without.
ConstTensorView* operand_of(AttentionTerm& term, const std::string& field) {
  if (auto* const bias = std::get_if<BiasTerm>(&term)) return field == "features" ? &bias->gate : nullptr;
  if (auto* const segments = std::get_if<SegmentTerm>(&term)) return field == "shift" ? &segments->shift : nullptr;
  auto* const table = std::get_if<TableTerm>(&term);
  if (table == nullptr || (field != "features" && field != "shift")) return nullptr;
  return field == "features" ? &table->features : &table->shift;
}
std::string backward_error(const Bridge& bridge) {
  const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
  return bytes.ok() ? "no refusal" : bytes.status().message();
}

/// Features of a width of their own leave a table that does not fit.
void expect_error(const Bridge& bridge, const std::string& message) {
  const std::string is = backward_error(bridge);
  EXPECT_TRUE(is.find(message) != std::string::npos || is.find("table has 3 on its last axis, wanted 6") != std::string::npos) << is;
}

/// Nobody checks the shape of what is not given: a gradient of that shape may be of any size.
TEST(attention_term_gradients, of_operands_without_memory_are_refused) {
  const std::vector<NamedScheme> schemes = schemes_of_every_kind(5);
  std::vector<std::string> refused;
  for (const NamedScheme& scheme : schemes) {
    ref::Problem p = random_problem(kShape, 6);
    p.visibility.causal = scheme.name.starts_with("cope");
    p.schemes = {scheme.scheme};
    Bridge bridge(p, DType::f64);
    for (std::size_t t = 0; t < bridge.spec.terms.size(); ++t) {
      for (const Field& field : kFields) {
        ConstTensorView* const operand = operand_of(bridge.spec.terms[t], field.name);
        if (operand == nullptr || operand->data == nullptr || (bridge.gradients.terms[t].*field.view).data == nullptr) continue;
        const ConstTensorView given = *operand;
        operand->data = nullptr;
        expect_error(bridge, "is asked for, but there is no");
        operand->shape[2] = (bridge.gradients.terms[t].*field.view).shape[2] = 0;  // needs no memory, and is not of the call's heads
        expect_error(bridge, "has 0 on its third axis, wanted");
        *operand = given;
        (bridge.gradients.terms[t].*field.view).shape = given.shape;
        EXPECT_EQ(backward_error(bridge), "no refusal") << scheme.name;
        refused.push_back(scheme.name + " " + field.name);
      }
    }
  }
  EXPECT_GE(refused.size(), 5) << "gate, features of either side, shift of a table and of segments";
}

TEST(attention_term_gradients, of_operands_of_no_elements_need_no_memory) {
  std::vector<double> memory(1);
  const ConstTensorView q = view(static_cast<const double*>(memory.data()), {0, 8, 2, 6});
  const Extents shape = {0, 8, 2, 1};
  const AttentionSpec spec{
      .terms = {BiasTerm{.bias = *Bias::make(Alibi{.heads = 2}), .gate = {nullptr, DType::f64, shape, {16, 2, 1, 1}}}}};
  const AttentionGradients gradients{.terms = {{.features = {nullptr, DType::f64, shape, {16, 2, 1, 1}}}}};
  const Result<std::int64_t> bytes = attention_backward_workspace({q, q, q}, spec, gradients);
  EXPECT_TRUE(bytes.ok()) << bytes.status().message();
}

/// Sums are laid out before terms are checked: no number of theirs may overflow.
TEST(attention_term_gradients, of_a_table_of_any_number_of_rows_are_an_error) {
  for (const TableSide side : {TableSide::query, TableSide::key, TableSide::value}) {
    Bridge bridge(random_problem(kShape, 7), DType::f64);
    std::vector<double> memory(18);
    const auto of_rows = [&](std::int64_t rows) { return Extents{1, rows, 1, side == TableSide::value ? 3 : 6}; };
    TableTerm term{.side = side, .table = view(static_cast<const double*>(memory.data()), of_rows(3)), .rows = ClipRows{1, 1}};
    TermGradient gradient{.table = view(memory.data(), of_rows(3))};
    bridge.spec.terms = {term};
    bridge.gradients.terms = {gradient};
    EXPECT_EQ(backward_error(bridge), "no refusal");
    for (const std::int64_t rows : {INT64_MAX, INT64_MAX - 1, INT64_MIN}) {
      term.table.shape = gradient.table.shape = of_rows(rows);
      bridge.spec.terms = {term};
      bridge.gradients.terms = {gradient};
      EXPECT_NE(backward_error(bridge), "no refusal") << rows;
    }
  }
}

}  // namespace
}  // namespace phasor::test
