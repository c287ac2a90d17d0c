// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common prepare_attention: which calls are common, and how the work is cut.
#pragma once

#include "cuda/prepare/squads/make.hpp"
#include "cuda/teams/work.hpp"

namespace phasor::cuda {

// Measured on an H200 (docs/design/prepare.md).
constexpr int kMostSquadThreads = 256;
constexpr int kFewSquadThreads = 64;
/// Up to so many tokens blocks are small: more of them work at the same time.
constexpr std::int64_t kFewSquadTokens = 512;
/// Blocks of a multiprocessor at a time, by the vectors of a thread: how many registers it may have.
PHASOR_HD constexpr int squad_blocks(int vectors, bool norms) { return vectors > 4 ? 2 : norms ? 3 : 4; }

/// Whether squads can do it; the general kernel does the rest.
bool is_for_squads(const job::PrepareJob& job);

// What other kernels of a token ask, too.
bool is_read_by_vectors(const job::PrepareJob& job, const job::PrepareOperand& operand);
/// A rotation whose row a block's threads make, a value each.
bool has_common_turn(const job::PrepareJob& job);
bool has_readable_weight(const job::PrepareNorm& norm, DType dtype);
/// Strides that SquadOperand's 32 bits hold, none of them backwards: of an operand without its sinks, and of a sink of so many heads.
bool is_near(const job::PrepareJob& job, const job::PrepareOperand& operand);
bool is_near(const job::PrepareSink& sink, std::int64_t heads);
/// log2 of the channels of an outer step; one step that has all: more than any. -1: no power of two.
int sink_shift(const job::PrepareSink& sink);

/// What is of the token: its row, its slot.
SquadShape token_shape(const job::PrepareJob& job);
SquadOperand squad_operand(const job::PrepareJob& job, const job::PrepareOperand& from);
/// Of e4m3 with one scale: division is most of what 8 bits take, and where a product gives the same numbers, it becomes a product.
void multiply_by_reciprocal(SquadOperand& operand, DType dtype);
void set_sink(SquadOperand& to, const job::PrepareSink& sink, std::int64_t heads, DType dtype);

struct SquadLaunch {
  unsigned blocks[3];
  unsigned threads;
};
SquadWork squad_work(const job::PrepareJob& job);
SquadLaunch squad_launch(const SquadWork& work);

}  // namespace phasor::cuda
