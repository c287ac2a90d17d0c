// SPDX-License-Identifier: Apache-2.0
// Attention schemes in C: every one goes through structs and texts unchanged, and what contradicts itself is refused.
#include "specs/scheme.hpp"

#include "c/attention_support.hpp"
#include "serialised_specs.hpp"
#include "spec_bits.hpp"
#include "specs/bias.hpp"
#include "specs/position_map.hpp"
#include "specs/rotary.hpp"

namespace phasor::test {
namespace {

/// A scheme as structs that live together.
struct Structs {
  phasor_attention_scheme scheme{};
  phasor_content_scheme content{};
  phasor_rotary_spec rotary{};
  phasor_scaling scaling{};
  phasor_position_map map{};
  std::vector<phasor_term_scheme> terms;
  std::vector<phasor_bias_spec> biases;

  void join() {
    scheme.content = &content;
    scheme.terms = terms.empty() ? nullptr : terms.data();
    scheme.term_count = terms.size();
  }
};

Structs structs_of(const AttentionScheme& spec) {
  Structs made;
  made.scheme = c::c_scheme_of(spec);
  made.content = c::c_content_of(spec.content);
  if (const RotarySpec* rotary = c::rotary_of(spec.content)) {
    made.rotary = c::c_spec_of(*rotary);
    made.scaling = c::c_scaling_of(rotary->scaling);
  }
  if (const PositionMap* map = c::map_of(spec.content)) made.map = c::c_position_map_of(*map);
  made.biases.resize(spec.terms.size());
  for (std::size_t i = 0; i < spec.terms.size(); ++i) {
    made.terms.push_back(c::c_term_of(spec.terms[i]));
    if (const BiasSpec* bias = c::bias_of(spec.terms[i])) made.biases[i] = c::c_bias_spec_of(*bias);
  }
  return made;
}

/// The structs that the getters of a handle fill.
Structs structs_of(const phasor_scheme* scheme) {
  Structs made;
  made.scheme.size = sizeof made.scheme;
  succeeds([&](phasor_error* error) { return phasor_scheme_get(scheme, &made.scheme, error); });
  made.content.size = sizeof made.content;
  made.rotary.size = sizeof made.rotary;
  made.scaling.size = sizeof made.scaling;
  made.map.size = sizeof made.map;
  const phasor_content_parts parts = {&made.rotary, &made.scaling, &made.map};
  succeeds([&](phasor_error* error) { return phasor_scheme_get_content(scheme, &made.content, &parts, error); });
  made.terms.assign(made.scheme.term_count, sized<phasor_term_scheme>());
  made.biases.assign(made.scheme.term_count, sized<phasor_bias_spec>());
  for (std::size_t i = 0; i < made.terms.size(); ++i) {
    succeeds([&](phasor_error* error) { return phasor_scheme_get_term(scheme, i, &made.terms[i], &made.biases[i], error); });
  }
  return made;
}

/// Where a struct is named, it is that of the same Structs.
SchemePointer handle_of(Structs structs, const AttentionScheme& like) {
  if (c::rotary_of(like.content) != nullptr) {
    structs.rotary.scaling = &structs.scaling;
    structs.content.rotary = &structs.rotary;
  }
  structs.content.map = c::map_of(like.content) != nullptr ? &structs.map : nullptr;
  for (std::size_t i = 0; i < structs.terms.size(); ++i) {
    structs.terms[i].bias = c::bias_of(like.terms[i]) != nullptr ? &structs.biases[i] : nullptr;
  }
  structs.join();
  return made(structs.scheme);
}

TEST(CScheme, every_scheme_goes_through_structs_and_texts_unchanged) {
  std::size_t seen = 0;
  for (const auto& [name, any] : any_specs()) {
    const auto* spec = std::get_if<AttentionScheme>(&any);
    if (spec == nullptr) continue;
    ++seen;
    const SchemePointer scheme = handle_of(structs_of(*spec), *spec);
    ASSERT_NE(scheme, nullptr) << name;
    const std::string json =
        text_by([&](phasor_text* text, phasor_error* error) { return phasor_scheme_to_json(scheme.get(), text, error); });
    EXPECT_EQ(json, *spec_to_json(*spec)) << name;
    EXPECT_EQ(phasor_scheme_serialised(scheme.get()), json);

    const SchemePointer from_structs = handle_of(structs_of(scheme.get()), *spec);
    EXPECT_EQ(phasor_scheme_equal(scheme.get(), from_structs.get()), 1) << name;

    phasor_scheme* again = nullptr;
    succeeds([&](phasor_error* error) { return phasor_scheme_from_json(json.data(), json.size(), &again, error); });
    const SchemePointer from_json(again);
    std::vector<std::uint8_t> bytes(json.size() + 64);
    phasor_bytes binary = {bytes.data(), bytes.size(), 0};
    succeeds([&](phasor_error* error) { return phasor_scheme_to_cbor(from_json.get(), &binary, error); });
    succeeds([&](phasor_error* error) { return phasor_scheme_from_cbor(bytes.data(), binary.length, &again, error); });
    const SchemePointer from_cbor(again);
    EXPECT_EQ(phasor_scheme_equal(scheme.get(), from_cbor.get()), 1) << name;
  }
  EXPECT_GT(seen, 8U);
}

TEST(CScheme, getters_point_only_to_what_there_is) {
  const SchemePointer plain = made(sized<phasor_attention_scheme>());
  auto content = sized<phasor_content_scheme>();
  succeeds([&](phasor_error* error) { return phasor_scheme_get_content(plain.get(), &content, nullptr, error); });
  EXPECT_EQ(content.kind, PHASOR_CONTENT_PLAIN);
  EXPECT_EQ(content.rotary, nullptr);

  auto rotary = sized<phasor_rotary_spec>();
  rotary.head_dim = 8;
  content.kind = PHASOR_CONTENT_ROTARY;
  content.rotary = &rotary;
  const std::vector<phasor_term_scheme> terms = {term_of(PHASOR_TERM_DENSE)};
  phasor_attention_scheme spec = scheme_of_terms(terms);
  spec.content = &content;
  const SchemePointer scheme = made(spec);
  auto given = sized<phasor_content_scheme>();
  auto given_rotary = sized<phasor_rotary_spec>();
  auto scaling = sized<phasor_scaling>();
  const phasor_content_parts parts = {&given_rotary, &scaling, nullptr};
  succeeds([&](phasor_error* error) { return phasor_scheme_get_content(scheme.get(), &given, &parts, error); });
  EXPECT_EQ(given.rotary, &given_rotary);
  EXPECT_EQ(given_rotary.scaling, &scaling);
  EXPECT_EQ(given_rotary.head_dim, 8);
  EXPECT_EQ(given.map, nullptr);
  auto term = sized<phasor_term_scheme>();
  succeeds([&](phasor_error* error) { return phasor_scheme_get_term(scheme.get(), 0, &term, nullptr, error); });
  EXPECT_EQ(term.kind, PHASOR_TERM_DENSE);
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_scheme_get_term(scheme.get(), 1, &term, nullptr, error); }),
            "scheme_get_term: index is 1, and there are 1, wanted one of them");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_scheme_get_content(scheme.get(), &given, nullptr, error); }),
            "scheme_get_content: parts is null, wanted one");
  EXPECT_EQ(phasor_scheme_equal(plain.get(), scheme.get()), 0);
  EXPECT_EQ(phasor_scheme_equal(plain.get(), nullptr), 0);
  EXPECT_EQ(phasor_scheme_serialised(nullptr), nullptr);
  phasor_scheme_free(nullptr);
}

