// SPDX-License-Identifier: Apache-2.0
// Attention for Python: what phasor/_attention is made of.
#include "phasor/attention.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string_view>
#include <vector>

#include "attention/run.hpp"
#include "bindings.hpp"
#include "phasor/serialised.hpp"

namespace phasor::python {

namespace {

using nb::literals::operator""_a;

/// Scores, so that small calls stay on one thread.
std::int64_t work_of(const AttentionInputs& inputs) {
  return inputs.q.shape[0] * inputs.q.shape[1] * inputs.q.shape[2] * inputs.k.shape[1];
}

void forward(nb::handle qkv, const Attention& plan, const nb::dict& given, nb::handle out, nb::handle lse, nb::handle workspace) {
  AttentionCall call(plan, given);
  Tensors tensors;
  const AttentionInputs inputs = tensors.inputs(qkv);
  call.check_mask(inputs.k.shape[0], inputs.k.shape[1]);
  const AttentionOutputs outputs = {tensors.write(out, "out"), tensors.write(lse, "lse")};
  run_call(call, tensors.place(), work_of(inputs), workspace,
           [&](const Workspace& memory) { return attention(inputs, call.spec, outputs, memory); });
}

/// saved: out, lse, gradient of out, gradient of lse or None. gradients: of q, k, v, the content shift and the sinks, None where not
/// wanted.
void backward(nb::handle qkv, const Attention& plan, const nb::dict& dict, nb::handle saved, nb::handle gradients, nb::handle terms,
              nb::handle workspace, bool deterministic) {
  AttentionCall call(plan, dict);
  call.set_gradients(terms);
  Tensors tensors;
  const AttentionInputs inputs = tensors.inputs(qkv);
  call.check_mask(inputs.k.shape[0], inputs.k.shape[1]);
  const AttentionSaved given = {tensors.read(saved[0], "out"), tensors.read(saved[1], "lse"), tensors.read(saved[2], "out gradient"),
                                tensors.read(saved[3], "lse gradient")};
  const AttentionGradients wanted = {.q = tensors.write(gradients[0], "q gradient"),
                                     .k = tensors.write(gradients[1], "k gradient"),
                                     .v = tensors.write(gradients[2], "v gradient"),
                                     .content_shift = tensors.write(gradients[3], "content_shift gradient"),
                                     .sinks = tensors.write(gradients[4], "sinks gradient"),
                                     .terms = call.gradients,
                                     .deterministic = deterministic};
  run_call(call, tensors.place(), work_of(inputs), workspace,
           [&](const Workspace& memory) { return attention_backward(inputs, call.spec, given, wanted, memory); });
}

/// first: batch row, query and head of the block.
void weights(nb::handle qkv, const Attention& plan, const nb::dict& given, nb::handle first, nb::handle out, nb::handle factors,
             nb::handle workspace) {
  AttentionCall call(plan, given);
  Tensors tensors;
  const AttentionInputs inputs = tensors.inputs(qkv);
  call.check_mask(inputs.k.shape[0], inputs.k.shape[1]);
  const AttentionRows rows = {nb::cast<std::int64_t>(first[0]), nb::cast<std::int64_t>(first[1]), nb::cast<std::int64_t>(first[2])};
  const AttentionWeights wanted = {tensors.write(out, "weights"), tensors.write(factors, "factors")};
  run_call(call, tensors.place(), work_of(inputs), workspace,
           [&](const Workspace& memory) { return attention_weights(inputs, call.spec, rows, wanted, memory); });
}

void merge(nb::handle parts, nb::handle out, nb::handle lse) {
  Tensors tensors;
  std::vector<AttentionPart> views;
  for (const nb::handle part : parts) views.push_back({tensors.read(part[0], "out of a part"), tensors.read(part[1], "lse of a part")});
  const AttentionOutputs outputs = {tensors.write(out, "out"), tensors.write(lse, "lse")};
  run_unlocked(tensors.place(), 0, [&](const Execution& execution) { return merge_attention(views, outputs, execution); });
}

nb::dict explain(nb::handle qkv, const Attention& plan, const nb::dict& given) {
  const AttentionCall call(plan, given);
  Tensors tensors;
  const AttentionInputs inputs = tensors.inputs(qkv);
  call.check_mask(inputs.k.shape[0], inputs.k.shape[1]);
  const AttentionReport report = value_of(explain_attention(inputs, call.spec));
  nb::dict result;
  result["query_tile"] = report.query_tile;
  result["key_tile"] = report.key_tile;
  result["band_tiles"] = report.band_tiles;
  result["far_tiles"] = report.far_tiles;
  result["unseen_tiles"] = report.unseen_tiles;
  result["operations"] = report.operations;
  result["plain_operations"] = report.plain_operations;
  result["bytes"] = report.bytes;
  result["workspace"] = report.workspace;
  result["words"] = report.words;
  return result;
}

}  // namespace

void bind_attention(nb::module_& m) {
  nb::class_<Attention>(m, "Attention", "An attention scheme made ready; its tensors come with each call.")
      .def(
          "__init__",
          [](Attention* self, nb::handle scheme) {
            new (self) Attention(value_of(Attention::make(read<AttentionScheme>(scheme, "AttentionScheme"))));
          },
          "scheme"_a)
      .def_prop_ro("text", [](const Attention& self) { return self.serialised(); }, "The scheme as text.");
  m.def(
      "attention_from_json", [](std::string_view text) { return value_of(Attention::make(value_of(attention_scheme_from_json(text)))); },
      "text"_a, "The Attention of a scheme's text.");
  // `workspace` makes an array of so many bytes where the tensors are; None: memory of the host, made here.
  m.def("attention", &forward, "qkv"_a, "plan"_a, "tensors"_a, "out"_a, "lse"_a.none(), "workspace"_a.none() = nb::none(),
        "Writes out (B, Tq, H, Dv) and lse (B, Tq, H, 1). `workspace` makes an array of so many bytes where the tensors are.");
  m.def("attention_backward", &backward, "qkv"_a, "plan"_a, "tensors"_a, "saved"_a, "gradients"_a, "terms"_a.none(),
        "workspace"_a.none() = nb::none(), "deterministic"_a = true, "Writes the gradients of q, k, v; adds those of the rest.");
  m.def("attention_weights", &weights, "qkv"_a, "plan"_a, "tensors"_a, "first"_a, "out"_a, "factors"_a.none(),
        "workspace"_a.none() = nb::none(), "Writes the weights of some rows, and what dropout multiplies them by.");
  m.def("merge_attention", &merge, "parts"_a, "out"_a, "lse"_a.none(), "Outputs over disjoint sets of keys, made one.");
  m.def("explain_attention", &explain, "qkv"_a, "plan"_a, "tensors"_a, "What a call would do.");
}

}  // namespace phasor::python
