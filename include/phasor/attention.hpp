// SPDX-License-Identifier: Apache-2.0
// Attention whose scores know positions: one entry point, a scheme made of terms, forward and backward, with O(n) memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "phasor/bias.hpp"
#include "phasor/position_builders.hpp"
#include "phasor/position_maps.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/rotary.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

// ---- Terms: what positions add to a score. r is the distance, query position - key position. Tensors of terms may have any dtype and any
// strides, the last axis included; 1 in the place of B or H is shared. "Scaled" means times the attention's scale. ----

/// gate * bias(r), not scaled: ALiBi, T5, KERPLE, Sandwich, FIRE, one learned bias per distance (ShawClip), and WavLM with its gate. Far
/// keys make AlibiForm::key_position large, which costs float32 digits; AlibiForm::causal gives the same outputs and keeps them.
struct BiasTerm {
  Bias bias;
  std::int64_t first_head = 0;  // of the bias, for the attention's head 0 (tensor parallelism)
  ConstTensorView gate = {};    // (B or 1, Tq, H or 1, 1); empty: 1
  /// (1, 1, 1, parameter_count), in the order of Bias::gradient: the numbers that learn, in the place of the bias's own; empty: those.
  ConstTensorView parameters = {};
};

/// Row clamp(-r, -left, right) + left, so that rows run by key - query; zero: distances outside add nothing.
enum class OutsideRows : std::uint8_t { clamp, zero };
struct ClipRows {
  std::int64_t left = 0;
  std::int64_t right = 0;
  OutsideRows outside = OutsideRows::clamp;
};
/// Which row of a table a distance reads. A Bias: its row(r) (T5Buckets, DebertaBuckets; its own table is not used).
using TableRows = std::variant<ClipRows, Bias>;

/// query: scale (features + shift) . table[row], features q unless given; key: scale k . table[row], features k unless given;
/// value: table[row] is added to v. Shaw, Transformer-XL, XLNet, Conformer, DeBERTa's c2p and p2c, Inkling. q and k are as given, whatever
/// the content.
enum class TableSide : std::uint8_t { query, key, value };
struct TableTerm {
  TableSide side = TableSide::query;
  ConstTensorView table = {};  // (B or 1, rows, H or 1, width); width is D, Dv on the value side, that of features where given
  TableRows rows = ClipRows{};
  ConstTensorView features = {};  // query side (B or 1, Tq, H or 1, width); key side (B or 1, Tk, Hk or 1, width); empty: q or k
  ConstTensorView shift = {};     // query side: (1, 1, H or 1, width), Transformer-XL's v; empty: 0
  std::optional<double> scale = std::nullopt;  // nullopt: the attention's
};

/// scale (q + shift) . table[segments differ]: XLNet.
struct SegmentTerm {
  ConstTensorView table = {};     // (1, 2, H or 1, D): the same segment, another
  ConstTensorView shift = {};     // (1, 1, H or 1, D); empty: 0
  Positions query_segments = {};  // integers, (Tq) or (B, Tq)
  Positions key_segments = {};
  std::optional<double> scale = std::nullopt;
};

/// table[(dy + height - 1) (2 width - 1) + dx + width - 1], offsets query - key, not scaled: Swin. A token's position is its number in the
/// grid, row by row. With a class token (BEiT) position 0 is that token, the grid begins at 1, and the last three rows are class to token,
/// token to class, class to class.
enum class ClassToken : std::uint8_t { absent, first };
struct GridTerm {
  Window window = {};
  ClassToken class_token = ClassToken::absent;
  ConstTensorView table = {};  // (1, rows, H or 1, 1)
};

/// scale q . (rows_h[dy] + rows_w[dx]), scale 1 unless given: SAM, MViTv2. Rows by query - key, the least first; where the grids differ,
/// coordinates of the coarser one are spread over the finer. A position is a token's number in its grid, row by row.
struct DecomposedTerm {
  Window query_grid = {};
  Window key_grid = {};
  ConstTensorView rows_h = {};  // (1, 2 max(heights) - 1, H or 1, D)
  ConstTensorView rows_w = {};
  double scale = 1;
};

