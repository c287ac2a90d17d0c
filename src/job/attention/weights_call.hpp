// SPDX-License-Identifier: Apache-2.0
// A call of attention_weights, as a forward call without values.
#pragma once

#include "job/attention/call.hpp"

namespace phasor::job {

/// What is computed. Values do not matter to weights: k stands in for v, and tables on their side are left out.
struct WeightsCall {
  AttentionInputs inputs;
  AttentionSpec spec;
  AttentionRows rows;
  AttentionWeights weights;

  WeightsCall(const AttentionInputs& given, const AttentionSpec& how, const AttentionRows& from, const AttentionWeights& to)
      : inputs(given), spec(how), rows(from), weights(to) {
    inputs.v = inputs.k;
    spec.skip = TileSkip::none;
    std::erase_if(spec.terms, [](const AttentionTerm& term) {
      const auto* table = std::get_if<TableTerm>(&term);
      return table != nullptr && table->side == TableSide::value;
    });
  }
  AttentionCall call() const {
    return {.inputs = &inputs, .spec = &spec, .gradients = nullptr, .where = "attention_weights", .weights = true};
  }
};

/// All checks of the call but those of memory that holds values; the block that is asked for among them.
Status check_weights_call(const WeightsCall& of);
/// Where weights go, apart from all that is read.
Status check_weights(const WeightsCall& of, std::span<const std::byte> workspace);

}  // namespace phasor::job
