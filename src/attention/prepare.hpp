// SPDX-License-Identifier: Apache-2.0
// From a call to its job: every check, positions as arrays, tiles, rotated copies, terms. Forward and backward begin with it.
#pragma once

#include <vector>

#include "attention/arena.hpp"
#include "attention/terms.hpp"
#include "job/attention.hpp"
#include "phasor/attention.hpp"

namespace phasor::attend {

struct Prepared {
  job::AttentionJob job;
  std::vector<job::TermJob> terms;  // job.terms is a span of them
  double scale = 1;
  std::int64_t min_distance = 0;
  std::int64_t max_distance = 0;
};

/// What a call is of: gradients null for the forward.
struct Call {
  const AttentionInputs* inputs;
  const AttentionSpec* spec;
  const AttentionGradients* gradients;
  const char* where;  // "attention" or "attention_backward"
};

/// Checks inputs and spec, lays out in `arena` and, unless it is measuring, fills: positions, sequences and tiles, contents, shift, terms,
/// and takes the panels (forward: keys_transposed and values, unless it decodes; backward: all four), which cpu's pack fills. Outputs and
/// the backward's own buffers and scratch are the caller's to add. A call that fails, fails while measuring, before anything is written.
Status prepare(const Call& call, Arena& arena, Prepared& out);

/// The term's context again, for finish_term.
TermContext context_of(const Call& call, const Prepared& prepared, std::size_t term);

/// Runs the kernels' pack over every panel.
Status pack_panels(const Prepared& prepared, const Runner& runner);

/// Backward: gradients by contents (job.backward.q, .k, T, whose parts are summed by then into part 0) are turned back (the transpose of
/// each rotation, xPos's factors) and added to job.backward.q_raw and .k_raw. Nothing to do where contents are q and k as given.
Status undo_contents(const Call& call, const Prepared& prepared);

}  // namespace phasor::attend
