// SPDX-License-Identifier: Apache-2.0
// Rotary encoding: the spec (what it is), and Rotary (the spec made ready to apply).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "phasor/execution.hpp"
#include "phasor/positions.hpp"
#include "phasor/result.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor {

namespace plan {
struct RotaryPlan;
}

// ---- Scaling: one struct per published method. Lengths are positions; R is the rotary width; w_i = base^(-2i/R). ----

struct Unscaled {};

/// w_i / factor.
struct LinearScaling {
  double factor = 1;
};

/// base * alpha^(R / (R - 2)).
struct NtkScaling {
  double alpha = 1;
};

/// Su's corrections of NTK. Without `mixed_exponent`: base * factor, then w_i * factor^(-2/R).
/// With it, b: w_i * exp(-a (i + 1)^b), a = ln(factor) / (R/2)^b.
struct NtkMixedScaling {
  double factor = 1;
  std::optional<double> mixed_exponent = std::nullopt;
};

/// base * (factor * L / trained - (factor - 1))^(R / (R - 2)), L = max(length, trained).
/// `length` is explicit: whoever generates decides when to make a new plan.
struct DynamicNtkScaling {
  double factor = 1;
  std::int64_t trained_length = 0;
  std::int64_t length = 0;  // 0: trained_length
};

/// Whether YaRN's mscale_all_dim also multiplies the softmax scale, squared, as DeepSeek and Mistral 4 do.
enum class YarnSoftmax : std::uint8_t { mscale_all_dim_squared, unchanged };
/// Whether the ends of YaRN's ramp are rounded outwards to whole pairs (gpt-oss does not).
enum class YarnRamp : std::uint8_t { truncated, exact };

/// Ramp between w_i / factor and w_i over the pairs that turn beta_slow to beta_fast times in original_length.
/// Amplitude: attention_factor, else g(mscale) / g(mscale_all_dim) when both are given and not zero, else g(1);
/// g(m) = 1 if factor <= 1 else 0.1 m ln(factor) + 1.
struct YarnScaling {
  double factor = 1;
  std::int64_t original_length = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  YarnRamp ramp = YarnRamp::truncated;
  std::optional<double> attention_factor = std::nullopt;
  std::optional<double> mscale = std::nullopt;
  std::optional<double> mscale_all_dim = std::nullopt;
  YarnSoftmax softmax = YarnSoftmax::mscale_all_dim_squared;
};

/// Which of LongRoPE's two lists is used. `by_length`: the long one when `length` > original_length.
enum class LongRopeChoice : std::uint8_t { short_factors, long_factors, by_length };

/// w_i / factor_i. Amplitude: attention_factor, else sqrt(1 + ln(factor) / ln(original_length)), 1 when factor <= 1.
struct LongRopeScaling {
  std::vector<double> short_factors = {};  // R/2 of them
  std::vector<double> long_factors = {};   // R/2 of them
  std::int64_t original_length = 0;
  double factor = 1;  // extended length / original_length
  std::optional<double> attention_factor = std::nullopt;
  LongRopeChoice choice = LongRopeChoice::by_length;
  std::int64_t length = 0;  // for by_length
};

/// Wavelength below original_length / high_freq_factor: w_i; above original_length / low_freq_factor: w_i / factor; a ramp
/// between.
struct Llama3Scaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_length = 8192;
};

/// The first floor(share * R / 2) pairs turn by w_i / factor, the others not at all.
struct ProportionalScaling {
  double factor = 1;
  double share = 1;
};

/// w_i / factors[i].
struct GivenFactors {
  std::vector<double> factors = {};  // R/2 of them
  double amplitude = 1;
};

/// frequencies[i], any sign; the base is not used.
struct GivenFrequencies {
  std::vector<double> frequencies = {};  // R/2 of them, radians per position
  double amplitude = 1;
};

/// Every pair of every head turns along its own direction (RoPE-Mixed): its phase is the sum over the axes of position times frequency.
struct GivenDirections {
  std::int64_t axes = 2;
  std::int64_t heads = 1;                // 1: every head alike; else the heads of q and of k
  std::vector<double> frequencies = {};  // (axes, heads, R/2), radians (or what `unit` says) a position
};

