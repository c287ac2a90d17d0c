// SPDX-License-Identifier: Apache-2.0
// Attention schemes to begin with: one of each family, which the page then changes.
#include "phasor/scheme.hpp"
#include "web/core/methods.hpp"
#include "web/core/random.hpp"
#include "web/core/spec_json.hpp"

namespace phasor::web {
namespace {

struct SchemeSizes {
  std::int64_t heads = 8;
  std::int64_t head_dim = 64;
  std::int64_t window = 32;
};

struct Start {
  const char* name;
  const char* family;
  AttentionScheme scheme;
};

AttentionScheme causal(ContentScheme content, std::vector<TermScheme> terms = {}) {
  AttentionScheme scheme;
  scheme.content = std::move(content);
  scheme.terms = std::move(terms);
  scheme.mask = Mask::causal;
  return scheme;
}

AttentionScheme with_bias(const BiasSpec& bias) { return causal(PlainScheme{}, {BiasScheme{.bias = bias}}); }

AttentionScheme with_map(const SchemeSizes& sizes, const PositionMap& map) {
  return causal(RotaryScheme{.rotary = {.head_dim = sizes.head_dim}, .map = map});
}

/// A perceptron of random numbers: what a trained one looks like is nobody's to say.
Mlp perceptron(std::int64_t heads) {
  constexpr std::int64_t kHidden = 16;
  Random random(17);
  return {.widths = {1, kHidden, heads}, .parameters = random.normal<double>(2 * kHidden + (kHidden + 1) * heads)};
}

/// Distances by buckets of T5, table entries falling with them.
T5Buckets buckets(std::int64_t heads) {
  T5Buckets t5{.heads = heads, .sides = BucketSides::behind};
  for (std::int64_t i = 0; i < heads * t5.buckets; ++i) {
    t5.table.push_back(-0.25 * static_cast<double>(i / t5.buckets + 1) * static_cast<double>(i % t5.buckets) / 4);
  }
  return t5;
}

Kerple kerple(std::int64_t heads) {
  Kerple kerple;
  for (std::int64_t h = 0; h < heads; ++h) {
    kerple.r1.push_back(0.5 + static_cast<double>(h) / 4);
    kerple.r2.push_back(1);
  }
  return kerple;
}

std::vector<Start> starts_of(const SchemeSizes& s) {
  const RotarySpec rotary{.head_dim = s.head_dim};
  const std::int64_t group = 4;
  TableScheme shaw{.rows = ClipRows{s.window, s.window}};
  TableScheme deberta{.rows = BiasSpec(DebertaBuckets{.heads = 1, .buckets = s.window, .max_distance = 4 * s.window})};
  return {{"plain", "content", causal(PlainScheme{})},
          {"rope", "content", causal(RotaryScheme{.rotary = rotary})},
          {"xpos", "content", causal(XposScheme{.rotary = rotary})},
          {"rerope", "map", with_map(s, ReRope{s.window})},
          {"leaky_rerope", "map", with_map(s, LeakyReRope{s.window, 4})},
          {"self_extend", "map", with_map(s, SelfExtend{s.window, group})},
          {"dual_chunk", "map", with_map(s, DualChunk{s.window, s.window / 4})},
          {"alibi", "bias", with_bias(Alibi{.heads = s.heads})},
          {"t5", "bias", with_bias(buckets(s.heads))},
          {"kerple", "bias", with_bias(kerple(s.heads))},
          {"sandwich", "bias", with_bias(Sandwich{.heads = s.heads})},
          {"fire", "bias", with_bias(Fire{.mlp = perceptron(s.heads)})},
          {"shaw", "table", causal(PlainScheme{}, {shaw})},
          {"transformer_xl", "table",
           [&] {
             AttentionScheme xl = causal(PlainScheme{}, {TableScheme{.rows = ClipRows{kMostCells, kMostCells}, .shift = true}});
             xl.content_shift = true;
             return xl;
           }()},
          {"deberta", "table", causal(PlainScheme{}, {deberta})},
          {"cope", "table", causal(PlainScheme{}, {CopeScheme{}})}};
}

}  // namespace

Json attention_schemes(Request& request, Blocks& /*blocks*/) {
  const SchemeSizes sizes{request.integer("heads", 8, {1, 64}), request.integer("head_dim", 64, {2, 512}),
                          request.integer("window", 32, {4, 512})};
  Json list = Json::array();
  for (const Start& one : starts_of(sizes)) {
    list.push_back(Json::object().with("name", one.name).with("family", one.family).with("scheme", spec_json(one.scheme)));
  }
  return Json::object().with("schemes", list);
}

}  // namespace phasor::web
