// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common prepare_attention.
#include "cuda/prepare/squads/work.hpp"

#include <algorithm>

namespace phasor::cuda {
namespace {

constexpr std::int64_t kMostOfGrid = 65535;  // of y and z
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kFewSquadTokens = 512;  // up to so many, blocks are small: more of them work at the same time
constexpr int kFewSquadThreads = 64;

int squad_threads(DType dtype) { return static_cast<int>(math::kNormPartials * bytes_of(dtype) / kVectorBytes); }
int heads_of(const job::PrepareJob& job) {
  std::int64_t heads = 0;
  for (int o = 0; o < job.operand_count; ++o) heads += job.operands[o].heads;
  return static_cast<int>(heads);
}
bool is_aligned(const void* data, std::int64_t to) { return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(to) == 0; }

bool is_read_by_vectors(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  const std::int64_t extents[3] = {job.turn.batch, job.turn.tokens, operand.heads};
  if (!is_aligned(operand.in, kVectorBytes)) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (extents[axis] > 1 && operand.in_strides[axis] % kVectorBytes != 0) return false;
  }
  return true;
}

/// log2 of the channels of an outer step; one step that has all: more than any. -1: no power of two.
int sink_shift(const job::PrepareSink& sink) {
  if (sink.inner >= sink.count) return 30;
  int shift = 0;
  while (std::int64_t{1} << shift < sink.inner) ++shift;
  return std::int64_t{1} << shift == sink.inner ? shift : -1;
}
/// Whether a thread's run of channels is one access: of the tensor's dtype or of 8 bits.
bool is_written_by_vectors(const job::PrepareSink& sink, DType dtype) {
  const std::int64_t size = bytes_of(sink.storage);
  const std::int64_t width = kVectorBytes / bytes_of(dtype);
  const std::int64_t access = width * size;
  if (sink.strides[4] != size || sink.inner % width != 0 || !is_aligned(sink.data, std::min(access, kVectorBytes))) return false;
  for (int i = 0; i < 4; ++i) {
    if (sink.strides[i] % access != 0) return false;
  }
  return size == 1 || size == bytes_of(dtype);
}

bool has_common_sink(const job::PrepareOperand& operand, DType dtype) {
  const job::PrepareSink& sink = operand.sinks[0];
  if (operand.sink_count != 1 || sink.first != 0 || sink.count != operand.head_dim || sink_shift(sink) < 0) return false;
  if (bytes_of(sink.storage) != 1 && sink.storage != job::storage_of(dtype)) return false;
  return sink.scales != CacheScales::Kind::made || sink.group >= sink.count;
}
bool has_common_norm(const job::PrepareOperand& operand) {
  const job::PrepareNorm& norm = operand.norm;
  return norm.kind == HeadNorm::Kind::none || (!norm.over_all_heads && norm.width == operand.head_dim);
}
bool has_common_rotation(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  if (!operand.turns) return true;
  const std::int64_t width = kVectorBytes / bytes_of(job.turn.dtype);
  if (job.turn.read == Pairing::interleaved) return operand.rotary_offset % width == 0 && 2 * job.turn.pairs % width == 0;
  const std::int64_t pairs = job.turn.pairs;
  return operand.rotary_offset == 0 && (pairs == 32 || pairs == 64 || pairs == 128);
}
bool has_common_turn(const job::PrepareJob& job) {
  const job::RotateJob& turn = job.turn;
  if (turn.pairs == 0) return true;
  return turn.read == turn.write && turn.segments <= 1 && !turn.turns_all && !turn.rounds_products && job.rows == nullptr &&
         turn.rows.step_head_stride == 0 && has_team_sines(turn.rows, turn.pairs);
}
bool is_common(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  return operand.head_dim == job.operands[0].head_dim && is_read_by_vectors(job, operand) && has_common_sink(operand, job.turn.dtype) &&
         has_common_norm(operand) && has_common_rotation(job, operand);
}

}  // namespace

bool is_for_squads(const job::PrepareJob& job) {
  const std::int64_t width = job.operands[0].head_dim;
  if (width != 64 && width != 128 && width != 256) return false;
  if (job.rotation_first || !has_common_turn(job) || job.turn.batch > kMostOfGrid || job.turn.tokens > kMostTokens) return false;
  std::int64_t heads = 0;
  for (int o = 0; o < job.operand_count; ++o) {
    if (!is_common(job, job.operands[o])) return false;
    heads += job.operands[o].heads;
  }
  return heads <= kMostOfGrid;
}

SquadWork squad_work(const job::PrepareJob& job) {
  SquadWork work = {{}, job};
  SquadShape& shape = work.shape;
  int heads = 0;
  for (int o = 0; o < job::kPrepareOperands; ++o) {
    const job::PrepareOperand& operand = job.operands[o];
    if (o < job.operand_count) heads += static_cast<int>(operand.heads);
    shape.ends[o] = heads;
    if (o >= job.operand_count) continue;
    shape.sink_shift[o] = sink_shift(operand.sinks[0]);
    shape.by_vectors[o] = is_written_by_vectors(operand.sinks[0], job.turn.dtype);
    shape.norms |= operand.norm.kind != HeadNorm::Kind::none;
    shape.makes_scales |= operand.sinks[0].scales == CacheScales::Kind::made;
    shape.weight_vectors[o] =
        operand.norm.weight_dtype == job.turn.dtype && is_aligned(operand.norm.weight, 8) && operand.norm.weight_head_stride % 8 == 0;
  }
  shape.sines = sines_of(job.turn.rows);
  const int threads = job.turn.batch * job.turn.tokens <= kFewSquadTokens ? kFewSquadThreads : kMostSquadThreads;
  const int most = threads / squad_threads(job.turn.dtype);
  const int groups = (heads + most - 1) / most;
  shape.group_heads = (heads + groups - 1) / groups;
  return work;
}

SquadLaunch squad_launch(const SquadWork& work) {
  const int heads = heads_of(work.job);
  const int threads = (work.shape.group_heads * squad_threads(work.job.turn.dtype) + 31) / 32 * 32;
  return {
      {static_cast<unsigned>(work.job.turn.tokens), static_cast<unsigned>((heads + work.shape.group_heads - 1) / work.shape.group_heads),
       static_cast<unsigned>(work.job.turn.batch)},
      static_cast<unsigned>(threads)};
}

}  // namespace phasor::cuda
