// SPDX-License-Identifier: Apache-2.0
// Attention in C: forward, backward, weights, parts, and over a cache.
#include "phasor/attention.hpp"

#include <vector>

#include "attention/call.hpp"
#include "core/call.hpp"
#include "core/lists.hpp"
#include "core/tensor.hpp"
#include "phasor/c/attention.h"
#include "phasor/cached_attention.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

/// Which rows, and where they go.
struct Weights {
  AttentionRows rows;
  AttentionWeights to;
};
Weights weights_of(const char* where, const phasor_attention_weights_call* call_of) {
  const phasor_attention_weights_call c = known(where, "the call", need(where, "the call", call_of));
  return {{.batch = c.batch, .query = c.query, .head = c.head},
          {tensor_of(where, "weights", need(where, "weights", c.weights)), tensor_of(where, "factors", c.factors)}};
}

phasor_attention_report c_report_of(const AttentionReport& report) {
  phasor_attention_report c{};
  c.query_tile = report.query_tile;
  c.key_tile = report.key_tile;
  c.band_tiles = report.band_tiles;
  c.far_tiles = report.far_tiles;
  c.unseen_tiles = report.unseen_tiles;
  c.operations = report.operations;
  c.plain_operations = report.plain_operations;
  c.bytes = report.bytes;
  c.workspace = report.workspace;
  return c;
}

}  // namespace

extern "C" {

phasor_status phasor_attention_workspace(const phasor_scheme* scheme, const phasor_attention_inputs* inputs, int64_t* bytes,
                                         phasor_error* error) {
  constexpr const char* kWhere = "attention_workspace";
  return call(error, [&] {
    need(kWhere, "bytes", bytes);
    const auto of = attention_call_of(kWhere, scheme, inputs);
    *bytes = value_of(attention_workspace(of.inputs, of.spec));
  });
}

phasor_status phasor_attention(const phasor_scheme* scheme, const phasor_attention_inputs* inputs, const phasor_attention_outputs* outputs,
                               const phasor_workspace* workspace, phasor_error* error) {
  constexpr const char* kWhere = "attention";
  return call(error, [&] {
    const auto of = attention_call_of(kWhere, scheme, inputs);
    const AttentionOutputs to = attention_outputs_of(kWhere, outputs);
    must(attention(of.inputs, of.spec, to, workspace_of(kWhere, workspace)));
  });
}

phasor_status phasor_explain_attention(const phasor_scheme* scheme, const phasor_attention_inputs* inputs, phasor_attention_report* report,
                                       phasor_text* text, phasor_error* error) {
  constexpr const char* kWhere = "explain_attention";
  return call(error, [&] {
    check_given(kWhere, "the report", report);
    const auto of = attention_call_of(kWhere, scheme, inputs);
    const AttentionReport made = value_of(explain_attention(of.inputs, of.spec));
    if (text != nullptr) give(kWhere, made.words, text);
    give(kWhere, "the report", c_report_of(made), report);
  });
}

phasor_status phasor_attention_backward_workspace(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                  const phasor_attention_gradients* gradients, int64_t* bytes, phasor_error* error) {
  constexpr const char* kWhere = "attention_backward_workspace";
  return call(error, [&] {
    need(kWhere, "bytes", bytes);
    const auto of = attention_call_of(kWhere, scheme, inputs);
    *bytes = value_of(attention_backward_workspace(of.inputs, of.spec, attention_gradients_of(kWhere, gradients)));
  });
}

phasor_status phasor_attention_backward(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                        const phasor_attention_saved* saved, const phasor_attention_gradients* gradients,
                                        const phasor_workspace* workspace, phasor_error* error) {
  constexpr const char* kWhere = "attention_backward";
  return call(error, [&] {
    const auto of = attention_call_of(kWhere, scheme, inputs);
    const AttentionSaved from = attention_saved_of(kWhere, saved);
    const auto to = attention_gradients_of(kWhere, gradients);
    must(attention_backward(of.inputs, of.spec, from, to, workspace_of(kWhere, workspace)));
  });
}

phasor_status phasor_attention_weights_workspace(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                 const phasor_attention_weights_call* call_of, int64_t* bytes, phasor_error* error) {
  constexpr const char* kWhere = "attention_weights_workspace";
  return call(error, [&] {
    need(kWhere, "bytes", bytes);
    const auto of = attention_call_of(kWhere, scheme, inputs, Values::unused);
    const Weights weights = weights_of(kWhere, call_of);
    *bytes = value_of(attention_weights_workspace(of.inputs, of.spec, weights.rows, weights.to));
  });
}

phasor_status phasor_attention_weights(const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                       const phasor_attention_weights_call* call_of, const phasor_workspace* workspace,
                                       phasor_error* error) {
  constexpr const char* kWhere = "attention_weights";
  return call(error, [&] {
    const auto of = attention_call_of(kWhere, scheme, inputs, Values::unused);
    const Weights weights = weights_of(kWhere, call_of);
    must(attention_weights(of.inputs, of.spec, weights.rows, weights.to, workspace_of(kWhere, workspace)));
  });
}

phasor_status phasor_merge_attention(const phasor_attention_part* parts, size_t count, const phasor_attention_outputs* outputs,
                                     const phasor_execution* execution, phasor_error* error) {
  constexpr const char* kWhere = "merge_attention";
  return call(error, [&] {
    std::vector<AttentionPart> list;
    for (const phasor_attention_part& part : span_of(kWhere, "parts", parts, count)) {
      list.push_back({tensor_of(kWhere, "the out of a part", need(kWhere, "the out of a part", part.out)),
                      tensor_of(kWhere, "the lse of a part", need(kWhere, "the lse of a part", part.lse))});
    }
    must(merge_attention(list, attention_outputs_of(kWhere, outputs), execution_of(execution)));
  });
}

phasor_status phasor_cached_attention_workspace(const phasor_scheme* scheme, const phasor_cached_inputs* inputs, int64_t* bytes,
                                                phasor_error* error) {
  constexpr const char* kWhere = "cached_attention_workspace";
  return call(error, [&] {
    need(kWhere, "bytes", bytes);
    const auto of = cached_call_of(kWhere, scheme, inputs);
    *bytes = value_of(cached_attention_workspace(of.inputs, of.spec));
  });
}

phasor_status phasor_cached_attention(const phasor_scheme* scheme, const phasor_cached_inputs* inputs,
                                      const phasor_attention_outputs* outputs, const phasor_workspace* workspace, phasor_error* error) {
  constexpr const char* kWhere = "cached_attention";
  return call(error, [&] {
    const auto of = cached_call_of(kWhere, scheme, inputs);
    const AttentionOutputs to = attention_outputs_of(kWhere, outputs);
    must(cached_attention(of.inputs, of.spec, to, workspace_of(kWhere, workspace)));
  });
}

}  // extern "C"