/// bias[b][i][h][j], not scaled; an axis of 1 is shared. For whatever has no term of its own. -infinity hides the key, also under a soft
/// cap.
struct DenseTerm {
  ConstTensorView bias = {};  // (B or 1, Tq or 1, H or 1, Tk or 1)
};

/// p = sum of sigmoid(gate_scale q . k) over the visible keys from this one to the query's position, at most rows - 1;
/// scale q . (table between rows floor(p) and ceil(p)): CoPE. Needs Mask::causal; outputs over key blocks do not merge.
struct CopeTerm {
  ConstTensorView table = {};  // (1, rows, H or 1, D)
  double gate_scale = 1;
  double scale = 1;
};

using AttentionTerm = std::variant<BiasTerm, TableTerm, SegmentTerm, GridTerm, DecomposedTerm, DenseTerm, CopeTerm>;

// ---- Content: how the q.k score is formed ----

struct PlainContent {};
/// rotated: keys come from the cache rotated (amplitude included).
enum class KeyState : std::uint8_t { unrotated, rotated };
/// q and k rotated at their positions and rounded once to the tensors' dtype: what apply_rotary before the call gives, bit for bit. With a
/// map, at those of its passes (ReRoPE, Self-Extend, dual chunk; causal without a prefix, keys unrotated, positions not negative). A rotary
/// of several axes takes positions of as many; distances go by the first. softmax_scale() is not applied: give `scale`.
struct RotaryContent {
  Rotary rotary;
  KeyState keys = KeyState::unrotated;
  std::optional<PositionMap> map = std::nullopt;
};
/// Rotary, and q times zeta^(position / scale_base), k times zeta^(-position / scale_base), zeta_p = (2p / R + gamma) / (1 + gamma). Only
/// the quotient is ever formed: no position is too far. Keys unrotated.
struct XposContent {
  Rotary rotary;
  double gamma = 0.4;
  double scale_base = 512;
};
using AttentionContent = std::variant<PlainContent, RotaryContent, XposContent>;

// ---- Who sees whom. Rules of distance go by positions; a key must pass every rule. ----

/// causal: r >= 0.
enum class Mask : std::uint8_t { full, causal };
/// (B, Tk); 0: padding that no query sees.
struct KeyMask {
  const std::uint8_t* data = nullptr;
  std::array<std::int64_t, 2> strides{0, 1};
  Device device{};
};
struct Visibility {
  Mask mask = Mask::full;
  std::optional<std::int64_t> left = std::nullopt;   // r <= left
  std::optional<std::int64_t> right = std::nullopt;  // -r <= right
  Integers prefix = {};                              // (B), or one per sequence: keys at positions below it are exempt from causality
  Integers query_starts = {};                        // varlen, B = 1: 0, ..., Tq (cu_seqlens)
  Integers key_starts = {};                          // 0, ..., Tk
  KeyMask key_mask = {};
};

/// certified: key tiles that cannot change a float32 result are not visited: the sum of the weights left out is below 2^-24 of the row's.
/// For one term, symmetric or causal ALiBi without a gate; a causal mask without a prefix, plain contents, no shift, no soft cap, no
/// dropout.
enum class TileSkip : std::uint8_t { none, certified };

