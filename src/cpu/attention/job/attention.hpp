// SPDX-License-Identifier: Apache-2.0
// The job of attention: sequences cut into tiles, positions as plain arrays, terms as plain data; every decision taken. What it points to
// lies in the caller's tensors or workspace. "T" is the type of arithmetic: float, or double for f64 tensors.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/attention/job/dropout.hpp"
#include "cpu/attention/job/terms.hpp"
#include "cpu/attention/job/weights.hpp"
#include "job/attention/shape.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::attend {

// Scores are computed a tile at a time. Buffers of tiles are padded so that kernels need no tails: a row of scores has kKeyTile numbers, a
// row of channels padded_width or padded_value_width, a multiple of kPadding; what pads is zero (scores: -infinity).
constexpr std::int64_t kQueryTile = 96;
constexpr std::int64_t kKeyTile = 64;
constexpr std::int64_t kPadding = 16;
/// A job is cut into at most so many strips of neighbouring tasks, each with scratch of its own.
constexpr std::int64_t kMaxStrips = 64;
/// Decoding: key tiles that a task packs for itself.
constexpr std::int64_t kSplitTiles = 8;

constexpr std::int64_t padded(std::int64_t n) { return (n + kPadding - 1) / kPadding * kPadding; }

struct AttentionShape : job::AttentionShape {
  std::int64_t padded_width = 0;
  std::int64_t padded_value_width = 0;
};

/// Neighbouring tokens of one sequence: at most kQueryTile queries or kKeyTile keys.
struct TokenTile {
  std::int64_t sequence = 0;
  std::int64_t first = 0;  // token
  std::int64_t count = 0;
  std::int64_t min_position = 0;
  std::int64_t max_position = 0;
  bool consecutive = false;  // token first + t is at min_position + t
  bool masked = false;       // keys: the key mask hides some
};

/// A batch row, or one sequence of a varlen batch (then batch is 0): its queries see its keys only.
struct Sequence {
  std::int64_t batch = 0;
  std::int64_t first_query_tile = 0;
  std::int64_t end_query_tile = 0;
  std::int64_t first_key_tile = 0;
  std::int64_t end_key_tile = 0;
  std::int64_t prefix = INT64_MIN;  // keys at positions below it are exempt from causality
};

