// SPDX-License-Identifier: Apache-2.0
// Attention over caches by CUDA's decoding kernel, run by the host with emulated instructions, where that takes a call; gathered where not.
#pragma once

#include "attention/general/gathered.hpp"
#include "cuda/attention/decode/call.hpp"

namespace phasor::test {

void run_decode(const cuda::decode::DecodeWork& work);

/// How many calls the decoding kernel had.
inline int decoded_calls = 0;

/// As src/cuda/attention/cached/run.cu does it, but for shifted queries, whose kernel is no body that the host has.
inline Status decoded_on(const job::CachedAttentionJob& job, const cuda::decode::DecodeLayout& layout) {
  ++decoded_calls;
  AttentionMachine machine;
  if (job.attention.term_count > 0 && !layout.dense_bias) {
    if (Status s = cuda::attention::prepare(layout.terms, machine); !s) return s;
  }
  if (layout.row_bias) {
    each_block(row_bias_items(*layout.row_bias), [&](std::int64_t n) { make_row_bias(*layout.row_bias, n); });
  }
  if (layout.dense_bias) {
    each_block(dense_bias_items(*layout.dense_bias), [&](std::int64_t n) { make_dense_bias(*layout.dense_bias, n); });
  }
  if (layout.rotates) {
    cuda::attention::GatherWork positions;
    positions.lengths = job.lengths, positions.sequences = job.sequences, positions.room = job::room_of(job);
    positions.queries = job.attention.q.shape[1];
    positions.query_positions = layout.made_positions;
    each_block(gather_items(positions), [&](std::int64_t n) { gather_item(positions, n); });
    job::RotateJob rotation = job::rotation_of(job.attention.content.queries, InOut(job.attention.q, layout.rotated), layout.positions);
    if (Status s = machine.rotate(rotation); !s) return s;
  }
  run_decode(layout.work);
  return {};
}

/// Calls over caches are decoded where they can be, and gathered for a machine where not.
template <class Machine>
void decoded_by(backend::Backend& backend) {
  backend.cached_attention_workspace = [](const job::CachedAttentionJob& job) -> Result<std::int64_t> {
    attend::Arena measure;
    if (cuda::decode::lay_out(job, measure)) return measure.needed();
    return cuda::attention::gathered_workspace(job);
  };
  backend.cached_attention = [](job::CachedAttentionJob& job, const Workspace& workspace, const Execution&) -> Status {
    attend::Arena arena(workspace);
    const auto layout = cuda::decode::lay_out(job, arena);
    if (!layout) {
      Machine machine;
      return gathered_on(machine, job, workspace);
    }
    if (Status s = arena.check("cached_attention"); !s) return s;
    return decoded_on(job, *layout);
  };
}

}  // namespace phasor::test