using Scaling = std::variant<Unscaled, LinearScaling, NtkScaling, NtkMixedScaling, DynamicNtkScaling, YarnScaling, LongRopeScaling,
                             Llama3Scaling, ProportionalScaling, GivenFactors, GivenFrequencies, GivenDirections>;

// ---- Axes of a multi-dimensional position (time, height, width) ----

/// Which axis turns which pair.
enum class AxisOrder : std::uint8_t {
  chunked,      // sections[0] pairs of axis 0, then sections[1] of axis 1, ... (Qwen2-VL)
  interleaved,  // pair k is of axis k mod n while k < n * sections[k mod n], else of axis 0 (Qwen3-VL)
  alternating,  // axes 1 and 2 in turn for both their sections, then axis 0 (Ernie 4.5 VL)
  given,        // axis_of_pair
};
/// Which frequency of the ladder a pair gets.
enum class AxisLadder : std::uint8_t {
  shared,  // pair i has w_i of one ladder over all pairs
  own,     // each axis has a ladder over its own pairs: its j-th pair has base^(-j / section) (Qwen vision, SAM2)
  dealt,   // one ladder dealt out: the j-th pair of axis a has w_(j n + a) (Pixtral)
};
struct Axes {
  std::vector<std::int64_t> sections = {};  // pairs of each axis, in the order of the positions' axes; empty: one axis
  AxisOrder order = AxisOrder::chunked;
  AxisLadder ladder = AxisLadder::shared;
  std::vector<std::uint8_t> axis_of_pair = {};  // for `given`, R/2 of them; sections may then be empty
};

// ---- Spec ----

/// half pairs channels (i, i + R/2), interleaved pairs (2i, 2i + 1).
enum class Pairing : std::uint8_t { half, interleaved };
/// Which way a positive frequency turns: counterclockwise is (x cos - y sin, x sin + y cos); nanochat turns clockwise.
enum class Sense : std::uint8_t { counterclockwise, clockwise };
/// per_channel_frequencies: channel c turns by the frequency of pair c mod R/2 (of its segment), so the two lanes of an interleaved pair
/// differ (V-JEPA 2).
enum class Lanes : std::uint8_t { alike, per_channel_frequencies };
/// What a position of 1 at frequency 1 turns by; DINOv3's coordinates are in turns.
enum class FrequencyUnit : std::uint8_t { radians, turns };
/// Whose rounding. exact: nearest values of true angles. The others form a peer's float32 angles, each step of its formula rounded and
/// every function correctly rounded, and leave no pair out: hf: tables and each product rounded to the tensor's dtype; hf_float32: hf's
/// angles and float32 tables, rotated in float32 (Llama 4, DeepSeek-V2); vllm: tables in the tensor's dtype, rotated in float32 (Cohere and
/// Ernie in Hugging Face too); ggml: a running product of angles, float32 tables, rotated in float32. An angle of 2^63 or more is NaN.
enum class Numerics : std::uint8_t { exact, hf, hf_float32, vllm, ggml };

struct RotarySpec {
  std::int64_t head_dim = 0;
  std::int64_t rotary_width = 0;   // R; 0: head_dim
  std::int64_t rotary_offset = 0;  // first rotated channel
  double base = 10000;
  Scaling scaling = Unscaled{};
  Pairing pairing = Pairing::half;
  std::optional<Pairing> output_pairing = std::nullopt;  // written instead of `pairing` (DeepSeek-V3 reads interleaved and writes half)
  Sense sense = Sense::counterclockwise;
  Axes axes = {};
  std::int64_t segments = 1;  // the rotary width is that many equal parts, each paired within itself (Gemma 4 vision, V-JEPA 2)
  Lanes lanes = Lanes::alike;
  FrequencyUnit unit = FrequencyUnit::radians;
  Numerics numerics = Numerics::exact;
};

// ---- Applying ----

