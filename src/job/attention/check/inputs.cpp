// SPDX-License-Identifier: Apache-2.0
// Checks of an attention call, terms apart: shapes, dtypes, numbers, visibility, what goes with what.
#include <cmath>

#include "job/attention/check.hpp"
#include "job/attention/shape.hpp"
#include "job/check.hpp"
#include "job/positions/positions.hpp"
#include "spec/scheme/rules.hpp"

namespace phasor::job {
namespace {

/// Elements of a tensor, padded; keeps every size that follows from it within int64.
constexpr std::int64_t kMostElements = std::int64_t{1} << 46;

bool too_large(const ConstTensorView& v) {
  constexpr std::int64_t kPadding = 16;  // of channels, whoever pads them
  std::int64_t count = (v.shape[3] + kPadding - 1) / kPadding * kPadding;
  for (int axis = 0; axis < 3; ++axis) {
    if (__builtin_mul_overflow(count, v.shape[axis], &count)) return true;
  }
  return count > kMostElements;
}

Status check_input(const char* where, const char* name, const ConstTensorView& v) {
  if (Status s = check_view(where, name, v); !s) return s;
  if (v.shape[3] < 1) return error(where, "{} has width 0, wanted at least 1", name);
  if (too_large(v)) {
    return error(where, "{} has {} x {} x {} x {} elements, wanted at most 2^46", name, v.shape[0], v.shape[1], v.shape[2], v.shape[3]);
  }
  return {};
}

struct Same {
  const char* what;
  const char* first;
  std::int64_t is;
  const char* second;
  std::int64_t other;
};
Status check_same(const char* where, const Same& s) {
  if (s.is == s.other) return {};
  return error(where, "{} has {} {}, {} has {}, wanted the same", s.first, s.what, s.is, s.second, s.other);
}

Status check_inputs(const char* where, const AttentionInputs& in) {
  if (Status s = check_input(where, "q", in.q); !s) return s;
  if (Status s = check_input(where, "k", in.k); !s) return s;
  if (Status s = check_input(where, "v", in.v); !s) return s;
  if (in.k.dtype != in.q.dtype || in.v.dtype != in.q.dtype) {
    return error(where, "q is {}, k is {}, v is {}, wanted one dtype", name_of(in.q.dtype), name_of(in.k.dtype), name_of(in.v.dtype));
  }
  const Same wanted[] = {{"batch", "q", in.q.shape[0], "k", in.k.shape[0]},
                         {"batch", "k", in.k.shape[0], "v", in.v.shape[0]},
                         {"width", "q", in.q.shape[3], "k", in.k.shape[3]},
                         {"tokens", "k", in.k.shape[1], "v", in.v.shape[1]},
                         {"heads", "k", in.k.shape[2], "v", in.v.shape[2]}};
  for (const Same& one : wanted) {
    if (Status s = check_same(where, one); !s) return s;
  }
  const std::int64_t heads = in.q.shape[2];
  const std::int64_t key_heads = in.k.shape[2];
  if (key_heads == 0 ? heads != 0 : heads % key_heads != 0) {
    return error(where, "q has {} heads, k has {}, wanted a number that divides those of q", heads, key_heads);
  }
  return {};
}

Status check_numbers(const char* where, const AttentionSpec& spec) {
  if (spec.scale) {
    if (Status s = spec::check_finite(where, "scale", *spec.scale); !s) return s;
  }
  if (Status s = spec::check_softcap(where, spec.softcap); !s) return s;
  return spec::check_mask(where, "visibility.mask", spec.visibility.mask);
}

// ---- Visibility ----

/// Lists are where q is.
PositionsView beside_of(Device device) {
  PositionsView none = {};
  none.device = device;
  return none;
}

Status check_varlen(const AttentionCall& call, const AttentionShape& shape) {
  const char* const where = call.where;
  const Visibility& see = call.spec->visibility;
  const PositionsView beside = beside_of(call.inputs->q.device);
  if (!is_varlen(see)) return {};
  if (see.query_starts.size != see.key_starts.size) {
    return error(where, "query_starts has {} elements, key_starts has {}, wanted the same", see.query_starts.size, see.key_starts.size);
  }
  if (shape.batch != 1) return error(where, "q has batch {} and sequences by query_starts, wanted batch 1", shape.batch);
  if (Status s = check_list(where, "query_starts", see.query_starts, beside); !s) return s;
  return check_list(where, "key_starts", see.key_starts, beside);
}

Status check_key_mask(const char* where, const KeyMask& mask, const AttentionShape& shape) {
  if (mask.data == nullptr) return {};
  const std::int64_t extents[] = {shape.batch, shape.keys};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    std::int64_t reach = 0;
    if (!__builtin_mul_overflow(extents[axis], mask.strides[axis], &reach) && reach <= kMostElements && reach >= -kMostElements) continue;
    return error(where, "key_mask has stride {} on {} {}, wanted a reach of at most 2^46", mask.strides[axis], extents[axis],
                 axis == 0 ? "batch rows" : "keys");
  }
  return {};
}

Status check_visibility(const AttentionCall& call, const AttentionShape& shape) {
  const char* const where = call.where;
  const Visibility& see = call.spec->visibility;
  const PositionsView beside = beside_of(call.inputs->q.device);
  if (Status s = check_varlen(call, shape); !s) return s;
  if (Status s = check_key_mask(where, see.key_mask, shape); !s) return s;
  if (see.prefix.size == 0) return {};
  const std::int64_t sequences = sequences_of(call);
  if (Status s = check_list(where, "prefix", see.prefix, beside); !s) return s;
  if (see.prefix.size == sequences) return {};
  return error(where, "prefix has {} elements, wanted {}, one per sequence", see.prefix.size, sequences);
}

// ---- Positions: as far as their shape goes ----

Status check_given_positions(const std::string& where, const std::optional<Positions>& given, PositionShape wanted) {
  if (!given) return {};
  if (given->data != nullptr && given->type == PositionType::f64) return error(where.c_str(), "positions are f64, wanted i32 or i64");
  wanted.axes = std::max<std::int64_t>(given->shape[0], 1);
  return check_positions(where.c_str(), *given, wanted);
}

Status check_axes(const char* where, const AttentionSpec& spec) {
  const auto* rotary = std::get_if<RotaryContent>(&spec.content);
  if (rotary != nullptr && !rotary->map) return {};  // the rotary itself says which axes it wants
  for (const auto& [name, given] : {std::pair{"query_positions", &spec.query_positions}, {"key_positions", &spec.key_positions}}) {
    if (!*given || (*given)->data == nullptr || (*given)->shape[0] == 1) continue;
    return error(where, "{} have {} axes, wanted 1 (but for a rotary of several, without a map)", name, (*given)->shape[0]);
  }
  return {};
}

// ---- What goes with what ----

Status check_content(const char* where, const RotaryContent& content, const Visibility& see) {
  if (Status s = spec::check_key_state(where, content.keys); !s || !content.map) return s;
  if (Status s = spec::check_map_use(where, *content.map, content.keys, see.mask); !s) return s;
  return see.prefix.size == 0 ? Status() : error(where, "content has a map and a prefix is given, wanted none");
}
Status check_content(const char* where, const XposContent& content, const Visibility& /*see*/) {
  return spec::check_xpos(where, content.rotary.spec(), content.gamma, content.scale_base);
}
Status check_content(const char* /*where*/, const PlainContent& /*content*/, const Visibility& /*see*/) { return {}; }

Status check_shift(const char* where, const AttentionSpec& spec, const AttentionShape& shape) {
  const ConstTensorView& v = spec.content_shift;
  if (v.data == nullptr) return {};
  if (!std::holds_alternative<PlainContent>(spec.content)) {
    return Status::unsupported(std::string(where) + ": content_shift is given beside a rotated content, wanted PlainContent");
  }
  if (v.shape[0] != 1 || v.shape[1] != 1 || (v.shape[2] != 1 && v.shape[2] != shape.heads) || v.shape[3] != shape.width) {
    return error(where, "content_shift has shape ({}, {}, {}, {}), wanted (1, 1, {} or 1, {})", v.shape[0], v.shape[1], v.shape[2],
                 v.shape[3], shape.heads, shape.width);
  }
  ConstTensorView contiguous = v;  // any stride will do on the last axis, too: it is looked at as that of heads
  std::swap(contiguous.shape[3], contiguous.shape[1]);
  std::swap(contiguous.strides[3], contiguous.strides[1]);
  return check_view(where, "content_shift", contiguous);
}

spec::SkipRule skip_rule(const AttentionSpec& spec) {
  const auto* bias = spec.terms.size() == 1 ? std::get_if<BiasTerm>(&spec.terms[0]) : nullptr;
  return {.skip = spec.skip,
          .alibi = bias != nullptr ? std::get_if<Alibi>(&bias->bias.spec()) : nullptr,
          .gate = bias != nullptr && bias->gate.data != nullptr,
          .mask = spec.visibility.mask,
          .prefix = spec.visibility.prefix.size > 0,
          .plain = std::holds_alternative<PlainContent>(spec.content) && spec.content_shift.data == nullptr && spec.softcap == 0,
          .dropout = spec.dropout.probability};
}

Status check_term_rules(const AttentionCall& call) {
  const AttentionSpec& spec = *call.spec;
  for (std::size_t t = 0; t < spec.terms.size(); ++t) {
    if (std::holds_alternative<CopeTerm>(spec.terms[t]) && spec.visibility.mask != Mask::causal) {
      return error(call.where, "terms[{}] is CoPE and mask is full, wanted causal", t);
    }
  }
  if (call.gradients != nullptr && !call.gradients->terms.empty() && call.gradients->terms.size() != spec.terms.size()) {
    return error(call.where, "gradients.terms has {} elements, wanted {} or none", call.gradients->terms.size(), spec.terms.size());
  }
  return {};
}

Status check_dropout(const AttentionCall& call) {
  const Dropout& dropout = call.spec->dropout;
  if (Status s = spec::check_dropout_probability(call.where, "dropout.probability", dropout.probability); !s) return s;
  const struct {
    const char* name;
    std::int64_t first, count;
  } numbered[] = {{"first_head", dropout.first_head, call.inputs->q.shape[2]},
                  {"first_sequence", dropout.first_sequence, sequences_of(call)}};
  constexpr std::int64_t kMost = std::int64_t{1} << 32;  // a counter has a word for each
  for (const auto& one : numbered) {
    if (one.first >= 0 && one.first <= kMost && one.count <= kMost - one.first) continue;
    return error(call.where, "dropout.{} is {} for {} of them, wanted numbers from 0 to 2^32 - 1", one.name, one.first, one.count);
  }
  return {};
}

bool are_given(const ConstTensorView& sinks) { return sinks.data != nullptr || sinks.shape != Extents{}; }
Status check_sinks(const char* where, const ConstTensorView& v, const AttentionShape& shape) {
  if (!are_given(v)) return {};
  if (v.shape[0] != 1 || v.shape[1] != 1 || (v.shape[2] != 1 && v.shape[2] != shape.heads) || v.shape[3] != 1) {
    return error(where, "sinks has shape ({}, {}, {}, {}), wanted (1, 1, {} or 1, 1)", v.shape[0], v.shape[1], v.shape[2], v.shape[3],
                 shape.heads);
  }
  return check_view(where, "sinks", v);
}

}  // namespace

