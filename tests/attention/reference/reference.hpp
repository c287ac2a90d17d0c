// SPDX-License-Identifier: Apache-2.0
// The naive reference of attention with positions: float64, one score at a time, each paper's own formula. It shares nothing with the
// kernels or the plan, so that they can be held against it. For tests: it throws std::invalid_argument where sizes do not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/reference/schemes.hpp"

namespace phasor::attend::reference {

struct Shape {
  std::int64_t batch = 1;
  std::int64_t queries = 0;  // Tq
  std::int64_t keys = 0;     // Tk
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;    // divides heads; query head h reads key head h / (heads / key_heads)
  std::int64_t width = 0;        // D
  std::int64_t value_width = 0;  // Dv
};

/// Which keys a query sees: those that pass every rule. Rules of distance go by positions, not by places in the tensor.
struct Visibility {
  bool causal = false;                      // distance >= 0
  std::optional<std::int64_t> left = {};    // distance <= left
  std::optional<std::int64_t> right = {};   // -distance <= right
  Integers prefix = {};                     // (B), or one per sequence: keys at positions below it are exempt from `causal`
  Integers query_starts = {};               // varlen, B = 1: 0, ..., Tq; queries see keys of their own sequence
  Integers key_starts = {};                 // 0, ..., Tk
  std::vector<std::uint8_t> key_mask = {};  // (B, Tk); 0: padding
};

/// As phasor/attention.hpp describes it.
struct Dropout {
  double probability = 0;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::int64_t first_head = 0;
  std::int64_t first_sequence = 0;
};

struct Problem {
  Shape shape = {};
  Values q = {};  // (B, Tq, H, D)
  Values k = {};  // (B, Tk, Hk, D)
  Values v = {};  // (B, Tk, Hk, Dv)
  double scale = 1;
  double softcap = 0;             // s <- cap tanh(s / cap), after every term, -infinity as it is; 0: none
  Values sinks = {};              // (H) or (1): logits that take part in the softmax and bring no value; empty: none
  Integers query_positions = {};  // (B, Tq); empty: bottom-right, i + Tk - Tq of its sequence
  Integers key_positions = {};    // (B, Tk); empty: j of its sequence
  Visibility visibility = {};
  std::vector<Scheme> schemes = {};  // their terms add up; at most one says how the q.k score is formed
  Dropout dropout = {};
  /// Set: this problem has the magnitudes of that one's numbers, and sums add magnitudes; see `magnitudes`.
  const Problem* magnitudes_of = nullptr;
};

struct Output {
  Values out;  // (B, Tq, H, Dv); zeros for a query that sees no key
  Values lse;  // (B, H, Tq); -infinity there, or the sink
};
Output forward(const Problem& problem);

struct Gradients {
  Values q;
  Values k;
  Values v;
  std::vector<Scheme> schemes;  // as the problem's, with gradients in the place of parameters
  Values sinks = {};
};
/// From the gradients of out and of lse (empty: zeros).
Gradients backward(const Problem& problem, const Values& out_gradient, const Values& lse_gradient = {});

/// What roundings are relative to: every sum of forward and backward with the magnitudes of its summands, at the problem's own
/// probabilities. A result that cancels to little may be off by as much as one that does not.
struct Magnitudes {
  Values out;     // as an output's
  Values scores;  // as lse: of the largest score that a query sees, its sink included
  Gradients gradients;
};
/// Without out_gradient: of outputs alone.
Magnitudes magnitudes(const Problem& problem, const Values& out_gradient = {}, const Values& lse_gradient = {});

/// Weights after the softmax, before dropout: (B, Tq, H, Tk), zeros for keys not seen.
Values weights(const Problem& problem);
/// What dropout multiplies a weight by, seen or not.
double dropout_factor(const Problem& problem, const Cell& cell);

/// One score before the soft cap, whether the key is seen or not.
double score(const Problem& problem, const Cell& cell);
bool visible(const Problem& problem, const Cell& cell);
/// Of the query: the batch row, or the number in query_starts.
std::int64_t sequence_of(const Problem& problem, const Cell& cell);
std::int64_t query_position(const Problem& problem, const Cell& cell);
std::int64_t key_position(const Problem& problem, const Cell& cell);
std::int64_t distance(const Problem& problem, const Cell& cell);

/// Outputs over disjoint sets of keys, made one.
Output merge(const Shape& shape, const std::vector<Output>& parts);

// Where the row of a cell begins, in a tensor shaped as q, k or v.
std::int64_t query_row(const Problem& problem, const Cell& cell);
std::int64_t key_row(const Problem& problem, const Cell& cell);
std::int64_t value_row(const Problem& problem, const Cell& cell);
std::int64_t out_row(const Problem& problem, const Cell& cell);

}  // namespace phasor::attend::reference
