// SPDX-License-Identifier: Apache-2.0
// Which values go to a cache by channels, and how a launch cuts them.
#include "cuda/prepare/columns/work.hpp"

namespace phasor::cuda {
namespace {

bool has_one_scale(const job::PrepareSink& sink) {
  return sink.scales == CacheScales::Kind::none || (sink.scales == CacheScales::Kind::given && sink.scale_data == nullptr);
}

}  // namespace

bool has_columns(const job::PrepareJob& job) {
  const DType dtype = job.turn.dtype;
  const job::PrepareOperand& operand = job.operands[job.operand_count - 1];
  const job::PrepareSink& sink = operand.sinks[0];
  const std::int64_t size = bytes_of(sink.storage);
  if (bytes_of(dtype) != 2 || operand.turns || operand.scales || operand.norm.kind != HeadNorm::Kind::none || !operand.placed) return false;
  const bool own = sink.storage == job::storage_of(dtype) && sink.scales == CacheScales::Kind::none;
  if (!own && (sink.storage != Storage::f8_e4m3 || !has_one_scale(sink) || job.kept)) return false;
  if (sink.inner < sink.count || sink.strides[1] != size || sink.strides[4] <= size) return false;
  const std::int64_t cell = kColumnCell * size;
  return reinterpret_cast<std::uintptr_t>(sink.data) % static_cast<std::uintptr_t>(cell) == 0 && sink.strides[0] % cell == 0 &&
         sink.strides[4] % cell == 0 && (operand.heads == 1 || sink.strides[2] % cell == 0);
}

ColumnWork column_work(const job::PrepareJob& job) {
  const job::PrepareOperand& operand = job.operands[job.operand_count - 1];
  ColumnWork work;
  work.places = job.places;
  work.operand = squad_operand(job, operand);
  multiply_by_reciprocal(work.operand, job.turn.dtype);
  work.tokens = job.turn.tokens;
  work.batch = job.turn.batch;
  work.heads = static_cast<int>(operand.heads);
  while ((8 << work.vectors_shift) < operand.head_dim) ++work.vectors_shift;
  work.dtype = job.turn.dtype;
  return work;
}

SquadLaunch column_launch(const ColumnWork& work) {
  return {{static_cast<unsigned>((work.tokens + kColumnTokens - 1) / kColumnTokens), static_cast<unsigned>(work.heads),
           static_cast<unsigned>(work.batch)},
          kColumnThreads};
}

}  // namespace phasor::cuda
