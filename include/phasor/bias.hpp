// SPDX-License-Identifier: Apache-2.0
// Biases on attention scores: the specs (one struct per published scheme), and Bias (a spec made ready to fill, index and differentiate).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "phasor/execution.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

namespace plan {
struct BiasPlan;
}

// ---- Schemes. r is the distance, query position - key position; h counts from 0; tables are (H, rows), row by row. ----

/// symmetric: -s_h |r|. causal: -s_h r, 0 for future keys: mask them yourself. key_position: +s_h times the key's position, which is
/// -s_h r but for a constant of the row that softmax does not see: Bloom and Falcon with keys by fill_from_mask, MPT with keys at 1 - Tk,
/// ..., 0.
enum class AlibiForm : std::uint8_t { symmetric, causal, key_position };
/// Falcon rounds its slopes to bfloat16.
enum class SlopeRounding : std::uint8_t { float64, bf16 };
/// s_h = 2^(-max_bias (h + 1) / H) where H is a power of two; else the slopes of the power of two below, then every second one of twice
/// that.
struct Alibi {
  std::int64_t heads = 0;
  std::vector<double> slopes = {};  // given (explicit or learned), H of them; empty: by the formula
  double max_bias = 8;
  AlibiForm form = AlibiForm::symmetric;
  SlopeRounding rounding = SlopeRounding::float64;
};

/// Whether keys ahead have buckets of their own, or all share that of distance 0.
enum class BucketSides : std::uint8_t { both, behind };
/// n = buckets (both: half of them, those of keys ahead after those of keys behind), e = floor(n / 2), a = |r|:
/// a below e: a; else min(n - 1, e + floor(ln(a / e) / ln(max_distance / e) (n - e))).
struct T5Buckets {
  std::int64_t heads = 0;
  std::int64_t buckets = 32;
  std::int64_t max_distance = 128;
  BucketSides sides = BucketSides::both;
  std::vector<double> table = {};  // (H, buckets); empty: zeros
};

/// Where readings differ. hf: as in Hugging Face. microsoft: |r| is first cut to max_distance - 1, so that row 0 is not used. hf_swapped:
/// Hugging Face's position-to-content term where queries and keys differ in number; its call has buckets and max_distance swapped.
enum class DebertaReading : std::uint8_t { hf, microsoft, hf_swapped };
/// Row clamp(B(r) + span, 0, 2 span - 1). v2 and v3, mid = buckets / 2: B = r up to mid, else
/// sign(r) (mid + ceil(ln(|r| / mid) / ln((max_distance - 1) / mid) (mid - 1))), span = buckets. v1 (buckets 0): B = r, span =
/// max_distance.
struct DebertaBuckets {
  std::int64_t heads = 0;
  std::int64_t buckets = 256;
  std::int64_t max_distance = 512;
  DebertaReading reading = DebertaReading::hf;
  std::vector<double> table = {};  // (H, 2 span); empty: zeros
};

/// Row clamp(-r, -left, right) + left: the table runs by key - query.
struct ShawClip {
  std::int64_t heads = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::vector<double> table = {};  // (H, left + 1 + right); empty: zeros
};

/// logarithmic: -r1 ln(1 + r2 |r|). power: -r1 |r|^r2, r2 in (0, 2].
enum class KerpleKind : std::uint8_t { logarithmic, power };
struct Kerple {
  KerpleKind kind = KerpleKind::logarithmic;
  std::vector<double> r1 = {};  // H of them, above 0
  std::vector<double> r2 = {};
};

/// H / (8 (h + 1)) times the sum of cos(r base^(-2i / width)) over i = 0 ... width / 2 - 1.
struct Sandwich {
  std::int64_t heads = 0;
  std::int64_t width = 128;
  double base = 10000;
};

/// A perceptron with an activation between its layers: x_(l+1) = activation(W_l x_l + b_l), the last one without.
enum class Activation : std::uint8_t { relu, silu };
struct Mlp {
  std::vector<std::int64_t> widths = {};  // of the input, each hidden layer, and the heads
  std::vector<double> parameters = {};    // layer by layer: W (out, in), then b (out)
  Activation activation = Activation::relu;
};

/// mlp(psi(|r|) / (psi(max(length, query position)) + epsilon)), psi(x) = ln(c x + 1): a diagonal of its own for queries beyond `length`.
struct Fire {
  Mlp mlp = {};  // 1 -> ... -> H
  double c = 0.1;
  double length = 512;  // learned as a multiple of 512
  double epsilon = 0;   // 1e-6 in the code of its kin
};

enum class DistanceScale : std::uint8_t { linear, logarithmic };
/// mlp(r), or mlp(sign(r) ln(1 + |r|)).
struct DynamicMlp {
  Mlp mlp = {};  // 1 -> ... -> H
  DistanceScale scale = DistanceScale::linear;
};

