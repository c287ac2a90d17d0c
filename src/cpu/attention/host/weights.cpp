// SPDX-License-Identifier: Apache-2.0
// Weights of some rows: a forward call without values, for the tiles of queries that hold those rows.
#include <algorithm>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/run.hpp"
#include "cpu/attention/kernels.hpp"
#include "cpu/attention/scratch.hpp"
#include "job/check.hpp"

namespace phasor::cpu {
namespace {

using attend::Arena;
using attend::Prepared;

/// Prepared, and the tiles that hold rows of the block.
struct PreparedWeights {
  Prepared prepared;
  std::vector<std::int64_t> tiles;
};

std::vector<std::int64_t> tiles_of(const attend::AttentionJob& job) {
  const attend::WeightsJob& block = job.weights;
  std::vector<std::int64_t> tiles;
  for (std::size_t t = 0; t < job.query_tiles.size(); ++t) {
    const attend::TokenTile& tile = job.query_tiles[t];
    const std::int64_t batch = job.sequences[static_cast<std::size_t>(tile.sequence)].batch;
    if (batch < block.batch || batch >= block.batch + block.weights.shape[0]) continue;
    if (tile.first + tile.count <= block.query || tile.first >= block.query + block.weights.shape[1]) continue;
    tiles.push_back(static_cast<std::int64_t>(t));
  }
  return tiles;
}

Status lay_out(const job::AttentionWeightsJob& asked, const Runner& runner, Arena& arena, PreparedWeights& out) {
  const attend::Call call = {&asked.forward, nullptr, &runner, "attention_weights", true};
  if (Status s = attend::prepare(call, arena, out.prepared); !s) return s;
  attend::AttentionJob& job = out.prepared.job;
  job.weights.batch = asked.rows.batch;
  job.weights.query = asked.rows.query;
  job.weights.head = asked.rows.head;
  job.weights.weights = asked.weights.weights;
  job.weights.factors = asked.weights.factors;
  out.tiles = tiles_of(job);
  job.weights.tiles = out.tiles;
  const std::int64_t tasks = static_cast<std::int64_t>(out.tiles.size()) * job.weights.weights.shape[2];
  attend::take_scratch({forward_layout(job).terms, tasks, false}, arena, out.prepared);
  return {};
}

}  // namespace

Result<std::int64_t> attention_weights_workspace(const job::AttentionWeightsJob& asked) {
  Arena measure;
  PreparedWeights measured;
  if (Status s = lay_out(asked, {}, measure, measured); !s) return s;
  return measure.needed();
}

Status run_attention_weights(job::AttentionWeightsJob& asked, const Workspace& workspace, const Execution& execution) {
  const Result<const AttentionKernels*> kernels = active_attention();
  if (!kernels.ok()) return kernels.status();
  Arena arena(workspace);
  PreparedWeights made;
  if (Status s = lay_out(asked, execution.runner, arena, made); !s) return s;
  if (Status s = arena.check("attention_weights"); !s) return s;
  if (job::is_empty(asked.weights.weights)) return {};
  if (Status s = attend::pack_panels(made.prepared, execution.runner); !s) return s;
  const attend::AttentionJob& job = made.prepared.job;
  attend::run_each(execution.runner, job.strips, [&](std::int64_t strip) { (*kernels)->weights(job, strip); });
  return {};
}

}  // namespace phasor::cpu
