// SPDX-License-Identifier: Apache-2.0
// Holding attention with tables against the reference: forward and every gradient, in float64 and float32.
#pragma once

#include <string>
#include <vector>

#include "attention/support/compare.hpp"
#include "attention/support/held.hpp"

namespace phasor::test {

/// Of the largest value of a tensor, what `expect_near` allows.
double table_tolerance(DType dtype);
/// Of what is finite.
double largest_magnitude(const ref::Values& values);
/// Within what the roundings of a sum of some hundred terms explain, relative to the largest value.
void expect_near(const ref::Values& is, const ref::Values& wanted, DType dtype, const std::string& name);
void expect_scheme_gradients(ref::Gradients& is, ref::Gradients& wanted, DType dtype, const std::string& name);

/// Rows for the distances -reach to reach.
ref::TransformerXl xl_table(const ref::Shape& s, std::int64_t reach);

// ---- Who sees whom ----

struct MaskedProblem {
  std::string name;
  ref::Problem problem;
};

/// Integers 0 to n - 1, each once, in an order that no tile knows.
ref::Integers shuffled(std::int64_t n, std::int64_t first = 0);
ref::Integers repeated(const ref::Integers& row, std::int64_t batch);

/// Problems without schemes: full, causal, windows, other lengths, varlen, shuffled, padding, soft cap, decoding. Tiles are of 96 queries
/// and 64 keys: lengths are beyond two of them.
std::vector<MaskedProblem> masked_problems(bool per_batch = false);

}  // namespace phasor::test