/// Neighbouring sequences that share one set of term sums; one backward task does them in turn. Usually a group is a single sequence.
struct SequenceGroup {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// Key tiles of a sequence that belong to one of `parts` parts.
struct TileRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
inline TileRange key_tiles_of(const Sequence& sequence, std::int64_t part, std::int64_t parts) {
  const std::int64_t tiles = sequence.end_key_tile - sequence.first_key_tile;
  return {sequence.first_key_tile + tiles * part / parts, sequence.first_key_tile + tiles * (part + 1) / parts};
}

struct MaskJob {
  bool causal = false;
  std::int64_t left = INT64_MAX;   // r <= left
  std::int64_t right = INT64_MAX;  // -r <= right
  const std::uint8_t* key_mask = nullptr;
  std::int64_t mask_strides[2] = {0, 1};
};

/// One way that q meets k: as given, or rotated copies in the workspace (then of dtype T).
struct ContentJob {
  ConstTensorView q;
  ConstTensorView k;
};
/// Which content a score takes. one: the first. window: r below `size` the first, else the second. chunk: the first where
/// query / size = key / size (floors of positions), the second where they differ by 1, else the third.
enum class ContentRule : std::uint8_t { one, window, chunk };
constexpr int kMaxContents = 3;

/// xPos, in copies of q and k that hold q zeta^((position - anchor) / base), k zeta^(-(position - anchor) / base), anchor the min_position
/// of their tile: a tile of scores multiplies q's channel c by exp(log_zeta[c] (query anchor - key anchor)).
struct DecayJob {
  bool present = false;              // known without memory
  const double* log_zeta = nullptr;  // (padded_width), 0 outside the rotary width
};

/// Panels of packed keys and values, T, for every key head and key tile: panel (h, tile) begins at (h key_tiles + tile) * its size.
struct Panels {
  void* keys_transposed[kMaxContents] = {};  // (padded_width, kKeyTile) each, one a content; null: tiles are packed when needed (decoding)
  void* values = nullptr;                    // (kKeyTile, padded_value_width)
  void* keys[kMaxContents] = {};             // backward: (kKeyTile, padded_width)
  void* values_transposed = nullptr;         // backward: (padded_value_width, kKeyTile)
};

/// Backward. Buffers of T in the workspace, cleared by the kernels. Its tasks: (group of sequences, key head, part of their key
/// tiles); a task does every query head that reads the key head, every query tile that sees its keys. Each slot has sums of its own:
/// slot_of(group, part, head).
struct BackwardJob {
  ConstTensorView out;
  ConstTensorView lse;
  ConstTensorView out_gradient;
  ConstTensorView lse_gradient;  // data null: zeros
  std::int64_t parts = 1;        // of the key tiles of a sequence, neighbouring tiles each
  void* q[kMaxContents] = {};    // by contents: (parts, B, H, Tq, padded_width), before the rotation is undone
  void* k[kMaxContents] = {};    // (B, Hk, Tk, padded_width)
  void* v = nullptr;             // (B, Hk, Tk, padded_value_width)
  void* q_raw = nullptr;         // of terms, which use q and k as given; the same as q[0] and k[0] where contents are not rotated
  void* k_raw = nullptr;
  void* shift = nullptr;    // (slots, padded_width): by the content shift
  double* sinks = nullptr;  // (H, query tiles): by the sinks; null: not wanted
  TensorView q_out;         // the caller's; data null: not wanted
  TensorView k_out;
  TensorView v_out;
  bool wants_q = false, wants_k = false, wants_v = false, wants_shift = false;
  bool wants_terms = false;  // some tensor of a term
};

struct AttentionJob {
  AttentionShape shape;
  DType arithmetic = DType::f32;  // f32 or f64: T
  ConstTensorView q, k, v;        // as given
  TensorView out, lse;            // lse.data null: not wanted
  ContentJob contents[kMaxContents];
  int content_count = 1;
  ContentRule rule = ContentRule::one;
  std::int64_t rule_size = 0;
  const void* content_shift = nullptr;  // (H, padded_width) T; null: none
  DecayJob decay;
  double scale = 1;
  double softcap = 0;
  const void* sinks = nullptr;  // (H) T; null: none
  MaskJob mask;
  // (B or 1, Tq) and (B or 1, Tk); stride 0 where batch rows share.
  const std::int64_t* query_positions = nullptr;
  const std::int64_t* key_positions = nullptr;
  std::int64_t query_position_stride = 0;
  std::int64_t key_position_stride = 0;
  std::span<const Sequence> sequences;
  std::span<const SequenceGroup> groups;  // backward: of all sequences, in order
  std::span<const TokenTile> query_tiles;
  std::span<const TokenTile> key_tiles;
  std::span<const TermJob> terms;
  const std::int64_t* term_scratch = nullptr;  // where each term's scratch begins in the strip's, in T
  bool certified_skip = false;
  DropoutJob dropout;
  WeightsJob weights;
  Panels panels;
  BackwardJob backward;
  // Forward: (query tile, head) a task; with key_splits above 1 (decoding) (sequence, key head, split) a task, partial results merged
  // after.
  std::int64_t key_splits = 1;
  void* partial_out = nullptr;  // (key_splits, query tokens of all batch rows, heads, padded_value_width) T, not divided by the sum
  void* partial_max = nullptr;  // (key_splits, query tokens, heads) T
  void* partial_sum = nullptr;
  std::byte* scratch = nullptr;
  std::int64_t scratch_bytes = 0;  // a strip
  std::int64_t strips = 1;
};

}  // namespace phasor::attend
