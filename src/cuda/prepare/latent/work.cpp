// SPDX-License-Identifier: Apache-2.0
// What a launch decides about prepare_attention of MLA.
#include "cuda/prepare/latent/work.hpp"

namespace phasor::cuda {
namespace {

constexpr std::int64_t kMostOfGrid = 65535;  // of y and z
constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kWidth = 8;  // channels of a vector of 16 bits

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
bool is_wide_head(const job::PrepareJob& job, const job::PrepareOperand& operand) {
  const job::PrepareNorm& norm = operand.norm;
  if (operand.heads != 1 || operand.scales || operand.head_dim > kWidth * kLatentThreads || operand.sink_count > kLatentSinks) return false;
  for (int s = 0; s < operand.sink_count; ++s) {
    if (!is_latent_sink(operand.sinks[s], job.turn.dtype)) return false;
  }
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
  return vectors <= kMostOfGrid * kLatentThreads;
}

LatentWork latent_work(const job::PrepareJob& job) {
  LatentWork work = {{token_shape(job), job}, {}};
  LatentShape& latent = work.latent;
  latent.operand = wide_operand(job);
  int vectors = 0;
  for (int o = 0; o < job.operand_count; ++o) {
    const job::PrepareOperand& operand = job.operands[o];
    const auto of_head = static_cast<int>(operand.head_dim / kWidth);
    work.shape.operands[o] = squad_operand(job, operand);
    if (o == latent.operand) {
      latent.vectors = of_head;
    } else {
      vectors += static_cast<int>(operand.heads) * of_head;
    }
    latent.of_head[o] = of_head;
    latent.ends[o] = vectors;
  }
  for (int o = job.operand_count; o < job::kPrepareOperands; ++o) latent.ends[o] = vectors;
  const job::PrepareOperand& wide = job.operands[latent.operand];
  latent.sink_count = wide.sink_count;
  for (int s = 0; s < wide.sink_count; ++s) {
    const job::PrepareSink& sink = wide.sinks[s];
    latent.sinks[s] = {{}, static_cast<int>(sink.first), static_cast<int>(sink.count)};
    set_sink(latent.sinks[s].as, sink, wide.heads, job.turn.dtype);
    work.shape.makes_scales |= sink.scales == CacheScales::Kind::made;
  }
  return work;
}

SquadLaunch latent_launch(const LatentWork& work) {
  const int vectors = work.latent.ends[job::kPrepareOperands - 1];
  const int groups = (vectors + kLatentThreads - 1) / kLatentThreads;
  return {{static_cast<unsigned>(work.job.turn.tokens), static_cast<unsigned>(groups > 1 ? groups : 1),
           static_cast<unsigned>(work.job.turn.batch)},
          kLatentThreads};
}

}  // namespace phasor::cuda
