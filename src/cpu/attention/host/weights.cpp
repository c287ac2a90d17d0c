// SPDX-License-Identifier: Apache-2.0
// Weights of some rows: a forward call without values, for the tiles of queries that hold those rows.
#include <algorithm>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/run.hpp"
#include "cpu/attention/kernels.hpp"
#include "cpu/attention/scratch.hpp"
#include "job/attention/check.hpp"
#include "job/check.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::cpu {
namespace {

using attend::Arena;
using attend::Call;
using attend::Prepared;

constexpr const char* kWhere = "attention_weights";

/// What is computed. Values do not matter to weights: k stands in for v, and tables on their side are left out.
struct WeightsCall {
  AttentionInputs inputs;
  AttentionSpec spec;
  AttentionRows rows;
  AttentionWeights weights;

  WeightsCall(const AttentionInputs& given, const AttentionSpec& how, const AttentionRows& from, const AttentionWeights& to)
      : inputs(given), spec(how), rows(from), weights(to) {
    inputs.v = inputs.k;
    spec.skip = TileSkip::none;
    std::erase_if(spec.terms, [](const AttentionTerm& term) {
      const auto* table = std::get_if<TableTerm>(&term);
      return table != nullptr && table->side == TableSide::value;
    });
  }
  Call call() const { return {.inputs = &inputs, .spec = &spec, .gradients = nullptr, .where = kWhere, .weights = true}; }
};

/// Prepared, and the tiles that hold rows of the block.
struct PreparedWeights {
  Prepared prepared;
  std::vector<std::int64_t> tiles;
};

Status check_block(const WeightsCall& of) {
  const Extents& shape = of.weights.weights.shape;
  const Extents& q = of.inputs.q.shape;
  const struct {
    const char* name;
    std::int64_t first, count, all;
  } axes[] = {
      {"batch rows", of.rows.batch, shape[0], q[0]}, {"queries", of.rows.query, shape[1], q[1]}, {"heads", of.rows.head, shape[2], q[2]}};
  for (const auto& axis : axes) {
    if (axis.first >= 0 && axis.count >= 0 && axis.first <= axis.all && axis.count <= axis.all - axis.first) continue;
    return job::error(kWhere, "weights has {} {} from {} on, q has {}, wanted some of those", axis.count, axis.name, axis.first, axis.all);
  }
  return {};
}

std::vector<std::int64_t> tiles_of(const job::AttentionJob& job) {
  const job::WeightsJob& block = job.weights;
  std::vector<std::int64_t> tiles;
  for (std::size_t t = 0; t < job.query_tiles.size(); ++t) {
    const job::TokenTile& tile = job.query_tiles[t];
    const std::int64_t batch = job.sequences[static_cast<std::size_t>(tile.sequence)].batch;
    if (batch < block.batch || batch >= block.batch + block.weights.shape[0]) continue;
    if (tile.first + tile.count <= block.query || tile.first >= block.query + block.weights.shape[1]) continue;
    tiles.push_back(static_cast<std::int64_t>(t));
  }
  return tiles;
}

Status lay_out(const WeightsCall& of, Arena& arena, PreparedWeights& out) {
  if (Status s = attend::prepare(of.call(), arena, out.prepared); !s) return s;
  job::AttentionJob& job = out.prepared.job;
  job.weights.batch = of.rows.batch;
  job.weights.query = of.rows.query;
  job.weights.head = of.rows.head;
  job.weights.weights = of.weights.weights;
  job.weights.factors = of.weights.factors;
  out.tiles = tiles_of(job);
  job.weights.tiles = out.tiles;
  const std::int64_t tasks = static_cast<std::int64_t>(out.tiles.size()) * job.weights.weights.shape[2];
  attend::take_scratch({forward_layout(job).terms, tasks, false}, arena, out.prepared);
  return {};
}

Status check_outputs(const WeightsCall& of, std::span<const std::byte> workspace) {
  const attend::NamedView written[] = {{"weights", of.weights.weights}, {"factors", of.weights.factors}};
  const DType wanted = of.inputs.q.dtype == DType::f64 ? DType::f64 : DType::f32;
  Extents shape = of.weights.weights.shape;
  shape[3] = of.inputs.k.shape[1];
  if (Status s = job::check_tensor_of(kWhere, written[0], shape, wanted); !s) return s;
  if (of.weights.factors.data != nullptr) {
    if (Status s = job::check_tensor_of(kWhere, written[1], shape, wanted); !s) return s;
  }
  return attend::check_memory(of.call(), {written, {}, workspace});
}

Status check(const WeightsCall& of) {
  if (Status s = attend::check_call(of.call()); !s) return s;
  return check_block(of);
}

Status run(const WeightsCall& of, const Workspace& workspace) {
  if (Status s = check(of); !s) return s;
  if (Status s = check_outputs(of, workspace.memory); !s) return s;
  const Result<const AttentionKernels*> kernels = active_attention();
  if (!kernels.ok()) return kernels.status();
  Arena arena(workspace);
  PreparedWeights made;
  if (Status s = lay_out(of, arena, made); !s) return s;
  if (Status s = arena.check(kWhere); !s) return s;
  if (job::is_empty(of.weights.weights)) return {};
  const Runner& runner = of.spec.execution.runner;
  if (Status s = attend::pack_panels(made.prepared, runner); !s) return s;
  const job::AttentionJob& job = made.prepared.job;
  attend::run_each(runner, job.strips, [&](std::int64_t strip) { (*kernels)->weights(job, strip); });
  return {};
}

}  // namespace

Result<std::int64_t> attention_weights_workspace(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                                                 const AttentionWeights& weights) {
  return spec::without_exceptions([&]() -> Result<std::int64_t> {
    const WeightsCall of(inputs, spec, rows, weights);
    if (Status s = check(of); !s) return s;
    Arena measure;
    PreparedWeights measured;
    if (Status s = lay_out(of, measure, measured); !s) return s;
    return measure.needed();
  });
}

Status run_attention_weights(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                             const AttentionWeights& weights, const Workspace& workspace) {
  return spec::without_exceptions([&] { return run(WeightsCall(inputs, spec, rows, weights), workspace); });
}

}  // namespace phasor::cpu
