// SPDX-License-Identifier: Apache-2.0
// The schemes of the reference: one struct each, with its parameters as plain float64. Members:
// term and term_gradient add to a score; content and content_gradient say how the q.k score is formed; value and value_gradient add to v.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace phasor::attend::reference {

using Values = std::vector<double>;
using Integers = std::vector<std::int64_t>;
struct Problem;
struct Gradients;

/// One score: batch, query head, query, key.
struct Cell {
  std::int64_t b = 0;
  std::int64_t h = 0;
  std::int64_t i = 0;
  std::int64_t j = 0;
};

/// What a gradient is taken by.
struct Parameter {
  const char* name;
  std::span<double> values;
};
using Parameters = std::vector<Parameter>;

// r is the distance, query position - key position. Tables of biases are (H, rows).

// ---- Functions of the distance ----

enum class AlibiForm : std::uint8_t { symmetric, causal, key_position };
/// -s_h |r|; -s_h r, 0 ahead; or s_h times the key's position.
struct Alibi {
  Values slopes = {};  // (H)
  AlibiForm form = AlibiForm::symmetric;
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Alibi& own) const;
  Parameters parameters() { return {{"slopes", slopes}}; }
  void check(const Problem& problem) const;
};
/// Of the paper: 2^(-8 h / H) from h = 1 where H is a power of two, else with every second slope of the next power.
Values alibi_slopes(std::int64_t heads, double max_bias = 8);

struct T5 {
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  bool both_sides = true;
  Values table = {};  // (H, buckets)
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, T5& own) const;
  Parameters parameters() { return {{"table", table}}; }
  void check(const Problem& problem) const;
};
std::int64_t t5_bucket(const T5& spec, std::int64_t r);

/// T5's bias times a gate of the query.
struct WavLm {
  T5 bias = {};
  Values gate = {};  // (B, Tq, H)
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, WavLm& own) const;
  Parameters parameters() { return {{"table", bias.table}, {"gate", gate}}; }
  void check(const Problem& problem) const;
};

enum class KerpleKind : std::uint8_t { logarithmic, power };
/// -r1 ln(1 + r2 |r|), or -r1 |r|^r2.
struct Kerple {
  KerpleKind kind = KerpleKind::logarithmic;
  Values r1 = {};  // (H)
  Values r2 = {};
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Kerple& own) const;
  Parameters parameters() { return {{"r1", r1}, {"r2", r2}}; }
  void check(const Problem& problem) const;
};

/// H / (8 h) times the sum of cos(r base^(-2i / width)), h from 1.
struct Sandwich {
  std::int64_t width = 128;
  double base = 10000;
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem&, const Cell&, double, Gradients&, Sandwich&) const {}
  Parameters parameters() { return {}; }
  void check(const Problem&) const {}
};

/// One learned bias per distance: row clamp(-r, -left, right) + left.
struct LearnedDiagonal {
  std::int64_t left = 0;
  std::int64_t right = 0;
  Values table = {};  // (H, left + 1 + right)
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, LearnedDiagonal& own) const;
  Parameters parameters() { return {{"table", table}}; }
  void check(const Problem& problem) const;
};

enum class Activation : std::uint8_t { relu, silu };
/// mlp(psi(|r|) / (psi(max(length, query position)) + epsilon)), psi(x) = ln(c x + 1).
struct Fire {
  Integers widths = {};  // 1, ..., H
  Values mlp = {};       // layer by layer: W (out, in), then b (out)
  Activation activation = Activation::relu;
  double c = 0.1;
  double length = 512;
  double epsilon = 0;
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Fire& own) const;
  Parameters parameters() { return {{"mlp", mlp}, {"c", {&c, 1}}, {"length", {&length, 1}}}; }
  void check(const Problem& problem) const;
};

// ---- Any bias, and biases of images: a position is the number of a token in its grid, row by row ----

/// bias[b][h][i][j]; an extent of 1 is shared.
struct Dense {
  std::array<std::int64_t, 4> extents = {1, 1, 1, 1};
  Values bias = {};
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Dense& own) const;
  Parameters parameters() { return {{"bias", bias}}; }
  void check(const Problem& problem) const;
};

