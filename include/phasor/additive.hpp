// SPDX-License-Identifier: Apache-2.0
// Sinusoidal encoding, added to a token: the spec (what it is), and Sinusoidal (the spec made ready to write or add).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/rotary.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

namespace plan {
struct SinusoidalPlan;
}

// ---- Ladders: the frequencies w_i of the P pairs of an axis, i from 0 ----

/// base^(-i / (P - shift)). shift 0: the paper, RoFormer, MAE, DETR; 1: tensor2tensor, fairseq, Whisper; diffusers' timesteps: either.
struct GeometricLadder {
  double base = 10000;
  double shift = 0;
};
/// fastest * (slowest / fastest)^(i / (P - 1)): MLX's, with max_freq and min_freq.
struct LogSpacedLadder {
  double fastest = 1;
  double slowest = 1e-4;
};
/// Fourier features of coordinates in [-1, 1]: pi times P numbers from 1 to highest / 2, evenly spaced or in equal ratios (powers of two
/// when highest = 2^P).
struct BandLadder {
  enum class Spacing : std::uint8_t { even, ratio };
  double highest = 224;
  Spacing spacing = Spacing::even;
};
/// frequencies[i], any sign; of several axes one after the other.
struct GivenLadder {
  std::vector<double> frequencies = {};
};
using SinusoidLadder = std::variant<GeometricLadder, LogSpacedLadder, BandLadder, GivenLadder>;

// ---- Spec ----

/// Where the sines and cosines of an axis lie: sin, cos, sin, cos, ...; every sine, then every cosine; every cosine, then every sine.
enum class SinusoidOrder : std::uint8_t { interleaved, sin_cos, cos_sin };
/// What the last channel of an odd width w is. zero: nothing, and P = (w - 1) / 2 (tensor2tensor, fairseq, diffusers); unpaired: a pair of
/// which only the first half is there, P = (w + 1) / 2, and a GeometricLadder has w / 2 instead of P (the paper, RoFormer).
enum class OddChannel : std::uint8_t { zero, unpaired };

struct SinusoidalSpec {
  std::int64_t width = 0;  // D
  SinusoidLadder ladder = GeometricLadder{};
  SinusoidOrder order = SinusoidOrder::interleaved;
  std::vector<std::int64_t> axis_widths = {};  // channels of each axis, one axis after the other, each with its own ladder; empty: one axis
  OddChannel odd = OddChannel::zero;
  FrequencyUnit unit = FrequencyUnit::radians;               // turns: 2 pi times as fast (MLX's full_turns; DETR's positions in [0, 1])
  double position_scale = 1;                                 // on every position (diffusers' scale)
  double amplitude = 1;                                      // on every value: MLX's scale sqrt(2 / D), a learned scale
  std::optional<std::int64_t> zero_position = std::nullopt;  // whose encoding is 0 (fairseq's padding_idx)
};

struct AddOptions {
  std::optional<double> amplitude = std::nullopt;  // instead of the spec's: a scale that is being learned
  Execution execution{};
};

/// T(distance) of the seeds, block diagonal: two channels of each pair turned, the others kept.
struct ShiftOperator {
  struct Pair {
    std::int64_t sin_channel, cos_channel;
    double cos, sin;  // of distance * frequency, nearest float64
  };
  std::int64_t width = 0;
  std::vector<Pair> pairs = {};
};
/// to = T from: an encoding becomes the one `distance` further on. In place too.
Status apply_shift(const ShiftOperator& shift, std::span<const double> from, std::span<double> to);
/// T as a dense (width, width) matrix, row by row.
Result<std::vector<double>> matrix_of(const ShiftOperator& shift);

/// A spec made ready. Immutable, cheap to copy, safe to share between threads.
class Sinusoidal {
 public:
  /// Computes in high precision; an error names the field of the spec that does not fit.
  static Result<Sinusoidal> make(const SinusoidalSpec& spec);

  /// Writes the encoding of every token to out (B, T, 1, D): f32 and f64 the nearest to amplitude * sin and cos, f16 and bf16 the float32
  /// rounded. Written to a slice of a wider tensor it is concatenated. Does not allocate unless it fails; nothing is written then.
  Status fill(const TensorView& out, const Positions& positions, const AddOptions& options = {}) const;
  /// x + encoding in one pass, in place or from {in, out}: one addition in float32 (f64: float64), one rounding to the dtype. Channels and
  /// tokens whose encoding is 0 by the spec keep their bits. The gradient by x is the identity. Aliasing as in Rotary::apply.
  Status add(const InOut& x, const Positions& positions, const AddOptions& options = {}) const;
  /// The gradient by the amplitude: the sum over all elements of gradient (B, T, 1, D) times the encoding of amplitude 1, in float64, in
  /// one order. Allocates.
  Result<double> amplitude_gradient(const ConstTensorView& gradient, const Positions& positions) const;

  /// One distance, or one for each axis. An unpaired last channel has no such operator: an error. The row of
  /// `zero_position` is the one that it neither comes from nor goes to.
  Result<ShiftOperator> shift(std::span<const double> distances) const;
  Result<ShiftOperator> shift(double distance) const { return shift(std::span<const double>(&distance, 1)); }

  const SinusoidalSpec& spec() const;
  std::int64_t axes() const;
  /// Radians a position, the float64 nearest to each, axis by axis.
  const std::vector<double>& frequencies() const;

 private:
  explicit Sinusoidal(std::shared_ptr<const plan::SinusoidalPlan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const plan::SinusoidalPlan> plan_;
};

}  // namespace phasor
