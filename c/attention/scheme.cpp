// SPDX-License-Identifier: Apache-2.0
// Attention schemes in C: made, read, compared.
#include "phasor/c/scheme.h"

#include "core/call.hpp"
#include "core/lists.hpp"
#include "handles.hpp"
#include "phasor/serialised.hpp"
#include "specs/bias.hpp"
#include "specs/position_map.hpp"
#include "specs/rotary.hpp"
#include "specs/scheme.hpp"
#include "specs/serialised.hpp"

namespace {

using namespace phasor;
using namespace phasor::c;

void make(const AttentionScheme& spec, phasor_scheme** scheme) { *scheme = new phasor_scheme{value_of(Attention::make(spec))}; }

}  // namespace

extern "C" {

phasor_status phasor_scheme_make(const phasor_attention_scheme* spec, phasor_scheme** scheme, phasor_error* error) {
  return call(error, [&] {
    need("scheme_make", "scheme", scheme);
    make(attention_scheme_of("scheme_make", spec), scheme);
  });
}

phasor_status phasor_scheme_from_json(const char* text, size_t length, phasor_scheme** scheme, phasor_error* error) {
  return call(error, [&] {
    need("scheme_from_json", "scheme", scheme);
    make(value_of(attention_scheme_from_json(text_of("scheme_from_json", text, length))), scheme);
  });
}

phasor_status phasor_scheme_from_cbor(const uint8_t* bytes, size_t count, phasor_scheme** scheme, phasor_error* error) {
  return call(error, [&] {
    need("scheme_from_cbor", "scheme", scheme);
    make(spec_of_cbor<AttentionScheme>("scheme_from_cbor", bytes, count), scheme);
  });
}

void phasor_scheme_free(phasor_scheme* scheme) { delete scheme; }

phasor_status phasor_scheme_to_json(const phasor_scheme* scheme, phasor_text* text, phasor_error* error) {
  return call(error, [&] { give("scheme_to_json", need("scheme_to_json", "scheme", scheme)->value.serialised(), text); });
}

phasor_status phasor_scheme_to_cbor(const phasor_scheme* scheme, phasor_bytes* bytes, phasor_error* error) {
  return call(error, [&] { give_cbor("scheme_to_cbor", need("scheme_to_cbor", "scheme", scheme)->value.scheme(), bytes); });
}

const char* phasor_scheme_serialised(const phasor_scheme* scheme) {
  return scheme == nullptr ? nullptr : scheme->value.serialised().c_str();
}

int32_t phasor_scheme_equal(const phasor_scheme* a, const phasor_scheme* b) {
  return a != nullptr && b != nullptr && a->value == b->value ? 1 : 0;
}

phasor_status phasor_scheme_get(const phasor_scheme* scheme, phasor_attention_scheme* spec, phasor_error* error) {
  return call(error, [&] { give("scheme_get", "spec", c_scheme_of(need("scheme_get", "scheme", scheme)->value.scheme()), spec); });
}

phasor_status phasor_scheme_get_term(const phasor_scheme* scheme, size_t index, phasor_term_scheme* term, phasor_bias_spec* bias,
                                     phasor_error* error) {
  constexpr const char* kWhere = "scheme_get_term";
  return call(error, [&] {
    const TermScheme& one = item_of(kWhere, "index", need(kWhere, "scheme", scheme)->value.scheme().terms, index);
    phasor_term_scheme filled = c_term_of(one);
    check_given(kWhere, "term", term);
    if (const BiasSpec* const has = bias_of(one); has != nullptr) {
      give(kWhere, "bias", c_bias_spec_of(*has), bias);
      filled.bias = bias;
    }
    give(kWhere, "term", filled, term);
  });
}

phasor_status phasor_scheme_get_content(const phasor_scheme* scheme, phasor_content_scheme* content, const phasor_content_parts* parts,
                                        phasor_error* error) {
  constexpr const char* kWhere = "scheme_get_content";
  return call(error, [&] {
    const ContentScheme& value = need(kWhere, "scheme", scheme)->value.scheme().content;
    const RotarySpec* const rotary = rotary_of(value);
    const PositionMap* const map = map_of(value);
    phasor_content_scheme filled = c_content_of(value);
    check_given(kWhere, "content", content);
    if (rotary != nullptr) {
      need(kWhere, "parts", parts);
      check_given(kWhere, "scaling", parts->scaling);
      check_given(kWhere, "rotary", parts->rotary);
      if (map != nullptr) check_given(kWhere, "map", parts->map);
      phasor_rotary_spec spec = c_spec_of(*rotary);
      spec.scaling = parts->scaling;
      give(kWhere, "scaling", c_scaling_of(rotary->scaling), parts->scaling);
      give(kWhere, "rotary", spec, parts->rotary);
      if (map != nullptr) give(kWhere, "map", c_position_map_of(*map), parts->map);
      filled.rotary = parts->rotary;
      filled.map = map == nullptr ? nullptr : parts->map;
    }
    give(kWhere, "content", filled, content);
  });
}

}  // extern "C"
