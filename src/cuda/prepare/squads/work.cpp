// SPDX-License-Identifier: Apache-2.0
// What a launch decides about a common prepare_attention.
#include "cuda/prepare/squads/work.hpp"

#include <algorithm>

namespace phasor::cuda {
namespace {

constexpr std::int64_t kMostOfGrid = 65535;  // of y and z
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;

int squad_threads(DType dtype) { return static_cast<int>(math::kNormPartials * bytes_of(dtype) / kVectorBytes); }
int heads_of(const job::PrepareJob& job) {
  std::int64_t heads = 0;
  for (int o = 0; o < job.operand_count; ++o) heads += job.operands[o].heads;
  return static_cast<int>(heads);
}
bool is_aligned(const void* data, std::int64_t to) { return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(to) == 0; }

}  // namespace

bool is_read_by_vectors(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  const std::int64_t extents[3] = {job.turn.batch, job.turn.tokens, operand.heads};
  if (!is_aligned(operand.in, kVectorBytes)) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (extents[axis] > 1 && operand.in_strides[axis] % kVectorBytes != 0) return false;
  }
  return true;
}

int sink_shift(const job::PrepareSink& sink) {
  if (sink.inner >= sink.count) return 30;
  int shift = 0;
  while (std::int64_t{1} << shift < sink.inner) ++shift;
  return std::int64_t{1} << shift == sink.inner ? shift : -1;
}
namespace {

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

/// Whether so many steps of a stride stay below `most`, forwards.
bool fits(std::int64_t stride, std::int64_t extent, std::int64_t most) { return extent <= 1 || (stride >= 0 && stride < most / extent); }
constexpr std::int64_t kMostBytes = std::int64_t{1} << 31;

}  // namespace

bool is_near(const job::PrepareSink& sink, std::int64_t heads) {
  return fits(sink.strides[2], heads, kMostBytes) && fits(sink.strides[3], sink.count / sink.inner, kMostBytes) &&
         fits(sink.strides[4], sink.inner, kMostBytes);
}
bool is_near(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  return fits(operand.in_strides[0], job.turn.batch > 1 ? 2 : 1, 16 * kMostBytes) &&
         fits(operand.in_strides[1], job.turn.tokens > 1 ? 2 : 1, 16 * kMostBytes) &&
         fits(operand.in_strides[2], operand.heads, kMostBytes) && fits(operand.norm.weight_head_stride, operand.heads, kMostBytes);
}
bool has_readable_weight(const job::PrepareNorm& norm, DType dtype) {
  return norm.weight == nullptr || ((norm.weight_dtype == dtype || norm.weight_dtype == DType::f32) &&
                                    is_aligned(norm.weight, kVectorBytes) && norm.weight_head_stride % kVectorBytes == 0);
}

namespace {

bool has_common_sink(const job::PrepareOperand& operand, DType dtype) {
  const job::PrepareSink& sink = operand.sinks[0];
  if (operand.sink_count != 1 || sink.first != 0 || sink.count != operand.head_dim || sink_shift(sink) < 0) return false;
  if (bytes_of(sink.storage) != 1 && sink.storage != job::storage_of(dtype)) return false;
  return sink.scales != CacheScales::Kind::made || sink.group >= sink.count;
}
bool has_common_norm(const job::PrepareOperand& operand, DType dtype) {
  const job::PrepareNorm& norm = operand.norm;
  if (norm.kind == HeadNorm::Kind::none) return true;
  return has_readable_weight(norm, dtype) && !norm.over_all_heads && norm.width == operand.head_dim;
}
bool has_common_rotation(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  if (!operand.turns) return true;
  const std::int64_t width = kVectorBytes / bytes_of(job.turn.dtype);
  if (job.turn.read == Pairing::interleaved) return operand.rotary_offset % width == 0 && 2 * job.turn.pairs % width == 0;
  const std::int64_t pairs = job.turn.pairs;
  return operand.rotary_offset == 0 && (pairs == 32 || pairs == 64 || pairs == 128);
}
/// Values of one thread each: sines of whole positions, or one of a table.
bool has_common_rows(const job::RotateJob& turn) {
  if (turn.rows.kind != job::RowSource::Kind::tables) return has_team_sines(turn.rows, turn.pairs);
  return turn.rows.second_lane == 0 && turn.pairs <= kMostSquadPairs;
}
bool is_common(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  return operand.head_dim == job.operands[0].head_dim && is_read_by_vectors(job, operand) && is_near(job, operand) &&
         is_near(operand.sinks[0], operand.heads) && has_common_sink(operand, job.turn.dtype) && has_common_norm(operand, job.turn.dtype) &&
         has_common_rotation(job, operand);
}

}  // namespace

