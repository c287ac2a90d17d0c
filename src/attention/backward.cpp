// SPDX-License-Identifier: Apache-2.0
// The backward of attention: check, lay out, run the kernels stage by stage, hand the sums out.
#include "attention/backward.hpp"

#include <algorithm>

#include "cpu/attention.hpp"
#include "cpu/attention_backward_buffers.hpp"
#include "cpu/runner.hpp"
#include "job/check.hpp"
#include "job/element.hpp"

namespace phasor::attend {
namespace {

/// Below, key tiles are cut into parts, so that a long sequence of few key heads has work for several threads.
constexpr std::int64_t kEnoughTasks = 8;

bool wants_any(const TermGradient& g) {
  return is_wanted(g.table) || is_wanted(g.second) || is_wanted(g.features) || is_wanted(g.shift) || !g.parameters.empty();
}

/// Takes memory of the job's T, whatever that is.
class Buffers {
 public:
  Buffers(Arena& arena, const job::AttentionJob& job) : arena_(&arena), size_(bytes_of(job.arithmetic)) {}
  void* take(std::int64_t count, bool wanted = true) const { return wanted ? arena_->take_bytes(count * size_) : nullptr; }

 private:
  Arena* arena_;
  std::int64_t size_;
};

/// Gradients by q and k, as contents have them and as given.
void take_gradients(const Call& call, const Buffers& buffers, job::AttentionJob& job) {
  const job::AttentionShape& s = job.shape;
  job::BackwardJob& b = job.backward;
  const std::int64_t q_size = b.parts * s.batch * s.heads * s.queries * s.padded_width;
  const std::int64_t k_size = s.batch * s.key_heads * s.keys * s.padded_width;
  for (int c = 0; c < job.content_count; ++c) {
    b.q[c] = buffers.take(q_size, b.wants_q);
    b.k[c] = buffers.take(k_size, b.wants_k);
  }
  const bool as_given = std::holds_alternative<PlainContent>(call.spec->content);
  b.q_raw = as_given ? b.q[0] : buffers.take(q_size, b.wants_q);
  b.k_raw = as_given ? b.k[0] : buffers.take(k_size, b.wants_k);
  b.v = buffers.take(s.batch * s.key_heads * s.keys * s.padded_value_width, b.wants_v);
  const std::int64_t slots = static_cast<std::int64_t>(job.sequences.size()) * b.parts * s.heads;
  b.shift = buffers.take(slots * s.padded_width, b.wants_shift);
}

/// Scratch of every strip: the loops' buffers, then those of each term.
void take_scratch(Arena& arena, Prepared& prepared) {
  job::AttentionJob& job = prepared.job;
  std::int64_t used =
      job.arithmetic == DType::f64 ? cpu::backward_buffers<double>(job, nullptr).used : cpu::backward_buffers<float>(job, nullptr).used;
  auto* const begins = arena.take<std::int64_t>(static_cast<std::int64_t>(prepared.terms.size()));
  for (std::size_t t = 0; t < prepared.terms.size(); ++t) {
    if (begins != nullptr) begins[t] = used;
    used += job::padded(std::visit([&](const auto& term) { return scratch_of(term, job, true); }, prepared.terms[t]));
  }
  job.term_scratch = begins;
  job.scratch_bytes = (used * bytes_of(job.arithmetic) + 63) / 64 * 64;
  job.scratch = arena.take<std::byte>(job.strips * job.scratch_bytes);
}

/// Everything of the job but what only the call itself has: what was saved.
Status lay_out(const Call& call, Arena& arena, Prepared& prepared) {
  if (Status s = prepare(call, arena, prepared); !s) return s;
  if (Status s = check_gradients(call); !s) return s;
  job::AttentionJob& job = prepared.job;
  job::BackwardJob& b = job.backward;
  const AttentionGradients& gradients = *call.gradients;
  b.q_out = gradients.q;
  b.k_out = gradients.k;
  b.v_out = gradients.v;
  b.wants_q = is_wanted(gradients.q);
  b.wants_k = is_wanted(gradients.k);
  b.wants_v = is_wanted(gradients.v);
  b.wants_shift = is_wanted(gradients.content_shift);
  b.wants_terms = std::any_of(gradients.terms.begin(), gradients.terms.end(), wants_any);
  const std::int64_t tasks = std::max({static_cast<std::int64_t>(job.sequences.size()) * job.shape.key_heads * b.parts,
                                       job.shape.batch * job.shape.heads, std::int64_t{1}});
  job.strips = std::min(tasks, job::kMaxStrips);
  take_gradients(call, Buffers(arena, job), job);
  take_scratch(arena, prepared);
  return {};
}

struct Stage {
  const job::AttentionJob* job;
  const cpu::AttentionBackwardKernels* kernels;
  cpu::BackwardStage stage;
};
void run(const Stage& stage, const Runner& runner) {
  Stage own = stage;
  const cpu::Task task = [](void* context, std::int64_t strip) {
    const auto* s = static_cast<const Stage*>(context);
    s->kernels->backward(*s->job, s->stage, strip);
  };
  cpu::run_tasks(runner, stage.job->strips, task, &own);
}

/// Sums of slots, in order, added to the caller's tensor; heads may share.
void add_shift_gradient(const job::AttentionJob& job, const TensorView& out) {
  const std::int64_t heads = job.shape.heads;
  const std::int64_t slots = static_cast<std::int64_t>(job.sequences.size()) * job.backward.parts * heads;
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

Status finish_terms(const Call& call, const Prepared& prepared) {
  for (std::size_t t = 0; t < call.gradients->terms.size(); ++t) {
    if (!wants_any(call.gradients->terms[t])) continue;
    const TermContext context = context_of(call, prepared, t);
    const Status status = std::visit(
        [&](const auto& term, const auto& made) -> Status {
          if constexpr (requires { finish_term(term, made, context); }) {
            return finish_term(term, made, context);
          } else {
            return {};  // no such pair is ever made
          }
        },
        call.spec->terms[t], prepared.terms[t]);
    if (!status) return status;
  }
  return {};
}

Status run_all(const Call& call, const Prepared& prepared) {
  const Result<const cpu::AttentionBackwardKernels*> kernels = cpu::active_attention_backward();
  if (!kernels) return kernels.status();
  const job::AttentionJob& job = prepared.job;
  const Runner& runner = call.spec->runner;
  run({&job, *kernels, cpu::BackwardStage::pack}, runner);
  run({&job, *kernels, cpu::BackwardStage::tasks}, runner);
  if (job.backward.parts > 1) run({&job, *kernels, cpu::BackwardStage::add_parts}, runner);
  if (Status s = undo_contents(call, prepared); !s) return s;
  run({&job, *kernels, cpu::BackwardStage::store}, runner);
  if (job.backward.wants_shift) add_shift_gradient(job, call.gradients->content_shift);
  return finish_terms(call, prepared);
}

}  // namespace

std::int64_t backward_parts(const AttentionSpec& spec, const job::AttentionJob& job) {
  const auto is_cope = [](const AttentionTerm& term) { return std::holds_alternative<CopeTerm>(term); };
  if (std::any_of(spec.terms.begin(), spec.terms.end(), is_cope)) return 1;  // its counts run over all key tiles, in order
  const std::int64_t tasks = static_cast<std::int64_t>(job.sequences.size()) * job.shape.key_heads;
  if (tasks == 0 || tasks >= kEnoughTasks) return 1;
  const std::int64_t tiles = (job.shape.keys + job::kKeyTile - 1) / job::kKeyTile;
  return std::clamp<std::int64_t>((kEnoughTasks + tasks - 1) / tasks, 1, std::max<std::int64_t>(tiles, 1));
}

}  // namespace phasor::attend

namespace phasor {

Result<std::int64_t> attention_backward_workspace(const AttentionInputs& inputs, const AttentionSpec& spec,
                                                  const AttentionGradients& gradients) {
  const attend::Call call = {&inputs, &spec, &gradients, "attention_backward"};
  attend::Arena arena;
  attend::Prepared prepared;
  if (Status s = attend::lay_out(call, arena, prepared); !s) return s;
  return arena.needed();
}

Status attention_backward(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionSaved& saved,
                          const AttentionGradients& gradients, std::span<std::byte> workspace) {
  const Result<std::int64_t> needed = attention_backward_workspace(inputs, spec, gradients);
  if (!needed) return needed.status();
  const attend::Call call = {&inputs, &spec, &gradients, "attention_backward"};
  if (Status s = attend::check_saved(call, saved); !s) return s;
  const auto size = static_cast<std::int64_t>(workspace.size());
  if (size < *needed) return job::error(call.where, "workspace has {} bytes, wanted {}", size, *needed);
  attend::Arena arena(workspace);
  attend::Prepared prepared;
  if (Status s = attend::lay_out(call, arena, prepared); !s) return s;
  job::BackwardJob& b = prepared.job.backward;
  b.out = saved.out;
  b.lse = saved.lse;
  b.out_gradient = saved.out_gradient;
  b.lse_gradient = saved.lse_gradient;
  return attend::run_all(call, prepared);
}

}  // namespace phasor
