// SPDX-License-Identifier: Apache-2.0
// Which calls of prepare_attention are plain, and how they are cut.
#include "cuda/prepare/plain/work.hpp"

#include <algorithm>

namespace phasor::cuda {
namespace {

bool has_plain_norm(const SquadOperand& operand) {
  if (operand.norm == HeadNorm::Kind::none) return true;
  return operand.norm == HeadNorm::Kind::rms && operand.weight != nullptr && operand.weight_head == 0 && !operand.wide_weight &&
         !operand.one_plus && operand.casts_before_weight;
}
bool has_plain_sink(const SquadOperand& operand, const job::PrepareSink& sink, DType dtype) {
  if (!operand.by_vectors) return false;
  if (operand.storage == job::storage_of(dtype)) return operand.scales == CacheScales::Kind::none;
  const bool one_scale =
      operand.scales == CacheScales::Kind::none || (operand.scales == CacheScales::Kind::given && sink.scale_data == nullptr);
  return operand.storage == Storage::f8_e4m3 && one_scale;
}

}  // namespace

bool is_plain(const SquadWork& work) {
  const job::PrepareJob& job = work.job;
  const SquadShape& shape = work.shape;
  if (shape.by_tables || bytes_of(job.turn.dtype) != 2 || job.kept || job.turn.pairs != kPlainPairs || job.turn.read != Pairing::half)
    return false;
  for (int o = 0; o < job.operand_count; ++o) {
    const SquadOperand& operand = shape.operands[o];
    if (job.operands[o].head_dim != kPlainChannels || operand.queries || !has_plain_norm(operand)) return false;
    if (!has_plain_sink(operand, job.operands[o].sinks[0], job.turn.dtype)) return false;
  }
  return true;
}

PlainCall plain_call(SquadWork& work, bool few) {
  const job::PrepareJob& job = work.job;
  SquadShape& shape = work.shape;
  PlainCall call = {2, shape.norms, false, false, {}};
  for (int o = 0; o < job.operand_count; ++o) {
    SquadOperand& operand = shape.operands[o];
    call.codes |= operand.storage == Storage::f8_e4m3;
    multiply_by_reciprocal(operand, job.turn.dtype);
    operand.out_half = static_cast<int>(SinkPlace{operand, nullptr}.offset(kPlainPairs));
  }
  // A thread's two heads are of one operand.
  for (const int end : shape.ends) {
    if (few || end % 2 != 0) call.each = 1;
  }
  const int most = (call.each == 1 ? kFewPlainThreads : kMostPlainThreads) / kPlainLanes * call.each;
  const int heads = shape.ends[job::kPrepareOperands - 1];
  const int groups = (heads + most - 1) / most;
  const int rows = (heads + groups * call.each - 1) / (groups * call.each);
  shape.group_heads = rows * call.each;
  // A thread for each pair, and whole warps.
  const int threads = std::max(kPlainPairs, (rows * kPlainLanes + 31) / 32 * 32);
  call.launch = {{static_cast<unsigned>(job.turn.tokens), static_cast<unsigned>(groups), static_cast<unsigned>(job.turn.batch)},
                 static_cast<unsigned>(threads)};
  return call;
}

bool may_walk(const SquadWork& work, const PlainCall& call) {
  const bool finds_pages = work.job.places.kind == TokenPlaces::Kind::pages;
  return call.each == 2 && (finds_pages || !kOnlyPagesWalk);
}
PlainCall walking(const PlainCall& call, std::int64_t blocks) {
  PlainCall walk = call;
  unsigned(&grid)[3] = walk.launch.blocks;
  const std::int64_t together = tokens_together(static_cast<int>(call.launch.threads));
  const std::int64_t all = (grid[0] + together - 1) / together;
  const std::int64_t in_row = std::max<std::int64_t>(blocks / (std::int64_t{grid[1]} * grid[2]), 1);
  walk.walks = true;
  grid[0] = static_cast<unsigned>(std::min(all, in_row));
  return walk;
}
PlainCall walking_on(const PlainCall& call, std::int64_t at_a_time) {
  const unsigned(&grid)[3] = call.launch.blocks;
  const bool many = std::int64_t{grid[0]} * grid[1] * grid[2] >= kLeastWalk * at_a_time;
  return many ? walking(call, at_a_time * kMostWalkWaves) : call;
}

}  // namespace phasor::cuda
