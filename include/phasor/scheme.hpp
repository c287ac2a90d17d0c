// SPDX-License-Identifier: Apache-2.0
// An attention scheme: how scores use positions, as values alone. It is made once, written as text (serialised.hpp), compared and sent;
// tensors, positions and workspace come with each call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "phasor/attention.hpp"
#include "phasor/fields.hpp"

namespace phasor {

// ---- Terms, as attention.hpp has them, without their tensors. A flag says that a tensor which need not be there comes with each call.
// ----

struct BiasScheme {
  BiasSpec bias = {};
  std::int64_t first_head = 0;
  bool gate = false;
  bool parameters = false;  // in the place of the spec's own
};
/// Which row of a table a distance reads.
using TableRowsSpec = std::variant<ClipRows, BiasSpec>;
struct TableScheme {
  TableSide side = TableSide::query;
  TableRowsSpec rows = ClipRows{};
  bool features = false;
  bool shift = false;
  std::optional<double> scale = std::nullopt;
};
struct SegmentScheme {
  bool shift = false;
  std::optional<double> scale = std::nullopt;
};
struct GridScheme {
  Window window = {};
  ClassToken class_token = ClassToken::absent;
};
struct DecomposedScheme {
  Window query_grid = {};
  Window key_grid = {};
  double scale = 1;
};
struct DenseScheme {};
struct CopeScheme {
  double gate_scale = 1;
  double scale = 1;
};
using TermScheme = std::variant<BiasScheme, TableScheme, SegmentScheme, GridScheme, DecomposedScheme, DenseScheme, CopeScheme>;

// ---- Content: how the q.k score is formed ----

struct PlainScheme {};
struct RotaryScheme {
  RotarySpec rotary = {};
  KeyState keys = KeyState::unrotated;
  std::optional<PositionMap> map = std::nullopt;
};
struct XposScheme {
  RotarySpec rotary = {};
  double gamma = 0.4;
  double scale_base = 512;
};
using ContentScheme = std::variant<PlainScheme, RotaryScheme, XposScheme>;

struct AttentionScheme {
  ContentScheme content = PlainScheme{};
  bool content_shift = false;
  std::vector<TermScheme> terms = {};
  std::optional<double> scale = std::nullopt;  // nullopt: 1 / sqrt(D)
  double softcap = 0;
  bool sinks = false;
  Mask mask = Mask::full;
  std::optional<std::int64_t> left = std::nullopt;
  std::optional<std::int64_t> right = std::nullopt;
  TileSkip skip = TileSkip::none;
  double dropout = 0;  // probability
};

/// What a spec of a call is, without its tensors.
AttentionScheme scheme_of(const AttentionSpec& spec);

// ---- Tensors of a call ----

/// Of one term, named as their gradients are (TermGradient).
struct TermTensors {
  ConstTensorView table = {};       // TableScheme, SegmentScheme, GridScheme, CopeScheme; rows_h of DecomposedScheme; bias of DenseScheme
  ConstTensorView second = {};      // rows_w of DecomposedScheme
  ConstTensorView features = {};    // of TableScheme; gate of BiasScheme
  ConstTensorView shift = {};       // of TableScheme, SegmentScheme
  ConstTensorView parameters = {};  // of BiasScheme
  Positions query_segments = {};    // of SegmentScheme
  Positions key_segments = {};
};
/// What a call brings beside q, k and v. Fields as those of AttentionSpec, Visibility and Dropout.
struct AttentionTensors {
  std::span<const TermTensors> terms = {};  // one per term; none: no term has a tensor
  ConstTensorView content_shift = {};
  ConstTensorView sinks = {};
  Integers prefix = {};
  Integers query_starts = {};
  Integers key_starts = {};
  KeyMask key_mask = {};
  std::optional<Positions> query_positions = std::nullopt;
  std::optional<Positions> key_positions = std::nullopt;
  std::uint64_t dropout_seed = 0;
  std::uint64_t dropout_offset = 0;
  std::int64_t dropout_first_head = 0;
  std::int64_t dropout_first_sequence = 0;
  Execution execution{};
};

/// A scheme made ready: rotations and biases are planned once. Immutable, cheap to copy, safe to share between threads.
class Attention {
 public:
  static Result<Attention> make(const AttentionScheme& scheme);

  /// The spec of a call, for `attention` and its kin: the scheme with its tensors in their places. A tensor that the scheme does not name,
  /// and one that it names and is not there, are errors. Nothing is planned again.
  Result<AttentionSpec> spec(const AttentionTensors& tensors) const;

  const AttentionScheme& scheme() const;
  /// The scheme serialised, as spec_to_json writes it: equal schemes have equal ones.
  const std::string& serialised() const;
  bool operator==(const Attention& other) const { return serialised() == other.serialised(); }

