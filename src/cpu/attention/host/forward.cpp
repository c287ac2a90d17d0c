// SPDX-License-Identifier: Apache-2.0
// Attention forward: lay out, run the kernels.
#include "cpu/attention/host/forward.hpp"

#include <cmath>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/run.hpp"
#include "cpu/attention/host_terms/sinks.hpp"
#include "cpu/attention/kernels.hpp"
#include "cpu/attention/scratch.hpp"
#include "job/check.hpp"
#include "job/element.hpp"

namespace phasor {

namespace attend {

Status lay_out_forward(const Call& call, Arena& arena, Prepared& out) {
  if (Status s = prepare(call, arena, out); !s) return s;
  attend::AttentionJob& job = out.job;
  const attend::AttentionShape& shape = job.shape;
  std::int64_t tasks = static_cast<std::int64_t>(job.query_tiles.size()) * shape.heads;
  if (job.key_splits > 0) {
    tasks = static_cast<std::int64_t>(job.sequences.size()) * shape.key_heads * job.key_splits;
    const std::int64_t rows = job.key_splits * shape.batch * shape.queries * shape.heads;
    job.partial_out = arena.take_bytes(rows * shape.padded_value_width * bytes_of(job.arithmetic));
    job.partial_max = arena.take_bytes(rows * bytes_of(job.arithmetic));
    job.partial_sum = arena.take_bytes(rows * bytes_of(job.arithmetic));
  }
  take_scratch({cpu::forward_layout(job).terms, tasks, false}, arena, out);
  return {};
}

}  // namespace attend

namespace {

using attend::Arena;
using attend::Call;
using attend::Prepared;

/// No key for any query: zeros, or what is no number if the sink is none.
void fill_unseen(const job::AttentionJob& asked) {
  const auto fill = [](const TensorView& v, const auto& value_of) {
    if (v.data == nullptr) return;
    const auto [batch, tokens, heads, channels] = v.shape;
    for (std::int64_t n = 0; n < batch * tokens * heads; ++n) {
      const std::int64_t token = n / heads;
      const std::int64_t row = token / tokens * v.strides[0] + token % tokens * v.strides[1] + n % heads * v.strides[2];
      for (std::int64_t c = 0; c < channels; ++c) job::store_element(v.data, v.dtype, row + c, value_of(n % heads));
    }
  };
  const auto lse_of = [&](std::int64_t head) { return attend::lse_without_keys(asked.sinks, head); };
  fill(asked.outputs.out, [&](std::int64_t head) { return std::isnan(lse_of(head)) ? lse_of(head) : 0.0; });
  fill(asked.outputs.lse, lse_of);
}

void run(const Prepared& prepared, const cpu::AttentionKernels& kernels, const Runner& runner) {
  const attend::AttentionJob& job = prepared.job;
  attend::run_each(runner, job.strips, [&](std::int64_t strip) { kernels.forward(job, strip); });
  if (job.key_splits > 0) attend::run_each(runner, job.strips, [&](std::int64_t strip) { kernels.merge(job, strip); });
}

}  // namespace

namespace cpu {

Result<std::int64_t> attention_workspace(const job::AttentionJob& asked) {
  const Execution none = {};
  Arena measure;
  Prepared measured;
  if (Status s = attend::lay_out_forward({&asked, nullptr, &none.runner, "attention"}, measure, measured); !s) return s;
  return measure.needed();
}

Status run_attention(job::AttentionJob& asked, const Workspace& workspace, const Execution& execution) {
  const Call call = {&asked, nullptr, &execution.runner, "attention"};
  const Result<const AttentionKernels*> kernels = active_attention();
  if (!kernels.ok()) return kernels.status();
  Arena arena(workspace);
  Prepared prepared;
  if (Status s = attend::lay_out_forward(call, arena, prepared); !s) return s;
  if (Status s = arena.check(call.where); !s) return s;
  if (job::is_empty(asked.outputs.out)) return {};
  if (asked.k.shape[1] == 0) {
    fill_unseen(asked);
    return {};
  }
  prepared.job.out = asked.outputs.out;
  prepared.job.lse = asked.outputs.lse;
  if (prepared.job.key_splits == 0) {
    if (Status s = attend::pack_panels(prepared, execution.runner); !s) return s;
  }
  run(prepared, **kernels, execution.runner);
  return {};
}

}  // namespace cpu
}  // namespace phasor