/// Row (dy + height - 1) (2 width - 1) + dx + width - 1, offsets query - key. BEiT: position 0 is a class token, the grid begins at 1;
/// the last three rows are class to token, token to class, class to class.
struct Swin {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool class_token = false;
  Values table = {};  // (H, (2 height - 1) (2 width - 1), and 3 with a class token)
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Swin& own) const;
  Parameters parameters() { return {{"table", table}}; }
  void check(const Problem& problem) const;
};

/// q . (Rh[dy] + Rw[dx]), not scaled. Where the grids differ, coordinates of the coarser one are spread over the finer (MViTv2).
struct Sam {
  std::array<std::int64_t, 2> query_grid = {};  // height, width
  std::array<std::int64_t, 2> key_grid = {};
  Values rows_h = {};  // (2 max(heights) - 1, D), by query - key
  Values rows_w = {};
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Sam& own) const;
  Parameters parameters() { return {{"rows_h", rows_h}, {"rows_w", rows_w}}; }
  void check(const Problem& problem) const;
};

// ---- Query-side and key-side tables ----

/// scale q . RK[clamp(-r, -left, right) + left]; and RV of the same row added to v.
struct Shaw {
  std::int64_t left = 0;
  std::int64_t right = 0;
  bool per_head = false;
  Values keys = {};    // (rows, D) or (H, rows, D); empty: none
  Values values = {};  // (rows, Dv) or (H, rows, Dv); empty: none
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Shaw& own) const;
  double value(const Problem& problem, const Cell& cell, std::int64_t channel) const;
  void value_gradient(const Problem& problem, const Cell& cell, std::int64_t channel, double dv, Shaw& own) const;
  Parameters parameters() { return {{"keys", keys}, {"values", values}}; }
  void check(const Problem& problem) const;
};

enum class XlOrder : std::uint8_t { halves, interleaved };
/// scale (u . k + (q + v) . W r(distance)), r of sines and cosines: [sin | cos], or in turn (Conformer, Parakeet).
struct TransformerXl {
  Values u = {};                 // (H, D)
  Values v = {};                 // (H, D)
  Values projection = {};        // W: (H, D, M)
  std::int64_t model_width = 0;  // M
  double base = 10000;
  XlOrder order = XlOrder::halves;
  Values table = {};  // (H, rows, D): W r itself, from the distance first_distance on, in the place of projection; empty: not
  std::int64_t first_distance = 0;
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, TransformerXl& own) const;
  Parameters parameters() { return {{"u", u}, {"v", v}, {"projection", projection}, {"table", table}}; }
  void check(const Problem& problem) const;
};
/// r(distance), M values.
Values xl_sinusoid(const TransformerXl& spec, long double distance);

/// Transformer-XL with distances cut to -clamp ... clamp, turned round for batch rows read backwards, and scale (q + s) . E[segments
/// differ].
struct Xlnet {
  TransformerXl xl = {};
  std::int64_t clamp = 0;        // 0: not
  Integers direction = {};       // (B): 1 or -1; empty: 1
  Values segment_bias = {};      // s: (H, D); empty: no segments
  Values segment_table = {};     // E: (2, H, D)
  Integers query_segments = {};  // (B, Tq)
  Integers key_segments = {};    // (B, Tk)
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Xlnet& own) const;
  Parameters parameters() {
    return {{"u", xl.u},
            {"v", xl.v},
            {"projection", xl.projection},
            {"table", xl.table},
            {"segment_bias", segment_bias},
            {"segment_table", segment_table}};
  }
  void check(const Problem& problem) const;
};

enum class DebertaReading : std::uint8_t { hf, microsoft, hf_swapped };
/// scale (q . KR[row] + k . QR[row]), both by the distance query - key; the scale of a model with both terms is 1 / sqrt(3 D).
struct Deberta {
  std::int64_t buckets = 256;  // 0: none (v1)
  std::int64_t max_distance = 512;
  DebertaReading c2p = DebertaReading::hf;
  DebertaReading p2c = DebertaReading::hf;
  Values keys = {};     // KR: (H, 2 span, D); empty: no c2p
  Values queries = {};  // QR: (H, 2 span, D); empty: no p2c
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Deberta& own) const;
  Parameters parameters() { return {{"keys", keys}, {"queries", queries}}; }
  void check(const Problem& problem) const;
};
std::int64_t deberta_row(const Deberta& spec, DebertaReading reading, std::int64_t r);