/// Weights after the softmax are dropped with this probability, the others divided by 1 - probability; lse is of the weights before. Which
/// ones is decided by numbers of a counter, so that it is the same for any tiling, device and number of threads, and for shards that have
/// their positions and say where they begin. With Philox 4x32-10 of (four words of 32 bits, two words of key), low words first:
///   row key = the first two words of Philox((query position: 2 words, head, sequence), seed), head and sequence those of the call and the
///   numbers below, the sequence a batch row or one of query_starts;
///   words = Philox((floor(key position / 4): 2 words, offset: 2 words), row key), positions and floors in two's complement;
///   the weight is dropped where word (key position mod 4) < floor(probability 2^32).
/// Another offset (a step, a layer) draws anew; the backward wants the forward's. Tokens of a sequence at the same position share numbers.
struct Dropout {
  double probability = 0;  // from 0, without 1
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  std::int64_t first_head = 0;      // of the whole, for the call's head 0 (tensor parallelism)
  std::int64_t first_sequence = 0;  // of the whole, for the call's first (data parallelism)
};

struct AttentionSpec {
  AttentionContent content = PlainContent{};
  ConstTensorView content_shift = {};  // (1, 1, H or 1, D), added to q before it meets k, plain contents only: Transformer-XL's u; empty: 0
  std::vector<AttentionTerm> terms = {};
  std::optional<double> scale = std::nullopt;  // on q . k and scaled terms; nullopt: 1 / sqrt(D)
  double softcap = 0;                          // s <- cap tanh(s / cap) after every term, -infinity stays; 0: none
  /// (1, 1, H or 1, 1): a logit per head that takes part in the softmax and brings no value (gpt-oss), neither scaled nor capped; lse
  /// counts it, and is it for a query that sees no key. -infinity: as none; empty: none. Of parts that are merged exactly one takes it.
  ConstTensorView sinks = {};
  Visibility visibility = {};
  std::optional<Positions> query_positions = std::nullopt;  // integers (Tq) or (B, Tq); nullopt: i + Tk - Tq within its sequence
  std::optional<Positions> key_positions = std::nullopt;    // nullopt: j within its sequence
  TileSkip skip = TileSkip::none;
  Dropout dropout = {};
  Execution execution{};
};

// ---- Use. float32 arithmetic for f32, bf16 and f16, float64 for f64; deterministic, whatever the runner. ----

/// q (B, Tq, H, D), k (B, Tk, Hk, D), v (B, Tk, Hk, Dv), one dtype; Hk divides H, and query head h reads key head h / (H / Hk).
struct AttentionInputs {
  ConstTensorView q;
  ConstTensorView k;
  ConstTensorView v;
};
/// out (B, Tq, H, Dv) of the inputs' dtype, or f32 for 16-bit inputs: zeros for a query that sees no key. lse (B, Tq, H, 1), f32 (f64 for
/// f64 inputs): the natural logarithm of the sum of exponentials, -infinity there (its sink, where there is one); empty: not wanted.
struct AttentionOutputs {
  TensorView out;
  TensorView lse = {};
};

/// Memory that a call works in; any alignment will do.
struct Workspace {
  std::span<std::byte> memory = {};
  /// Asked for what the memory lacks: a block of at least so many bytes, which stays until the call returns; an empty one: there is none.
  /// Empty: the memory has as many bytes as attention_workspace says.
  std::function<std::span<std::byte>(std::int64_t bytes)> more = {};

  Workspace() = default;
  template <class Bytes>
    requires std::is_convertible_v<Bytes, std::span<std::byte>>
  Workspace(Bytes&& bytes) : memory(std::forward<Bytes>(bytes)) {}  // NOLINT(google-explicit-constructor)
  Workspace(std::byte* data, std::size_t bytes) : memory(data, bytes) {}
  Workspace(std::span<std::byte> given, std::function<std::span<std::byte>(std::int64_t)> ask) : memory(given), more(std::move(ask)) {}
};

/// Bytes that `attention` works in.
Result<std::int64_t> attention_workspace(const AttentionInputs& inputs, const AttentionSpec& spec);
/// Nothing is written when it fails.
Status attention(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionOutputs& outputs, const Workspace& workspace);

