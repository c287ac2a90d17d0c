// SPDX-License-Identifier: Apache-2.0
// Validation of an attention scheme: its specs, its numbers, and what goes with what.
#include "spec/scheme/scheme.hpp"

#include "spec/bias.hpp"
#include "spec/format.hpp"
#include "spec/rotary.hpp"
#include "spec/scheme/rules.hpp"

namespace phasor::spec {
namespace {

constexpr const char* kWhere = "AttentionScheme";
constexpr std::size_t kMostTerms = 64;  // far beyond any model

Status wrong(const std::string& where, const std::string& text) { return Status::invalid(where + ": " + text); }

/// What a spec inside of a scheme says, with the place of it.
Status placed(const std::string& where, const Status& status) { return status ? Status() : wrong(where, status.message()); }

Status check_scale(const std::string& where, const std::optional<double>& scale) {
  return scale ? check_finite(where, "scale", *scale) : Status();
}

// ---- Terms ----

Status check_term(const std::string& where, const AttentionScheme& /*scheme*/, const BiasScheme& term) {
  if (Status s = check(term.bias); !s) return placed(where, s);
  if (term.first_head >= 0 && term.first_head < heads_of(term.bias)) return {};
  return wrong(where, format("first_head is {}, wanted 0 to {}", term.first_head, heads_of(term.bias) - 1));
}

Status check_rows(const std::string& where, const ClipRows& clip) { return check_clip(where, clip); }
Status check_rows(const std::string& where, const BiasSpec& rows) {
  if (Status s = check(rows); !s) return placed(where, s);
  return check_bucket_rows(where, rows);
}

Status check_term(const std::string& where, const AttentionScheme& /*scheme*/, const TableScheme& term) {
  if (Status s = check_side(where, term.side); !s) return s;
  if (Status s = std::visit([&](const auto& rows) { return check_rows(where, rows); }, term.rows); !s) return s;
  if (term.side == TableSide::key && term.shift) return wrong(where, "there is a shift, wanted none on the key side");
  if (term.side == TableSide::value && (term.features || term.shift || term.scale)) {
    return wrong(where, "a table on the value side has features, a shift or a scale, wanted none of them");
  }
  return check_scale(where, term.scale);
}
Status check_term(const std::string& where, const AttentionScheme& /*scheme*/, const SegmentScheme& term) {
  return check_scale(where, term.scale);
}
Status check_term(const std::string& where, const AttentionScheme& /*scheme*/, const GridScheme& term) {
  if (term.class_token > ClassToken::first) return wrong(where, "class_token is unknown, wanted absent or first");
  return check_window(where, "window", term.window);
}
Status check_term(const std::string& where, const AttentionScheme& /*scheme*/, const DecomposedScheme& term) {
  if (Status s = check_window(where, "query_grid", term.query_grid); !s) return s;
  if (Status s = check_window(where, "key_grid", term.key_grid); !s) return s;
  return check_finite(where, "scale", term.scale);
}
Status check_term(const std::string& /*where*/, const AttentionScheme& /*scheme*/, const DenseScheme& /*term*/) { return {}; }
Status check_term(const std::string& where, const AttentionScheme& scheme, const CopeScheme& term) {
  if (scheme.mask != Mask::causal) return wrong(where, "mask is full, CoPE wants causal");
  if (Status s = check_finite(where, "scale", term.scale); !s) return s;
  return check_finite(where, "gate_scale", term.gate_scale);
}

// ---- Content ----

Status check_content(const AttentionScheme& /*scheme*/, const PlainScheme& /*content*/) { return {}; }
Status check_content(const AttentionScheme& scheme, const RotaryScheme& content) {
  if (Status s = check(content.rotary); !s) return placed(std::string(kWhere) + ": content", s);
  if (Status s = check_key_state(kWhere, content.keys); !s) return s;
  return content.map ? check_map_use(kWhere, *content.map, content.keys, scheme.mask) : Status();
}
Status check_content(const AttentionScheme& /*scheme*/, const XposScheme& content) {
  if (Status s = check(content.rotary); !s) return placed(std::string(kWhere) + ": content", s);
  return check_xpos(kWhere, content.rotary, content.gamma, content.scale_base);
}

SkipRule skip_rule(const AttentionScheme& scheme) {
  const auto* bias = scheme.terms.size() == 1 ? std::get_if<BiasScheme>(&scheme.terms[0]) : nullptr;
  return {.skip = scheme.skip,
          .alibi = bias != nullptr ? std::get_if<Alibi>(&bias->bias) : nullptr,
          .gate = bias != nullptr && bias->gate,
          .mask = scheme.mask,
          .plain = std::holds_alternative<PlainScheme>(scheme.content) && !scheme.content_shift && scheme.softcap == 0,
          .dropout = scheme.dropout};
}

Status check_numbers(const AttentionScheme& scheme) {
  if (Status s = check_scale(kWhere, scheme.scale); !s) return s;
  if (Status s = check_softcap(kWhere, scheme.softcap); !s) return s;
  if (Status s = check_mask(kWhere, "mask", scheme.mask); !s) return s;
  return check_dropout_probability(kWhere, "dropout", scheme.dropout);
}

}  // namespace

Status check(const AttentionScheme& scheme) {
  if (Status s = check_numbers(scheme); !s) return s;
  if (Status s = std::visit([&](const auto& content) { return check_content(scheme, content); }, scheme.content); !s) return s;
  if (scheme.content_shift && !std::holds_alternative<PlainScheme>(scheme.content)) {
    return wrong(kWhere, "content_shift is given beside a rotated content, wanted PlainScheme");
  }
  if (Status s = check_skip(kWhere, skip_rule(scheme)); !s) return s;
  if (scheme.terms.size() > kMostTerms)
    return wrong(kWhere, format("there are {} terms, wanted at most {}", scheme.terms.size(), kMostTerms));
  for (std::size_t t = 0; t < scheme.terms.size(); ++t) {
    const std::string where = format("{}: terms[{}]", kWhere, t);
    const auto check_one = [&](const auto& term) { return check_term(where, scheme, term); };
    if (Status s = std::visit(check_one, scheme.terms[t]); !s) return s;
  }
  return {};
}

}  // namespace phasor::spec