 private:
  struct Plan;
  explicit Attention(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

// ---- Fields, as fields.hpp has those of encodings ----

constexpr std::string_view name_of(std::type_identity<ClipRows> /*type*/) { return "ClipRows"; }
constexpr std::string_view name_of(std::type_identity<BiasScheme> /*type*/) { return "BiasScheme"; }
constexpr std::string_view name_of(std::type_identity<TableScheme> /*type*/) { return "TableScheme"; }
constexpr std::string_view name_of(std::type_identity<SegmentScheme> /*type*/) { return "SegmentScheme"; }
constexpr std::string_view name_of(std::type_identity<GridScheme> /*type*/) { return "GridScheme"; }
constexpr std::string_view name_of(std::type_identity<DecomposedScheme> /*type*/) { return "DecomposedScheme"; }
constexpr std::string_view name_of(std::type_identity<DenseScheme> /*type*/) { return "DenseScheme"; }
constexpr std::string_view name_of(std::type_identity<CopeScheme> /*type*/) { return "CopeScheme"; }
constexpr std::string_view name_of(std::type_identity<PlainScheme> /*type*/) { return "PlainScheme"; }
constexpr std::string_view name_of(std::type_identity<RotaryScheme> /*type*/) { return "RotaryScheme"; }
constexpr std::string_view name_of(std::type_identity<XposScheme> /*type*/) { return "XposScheme"; }
constexpr std::string_view name_of(std::type_identity<AttentionScheme> /*type*/) { return "AttentionScheme"; }

constexpr auto values_of(std::type_identity<OutsideRows> /*type*/) { return detail::texts("clamp", "zero"); }
constexpr auto values_of(std::type_identity<TableSide> /*type*/) { return detail::texts("query", "key", "value"); }
constexpr auto values_of(std::type_identity<ClassToken> /*type*/) { return detail::texts("absent", "first"); }
constexpr auto values_of(std::type_identity<KeyState> /*type*/) { return detail::texts("unrotated", "rotated"); }
constexpr auto values_of(std::type_identity<Mask> /*type*/) { return detail::texts("full", "causal"); }
constexpr auto values_of(std::type_identity<TileSkip> /*type*/) { return detail::texts("none", "certified"); }

void fields(auto& visit, SpecOf<ClipRows> auto& s) {
  visit("left", s.left);
  visit("right", s.right);
  visit("outside", s.outside);
}
void fields(auto& visit, SpecOf<BiasScheme> auto& s) {
  visit("bias", s.bias);
  visit("first_head", s.first_head);
  visit("gate", s.gate);
  visit("parameters", s.parameters);
}
void fields(auto& visit, SpecOf<TableScheme> auto& s) {
  visit("side", s.side);
  visit("rows", s.rows);
  visit("features", s.features);
  visit("shift", s.shift);
  visit("scale", s.scale);
}
void fields(auto& visit, SpecOf<SegmentScheme> auto& s) {
  visit("shift", s.shift);
  visit("scale", s.scale);
}
void fields(auto& visit, SpecOf<GridScheme> auto& s) {
  visit("window", s.window);
  visit("class_token", s.class_token);
}
void fields(auto& visit, SpecOf<DecomposedScheme> auto& s) {
  visit("query_grid", s.query_grid);
  visit("key_grid", s.key_grid);
  visit("scale", s.scale);
}
void fields(auto& /*visit*/, SpecOf<DenseScheme> auto& /*s*/) {}
void fields(auto& visit, SpecOf<CopeScheme> auto& s) {
  visit("gate_scale", s.gate_scale);
  visit("scale", s.scale);
}
void fields(auto& /*visit*/, SpecOf<PlainScheme> auto& /*s*/) {}
void fields(auto& visit, SpecOf<RotaryScheme> auto& s) {
  visit("rotary", s.rotary);
  visit("keys", s.keys);
  visit("map", s.map);
}
void fields(auto& visit, SpecOf<XposScheme> auto& s) {
  visit("rotary", s.rotary);
  visit("gamma", s.gamma);
  visit("scale_base", s.scale_base);
}
void fields(auto& visit, SpecOf<AttentionScheme> auto& s) {
  visit("content", s.content);
  visit("content_shift", s.content_shift);
  visit("terms", s.terms);
  visit("scale", s.scale);
  visit("softcap", s.softcap);
  visit("sinks", s.sinks);
  visit("mask", s.mask);
  visit("left", s.left);
  visit("right", s.right);
  visit("skip", s.skip);
  visit("dropout", s.dropout);
}

}  // namespace phasor
