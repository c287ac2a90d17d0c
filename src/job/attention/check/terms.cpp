// SPDX-License-Identifier: Apache-2.0
// Terms of attention, family by family: their tensors, fields and gradients. Tables by distance are in tables.cpp.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "job/attention/check.hpp"
#include "job/attention/shape.hpp"
#include "job/bias.hpp"
#include "spec/scheme/rules.hpp"

namespace phasor::job {
namespace {

// ---- Which gradients a term has ----

struct Held {
  const char* name;
  bool table = true;
  bool second = false;
  bool features = false;
  bool shift = false;
  bool parameters = false;
};
Held held_by(const BiasTerm& /*term*/) { return {.name = "a bias", .table = false, .features = true, .parameters = true}; }
Held held_by(const TableTerm& term) {
  if (term.side == TableSide::value) return {.name = "a table on the value side"};
  if (term.side == TableSide::key) return {.name = "a table on the key side", .features = true};
  return {.name = "a table on the query side", .features = true, .shift = true};
}
Held held_by(const SegmentTerm& /*term*/) { return {.name = "a segment term", .shift = true}; }
Held held_by(const GridTerm& /*term*/) { return {.name = "a grid bias"}; }
Held held_by(const DecomposedTerm& /*term*/) { return {.name = "a decomposed term", .second = true}; }
Held held_by(const DenseTerm& /*term*/) { return {.name = "a dense bias"}; }
Held held_by(const CopeTerm& /*term*/) { return {.name = "CoPE"}; }

/// That a term is asked for no gradient that it does not have.
Status check_held(const Held& held, const TermGradient& g, const char* where) {
  const struct {
    const char* name;
    bool wanted;
    bool held;
  } fields[] = {{"table", is_wanted(g.table), held.table},
                {"second", is_wanted(g.second), held.second},
                {"features", is_wanted(g.features), held.features},
                {"shift", is_wanted(g.shift), held.shift},
                {"parameters", is_wanted(g.parameters), held.parameters}};
  for (const auto& field : fields) {
    if (field.wanted && !field.held) {
      return error(where, "the gradient of {} is asked for, which {} does not have", field.name, held.name);
    }
  }
  return {};
}

// ---- Biases ----

Status check_bias_gradients(const BiasTerm& term, const TermCall& of) {
  const TermGradient& g = *of.gradient;
  const Extents wanted = {1, 1, 1, term.bias.parameter_count()};
  const ConstTensorView by = {&term, DType::f64, wanted, contiguous_strides(wanted)};  // its shape alone is looked at
  if (is_wanted(g.parameters) && g.parameters.shape != wanted) {
    const Extents& is = g.parameters.shape;
    return error(of.where, "the gradient of parameters has shape ({}, {}, {}, {}), wanted (1, 1, 1, {})", is[0], is[1], is[2], is[3],
                 wanted[3]);
  }
  if (Status s = check_gradient(of.where, g.parameters, by, "parameters"); !s) return s;
  return check_gradient(of.where, g.features, term.gate, "gate");
}

/// A window has places, and positions are those.
Status check_placed(const BiasTerm& term, const TermCall& of) {
  if (window_of(term.bias.spec()) == nullptr) return {};
  const AttentionSpec& spec = *of.call->spec;
  for (const auto& [name, given] : {std::pair{"query", &spec.query_positions}, {"key", &spec.key_positions}}) {
    if (!*given) return error(of.where, "a window wants {}_positions, those of fill_window", name);
  }
  return {};
}

// ---- Segments ----

Status check_segments(const char* where, const char* name, const Positions& segments, const PositionShape& wanted) {
  if (wanted.batch == 0 || wanted.tokens == 0) return {};
  if (segments.data == nullptr) return error(where, "{} has no memory, wanted a segment for each of {} tokens", name, wanted.tokens);
  if (segments.type == PositionType::f64) return error(where, "{} is f64, wanted integers", name);
  const std::string title = spec::format("{}: {}", where, name);
  return check_positions(title.c_str(), segments, wanted);
}

// ---- Grids ----

/// One axis of a decomposed term.
struct Axis {
  const char* name;
  const ConstTensorView* table;
  const TensorView* gradient;  // null: forward
  std::int64_t longest;        // of the two grids
};
Status check_axis(const Axis& axis, const TermCall& of) {
  const AttentionShape s = shape_of(*of.call->inputs);
  const TensorShape wanted{axis.name, {1, 2 * axis.longest - 1, s.heads, s.width}, {false, false, true, false}};
  if (Status status = check_tensor(of.where, *axis.table, wanted); !status) return status;
  return axis.gradient == nullptr ? Status() : check_gradient(of.where, *axis.gradient, *axis.table, axis.name);
}

}  // namespace

Status check_term(const BiasTerm& term, const TermCall& of) {
  const AttentionShape s = shape_of(*of.call->inputs);
  if (is_named(term.parameters)) {
    const TensorShape wanted = {"parameters", {1, 1, 1, term.bias.parameter_count()}, {}};
    if (Status status = check_tensor(of.where, term.parameters, wanted); !status) return status;
  }
  if (term.first_head < 0 || term.first_head > term.bias.heads() - s.heads) {
    return error(of.where, "{} heads from {} on are wanted, the bias has {}", s.heads, term.first_head, term.bias.heads());
  }
  if (is_named(term.gate)) {
    const TensorShape wanted = {"gate", {s.batch, s.queries, s.heads, 1}, {true, false, true, false}};
    if (Status status = check_tensor(of.where, term.gate, wanted); !status) return status;
  }
  if (Status status = check_placed(term, of); !status) return status;
  return of.gradient == nullptr ? Status() : check_bias_gradients(term, of);
}

Status check_term(const SegmentTerm& term, const TermCall& of) {
  const AttentionShape s = shape_of(*of.call->inputs);
  const Device device = of.call->inputs->q.device;
  const TensorShape table{"table", {1, 2, s.heads, s.width}, {false, false, true, false}};
  if (Status status = check_tensor(of.where, term.table, table); !status) return status;
  const TensorShape shift{"shift", {1, 1, s.heads, s.width}, {false, false, true, false}};
  if (is_named(term.shift)) {
    if (Status status = check_tensor(of.where, term.shift, shift); !status) return status;
  }
  if (Status status = spec::check_finite(of.where, "scale", term.scale.value_or(scale_of(*of.call))); !status) return status;
  const PositionShape queries = {s.batch, s.queries, 1, device};
  const PositionShape keys = {s.batch, s.keys, 1, device};
  if (Status status = check_segments(of.where, "query_segments", term.query_segments, queries); !status) return status;
  if (Status status = check_segments(of.where, "key_segments", term.key_segments, keys); !status) return status;
  if (of.gradient == nullptr) return {};
  if (Status status = check_gradient(of.where, of.gradient->table, term.table, "table"); !status) return status;
  return check_gradient(of.where, of.gradient->shift, term.shift, "shift");
}

Status check_term(const GridTerm& term, const TermCall& of) {
  if (Status status = spec::check_window(of.where, "window", term.window); !status) return status;
  const std::int64_t class_rows = term.class_token == ClassToken::first ? 3 : 0;
  const std::int64_t rows = (2 * term.window.height - 1) * (2 * term.window.width - 1) + class_rows;
  const TensorShape wanted{"table", {1, rows, of.call->inputs->q.shape[2], 1}, {false, false, true, false}};
  if (Status status = check_tensor(of.where, term.table, wanted); !status) return status;
  return of.gradient == nullptr ? Status() : check_gradient(of.where, of.gradient->table, term.table, "table");
}

Status check_term(const DecomposedTerm& term, const TermCall& of) {
  if (Status status = spec::check_window(of.where, "query_grid", term.query_grid); !status) return status;
  if (Status status = spec::check_window(of.where, "key_grid", term.key_grid); !status) return status;
  if (Status status = spec::check_finite(of.where, "scale", term.scale); !status) return status;
  const TermGradient* const g = of.gradient;
  const Axis y = {"rows_h", &term.rows_h, g != nullptr ? &g->table : nullptr, std::max(term.query_grid.height, term.key_grid.height)};
  const Axis x = {"rows_w", &term.rows_w, g != nullptr ? &g->second : nullptr, std::max(term.query_grid.width, term.key_grid.width)};
  if (Status status = check_axis(y, of); !status) return status;
  return check_axis(x, of);
}

Status check_term(const DenseTerm& term, const TermCall& of) {
  const AttentionShape s = shape_of(*of.call->inputs);
  const TensorShape wanted{"bias", {s.batch, s.queries, s.heads, s.keys}, {true, true, true, true}};
  if (Status status = check_tensor(of.where, term.bias, wanted); !status) return status;
  return of.gradient == nullptr ? Status() : check_gradient(of.where, of.gradient->table, term.bias, "bias");
}

Status check_term(const CopeTerm& term, const TermCall& of) {
  const AttentionShape s = shape_of(*of.call->inputs);
  const std::int64_t rows = term.table.shape[1];
  if (rows < 1) return error(of.where, "table has {} rows, wanted at least 1", rows);
  const TensorShape wanted{"table", {1, rows, s.heads, s.width}, {false, false, true, false}};
  if (Status status = check_tensor(of.where, term.table, wanted); !status) return status;
  if (Status status = spec::check_finite(of.where, "scale", term.scale); !status) return status;
  if (Status status = spec::check_finite(of.where, "gate_scale", term.gate_scale); !status) return status;
  if (of.call->spec->visibility.mask != Mask::causal) return error(of.where, "mask is full, CoPE wants causal");
  return of.gradient == nullptr ? Status() : check_gradient(of.where, of.gradient->table, term.table, "table");
}

Status check_terms(const AttentionCall& call) {
  for (std::size_t t = 0; t < call.spec->terms.size(); ++t) {
    char where[64];  // on the stack: a call that decodes has no time for words
    std::snprintf(where, sizeof where, "%s: terms[%zu]", call.where, t);
    const TermCall of = {&call, gradient_of(call, t), where};
    const auto check = [&](const auto& term) -> Status {
      if (of.gradient != nullptr) {
        if (Status s = check_held(held_by(term), *of.gradient, where); !s) return s;
      }
      return check_term(term, of);
    };
    if (Status s = std::visit(check, call.spec->terms[t]); !s) return s;
  }
  return {};
}

}  // namespace phasor::job
