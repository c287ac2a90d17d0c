// SPDX-License-Identifier: Apache-2.0
// The memory of an attention call, tensor by tensor.
#include "job/attention/devices.hpp"

#include <string>

#include "job/check.hpp"

namespace phasor::job {
namespace {

// ---- Tensors of terms ----

template <class Read>
void each_tensor(const BiasTerm& term, const Read& read) {
  read("gate", term.gate);
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

/// Stops at the first that is elsewhere.
class OneDevice {
 public:
  OneDevice(const char* where, Device wanted) : where_(where), wanted_(wanted) {}

  Status status;

  void see(const std::string& name, const void* data, Device device) {
    if (!status || data == nullptr) return;
    status = check_device(where_, (name + " is").c_str(), device, wanted_);
  }
  void see(const std::string& name, const ConstTensorView& view) { see(name, view.data, view.device); }
  void see(const std::string& name, const std::optional<Positions>& positions) {
    if (positions) see(name, positions->data, positions->device);
  }
  void see(const std::string& name, const Integers& list) { see(name, list.data, list.device); }

 private:
  const char* where_;
  Device wanted_;
};

void see_spec(const AttentionSpec& spec, OneDevice& one) {
  const Visibility& visible = spec.visibility;
  one.see("content_shift", spec.content_shift);
  one.see("query_positions", spec.query_positions);
  one.see("key_positions", spec.key_positions);
  one.see("prefix", visible.prefix);
  one.see("query_starts", visible.query_starts);
  one.see("key_starts", visible.key_starts);
  one.see("key_mask", visible.key_mask.data, visible.key_mask.device);
  for (std::size_t t = 0; t < spec.terms.size(); ++t) {
    const std::string owner = "terms[" + std::to_string(t) + "].";
    each_term_tensor(spec.terms[t], [&](const char* name, const ConstTensorView& view) { one.see(owner + name, view); });
  }
}

void see_gradients(const AttentionGradients& gradients, OneDevice& one) {
  one.see("gradients.q", gradients.q);
  one.see("gradients.k", gradients.k);
  one.see("gradients.v", gradients.v);
  one.see("gradients.content_shift", gradients.content_shift);
  for (std::size_t t = 0; t < gradients.terms.size(); ++t) {
    const TermGradient& g = gradients.terms[t];
    const std::string owner = "gradients.terms[" + std::to_string(t) + "].";
    one.see(owner + "table", g.table);
    one.see(owner + "second", g.second);
    one.see(owner + "features", g.features);
    one.see(owner + "shift", g.shift);
  }
}

}  // namespace

void each_term_tensor(const AttentionTerm& term, const std::function<void(const char*, const ConstTensorView&)>& read) {
  std::visit([&](const auto& one) { each_tensor(one, read); }, term);
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
  if (memory.gradients != nullptr) see_gradients(*memory.gradients, one);
  return one.status;
}

Status check_devices(const char* where, std::span<const AttentionPart> parts, const AttentionOutputs& outputs) {
  OneDevice one(where, outputs.out.device);
  one.see("lse", outputs.lse);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::string owner = "parts[" + std::to_string(n) + "].";
    one.see(owner + "out", parts[n].out);
    one.see(owner + "lse", parts[n].lse);
  }
  return one.status;
}

}  // namespace phasor::job
