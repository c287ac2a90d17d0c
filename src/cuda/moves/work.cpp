// SPDX-License-Identifier: Apache-2.0
// What a launch decides about keys that move.
#include "cuda/moves/work.hpp"

#include <algorithm>

#include "cuda/rotary/work.hpp"

namespace phasor::cuda {
namespace {

constexpr int64_t kMostHeads = 2048;  // moved_head is exact: tokens * heads is 512 or heads at most, so tokens * heads^2 < 2^24
constexpr int64_t kMostTokens = int64_t{1} << 28;
constexpr int64_t kMostRows = 65535;  // of a grid's z

int divided_up(int64_t n, int64_t by) { return static_cast<int>((n + by - 1) / by); }

bool is_in_place(const job::Operand& operand) {
  return operand.in == operand.out && std::equal(operand.in_strides, operand.in_strides + 3, operand.out_strides);
}

/// Differences of whole positions on one ladder: sines of their difference.
bool has_move_sines(const job::RowSource& rows, int64_t pairs) {
  if (rows.kind != job::RowSource::Kind::differences || !rows.same_ladder || rows.from == nullptr) return false;
  job::RowSource to = rows;
  job::RowSource from = *rows.from;
  to.kind = from.kind = job::RowSource::Kind::phases;
  return has_team_sines(to, pairs) && has_team_sines(from, pairs);
}

void cut(const RotateWork& rotate, MoveShape& shape) {
  const job::RotateJob& job = rotate.job;
  const int64_t size = bytes_of(job.dtype);
  TeamShape& head = shape.cut;
  head.pairs = static_cast<int>(job.pairs);
  head.vectors = static_cast<int>(job.pairs / (kVectorBytes / size));
  head.vector_inverse = divided_up(65536, head.vectors);
  head.rows = kMoveThreads / head.vectors;
  head.first_byte = static_cast<int>(job.offset * size);
  head.half_bytes = static_cast<int>(rotate.segment_pairs * size);
  head.segment_pairs = job.segments > 1 ? static_cast<int>(rotate.segment_pairs) : 0;
  head.segment_inverse = job.segments > 1 ? divided_up(65536, rotate.segment_pairs) : 0;
}

/// Few: as many as keep every thread busy once, with a sine and a row. Many: some share sines.
int tokens_of_block(int64_t tokens, const MoveShape& shape) {
  const int64_t most = most_tokens_of_block(shape);
  const int64_t least = std::clamp<int64_t>(std::min(shape.cut.rows / shape.heads, shape.groups), 1, most);
  return static_cast<int>(std::clamp<int64_t>(tokens / kMoveTokensApart, least, most));
}

}  // namespace

bool is_move(const RotateWork& work) {
  const job::RotateJob& job = work.job;
  const job::Operand& keys = job.operands[0];
  const bool plain = job.operand_count == 1 && job.read == job.write && !job.turns_all && !job.rounds_products && is_in_place(keys);
  return plain && has_move_sines(job.rows, job.pairs) && takes_vectors(work) && job.head_dim <= kMostRows && keys.heads <= kMostHeads &&
         job.batch <= kMostRows && job.tokens <= kMostTokens;
}

int most_tokens_of_block(const MoveShape& shape) {
  return std::clamp(std::min(kMovesAhead * shape.cut.rows / shape.heads, kMoveValues / shape.cut.pairs), 1, kMoveTokens);
}

MoveWork move_work(const RotateWork& rotate) {
  const job::RotateJob& job = rotate.job;
  MoveWork work = {{}, rotate};
  MoveShape& shape = work.shape;
  cut(rotate, shape);
  shape.cut.sines = sines_of(job.rows);
  shape.from = sines_of(*job.rows.from);
  shape.tokens = static_cast<int>(job.tokens);
  shape.heads = static_cast<int>(job.operands[0].heads);
  shape.head_inverse = static_cast<unsigned>(divided_up(int64_t{1} << 24, shape.heads));
  shape.slots = job.slots;
  shape.page = divisor_of(job.page_size);
  shape.keys = job.operands[0].out;
  std::copy_n(job.operands[0].out_strides, 3, shape.strides);
  shape.pair_inverse = divided_up(65536, job.pairs);
  shape.groups = kMoveThreads / shape.cut.pairs;
  shape.block_tokens = tokens_of_block(job.batch * job.tokens, shape);
  return work;
}

MoveGrid move_grid(const MoveWork& work) {
  const MoveShape& shape = work.shape;
  return {static_cast<unsigned>(divided_up(shape.tokens, shape.block_tokens)), static_cast<unsigned>(work.rotate.job.batch), kMoveThreads};
}

}  // namespace phasor::cuda
