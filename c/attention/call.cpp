// SPDX-License-Identifier: Apache-2.0
// Tensors of a call of attention, by their names in C.
#include "attention/call.hpp"

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "core/array.hpp"
#include "core/call.hpp"
#include "core/tensor.hpp"
#include "handles.hpp"
#include "specs/cache.hpp"
#include "specs/position_map.hpp"

namespace phasor::c {
namespace {

/// Batch rows (or sequences) and keys that a mask must have a byte for.
using MaskShape = std::array<std::int64_t, 2>;

KeyMask key_mask_of(const char* where, const phasor_tensor* tensor, const MaskShape& wanted) {
  const MaskView mask = mask_of(where, "key_mask", tensor);
  if (tensor == nullptr) return {};
  if ((mask.shape[0] != wanted[0] && mask.shape[0] != 1) || mask.shape[1] != wanted[1]) {
    const auto text = [](const MaskShape& s) { return "(" + std::to_string(s[0]) + ", " + std::to_string(s[1]) + ")"; };
    fail(std::string(where) + ": key_mask has shape " + text(mask.shape) + ", wanted " + text(wanted));
  }
  return {mask.data, mask.strides, mask.device};
}

std::optional<Positions> optional_positions(const char* where, const char* name, const phasor_positions* positions) {
  if (positions == nullptr) return std::nullopt;
  return positions_of(where, name, *positions);
}

/// "terms[2].table".
std::string of_term(std::size_t index, const char* name) { return "terms[" + std::to_string(index) + "]." + name; }

/// C++ does not look at the segments of other terms.
void check_segments(const std::string& name, const phasor_positions& segments) {
  if (segments.tensor != nullptr || segments.offset != 0) fail(name + " is given, wanted none by the scheme");
}

std::vector<TermTensors> terms_of(const char* where, const phasor_attention_tensors& c, const AttentionScheme& scheme) {
  std::vector<TermTensors> terms;
  for (const phasor_term_tensors& term : known_list(where, "terms", c.terms, c.term_count)) {
    const std::size_t i = terms.size();
    if (i < scheme.terms.size() && !std::holds_alternative<SegmentScheme>(scheme.terms[i])) {
      check_segments(std::string(where) + ": " + of_term(i, "query_segments"), term.query_segments);
      check_segments(std::string(where) + ": " + of_term(i, "key_segments"), term.key_segments);
    }
    const auto tensor = [&](const char* name, const phasor_tensor* given) { return tensor_of(where, of_term(i, name).c_str(), given); };
    terms.push_back({.table = tensor("table", term.table),
                     .second = tensor("second", term.second),
                     .features = tensor("features", term.features),
                     .shift = tensor("shift", term.shift),
                     .parameters = tensor("parameters", term.parameters),
                     .query_segments = positions_of(where, of_term(i, "query_segments").c_str(), term.query_segments),
                     .key_segments = positions_of(where, of_term(i, "key_segments").c_str(), term.key_segments)});
  }
  return terms;
}

AttentionSpec spec_of(const char* where, const phasor_scheme* scheme, const phasor_attention_tensors* tensors, const MaskShape& mask) {
  const Attention& attention = need(where, "scheme", scheme)->value;
  const phasor_attention_tensors c = known(where, "the tensors", tensors);
  const std::vector<TermTensors> terms = terms_of(where, c, attention.scheme());
  return value_of(attention.spec({.terms = terms,
                                  .content_shift = tensor_of(where, "content_shift", c.content_shift),
                                  .sinks = tensor_of(where, "sinks", c.sinks),
                                  .prefix = integers_of(where, "prefix", c.prefix),
                                  .query_starts = integers_of(where, "query_starts", c.query_starts),
                                  .key_starts = integers_of(where, "key_starts", c.key_starts),
                                  .key_mask = key_mask_of(where, c.key_mask, mask),
                                  .query_positions = optional_positions(where, "query_positions", c.query_positions),
                                  .key_positions = optional_positions(where, "key_positions", c.key_positions),
                                  .dropout_seed = c.dropout_seed,
                                  .dropout_offset = c.dropout_offset,
                                  .dropout_first_head = c.dropout_first_head,
                                  .dropout_first_sequence = c.dropout_first_sequence,
                                  .execution = execution_of(c.execution)}));
}

/// Keys that a cache has room for, of each sequence: what a mask goes by.
std::int64_t room_of(const CachedInputs& inputs) {
  const PageTable& pages = inputs.pages;
  if (pages.blocks.data == nullptr) return inputs.k.shape[static_cast<std::size_t>(CacheAxis::token)];
  std::int64_t room = 0;
  const bool fits = pages.lengths.size > 0 && !__builtin_mul_overflow(pages.blocks.size / pages.lengths.size, pages.page_size, &room);
  return fits ? room : 0;
}

}  // namespace

AttentionCall<AttentionInputs> attention_call_of(const char* where, const phasor_scheme* scheme, const phasor_attention_inputs* inputs,
                                                 Values values) {
  const phasor_attention_inputs c = known(where, "the inputs", need(where, "the inputs", inputs));
  const ConstTensorView k = tensor_of(where, "k", need(where, "k", c.k));
  const AttentionInputs given = {tensor_of(where, "q", need(where, "q", c.q)), k,
                                 values == Values::unused ? k : tensor_of(where, "v", need(where, "v", c.v))};
  return {given, spec_of(where, scheme, c.tensors, {given.k.shape[0], given.k.shape[1]})};
}

AttentionCall<CachedInputs> cached_call_of(const char* where, const phasor_scheme* scheme, const phasor_cached_inputs* inputs) {
  const phasor_cached_inputs c = known(where, "the inputs", need(where, "the inputs", inputs));
  const CachedInputs given = {tensor_of(where, "q", need(where, "q", c.q)), cache_view_of(where, "k", c.k), cache_view_of(where, "v", c.v),
                              page_table_of(where, c.pages)};
  return {given, spec_of(where, scheme, c.tensors, {given.q.shape[0], room_of(given)})};
}

AttentionOutputs attention_outputs_of(const char* where, const phasor_attention_outputs* outputs) {
  const phasor_attention_outputs c = known(where, "the outputs", need(where, "the outputs", outputs));
  return {tensor_of(where, "out", need(where, "out", c.out)), tensor_of(where, "lse", c.lse)};
}

AttentionSaved attention_saved_of(const char* where, const phasor_attention_saved* saved) {
  const phasor_attention_saved c = known(where, "what was saved", need(where, "what was saved", saved));
  return {.out = tensor_of(where, "out", need(where, "out", c.out)),
          .lse = tensor_of(where, "lse", need(where, "lse", c.lse)),
          .out_gradient = tensor_of(where, "out_gradient", need(where, "out_gradient", c.out_gradient)),
          .lse_gradient = tensor_of(where, "lse_gradient", c.lse_gradient)};
}

AttentionGradients attention_gradients_of(const char* where, const phasor_attention_gradients* gradients) {
  const phasor_attention_gradients c = known(where, "the gradients", need(where, "the gradients", gradients));
  AttentionGradients value = {.q = tensor_of(where, "the gradient of q", c.q),
                              .k = tensor_of(where, "the gradient of k", c.k),
                              .v = tensor_of(where, "the gradient of v", c.v),
                              .content_shift = tensor_of(where, "the gradient of content_shift", c.content_shift),
                              .sinks = tensor_of(where, "the gradient of sinks", c.sinks),
                              .deterministic = c.nondeterministic == 0};
  for (const phasor_term_gradient& term : known_list(where, "the gradients' terms", c.terms, c.term_count)) {
    const std::size_t i = value.terms.size();
    const auto tensor = [&](const char* name, const phasor_tensor* given) {
      return tensor_of(where, ("the gradient of " + of_term(i, name)).c_str(), given);
    };
    value.terms.push_back({.table = tensor("table", term.table),
                           .second = tensor("second", term.second),
                           .features = tensor("features", term.features),
                           .shift = tensor("shift", term.shift),
                           .parameters = tensor("parameters", term.parameters)});
  }
  return value;
}

Workspace workspace_of(const char* where, const phasor_workspace* workspace) {
  if (workspace == nullptr) return {};
  if (workspace->memory == nullptr && workspace->bytes > 0) {
    fail(std::string(where) + ": the workspace has " + std::to_string(workspace->bytes) + " bytes and null memory, wanted memory");
  }
  Workspace value(static_cast<std::byte*>(workspace->memory), workspace->bytes);
  if (workspace->more != nullptr) {
    value.more = [ask = workspace->more, context = workspace->context](std::int64_t bytes) -> std::span<std::byte> {
      void* const block = ask(context, bytes);
      if (block == nullptr) return {};
      return {static_cast<std::byte*>(block), static_cast<std::size_t>(bytes)};
    };
  }
  return value;
}

}  // namespace phasor::c
