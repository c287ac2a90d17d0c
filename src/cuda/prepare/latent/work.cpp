// SPDX-License-Identifier: Apache-2.0
// What a launch decides about prepare_attention of MLA.
#include "cuda/prepare/latent/work.hpp"

#include <algorithm>

namespace phasor::cuda {
namespace {

constexpr std::int64_t kMostOfGrid = 65535;  // of y and z
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kWidth = 8;  // channels of a vector of 16 bits
constexpr std::int64_t kMostVectors = std::int64_t{1} << 20;

/// k: the first operand that goes to a cache; without a cache the one after q, or the only one.
int wide_operand(const job::PrepareJob& job) {
  for (int o = 0; o < job.operand_count; ++o) {
    if (job.operands[o].placed) return o;
  }
  return job.operand_count > 1 ? 1 : 0;
}

bool is_by_vectors(std::int64_t channels) { return channels % kWidth == 0; }

bool has_rotation_by_vectors(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  return !operand.turns ||
         (job.turn.read == Pairing::interleaved && is_by_vectors(operand.rotary_offset) && is_by_vectors(2 * job.turn.pairs));
}
/// Of the dtype as it is, or of 8 bits with scales of whole vectors.
bool is_latent_sink(const job::PrepareSink& sink, DType dtype) {
  if (!is_by_vectors(sink.first) || !is_by_vectors(sink.count) || sink_shift(sink) < 0 || !is_near(sink, 1)) return false;
  if (bytes_of(sink.storage) != 1) return sink.storage == job::storage_of(dtype) && sink.scales == CacheScales::Kind::none;
  return sink.scales != CacheScales::Kind::made || is_by_vectors(sink.group) || sink.group >= sink.count;
}
/// What is stored by made scales is kept in the place of what was read.
bool are_apart(const job::PrepareSink& a, const job::PrepareSink& b) {
  return a.first + a.count <= b.first || b.first + b.count <= a.first;
}
bool is_wide_head(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  const job::PrepareNorm& norm = operand.norm;
  if (operand.heads != 1 || operand.scales || operand.head_dim > kWidth * kLatentVectors || operand.sink_count > kLatentSinks) return false;
  for (int s = 0; s < operand.sink_count; ++s) {
    if (!is_latent_sink(operand.sinks[s], job.turn.dtype)) return false;
  }
  if (operand.sink_count == kLatentSinks && !are_apart(operand.sinks[0], operand.sinks[1])) return false;
  return norm.kind == HeadNorm::Kind::none || (is_by_vectors(norm.width) && has_readable_weight(norm, job.turn.dtype));
}
/// Nothing but a rotation and a factor, and its channels lie as those of a tensor.
bool is_other(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  const job::PrepareSink& sink = operand.sinks[0];
  return operand.norm.kind == HeadNorm::Kind::none && operand.sink_count == 1 && sink.first == 0 && sink.count == operand.head_dim &&
         sink_shift(sink) >= 0 && is_near(sink, operand.heads) && sink.storage == job::storage_of(job.turn.dtype) &&
         sink.scales == CacheScales::Kind::none;
}

}  // namespace

bool is_latent(const job::PrepareJob& job) {
  if (job.turn.dtype == DType::f32 || job.rotation_first || !has_common_turn(job)) return false;
  if (job.turn.batch > kMostOfGrid || job.turn.tokens > kMostTokens) return false;
  std::int64_t vectors = 0;
  for (int o = 0; o < job.operand_count; ++o) {
    const job::PrepareOperand& operand = job.operands[o];
    if (!is_by_vectors(operand.head_dim) || !is_read_by_vectors(job, operand) || !is_near(job, operand)) return false;
    if (!has_rotation_by_vectors(job, operand)) return false;
    if (!(o == wide_operand(job) ? is_wide_head(job, operand) : is_other(job, operand))) return false;
    vectors += operand.heads * (operand.head_dim / kWidth);
  }
  return vectors <= kMostVectors;
}

namespace {

LatentSink latent_sink(const job::PrepareSink& sink, DType dtype) {
  LatentSink to;
  set_sink(to.as, sink, 1, dtype);
  to.first = static_cast<int>(sink.first / kWidth);
  to.count = static_cast<int>(sink.count / kWidth);
  if (sink.scales != CacheScales::Kind::made) return to;
  to.group_vectors = static_cast<int>(std::min(sink.group, sink.count) / kWidth);
  to.groups = (to.count + to.group_vectors - 1) / to.group_vectors;
  to.group_inverse = inverse_of(to.group_vectors);
  return to;
}

}  // namespace

void cut_latent(LatentWork& work, std::int64_t tokens) {
  LatentShape& latent = work.latent;
  const bool few = tokens <= kFewLatentTokens;
  const int each = few ? kFewLatentEach : tokens <= kSomeLatentTokens ? kSomeLatentEach : kMostLatentEach;
  const int others = latent.ends[job::kPrepareOperands - 1];
  latent.each = std::min(others, each * kLatentLanes);
  latent.wide_apart = tokens <= kSomeLatentTokens;
  const int pieces = latent.each == 0 ? 0 : (others + latent.each - 1) / latent.each;
  latent.pieces = latent.wide_apart ? pieces + 1 : std::max(pieces, 1);
  latent.block_warps = few ? 1 : kLatentWarps;
  latent.warp_bytes = latent_bytes(latent, work.shape.pairs);
}

LatentWork latent_work(const job::PrepareJob& job) {
  LatentWork work = {{token_shape(job), job}, {}};
  LatentShape& latent = work.latent;
  latent.operand = wide_operand(job);
  int others = 0;
  for (int o = 0; o < job::kPrepareOperands; ++o) {
    if (o < job.operand_count) {
      const job::PrepareOperand& operand = job.operands[o];
      latent.of_head[o] = static_cast<int>(operand.head_dim / kWidth);
      latent.head_inverse[o] = inverse_of(latent.of_head[o]);
      work.shape.operands[o] = squad_operand(job, operand);
      if (o != latent.operand) others += static_cast<int>(operand.heads) * latent.of_head[o];
    }
    latent.ends[o] = others;
  }
  const job::PrepareOperand& wide = job.operands[latent.operand];
  const SquadOperand& as = work.shape.operands[latent.operand];
  latent.vectors = latent.of_head[latent.operand];
  if (as.norm != HeadNorm::Kind::none) {
    latent.norm_width = static_cast<int>(wide.norm.width);
    if (as.weight != nullptr && !as.wide_weight) latent.weights = latent.norm_width / static_cast<int>(kWidth);
    latent.machine_products = latent.weights != 0 && !as.one_plus && as.casts_before_weight && as.rounds_norm;
  }
  latent.sink_count = wide.sink_count;
  for (int s = 0; s < wide.sink_count; ++s) latent.sinks[s] = latent_sink(wide.sinks[s], job.turn.dtype);
  cut_latent(work, job.turn.batch * job.turn.tokens);
  return work;
}

LatentLaunch latent_launch(const LatentWork& work) {
  const job::RotateJob& turn = work.job.turn;
  const std::int64_t warps = work.latent.block_warps;
  return {{{static_cast<unsigned>((turn.tokens + warps - 1) / warps), static_cast<unsigned>(work.latent.pieces),
            static_cast<unsigned>(turn.batch)},
           static_cast<unsigned>(warps * kLatentLanes)},
          static_cast<unsigned>(warps) * work.latent.warp_bytes};
}

}  // namespace phasor::cuda
