// SPDX-License-Identifier: Apache-2.0
// An attention scheme: how scores use positions, as values alone. It is made once, written as text (serialised.hpp), compared and sent;
// tensors, positions and workspace come with each call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "phasor/attention.hpp"

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

// ---- Content: how q meets k ----

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
  /// The scheme as text, as spec_to_json writes it: equal schemes have equal texts.
  const std::string& text() const;
  bool operator==(const Attention& other) const { return text() == other.text(); }

 private:
  struct Plan;
  explicit Attention(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

}  // namespace phasor