TEST(CScheme, a_list_of_terms_of_a_newer_caller_has_wider_steps) {
  struct Newer {
    phasor_term_scheme known;
    std::int64_t more;
  };
  Newer terms[2] = {{term_of(PHASOR_TERM_DENSE), 0}, {term_of(PHASOR_TERM_COPE), 0}};
  for (Newer& term : terms) term.known.size = sizeof term;
  auto spec = sized<phasor_attention_scheme>();
  spec.terms = &terms[0].known;
  spec.term_count = 2;
  spec.mask = PHASOR_MASK_CAUSAL;
  const SchemePointer scheme = made(spec);
  EXPECT_EQ(std::string(phasor_scheme_serialised(scheme.get())),
            *spec_to_json(AttentionScheme{.terms = {DenseScheme{}, CopeScheme{}}, .mask = Mask::causal}));
  phasor_scheme* none = nullptr;
  const auto make = [&](phasor_status status = PHASOR_INVALID) {
    return failure(status, [&](phasor_error* error) { return phasor_scheme_make(&spec, &none, error); });
  };
  terms[1].more = 3;
  EXPECT_NE(make(PHASOR_UNSUPPORTED).find("terms[1] has something in byte"), std::string::npos);
  terms[1].more = 0;
  terms[1].known.size = sizeof(phasor_term_scheme);
  EXPECT_EQ(make(), "scheme_make: the size of terms[1] is " + std::to_string(sizeof(phasor_term_scheme)) + " and that of terms[0] " +
                        std::to_string(sizeof(Newer)) + ", wanted one size");
  terms[0].known.size = 0;
  EXPECT_NE(make().find("the size of terms[0] is 0"), std::string::npos);
  terms[0].known.size = sizeof(Newer) - 3;
  EXPECT_EQ(make(), "scheme_make: the size of terms[0] is " + std::to_string(sizeof(Newer) - 3) + ", wanted its sizeof, " +
                        std::to_string(sizeof(phasor_term_scheme)) + " in this version");
  EXPECT_EQ(none, nullptr);
}