/// forward: amplitude * R(position). inverse undoes forward. transpose is the gradient: amplitude * R(-position).
/// inverse and transpose are the same bits when the amplitude is 1; both read `output_pairing` and write `pairing`.
/// Per-channel frequencies have no inverse (a pair may collapse into a line): there `inverse` is an error.
enum class Direction : std::uint8_t { forward, inverse, transpose };

struct ApplyOptions {
  Direction direction = Direction::forward;
  Execution execution{};
};

struct RotatedAt;
struct Slots;

/// A spec made ready: exact phase steps, amplitude, softmax scale. Immutable, cheap to copy, safe to share between threads.
class Rotary {
 public:
  /// Computes in high precision (tens of microseconds); an error names the field of the spec that does not fit.
  static Result<Rotary> make(const RotarySpec& spec);

  /// Rotates q and k (GQA: their head counts may differ) in place or, given {in, out}, out of place, where the channels outside the
  /// rotary width are copied bit for bit. q and k must not share an element, nor an output overlap an input other than exactly.
  /// Does not allocate unless it fails; nothing is written when it fails.
  Status apply(const InOut& q, const InOut& k, const Positions& positions, const ApplyOptions& options = {}) const;
  Status apply(const InOut& q, const Positions& positions, const ApplyOptions& options = {}) const;

  /// Fills cos and sin, (B, T, 1, R/2) or (1, T, 1, R/2), f32 or f64, with the values nearest to amplitude * cos and amplitude * sin.
  /// `apply_rotary` with these rows gives bitwise what `apply` gives. Per-channel frequencies: a value for each channel, R instead of R/2.
  /// Directions of heads of their own: (B, T, heads, R/2). In a numerics profile: its float32 values, for f64 widened; for
  /// 16-bit tensors hf and vllm want them rounded to the tensor's dtype before they are applied.
  Status cos_sin(const Positions& positions, const TensorView& cos, const TensorView& sin, const ApplyOptions& options = {}) const;

  /// Adds the gradient by frequencies() to `sum`, (1, 1, 1, as many) in their order, f32 or f64, on the device of the call: the sum over
  /// tokens of position times `phase_gradient`, (B, T, H or 1, R/2), f32 or f64, as the function of that name gives it, whatever the
  /// scaling. Always by radians per position: the gradient by a frequency given in turns is 2 pi times as large. In float64, in an order
  /// that no runner changes, rounded once; allocates. Per-channel frequencies are unsupported. With directions of heads of their own the
  /// heads must be as many, otherwise all heads go into one sum.
  Status frequency_gradient(const TensorView& sum, const ConstTensorView& phase_gradient, const Positions& positions,
                            const Execution& execution = {}) const;
  /// The same into numbers of the host.
  Status frequency_gradient(std::span<double> sum, const ConstTensorView& phase_gradient, const Positions& positions,
                            const Execution& execution = {}) const {
    return frequency_gradient(view(sum.data(), {1, 1, 1, static_cast<std::int64_t>(sum.size())}), phase_gradient, positions, execution);
  }
  /// Fills `out`, f64, (axes or 1, B or 1, T), with the gradient by the positions: the sum over heads and pairs of frequency (radians, so
  /// turns are converted) times `phase_gradient`. One axis or batch row instead of all: that of positions which they share. Does not
  /// allocate.
  Status position_gradient(const PositionsView& out, const ConstTensorView& phase_gradient, const Execution& execution = {}) const;

  const RotarySpec& spec() const;
  std::int64_t rotary_width() const;
  /// Radians a position, the float64 nearest to each exact frequency, whatever the numerics; R/2 of them, or (axes, heads, R/2) with
  /// GivenDirections.
  const std::vector<double>& frequencies() const;
  /// Factor on cos and sin.
  double amplitude() const;
  /// Factor on the attention's own scale (1 unless the scaling says otherwise).
  double softmax_scale() const;
  /// Internal; do not use.
  const plan::RotaryPlan& plan() const { return *plan_; }