/// What the forward call gave, and the gradients by it; out and out_gradient as `out`, each of either dtype.
struct AttentionSaved {
  ConstTensorView out;
  ConstTensorView lse;
  ConstTensorView out_gradient;
  ConstTensorView lse_gradient = {};  // empty: zeros
};
/// Where gradients of a term's tensors go, shaped as those, f32 or f64; what is empty is not computed. They are added to what is there, so
/// that layers may share.
struct TermGradient {
  TensorView table = {};       // TableTerm, SegmentTerm, GridTerm, CopeTerm; rows_h of DecomposedTerm; bias of DenseTerm
  TensorView second = {};      // rows_w of DecomposedTerm
  TensorView features = {};    // of TableTerm; gate of BiasTerm
  TensorView shift = {};       // of TableTerm, SegmentTerm
  TensorView parameters = {};  // of BiasTerm: (1, 1, 1, parameter_count), in the order of Bias::gradient
};
/// q, k, v: of the inputs' dtype, or f32 for 16-bit inputs, and of their shape, written; empty: not wanted.
struct AttentionGradients {
  TensorView q = {};
  TensorView k = {};
  TensorView v = {};
  TensorView content_shift = {};         // f32 or f64, added to
  TensorView sinks = {};                 // the same
  std::vector<TermGradient> terms = {};  // as many as terms, or none
  /// The same bits in every run, and of a batch row whatever else is in the batch. False: what is faster on a GPU, where blocks may then
  /// add to a gradient in any order; the CPU does not make use of it.
  bool deterministic = true;
};
Result<std::int64_t> attention_backward_workspace(const AttentionInputs& inputs, const AttentionSpec& spec,
                                                  const AttentionGradients& gradients);
Status attention_backward(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionSaved& saved,
                          const AttentionGradients& gradients, const Workspace& workspace);

/// Where a block of rows of the weights begins; it has as many batch rows, queries and heads as the tensor that it goes to.
struct AttentionRows {
  std::int64_t batch = 0;
  std::int64_t query = 0;
  std::int64_t head = 0;
};
/// Each (batch rows, queries, heads, Tk), f32 (f64 for f64 inputs).
struct AttentionWeights {
  TensorView weights;       // after the softmax, before dropout: zeros for keys not seen
  TensorView factors = {};  // what dropout multiplies them by: 0 or 1 / (1 - probability), seen or not; 0 for keys of other sequences;
                            // empty: not wanted
};
/// Weights of some rows, what a map draws; v and tables on the value side are not looked at, no tile is skipped.
Result<std::int64_t> attention_weights_workspace(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                                                 const AttentionWeights& weights);
Status attention_weights(const AttentionInputs& inputs, const AttentionSpec& spec, const AttentionRows& rows,
                         const AttentionWeights& weights, const Workspace& workspace);

/// Outputs over disjoint sets of keys, made one: those of ring attention, or of a cache in parts. All of one shape and dtype, that of the
/// result, or f32 where it has 16 bits (then nothing is lost before the last rounding); lse is needed. Sinks belong to one softmax: exactly
/// one part is given them.
struct AttentionPart {
  ConstTensorView out;
  ConstTensorView lse;
};
Status merge_attention(std::span<const AttentionPart> parts, const AttentionOutputs& outputs, const Execution& execution = {});

/// What a call would do, forward. Tiles are of query_tile x key_tile scores. A tile is far when every clipped or bucketed term is
/// constant on it per row or per column, band otherwise; unseen tiles are never visited; a certified skip is not foreseen.
struct AttentionReport {
  std::int64_t query_tile = 0;
  std::int64_t key_tile = 0;
  std::int64_t band_tiles = 0;
  std::int64_t far_tiles = 0;
  std::int64_t unseen_tiles = 0;
  double operations = 0;        // multiplications and additions, those of the terms included
  double plain_operations = 0;  // without terms
  double bytes = 0;             // read and written, once each
  std::int64_t workspace = 0;
  std::string words = {};  // the same, for people, and what each term costs
};
Result<AttentionReport> explain_attention(const AttentionInputs& inputs, const AttentionSpec& spec);

}  // namespace phasor
