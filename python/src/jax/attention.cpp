// SPDX-License-Identifier: Apache-2.0
// Attention for JAX, forward and backward.
#include "phasor/attention.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "jax/attention_tensors.hpp"
#include "jax/failure.hpp"
#include "jax/handlers.hpp"
#include "jax/plans.hpp"
#include "phasor/serialised.hpp"

namespace phasor::python::jax {

namespace {

Attention attention_of(std::string_view text) {
  return plans<Attention>().of(text,
                               [](std::string_view scheme) { return demand(Attention::make(demand(attention_scheme_from_json(scheme)))); });
}

/// Scores, so that small calls stay on one thread.
std::int64_t work_of(const AttentionInputs& inputs) {
  return inputs.q.shape[0] * inputs.q.shape[1] * inputs.q.shape[2] * inputs.k.shape[1];
}

AttentionInputs inputs_of(const Call& call, const Calls& calls, std::int64_t i) {
  return {calls.tensor(call.argument(0, 4), i), calls.tensor(call.argument(1, 4), i), calls.tensor(call.argument(2, 4), i)};
}

Workspace workspace_of(Call& call) {
  return {{}, [&call](std::int64_t bytes) { return call.block(bytes); }};
}

/// Where a gradient goes, by its name.
TensorView& place_of(const Slot& slot, AttentionGradients& gradients) {
  if (slot.term) {
    TermGradient& term = gradients.terms[*slot.term];
    if (slot.name == "table") return term.table;
    if (slot.name == "second") return term.second;
    if (slot.name == "features") return term.features;
    if (slot.name == "shift") return term.shift;
    if (slot.name == "parameters") return term.parameters;
  } else {
    if (slot.name == "q") return gradients.q;
    if (slot.name == "k") return gradients.k;
    if (slot.name == "v") return gradients.v;
    if (slot.name == "content_shift") return gradients.content_shift;
    if (slot.name == "sinks") return gradients.sinks;
  }
  throw Failure(ErrorKind::unsupported, "attention: a gradient of " + std::string(slot.name) + " is wanted, which it has not");
}

bool is_of_qkv(const Slot& slot) { return !slot.term && slot.name.size() == 1; }

/// The gradients that a call wants, results in the order of their names.
class Wanted {
 public:
  Wanted(const Call& call, std::size_t terms) : slots_(slots_of(call.text("wanted"))), terms_(terms) {
    std::int64_t number = 0;
    for (Slot& slot : slots_) {
      slot.operand = call.result(number++, 4);
      demand(!slot.term || *slot.term < terms, "attention: a gradient is wanted of a term that its scheme has not");
      if (call.on_gpu() && !is_of_qkv(slot))
        throw Failure(ErrorKind::unsupported, "attention: gradients of tables in JAX are the CPU's alone");
    }
    demand(!slots_.empty(), "attention: no gradient is wanted");
  }
  const Operand& first() const { return slots_.front().operand; }
  std::vector<Operand> operands() const {
    std::vector<Operand> all;
    for (const Slot& slot : slots_) all.push_back(slot.operand);
    return all;
  }
  /// The core writes gradients of q, k and v, and adds the others to what is there.
  AttentionGradients gradients(const Calls& calls, std::int64_t i) const {
    AttentionGradients made = {.terms = std::vector<TermGradient>(terms_)};
    for (const Slot& slot : slots_) {
      place_of(slot, made) = calls.tensor(slot.operand, i);
      const std::int64_t elements = calls.rows(slot.operand) * slot.operand.own(1) * slot.operand.own(2) * slot.operand.own(3);
      if (!is_of_qkv(slot)) std::memset(calls.at(slot.operand, i), 0, static_cast<std::size_t>(elements * bytes_of(slot.operand.dtype())));
    }
    return made;
  }
  /// Tables have a gradient in every mapped call: only those of tokens have rows that fold.
  bool of_tokens() const {
    return std::ranges::all_of(slots_, [](const Slot& slot) { return is_of_qkv(slot) || slot.name == "features"; });
  }

 private:
  std::vector<Slot> slots_;
  std::size_t terms_;
};

}  // namespace

void attend(Call& call) {
  const Attention plan = attention_of(call.text("scheme"));
  const AttentionTensorsOf tensors(call, plan, 3);
  const Operand out = call.result(0, 4);
  const Operand lse = call.result(1, 4);
  Calls calls(out);
  tensors.fold(calls, {out, lse, call.argument(0, 4), call.argument(1, 4), call.argument(2, 4)});
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const AttentionInputs inputs = inputs_of(call, calls, i);
    AttentionSpec spec = tensors.spec(calls, i);
    spec.execution = call.execution(work_of(inputs));
    demand(attention(inputs, spec, {calls.tensor(out, i), calls.tensor(lse, i)}, workspace_of(call)));
    call.free_blocks();
  }
}

void attend_backward(Call& call) {
  constexpr std::int64_t kBefore = 6;  // q, k, v, out, lse, gradient of out
  const Attention plan = attention_of(call.text("scheme"));
  const AttentionTensorsOf tensors(call, plan, kBefore);
  const Wanted wanted(call, plan.scheme().terms.size());
  Calls calls(wanted.first());
  if (wanted.of_tokens()) {
    std::vector<Operand> whole = wanted.operands();
    for (std::int64_t i = 0; i < kBefore; ++i) whole.push_back(call.argument(i, 4));
    tensors.fold(calls, whole);
  }
  const Operand* const lse_gradient = tensors.find("lse_gradient");
  for (std::int64_t i = 0; i < calls.count(); ++i) {
    const AttentionInputs inputs = inputs_of(call, calls, i);
    AttentionSpec spec = tensors.spec(calls, i);
    spec.execution = call.execution(work_of(inputs));
    const AttentionSaved saved = {calls.tensor(call.argument(3, 4), i), calls.tensor(call.argument(4, 4), i),
                                  calls.tensor(call.argument(5, 4), i),
                                  lse_gradient == nullptr ? ConstTensorView() : ConstTensorView(calls.tensor(*lse_gradient, i))};
    demand(attention_backward(inputs, spec, saved, wanted.gradients(calls, i), workspace_of(call)));
    call.free_blocks();
  }
}

}  // namespace phasor::python::jax