/// A window of tokens: the one at (y, x) has position y (2 width - 1) + x, so that a distance names the two offsets. See fill_window.
struct Window {
  std::int64_t height = 0;
  std::int64_t width = 0;
};
/// Row (dy + height - 1) (2 width - 1) + dx + width - 1, offsets query - key (Swin, BEiT without its class token).
struct SwinTable {
  std::int64_t heads = 0;
  Window window = {};
  std::vector<double> table = {};  // (H, (2 height - 1) (2 width - 1)); empty: zeros
};
/// 16 sigmoid(mlp(g(dy), g(dx))), g(x) = sign(x) log2(1 + 8 |x| / (w - 1)) / 3, w of the trained window.
struct SwinV2 {
  Window window = {};
  Window trained = {};  // 0 x 0: window
  Mlp mlp = {};         // 2 -> ... -> H
};

using BiasSpec = std::variant<Alibi, T5Buckets, DebertaBuckets, ShawClip, Kerple, Sandwich, Fire, DynamicMlp, SwinTable, SwinV2>;

// ---- Use ----

/// Which heads, and for FIRE which query. The heads of a tensor are first_head, first_head + 1, ... of the spec (tensor parallelism).
struct BiasPart {
  std::int64_t first_head = 0;
  std::int64_t query_position = 0;  // FIRE: whose diagonal; every query up to `length` has the same
};

/// A spec made ready. Immutable, cheap to copy, safe to share between threads. Values are float64, within an ulp, the same on every
/// machine, and rounded once to the tensor's dtype. Distances are whole numbers up to 2^62 either way, positions up to 2^61. These
/// functions allocate, on the CPU.
class Bias {
 public:
  static Result<Bias> make(const BiasSpec& spec);
  /// The same scheme with other parameters, as many as parameter_count() and in that order: cheap, since no threshold or frequency is
  /// computed again, so that a training step can make one. Slopes by the formula become given ones; rounded ones are rounded again.
  Result<Bias> with_parameters(std::span<const double> parameters) const;

  /// Fills (1, heads, 1, N) with the biases at the distances first_distance, first_distance + 1, ... Outside a window: an error.
  Status diagonal(const TensorView& out, std::int64_t first_distance, const BiasPart& part = {}, const Execution& execution = {}) const;
  /// Fills (B, heads, Tq, Tk), a whole or a tile, from the positions of its queries and keys, (Tq) or (B, Tq) and (Tk) or (B, Tk).
  Status fill(const TensorView& out, const Positions& queries, const Positions& keys, std::int64_t first_head = 0,
              const Execution& execution = {}) const;
  /// Adds the gradient of the parameters to `sum`, (1, 1, 1, parameter_count()), f32 or f64, from that of the diagonal, (1, heads, 1, N),
  /// on one device. Call it for each layer or query that shares them. Deterministic: in the order of distances, in float64, rounded once.
  Status gradient(const TensorView& sum, const ConstTensorView& diagonal, std::int64_t first_distance, const BiasPart& part = {},
                  const Execution& execution = {}) const;
  /// The same into numbers of the host.
  Status gradient(std::span<double> sum, const ConstTensorView& diagonal, std::int64_t first_distance, const BiasPart& part = {}) const {
    return gradient(view(sum.data(), {1, 1, 1, static_cast<std::int64_t>(sum.size())}), diagonal, first_distance, part);
  }

  const BiasSpec& spec() const;
  std::int64_t heads() const;
  /// How many. Alibi: slopes (H); tables: (H, rows); Kerple: r1 (H), r2 (H); Mlp: its parameters; Fire: those, c, length; Sandwich: none.
  std::int64_t parameter_count() const;
  /// Slopes in use; empty but for Alibi.
  const std::vector<double>& slopes() const;
  /// Rows of a table; 0 for schemes without one.
  std::int64_t rows() const;
  /// The row of the table that a distance reads; -1 for schemes without one and outside a window.
  std::int64_t row(std::int64_t distance) const;
  /// Internal; do not use.
  const plan::BiasPlan& plan() const { return *plan_; }

 private:
  static Result<Bias> of(Result<plan::BiasPlan> plan);
  explicit Bias(std::shared_ptr<const plan::BiasPlan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const plan::BiasPlan> plan_;
};

/// (1, 1, height width): the positions of a window's tokens, row by row.
Status fill_window(const PositionsView& out, const Window& window);

/// [sin | cos], or sin and cos in turn (Conformer), of distance * base^(-2i / width): the rows that Transformer-XL and XLNet project.
enum class XlOrder : std::uint8_t { halves, interleaved };
struct XlSinusoids {
  std::int64_t width = 0;
  double base = 10000;
  XlOrder order = XlOrder::halves;
  std::int64_t clamp = 0;  // distances are cut to -clamp ... clamp (XLNet's clamp_len); 0: not
};
/// Fills (B, N, 1, width) with a row for each distance, (N) or (B, N), in any order; values nearest to the true ones. Allocates.
Status fill_xl_sinusoids(const TensorView& out, const XlSinusoids& spec, const Positions& distances);

}  // namespace phasor