TEST(CScheme, what_contradicts_itself_is_refused) {
  phasor_scheme* none = nullptr;
  std::vector<phasor_term_scheme> terms = {term_of(PHASOR_TERM_DENSE), term_of(PHASOR_TERM_BIAS)};
  phasor_attention_scheme spec = scheme_of_terms(terms);
  const auto make = [&] { return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_scheme_make(&spec, &none, error); }); };
  EXPECT_EQ(make(), "scheme_make: terms[1]: the bias is null, wanted one");
  terms[0].gate = 1;
  EXPECT_EQ(make(), "scheme_make: terms[0]: gate is given, and DenseScheme has none, wanted 0");
  terms[0] = term_of(7);
  EXPECT_EQ(make(), "scheme_make: terms[0]: the term's kind is 7, wanted 0 to 6");
  terms[0] = term_of(PHASOR_TERM_SEGMENT);
  terms[0].scale = 2;
  EXPECT_EQ(make(), "scheme_make: terms[0]: scale is given and has_scale is 0, wanted 1");
  auto bias = sized<phasor_bias_spec>();
  bias.kind = PHASOR_BIAS_DEBERTA;
  bias.heads = 1;
  terms[0] = term_of(PHASOR_TERM_TABLE);
  terms[0].bias = &bias;
  terms[0].left = 3;
  EXPECT_EQ(make(), "scheme_make: terms[0]: left is given, and TableScheme has none, wanted 0");
  spec.terms = nullptr;
  EXPECT_EQ(make(), "scheme_make: terms is null, wanted one");
  spec.term_count = 0;
  spec.left = 3;
  EXPECT_EQ(make(), "scheme_make: left is given and has_left is 0, wanted 1");
  spec.left = 0;
  spec.mask = 2;
  EXPECT_EQ(make(), "scheme_make: mask is 2, wanted 0 to 1");
  spec.mask = 0;
  auto content = sized<phasor_content_scheme>();
  spec.content = &content;
  content.gamma = 1;
  EXPECT_EQ(make(), "scheme_make: gamma is given, and PlainScheme has none, wanted 0");
  content.gamma = 0;
  content.kind = PHASOR_CONTENT_XPOS;
  EXPECT_EQ(make(), "scheme_make: the content's rotary is null, wanted one");
  content.kind = 3;
  EXPECT_EQ(make(), "scheme_make: the content's kind is 3, wanted 0 to 2");
  spec.content = nullptr;
  spec.reserved = 1;
  EXPECT_EQ(make(), "scheme_make: `reserved` of the scheme is 1, wanted 0");
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_scheme_from_json("{", 1, &none, error); }), "");
  const std::string rotary = *spec_to_json(RotarySpec{.head_dim = 8});
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* e) { return phasor_scheme_from_json(rotary.data(), rotary.size(), &none, e); }), "");
  EXPECT_NE(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_scheme_from_cbor(nullptr, 3, &none, error); }), "");
  EXPECT_EQ(phasor_scheme_make(nullptr, &none, nullptr), PHASOR_INVALID);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace phasor::test
