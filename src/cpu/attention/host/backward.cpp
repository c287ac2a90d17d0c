// SPDX-License-Identifier: Apache-2.0
// The backward of attention: lay out, run the kernels stage by stage, hand the sums out.
#include "cpu/attention/host/backward.hpp"

#include <algorithm>

#include "cpu/attention/backward/buffers.hpp"
#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/run.hpp"
#include "cpu/attention/host_tables/slots.hpp"
#include "cpu/attention/host_terms/sinks.hpp"
#include "cpu/attention/kernels.hpp"
#include "job/check.hpp"
#include "job/element.hpp"

namespace phasor::attend {
namespace {

/// Below, key tiles are cut into parts, so that a long sequence of few key heads has work for several threads.
constexpr std::int64_t kEnoughTasks = 8;

using job::is_wanted;

bool wants_any(const TermGradient& g) {
  return is_wanted(g.table) || is_wanted(g.second) || is_wanted(g.features) || is_wanted(g.shift) || is_wanted(g.parameters);
}

/// Takes memory of the job's T, whatever that is.
class Buffers {
 public:
  Buffers(Arena& arena, const AttentionJob& job) : arena_(&arena), size_(bytes_of(job.arithmetic)) {}
  void* take(std::int64_t count, bool wanted = true) const { return wanted ? arena_->take_bytes(count * size_) : nullptr; }

