// SPDX-License-Identifier: Apache-2.0
// A scheme and the specs of its calls: split into values and tensors, planned once, put together again.
#include "phasor/scheme.hpp"

#include <utility>

#include "phasor/serialised.hpp"
#include "spec/format.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

bool is_named(const ConstTensorView& v) { return v.data != nullptr || v.shape != Extents{}; }

// ---- A spec without its tensors ----

TermScheme scheme_of(const BiasTerm& term) {
  return BiasScheme{term.bias.spec(), term.first_head, is_named(term.gate), is_named(term.parameters)};
}
TableRowsSpec rows_of(const ClipRows& clip) { return clip; }
TableRowsSpec rows_of(const Bias& bias) { return bias.spec(); }
TermScheme scheme_of(const TableTerm& term) {
  return TableScheme{term.side, std::visit([](const auto& rows) { return rows_of(rows); }, term.rows), is_named(term.features),
                     is_named(term.shift), term.scale};
}
TermScheme scheme_of(const SegmentTerm& term) { return SegmentScheme{is_named(term.shift), term.scale}; }
TermScheme scheme_of(const GridTerm& term) { return GridScheme{term.window, term.class_token}; }
TermScheme scheme_of(const DecomposedTerm& term) { return DecomposedScheme{term.query_grid, term.key_grid, term.scale}; }
TermScheme scheme_of(const DenseTerm& /*term*/) { return DenseScheme{}; }
TermScheme scheme_of(const CopeTerm& term) { return CopeScheme{term.gate_scale, term.scale}; }

ContentScheme scheme_of(const PlainContent& /*content*/) { return PlainScheme{}; }
ContentScheme scheme_of(const RotaryContent& content) { return RotaryScheme{content.rotary.spec(), content.keys, content.map}; }
ContentScheme scheme_of(const XposContent& content) { return XposScheme{content.rotary.spec(), content.gamma, content.scale_base}; }

// ---- Planned ----

Result<AttentionTerm> planned(const BiasScheme& term) {
  Result<Bias> bias = Bias::make(term.bias);
  if (!bias) return bias.status();
  return AttentionTerm(BiasTerm{.bias = *std::move(bias), .first_head = term.first_head});
}
Result<AttentionTerm> planned(const TableScheme& term) {
  TableTerm made{.side = term.side, .scale = term.scale};
  if (const auto* clip = std::get_if<ClipRows>(&term.rows)) {
    made.rows = *clip;
  } else {
    Result<Bias> rows = Bias::make(std::get<BiasSpec>(term.rows));
    if (!rows) return rows.status();
    made.rows = *std::move(rows);
  }
  return AttentionTerm(std::move(made));
}
Result<AttentionTerm> planned(const SegmentScheme& term) { return AttentionTerm(SegmentTerm{.scale = term.scale}); }
Result<AttentionTerm> planned(const GridScheme& term) {
  return AttentionTerm(GridTerm{.window = term.window, .class_token = term.class_token});
}
Result<AttentionTerm> planned(const DecomposedScheme& term) {
  return AttentionTerm(DecomposedTerm{.query_grid = term.query_grid, .key_grid = term.key_grid, .scale = term.scale});
}
Result<AttentionTerm> planned(const DenseScheme& /*term*/) { return AttentionTerm(DenseTerm{}); }
Result<AttentionTerm> planned(const CopeScheme& term) {
  return AttentionTerm(CopeTerm{.gate_scale = term.gate_scale, .scale = term.scale});
}

Status plan_content(const PlainScheme& /*content*/, AttentionContent& /*out*/) { return {}; }
Status plan_content(const RotaryScheme& content, AttentionContent& out) {
  const Result<Rotary> rotary = Rotary::make(content.rotary);
  if (!rotary) return rotary.status();
  out.emplace<RotaryContent>(RotaryContent{*rotary, content.keys, content.map});
  return {};
}
Status plan_content(const XposScheme& content, AttentionContent& out) {
  const Result<Rotary> rotary = Rotary::make(content.rotary);
  if (!rotary) return rotary.status();
  out.emplace<XposContent>(XposContent{*rotary, content.gamma, content.scale_base});
  return {};
}

/// A spec that lacks its tensors.
Status plan_spec(const AttentionScheme& scheme, AttentionSpec& out) {
  if (Status s = std::visit([&](const auto& content) { return plan_content(content, out.content); }, scheme.content); !s) return s;
  out.terms.reserve(scheme.terms.size());
  for (const TermScheme& term : scheme.terms) {
    Result<AttentionTerm> made = std::visit([](const auto& one) { return planned(one); }, term);
    if (!made) return made.status();
    out.terms.push_back(*std::move(made));
  }
  out.scale = scheme.scale;
  out.softcap = scheme.softcap;
  out.visibility.mask = scheme.mask;
  out.visibility.left = scheme.left;
  out.visibility.right = scheme.right;
  out.skip = scheme.skip;
  out.dropout.probability = scheme.dropout;
  return {};
}

// ---- Tensors ----

/// Which tensors a term has, and which of them must be there.
struct Wanted {
  bool table = true;
  bool second = false;
  bool features = false;
  bool shift = false;
  bool parameters = false;
};
Wanted wanted_by(const BiasScheme& term) { return {.table = false, .features = term.gate, .parameters = term.parameters}; }
Wanted wanted_by(const TableScheme& term) { return {.features = term.features, .shift = term.shift}; }
Wanted wanted_by(const SegmentScheme& term) { return {.shift = term.shift}; }
Wanted wanted_by(const GridScheme& /*term*/) { return {}; }
Wanted wanted_by(const DecomposedScheme& /*term*/) { return {.second = true}; }
Wanted wanted_by(const DenseScheme& /*term*/) { return {}; }
Wanted wanted_by(const CopeScheme& /*term*/) { return {}; }