/// scale tau f . P[:, r] for 0 <= r < extent, else 0; tau = 1 + alpha ln(max((query position + 1) / floor, 1)). The model does not scale
/// it, and multiplies q by the same tau: that is the caller's.
struct Inkling {
  std::int64_t extent = 0;
  std::int64_t feature_width = 0;
  Values features = {};  // f: (B, Tq, H, feature_width)
  Values table = {};     // P: (feature_width, extent)
  double alpha = 0;
  double floor = 1;
  double scale = 1;
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Inkling& own) const;
  Parameters parameters() { return {{"features", features}, {"table", table}}; }
  void check(const Problem& problem) const;
};

/// p = sum of sigmoid(gate_scale q . k) over the seen keys from this one to the query's position, at most rows - 1;
/// term_scale q . (E between rows floor(p) and ceil(p)).
struct Cope {
  std::int64_t rows = 0;
  bool per_head = false;
  Values table = {};  // E: (rows, D) or (H, rows, D)
  double gate_scale = 1;
  double term_scale = 1;
  double term(const Problem& problem, const Cell& cell) const;
  void term_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum, Cope& own) const;
  Parameters parameters() { return {{"table", table}}; }
  void check(const Problem& problem) const;
};

// ---- How q meets k ----

enum class Pairing : std::uint8_t { half, interleaved };
/// What rotated numbers are stored as: float64, or 16 bits, to which float32 arithmetic is rounded once.
enum class Stored : std::uint8_t { f64, f16, bf16 };
struct Ladder {
  std::int64_t rotary_width = 0;  // 0: all of D
  double base = 10000;
  Pairing pairing = Pairing::half;
  Values frequencies = {};  // empty: base^(-2p / rotary width)
  double amplitude = 1;     // on each side
  Stored stored = Stored::f64;
};

struct Rope {
  Ladder ladder = {};
  bool keys_rotated = false;  // they come rotated, amplitude included
  double content(const Problem& problem, const Cell& cell) const;
  void content_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum) const;
  Parameters parameters() { return {}; }
  void check(const Problem& problem) const;
};

/// RoPE, q times zeta^(position / scale_base) and k times zeta^(-position / scale_base), zeta_p = (2p / R + gamma) / (1 + gamma).
struct Xpos {
  Ladder ladder = {};
  bool keys_rotated = false;
  double gamma = 0.4;
  double scale_base = 512;
  double content(const Problem& problem, const Cell& cell) const;
  void content_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum) const;
  Parameters parameters() { return {}; }
  void check(const Problem& problem) const;
};

enum class MapKind : std::uint8_t { rerope, leaky_rerope, self_extend, dual_chunk };
/// Rotations at other positions than the true ones; causal masks only.
/// rerope: r below window by r, else by window. leaky_rerope: else (R_((m + w (g - 1)) / g) q) . (R_(n / g) k), g = factor.
/// self_extend: else floor(m / g) + w - floor(w / g) against floor(n / g), g = group.
/// dual_chunk, c = chunk - local: keys at n mod c; queries at m mod c (same chunk), min(m mod c + c, chunk) (next), min(2c - 1, chunk).
struct MappedRope {
  Ladder ladder = {};
  MapKind kind = MapKind::rerope;
  std::int64_t window = 0;
  double factor = 1;
  std::int64_t group = 1;
  std::int64_t chunk = 0;
  std::int64_t local = 0;
  double content(const Problem& problem, const Cell& cell) const;
  void content_gradient(const Problem& problem, const Cell& cell, double ds, Gradients& sum) const;
  Parameters parameters() { return {}; }
  void check(const Problem& problem) const;
};

using AnyScheme = std::variant<Alibi, T5, WavLm, Kerple, Sandwich, LearnedDiagonal, Fire, Dense, Swin, Sam, Shaw, TransformerXl, Xlnet,
                               Deberta, Inkling, Cope, Rope, Xpos, MappedRope>;

/// The variant, copied and destroyed out of line: that of so many schemes takes the compiler seconds wherever it is inline.
struct Scheme : AnyScheme {
  template <class S>
    requires requires(const S& s, const Problem& p) { s.check(p); }
  Scheme(S s);  // NOLINT(google-explicit-constructor): a scheme is one of the list
  Scheme(const Scheme& other);
  Scheme(Scheme&& other) noexcept;
  Scheme& operator=(const Scheme& other);
  Scheme& operator=(Scheme&& other) noexcept;
  ~Scheme();
};

}  // namespace phasor::attend::reference