 private:
  explicit Rotary(std::shared_ptr<const plan::RotaryPlan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const plan::RotaryPlan> plan_;
};

/// How given tables are applied.
struct TableLayout {
  std::int64_t rotary_width = 0;  // R; 0: head_dim
  std::int64_t rotary_offset = 0;
  Pairing pairing = Pairing::half;
  std::optional<Pairing> output_pairing = std::nullopt;
  Sense sense = Sense::counterclockwise;
  // Of the products; the tables are taken as they are. hf rounds each product to the dtype that PyTorch gives tensor and table together
  // (16 bits only where both are of the same); every numerics but exact computes pairs with cosine 1 and sine 0 like the others.
  Numerics numerics = Numerics::exact;
  std::int64_t segments = 1;  // as in RotarySpec
};

/// Rotates by given tables: cos and sin of shape (B or 1, T, 1, R/2), or (B or 1, T, 1, R) with a value for each channel, laid out
/// as the output is (the two lanes of a pair may then turn by different angles). f32, f16 or bf16; f64 for f64 tensors too.
/// Tables of H heads instead of 1 turn each head of tensors of H heads by its own.
/// inverse means transpose here: what the tables' amplitude is, only the caller knows.
Status apply_rotary(const InOut& q, const InOut& k, const ConstTensorView& cos, const ConstTensorView& sin, const TableLayout& layout = {},
                    const ApplyOptions& options = {});
Status apply_rotary(const InOut& q, const ConstTensorView& cos, const ConstTensorView& sin, const TableLayout& layout = {},
                    const ApplyOptions& options = {});

// ---- Gradients of learned rotations ----

/// Whether a result takes the place of what was there or is added to it.
enum class Accumulate : std::uint8_t { replace, add };

struct PhaseGradientOptions {
  Accumulate accumulate = Accumulate::replace;  // add: k's after q's, so that both turn by one angle
  Execution execution{};
};

/// Fills `out`, (B, T, H or 1, R/2), f32 or f64, with the gradient by each pair's angle in radians: from `rotated`, what a forward rotation
/// gave, and `gradient` by it, both (B, T, H, D) of one dtype, in the layout's output pairing; its sense is that of the angle. One head:
/// the sum over heads. In float64, rounded once; the same bits for every runner. What was rotated and the gradient by that serve as well
/// (in the pairing they have), since both are turned back alike. Does not allocate unless it fails; nothing is written then.
Status phase_gradient(const TensorView& out, const ConstTensorView& rotated, const ConstTensorView& gradient,
                      const TableLayout& layout = {}, const PhaseGradientOptions& options = {});

// ---- Keys that are already rotated ----

/// What keys in a cache were, or are to be, rotated by, and where.
struct RotatedAt {
  Rotary rotary;
  Positions positions;
};

/// Where the tokens of a paged cache lie.
struct Slots {
  const std::int64_t* data = nullptr;
  std::int64_t size = 0;
  Device device{};

  Slots() = default;
  Slots(std::span<const std::int64_t> list, Device device_ = {})  // NOLINT(google-explicit-constructor)
      : data(list.data()), size(static_cast<std::int64_t>(list.size())), device(device_) {}
  Slots(const std::vector<std::int64_t>& list) : Slots(std::span(list)) {}  // NOLINT(google-explicit-constructor)
};

/// Keys rotated as `from` says become keys rotated as `to` says, by one rotation through the difference of the exact phases; the
/// amplitude changes by the quotient, once. Off by the rounding of one rotation from what exact arithmetic makes of the stored keys;
/// keys that do not move stay bit for bit. Widths, offsets, segments and output pairings must agree, and numerics be exact.
/// inverse moves them from `to` to `from`. Aliasing as in Rotary::apply; does not allocate unless it fails; nothing is written then.
Status rerotate(const InOut& keys, const RotatedAt& from, const RotatedAt& to, const ApplyOptions& options = {});
/// The same in a paged cache (blocks, page_size, H, D): token t lies at slots[t] = block * page_size + offset; a negative slot is
/// skipped. A slot named twice is an error. Positions are (T) or (1, T). Allocates a bit for each slot, unless slots rise.
Status rerotate(const TensorView& cache, const Slots& slots, const RotatedAt& from, const RotatedAt& to, const ApplyOptions& options = {});

}  // namespace phasor
