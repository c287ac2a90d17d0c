// SPDX-License-Identifier: Apache-2.0
// The memory of an attention call, tensor by tensor.
#include "job/attention/devices.hpp"

#include <string>

#include "job/check.hpp"
#include "spec/format.hpp"

namespace phasor::job {
namespace {

// ---- Tensors of terms ----

template <class Read>
void each_tensor(const BiasTerm& term, const Read& read) {
  read("gate", term.gate);
  read("parameters", term.parameters);
}
template <class Read>
void each_tensor(const TableTerm& term, const Read& read) {
  read("table", term.table);
  read("features", term.features);
  read("shift", term.shift);
}
template <class Read>
void each_tensor(const SegmentTerm& term, const Read& read) {
  read("table", term.table);
  read("shift", term.shift);
  for (const Positions& segments : {term.query_segments, term.key_segments}) {
    if (segments.data != nullptr) read("segments", view_of(segments));
  }
}
template <class Read>
void each_tensor(const GridTerm& term, const Read& read) {
  read("table", term.table);
}
template <class Read>
void each_tensor(const DecomposedTerm& term, const Read& read) {
  read("rows_h", term.rows_h);
  read("rows_w", term.rows_w);
}
template <class Read>
void each_tensor(const DenseTerm& term, const Read& read) {
  read("bias", term.bias);
}
template <class Read>
void each_tensor(const CopeTerm& term, const Read& read) {
  read("table", term.table);
}

/// Stops at the first that is elsewhere. Words are made only then: a call that decodes has no time for them.
class OneDevice {
 public:
  OneDevice(const char* where, Device wanted) : where_(where), wanted_(wanted) {}

  Status status;

  /// What is seen from now on belongs to number `index` of `list`; null: to the call itself.
  void owned_by(const char* list, std::size_t index = 0) {
    list_ = list;
    index_ = index;
  }
  void see(const char* name, const void* data, Device device) {
    if (!status || data == nullptr || device == wanted_) return;
    const std::string owner = list_ == nullptr ? std::string() : spec::format("{}[{}].", list_, index_);
    status = check_device(where_, (owner + name + " is").c_str(), device, wanted_);
  }
  void see(const char* name, const ConstTensorView& view) { see(name, view.data, view.device); }
  void see(const char* name, const std::optional<Positions>& positions) {
    if (positions) see(name, positions->data, positions->device);
  }
  void see(const char* name, const Integers& list) { see(name, list.data, list.device); }

 private:
  const char* where_;
  Device wanted_;
  const char* list_ = nullptr;
  std::size_t index_ = 0;
};

void see_spec(const AttentionSpec& spec, OneDevice& one) {
  const Visibility& visible = spec.visibility;
  one.see("content_shift", spec.content_shift);
  one.see("sinks", spec.sinks);
  one.see("query_positions", spec.query_positions);
  one.see("key_positions", spec.key_positions);
  one.see("prefix", visible.prefix);
  one.see("query_starts", visible.query_starts);
  one.see("key_starts", visible.key_starts);
  one.see("key_mask", visible.key_mask.data, visible.key_mask.device);
  for (std::size_t t = 0; t < spec.terms.size(); ++t) {
    one.owned_by("terms", t);
    each_term_tensor(spec.terms[t], [&](const char* name, const ConstTensorView& view) { one.see(name, view); });
  }
  one.owned_by(nullptr);
}

}  // namespace

void each_term_tensor(const AttentionTerm& term, const std::function<void(const char*, const ConstTensorView&)>& read) {
  std::visit([&](const auto& one) { each_tensor(one, read); }, term);
}

void each_gradient(const AttentionGradients& gradients, const std::function<void(const std::string&, const TensorView&)>& write) {
  write("gradients.q", gradients.q);
  write("gradients.k", gradients.k);
  write("gradients.v", gradients.v);
  write("gradients.content_shift", gradients.content_shift);
  write("gradients.sinks", gradients.sinks);
  for (std::size_t t = 0; t < gradients.terms.size(); ++t) {
    const TermGradient& g = gradients.terms[t];
    const std::string owner = spec::format("gradients.terms[{}].", t);
    write(owner + "table", g.table);
    write(owner + "second", g.second);
    write(owner + "features", g.features);
    write(owner + "shift", g.shift);
    write(owner + "parameters", g.parameters);
  }
}

Status check_devices(const AttentionMemory& memory) {
  OneDevice one(memory.where, memory.inputs.q.device);
  one.see("k", memory.inputs.k);
  one.see("v", memory.inputs.v);
  see_spec(memory.spec, one);
  if (memory.outputs != nullptr) {
    one.see("out", memory.outputs->out);
    one.see("lse", memory.outputs->lse);
  }
  if (memory.saved != nullptr) {
    one.see("saved.out", memory.saved->out);
    one.see("saved.lse", memory.saved->lse);
    one.see("saved.out_gradient", memory.saved->out_gradient);
    one.see("saved.lse_gradient", memory.saved->lse_gradient);
  }
  if (memory.gradients != nullptr) {
    each_gradient(*memory.gradients, [&](const std::string& name, const TensorView& view) { one.see(name.c_str(), view); });
  }
  if (memory.weights != nullptr) {
    one.see("weights", memory.weights->weights);
    one.see("factors", memory.weights->factors);
  }
  return one.status;
}

Status check_devices(const char* where, std::span<const AttentionPart> parts, const AttentionOutputs& outputs) {
  OneDevice one(where, outputs.out.device);
  one.see("lse", outputs.lse);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    one.owned_by("parts", n);
    one.see("out", parts[n].out);
    one.see("lse", parts[n].lse);
  }
  return one.status;
}

}  // namespace phasor::job
