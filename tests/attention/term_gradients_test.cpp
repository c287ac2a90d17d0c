// SPDX-License-Identifier: Apache-2.0
// Gradients that are asked of a term: those that it does not have are refused, whatever the term.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "attention/bridge.hpp"
#include "attention/problems.hpp"

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
    bridge.gradients.terms[t].parameters = memory;
  } else {
    bridge.gradients.terms[t].*field.view = view(memory.data(), {1, 1, 1, 1});
  }
  const Result<std::int64_t> bytes = attention_backward_workspace(bridge.inputs, bridge.spec, bridge.gradients);
  bridge.gradients.terms = before;
  return bytes.ok() ? "no refusal" : bytes.status().message();
}

TEST(attention_term_gradients, that_a_term_does_not_have_are_refused) {
  Numbers random(4);
  std::vector<NamedScheme> schemes = table_schemes(kShape, random);
  for (NamedScheme& scheme : diagonal_schemes(kShape, random)) schemes.push_back(std::move(scheme));
  std::vector<double> memory(1);
  int refused = 0;
  for (const NamedScheme& scheme : schemes) {
    ref::Problem p = random_problem(kShape, 3);
    p.visibility.causal = scheme.name.starts_with("cope");
    p.schemes = {scheme.scheme};
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
    ref::Problem p = random_problem(kShape, 6);
    p.visibility.causal = scheme.name.starts_with("cope");
    p.schemes = {scheme.scheme};
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

}  // namespace
}  // namespace phasor::test