Status check_call(const AttentionCall& call) {
  const AttentionSpec& spec = *call.spec;
  if (Status s = check_inputs(call.where, *call.inputs); !s) return s;
  const AttentionShape shape = shape_of(*call.inputs);
  if (Status s = check_numbers(call.where, spec); !s) return s;
  if (Status s = check_visibility(call, shape); !s) return s;
  if (Status s = check_dropout(call); !s) return s;
  const std::string where = call.where;
  const PositionShape queries = {shape.batch, shape.queries, 1, call.inputs->q.device};
  const PositionShape keys = {shape.batch, shape.keys, 1, call.inputs->q.device};
  if (Status s = check_given_positions(where + ": query_positions", spec.query_positions, queries); !s) return s;
  if (Status s = check_given_positions(where + ": key_positions", spec.key_positions, keys); !s) return s;
  if (Status s = check_axes(call.where, spec); !s) return s;
  const auto of_content = [&](const auto& content) { return check_content(call.where, content, spec.visibility); };
  if (Status s = std::visit(of_content, spec.content); !s) return s;
  if (Status s = check_shift(call.where, spec, shape); !s) return s;
  if (Status s = check_sinks(call.where, spec.sinks, shape); !s) return s;
  if (Status s = spec::check_skip(call.where, skip_rule(spec)); !s) return s;
  if (Status s = check_term_rules(call); !s) return s;
  if (Status s = check_rotations(call); !s) return s;
  return check_terms(call);
}

}  // namespace phasor::job
