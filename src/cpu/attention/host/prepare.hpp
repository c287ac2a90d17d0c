// SPDX-License-Identifier: Apache-2.0
// From a call to its job: every check, positions as arrays, tiles, rotated copies, terms. Forward and backward begin with it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cpu/attention/host/terms.hpp"
#include "cpu/attention/job/attention.hpp"
#include "job/attention/job.hpp"
#include "job/memory/arena.hpp"

namespace phasor::attend {

/// Where one content is rotated.
struct ContentPositions {
  Positions queries;
  Positions keys;
};

/// Stays where it is: the job points into it.
struct Prepared {
  AttentionJob job;
  std::vector<TermJob> terms;  // job.terms is a span of them
  std::int64_t min_distance = 0;
  std::int64_t max_distance = 0;
  // What job and contexts point to. Filled without memory, too, unlike all that lies in the arena.
  std::vector<Sequence> sequences = {};
  std::vector<SequenceGroup> groups = {};
  std::vector<TokenTile> query_tiles = {};
  std::vector<TokenTile> key_tiles = {};
  std::vector<double> log_zeta = {};
  std::vector<std::int64_t> term_scratch = {};
  std::vector<std::string> term_names = {};
  std::vector<BiasNumbers> biases = {};  // of each term; empty but for biases
  ContentPositions rotated_at[kMaxContents] = {};

  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
};

/// What a call is of.
struct Call {
  const job::AttentionJob* asked;
  const job::AttentionBackwardJob* gradients;  // null: forward
  const Runner* runner;
  const char* where;     // begins messages
  bool weights = false;  // of some rows alone: values are not read
};

/// Lays out a checked call in `arena` and fills what has memory: positions, sequences and tiles, contents, shift, terms, and takes the
/// panels (forward: keys_transposed and values, unless it decodes; backward: keys both ways and values_transposed), which cpu's pack fills.
/// Outputs and the backward's own buffers and scratch are the caller's to add. What fails is what memory holds: positions, starts,
/// segments. Allocates a few words per tile; may throw std::bad_alloc.
Status prepare(const Call& call, Arena& arena, Prepared& out);

/// The term's context again, for finish_term.
TermContext context_of(const Call& call, Prepared& prepared, std::size_t term);

/// The last thing to be taken: scratch for at most kMaxStrips strips of `tasks`, `loops` T of it for the loops themselves, then what each
/// term asks for.
struct ScratchNeeds {
  std::int64_t loops;
  std::int64_t tasks;
  bool backward;
};
void take_scratch(const ScratchNeeds& needs, Arena& arena, Prepared& prepared);

/// Runs the kernels' pack over every panel of the forward.
Status pack_panels(const Prepared& prepared, const Runner& runner);

/// Backward: gradients by contents (job.backward.q, .k, T, whose parts are summed by then into part 0) are turned back (the transpose of
/// each rotation, xPos's factors) and added to job.backward.q_raw and .k_raw. What is null is left out; nothing to do where the raw
/// gradient is that by the content. The buffers by contents are changed.
Status undo_contents(const Call& call, const Prepared& prepared);

}  // namespace phasor::attend