bool has_common_turn(const job::PrepareJob& job) {
  const job::RotateJob& turn = job.turn;
  if (turn.pairs == 0) return true;
  return turn.read == turn.write && turn.segments <= 1 && !turn.turns_all && !turn.rounds_products && job.specs.rows == nullptr &&
         !job::has_rows_by_head(turn.rows) && has_common_rows(turn);
}

void set_sink(SquadOperand& to, const job::PrepareSink& sink, std::int64_t heads, DType dtype) {
  to.scales = sink.scales;
  to.storage = sink.storage;
  to.multiplies = sink.multiplies;
  to.by_vectors = is_written_by_vectors(sink, dtype);
  to.scale = sink.scale;
  to.out = sink.data;
  to.out_shift = sink_shift(sink);
  to.out_block = sink.strides[0];
  to.out_token = sink.strides[1];
  to.out_head = heads > 1 ? static_cast<int>(sink.strides[2]) : 0;
  to.out_outer = sink.inner < sink.count ? static_cast<int>(sink.strides[3]) : 0;
  to.out_inner = sink.inner > 1 ? static_cast<int>(sink.strides[4]) : 0;
}

SquadOperand squad_operand(const job::PrepareJob& job, const job::PrepareOperand& from) {
  SquadOperand to;
  const auto in_vectors = [](std::int64_t bytes) { return static_cast<unsigned>(bytes / kVectorBytes); };
  to.in = from.in;
  to.in_batch = job.turn.batch > 1 ? in_vectors(from.in_strides[0]) : 0;
  to.in_token = job.turn.tokens > 1 ? in_vectors(from.in_strides[1]) : 0;
  to.in_head = from.heads > 1 ? static_cast<int>(from.in_strides[2]) : 0;
  to.turns = from.turns;
  to.copies = from.copies;
  to.queries = from.scales;
  to.placed = from.placed;
  to.first_rotated = static_cast<int>(from.rotary_offset);
  const bool norms = from.norm.kind != HeadNorm::Kind::none;
  to.norm = from.norm.kind;
  to.weight = norms ? from.norm.weight : nullptr;
  to.weight_head = from.heads > 1 ? static_cast<int>(from.norm.weight_head_stride) : 0;
  to.wide_weight = from.norm.weight_dtype != job.turn.dtype;
  to.one_plus = from.norm.one_plus;
  to.casts_before_weight = from.norm.casts_before_weight;
  to.epsilon = from.norm.epsilon;
  to.rounds_norm = rounds_step(job, from, from.turns || from.scales);
  to.rounds_turn = rounds_step(job, from, from.scales);
  to.rounds_query = from.scales && rounds_step(job, from, false);
  set_sink(to, from.sinks[0], from.heads, job.turn.dtype);
  return to;
}

void multiply_by_reciprocal(SquadOperand& operand, DType dtype) {
  if (operand.storage != Storage::f8_e4m3 || operand.scales != CacheScales::Kind::given || operand.multiplies) return;
  if (!math::has_products(operand.scale, dtype == DType::f16 ? 11 : 8)) return;
  operand.scale = 1.0F / operand.scale;
  operand.multiplies = true;
}

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

SquadShape token_shape(const job::PrepareJob& job) {
  SquadShape shape;
  shape.sines = sines_of(job.turn.rows);
  shape.by_tables = job.turn.rows.kind == job::RowSource::Kind::tables;
  shape.pairs = static_cast<int>(job.turn.pairs);
  const job::PlaceSource& places = job.places;
  if (places.kind == TokenPlaces::Kind::slots && places.block_shift >= 0) {
    shape.slots = {places.slots.data, places.slots.size, job.turn.tokens, places.block_shift, places.slots.narrow};
  }
  return shape;
}

SquadWork squad_work(const job::PrepareJob& job) {
  SquadWork work = {token_shape(job), job};
  SquadShape& shape = work.shape;
  int heads = 0;
  for (int o = 0; o < job::kPrepareOperands; ++o) {
    const job::PrepareOperand& operand = job.operands[o];
    if (o < job.operand_count) heads += static_cast<int>(operand.heads);
    shape.ends[o] = heads;
    if (o >= job.operand_count) continue;
    if (operand.turns) shape.turning_heads = heads;
    shape.norms |= operand.norm.kind != HeadNorm::Kind::none;
    shape.makes_scales |= operand.sinks[0].scales == CacheScales::Kind::made;
    shape.operands[o] = squad_operand(job, operand);
  }
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