struct Named {
  const char* name;
  bool wanted;
  const ConstTensorView* view;
};
Status check_named(const std::string& where, std::span<const Named> list) {
  for (const Named& one : list) {
    if (one.wanted == is_named(*one.view)) continue;
    return Status::invalid(spec::format("{}{} is {}, wanted {} by the scheme", where, one.name, one.wanted ? "not given" : "given",
                                        one.wanted ? "a tensor" : "none"));
  }
  return {};
}

Status check_tensors(const AttentionScheme& scheme, const AttentionTensors& tensors, std::span<const TermTensors> terms) {
  const Named alone[] = {{"content_shift", scheme.content_shift, &tensors.content_shift}, {"sinks", scheme.sinks, &tensors.sinks}};
  if (Status s = check_named("Attention::spec: ", alone); !s) return s;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    const Wanted w = std::visit([](const auto& term) { return wanted_by(term); }, scheme.terms[t]);
    const TermTensors& of = terms[t];
    const Named list[] = {{"table", w.table, &of.table},
                          {"second", w.second, &of.second},
                          {"features", w.features, &of.features},
                          {"shift", w.shift, &of.shift},
                          {"parameters", w.parameters, &of.parameters}};
    if (Status s = check_named(spec::format("Attention::spec: terms[{}].", t), list); !s) return s;
  }
  return {};
}

void put(BiasTerm& term, const TermTensors& from) {
  term.gate = from.features;
  term.parameters = from.parameters;
}
void put(TableTerm& term, const TermTensors& from) {
  term.table = from.table;
  term.features = from.features;
  term.shift = from.shift;
}
void put(SegmentTerm& term, const TermTensors& from) {
  term.table = from.table;
  term.shift = from.shift;
  term.query_segments = from.query_segments;
  term.key_segments = from.key_segments;
}
void put(GridTerm& term, const TermTensors& from) { term.table = from.table; }
void put(DecomposedTerm& term, const TermTensors& from) {
  term.rows_h = from.table;
  term.rows_w = from.second;
}
void put(DenseTerm& term, const TermTensors& from) { term.bias = from.table; }
void put(CopeTerm& term, const TermTensors& from) { term.table = from.table; }

}  // namespace

AttentionScheme scheme_of(const AttentionSpec& spec) {
  AttentionScheme scheme;
  scheme.content = std::visit([](const auto& content) { return scheme_of(content); }, spec.content);
  scheme.content_shift = is_named(spec.content_shift);
  for (const AttentionTerm& term : spec.terms) scheme.terms.push_back(std::visit([](const auto& one) { return scheme_of(one); }, term));
  scheme.scale = spec.scale;
  scheme.softcap = spec.softcap;
  scheme.sinks = is_named(spec.sinks);
  scheme.mask = spec.visibility.mask;
  scheme.left = spec.visibility.left;
  scheme.right = spec.visibility.right;
  scheme.skip = spec.skip;
  scheme.dropout = spec.dropout.probability;
  return scheme;
}

struct Attention::Plan {
  AttentionScheme scheme;
  std::string serialised;
  AttentionSpec spec;  // without tensors
};

Result<Attention> Attention::make(const AttentionScheme& scheme) {
  return spec::without_exceptions([&]() -> Result<Attention> {
    Result<std::string> text = spec_to_json(scheme);  // checks it
    if (!text) return text.status();
    const auto plan = std::make_shared<Plan>();
    plan->scheme = scheme;
    plan->serialised = *std::move(text);
    if (Status s = plan_spec(scheme, plan->spec); !s) return s;
    return Attention(plan);
  });
}

Result<AttentionSpec> Attention::spec(const AttentionTensors& tensors) const {
  return spec::without_exceptions([&]() -> Result<AttentionSpec> {
    const std::size_t count = plan_->scheme.terms.size();
    const std::vector<TermTensors> none(tensors.terms.empty() ? count : 0);
    const std::span<const TermTensors> terms = tensors.terms.empty() ? none : tensors.terms;
    if (terms.size() != count) {
      return Status::invalid(spec::format("Attention::spec: terms has {} elements, wanted {}", terms.size(), count));
    }
    if (Status s = check_tensors(plan_->scheme, tensors, terms); !s) return s;
    AttentionSpec made = plan_->spec;
    for (std::size_t t = 0; t < count; ++t) std::visit([&](auto& term) { put(term, terms[t]); }, made.terms[t]);
    made.content_shift = tensors.content_shift;
    made.sinks = tensors.sinks;
    made.visibility.prefix = tensors.prefix;
    made.visibility.query_starts = tensors.query_starts;
    made.visibility.key_starts = tensors.key_starts;
    made.visibility.key_mask = tensors.key_mask;
    made.query_positions = tensors.query_positions;
    made.key_positions = tensors.key_positions;
    made.dropout.seed = tensors.dropout_seed;
    made.dropout.offset = tensors.dropout_offset;
    made.dropout.first_head = tensors.dropout_first_head;
    made.dropout.first_sequence = tensors.dropout_first_sequence;
    made.execution = tensors.execution;
    return made;
  });
}

const AttentionScheme& Attention::scheme() const { return plan_->scheme; }
const std::string& Attention::serialised() const { return plan_->serialised; }

}  // namespace phasor
