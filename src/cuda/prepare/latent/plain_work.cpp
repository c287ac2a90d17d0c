// SPDX-License-Identifier: Apache-2.0
// Which calls of MLA are plain, and how they are cut.
#include "cuda/prepare/latent/plain_work.hpp"

#include <algorithm>

namespace phasor::cuda {
namespace {

constexpr std::int64_t kGroup = kLatentChannels / kLatentGroups;

bool is_of_neighbours(const job::PrepareSink& sink, DType dtype) {
  SquadOperand as;
  set_sink(as, sink, 1, dtype);
  return as.by_vectors && sink.inner >= sink.count;
}
bool is_stored_whole(const job::PrepareJob& job, const job::PrepareSink& sink) {
  return sink.storage == job::storage_of(job.turn.dtype) && sink.scales == CacheScales::Kind::none &&
         is_of_neighbours(sink, job.turn.dtype);
}
bool is_stored_by_groups(const job::PrepareSink& sink, DType dtype) {
  return sink.storage == Storage::f8_e4m3 && sink.scales == CacheScales::Kind::made && sink.group == kGroup && !sink.powers_of_two &&
         !sink.multiplies && sink.least_scale >= 0x1p-126F && sink.scale_strides[3] == sizeof(float) && is_of_neighbours(sink, dtype);
}
bool has_plain_sinks(const job::PrepareJob& job, const job::PrepareOperand& k) {
  const job::PrepareSink& first = k.sinks[0];
  if (k.sink_count == 1) return first.first == 0 && first.count == k.head_dim && is_stored_whole(job, first);
  const job::PrepareSink& second = k.sinks[1];
  if (first.first != 0 || first.count != kLatentChannels || second.first != kLatentChannels || second.count != kTurnedChannels)
    return false;
  for (int axis = 0; axis < 2; ++axis) {
    if (first.strides[axis] != second.strides[axis] || first.strides[axis] != first.scale_strides[axis]) return false;
  }
  return is_stored_by_groups(first, job.turn.dtype) && is_stored_whole(job, second);
}
bool has_plain_norm(const job::PrepareOperand& k, DType dtype) {
  const job::PrepareNorm& norm = k.norm;
  if (norm.kind == HeadNorm::Kind::none) return true;
  return norm.kind == HeadNorm::Kind::rms && norm.width == kLatentChannels && norm.weight != nullptr && norm.weight_dtype == dtype &&
         !norm.one_plus && norm.casts_before_weight;
}
bool is_plain_key(const job::PrepareJob& job, const job::PrepareOperand& k) {
  return k.placed && k.turns && k.heads == 1 && k.head_dim == kLatentChannels + kTurnedChannels && k.rotary_offset == kLatentChannels &&
         has_plain_norm(k, job.turn.dtype) && has_plain_sinks(job, k);
}
bool is_plain_query(const job::PrepareJob& job, const job::PrepareOperand& q) {
  return !q.placed && q.turns && !q.scales && q.head_dim == kTurnedChannels && q.rotary_offset == 0 && is_stored_whole(job, q.sinks[0]);
}
const job::PrepareOperand& key_of(const job::PrepareJob& job) { return job.operands[job.operand_count - 1]; }

}  // namespace

bool is_plain_latent(const job::PrepareJob& job) {
  const job::RowSource& rows = job.turn.rows;
  if (job.kept || job.turn.pairs != kTurnedPairs || rows.kind == job::RowSource::Kind::tables || rows.axis_of_pair != nullptr) return false;
  if (job.places.kind == TokenPlaces::Kind::in_order || job.places.block_shift < 0) return false;
  if (job.operand_count > 2 || !is_plain_key(job, key_of(job))) return false;
  return job.operand_count == 1 || is_plain_query(job, job.operands[0]);
}

PlainLatentWork plain_latent_work(const job::PrepareJob& job) {
  PlainLatentWork work = {{}, {token_shape(job), job}};
  PlainLatentShape& plain = work.plain;
  const job::PrepareOperand& key = key_of(job);
  const SquadOperand k = squad_operand(job, key);
  const job::PrepareSink& last = key.sinks[key.sink_count - 1];
  plain.tokens = static_cast<int>(job.turn.tokens);
  plain.turned_heads = 1;
  plain.norms = k.norm != HeadNorm::Kind::none;
  plain.epsilon = k.epsilon;
  plain.sines = work.squads.shape.sines;
  plain.slots = work.squads.shape.slots;
  plain.k_in = k.in;
  plain.k_in_batch = k.in_batch;
  plain.k_in_token = k.in_token;
  plain.weight = k.weight;
  plain.latent_out = k.out;
  plain.turned_out = last.data + (key.sink_count == 1 ? kLatentChannels * bytes_of(job.turn.dtype) : 0);
  plain.scales_out = key.sinks[0].scale_data;
  plain.k_out_block = k.out_block;
  plain.k_out_token = k.out_token;
  plain.least_scale = key.sinks[0].least_scale;
  if (job.operand_count == 1) {  // behind the last head is this one
    plain.q_in = k.in + kLatentChannels * bytes_of(job.turn.dtype);
    plain.q_in_batch = k.in_batch;
    plain.q_in_token = k.in_token;
    return work;
  }
  const SquadOperand q = squad_operand(job, job.operands[0]);
  plain.turned_heads += static_cast<int>(job.operands[0].heads);
  plain.q_in = q.in;
  plain.q_in_batch = q.in_batch;
  plain.q_in_token = q.in_token;
  plain.q_in_head = q.in_head;
  plain.q_out = q.out;
  plain.q_out_batch = q.out_block;
  plain.q_out_token = q.out_token;
  plain.q_out_head = q.out_head;
  return work;
}

PlainLatentCall plain_latent_call(PlainLatentWork& work, std::int64_t tokens) {
  const job::PrepareJob& job = work.squads.job;
  const bool few = tokens <= kFewPlainLatentTokens;
  const int rounds = few ? 1 : kManyTurnedRounds;
  const int of_piece = rounds * kTurnedHeads;
  const int warps = few ? 1 : kPlainLatentWarps;
  work.plain.apart = tokens <= kSomePlainLatentTokens ? 1 : 0;
  const int pieces = work.plain.apart + (work.plain.turned_heads + of_piece - 1) / of_piece;
  return {
      rounds,
      key_of(job).sink_count == 2,
      {{static_cast<unsigned>((job.turn.tokens + warps - 1) / warps), static_cast<unsigned>(pieces), static_cast<unsigned>(job.turn.batch)},
       static_cast<unsigned>(warps * kLatentLanes)}};
}

}  // namespace phasor::cuda