 private:
  Arena* arena_;
  std::int64_t size_;
};

/// Gradients by q and k, as contents have them and as given.
void take_gradients(const Call& call, const Buffers& buffers, AttentionJob& job) {
  const AttentionShape& s = job.shape;
  BackwardJob& b = job.backward;
  const std::int64_t q_size = b.parts * s.batch * s.heads * s.queries * s.padded_width;
  const std::int64_t k_size = s.batch * s.key_heads * s.keys * s.padded_width;
  for (int c = 0; c < job.content_count; ++c) {
    b.q[c] = buffers.take(q_size, b.wants_q);
    b.k[c] = buffers.take(k_size, b.wants_k);
  }
  const bool as_given = call.asked->content.kind == job::ContentKind::plain;
  b.q_raw = as_given ? b.q[0] : buffers.take(q_size, b.wants_q);
  b.k_raw = as_given ? b.k[0] : buffers.take(k_size, b.wants_k);
  b.v = buffers.take(s.batch * s.key_heads * s.keys * s.padded_value_width, b.wants_v);
  b.shift = buffers.take(slots_of(job) * s.padded_width, b.wants_shift);
}

/// Everything of the job but what only the call itself has: what was saved.
Status lay_out(const Call& call, Arena& arena, Prepared& prepared) {
  if (Status s = prepare(call, arena, prepared); !s) return s;
  AttentionJob& job = prepared.job;
  BackwardJob& b = job.backward;
  const job::AttentionBackwardJob& gradients = *call.gradients;
  b.q_out = gradients.q;
  b.k_out = gradients.k;
  b.v_out = gradients.v;
  b.wants_q = is_wanted(gradients.q);
  b.wants_k = is_wanted(gradients.k);
  b.wants_v = is_wanted(gradients.v);
  b.wants_shift = is_wanted(gradients.content_shift);
  for (std::int64_t t = 0; t < call.asked->term_count; ++t) b.wants_terms = b.wants_terms || wants_any(call.asked->terms[t].gradient);
  take_gradients(call, Buffers(arena, job), job);
  if (is_wanted(gradients.sinks)) b.sinks = arena.take<double>(job.shape.heads * static_cast<std::int64_t>(job.query_tiles.size()));
  const std::int64_t loops =
      job.arithmetic == DType::f64 ? cpu::backward_buffers<double>(job, nullptr).used : cpu::backward_buffers<float>(job, nullptr).used;
  const std::int64_t tasks = static_cast<std::int64_t>(job.groups.size()) * job.shape.key_heads * b.parts;
  take_scratch({loops, std::max(tasks, job.shape.batch * job.shape.heads), true}, arena, prepared);
  return {};
}

/// Sums of slots, in order, added to the caller's tensor; heads may share.
void add_shift_gradient(const AttentionJob& job, const TensorView& out) {
  const std::int64_t heads = job.shape.heads;
  if (heads == 0) return;
  const std::int64_t slots = slots_of(job);
  const std::int64_t shared = heads / out.shape[2];
  for (std::int64_t h = 0; h < out.shape[2]; ++h) {
    for (std::int64_t d = 0; d < job.shape.width; ++d) {
      double sum = 0;
      for (std::int64_t slot = h; slot < slots; slot += shared == 1 ? heads : 1) {
        sum += job::load_element(job.backward.shift, job.arithmetic, slot * job.shape.padded_width + d);
      }
      const std::int64_t at = h * out.strides[2] + d * out.strides[3];
      job::store_element(out.data, out.dtype, at, job::load_element(out.data, out.dtype, at) + sum);
    }
  }
}

void finish_terms(const Call& call, Prepared& prepared) {
  for (std::size_t t = 0; t < prepared.terms.size(); ++t) {
    const job::AttentionTermJob& asked = call.asked->terms[t];
    if (!wants_any(asked.gradient)) continue;
    const TermContext context = context_of(call, prepared, t);
    job::with_term(asked, [&](const auto& term) {
      std::visit(
          [&](const auto& made) {
            if constexpr (requires { finish_term(term, made, context); }) finish_term(term, made, context);  // no other pair is ever made
          },
          prepared.terms[t]);
    });
  }
}

Status run_all(const Call& call, Prepared& prepared) {
  const Result<const cpu::AttentionBackwardKernels*> kernels = cpu::active_attention_backward();
  if (!kernels) return kernels.status();
  const AttentionJob& job = prepared.job;
  const auto run = [&](cpu::BackwardStage stage) {
    run_each(*call.runner, job.strips, [&](std::int64_t strip) { (*kernels)->backward(job, stage, strip); });
  };
  run(cpu::BackwardStage::pack);
  run(cpu::BackwardStage::tasks);
  if (job.backward.parts > 1) run(cpu::BackwardStage::add_parts);
  if (job.backward.sinks != nullptr) {
    run(cpu::BackwardStage::sinks);
    add_sink_gradient(job, call.gradients->sinks);
  }
  if (Status s = undo_contents(call, prepared); !s) return s;
  run(cpu::BackwardStage::store);
  if (job.backward.wants_shift) add_shift_gradient(job, call.gradients->content_shift);
  finish_terms(call, prepared);
  return {};
}

Status backward_all(const Call& call, const Workspace& workspace) {
  Arena arena(workspace);
  Prepared prepared;
  if (Status s = lay_out(call, arena, prepared); !s) return s;
  if (Status s = arena.check(call.where); !s) return s;
  const AttentionSaved& saved = call.gradients->saved;
  BackwardJob& b = prepared.job.backward;
  b.out = saved.out;
  b.lse = saved.lse;
  b.out_gradient = saved.out_gradient;
  b.lse_gradient = saved.lse_gradient;
  return run_all(call, prepared);
}

}  // namespace

bool has_cope(const job::AttentionJob& asked) {
  return std::any_of(asked.terms, asked.terms + asked.term_count,
                     [](const job::AttentionTermJob& term) { return term.kind == job::TermKind::cope; });
}

std::int64_t backward_parts(const job::AttentionJob& asked, const AttentionJob& job) {
  if (has_cope(asked)) return 1;  // its counts run over all key tiles, in order
  const std::int64_t tasks = static_cast<std::int64_t>(job.sequences.size()) * job.shape.key_heads;
  if (tasks == 0 || tasks >= kEnoughTasks) return 1;
  const std::int64_t tiles = (job.shape.keys + kKeyTile - 1) / kKeyTile;
  return std::clamp<std::int64_t>((kEnoughTasks + tasks - 1) / tasks, 1, std::max<std::int64_t>(tiles, 1));
}

}  // namespace phasor::attend

namespace phasor::cpu {

Result<std::int64_t> attention_backward_workspace(const job::AttentionBackwardJob& asked) {
  const Execution none = {};
  attend::Arena measure;
  attend::Prepared measured;
  if (Status s = attend::lay_out({&asked.forward, &asked, &none.runner, "attention_backward"}, measure, measured); !s) return s;
  return measure.needed();
}

Status run_attention_backward(job::AttentionBackwardJob& asked, const Workspace& workspace, const Execution& execution) {
  return attend::backward_all({&asked.forward, &asked, &execution.runner, "attention_backward"}, workspace);
}

}  // namespace phasor::cpu
