// SPDX-License-Identifier: Apache-2.0
// Random calls of prepare_attention_backward: every dtype, norm, order, weight, place of results and missing operand, with awkward shapes.
// A call is its memory and a way to make its views, so that it can run several times on copies, and on a device.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "cuda/random_specs.hpp"
#include "cuda/random_tables.hpp"
#include "phasor/prepare.hpp"
#include "reference.hpp"

namespace phasor::test {

/// Whoever runs it.
using RunBackward = std::function<Status(const PrepareInputs&, const PrepareRotation&, const PrepareGradients&, const PrepareSpec&)>;

class RandomBackward {
 public:
  enum Buffer { kInputs, kGradients, kResults, kWeights, kSums, kIntegers, kFactors, kTables, kByFactors, kWorkspace, kBuffers };
  using Pointers = std::array<std::byte*, kBuffers>;
  using Memory = std::vector<std::vector<std::byte>>;

  explicit RandomBackward(std::uint64_t seed) : draw_(seed) {
    dtype_ = draw_.of({DType::f32, DType::f16, DType::bf16});
    batch_ = draw_.between(1, 3);
    tokens_ = draw_.one_in(4) ? draw_.between(40, 150) : draw_.between(1, 9);
    choose_heads();
    choose_rotation();
    choose_norms();
    fill_memory();
  }

  /// The workspace is the last: what it holds afterwards is nobody's business.
  const Memory& memory() const { return memory_; }

  Status run(Memory& memory, const RunBackward& backward) const {
    Pointers at{};
    for (std::size_t b = 0; b < memory.size(); ++b) at[b] = memory[b].data();
    return run(at, {}, backward);
  }
  /// On memory that is somewhere else.
  Status run(const Pointers& memory, Device device, const RunBackward& backward) const {
    PrepareInputs inputs;
    PrepareGradients gradients;
    PrepareSpec spec = spec_;
    fill_call(memory, device, inputs, gradients, spec);
    PrepareRotation rotation;
    if (rotates_) rotation.rotaries = rotaries_;
    if (rotates_) rotation.positions = {.offset = offset_};
    auto* const integers_at = reinterpret_cast<std::int64_t*>(memory[kIntegers]);
    if (rotates_ && lists_positions_) {
      rotation.positions = positions(integers_at, 1, batch_, tokens_);
      rotation.positions.device = device;
    }
    if (rotates_ && rotaries_.size() > 1) {
      rotation.spec_of = integers(integers_at + batch_ * tokens_, spec_by_token_ ? batch_ * tokens_ : batch_);
      rotation.spec_of.device = device;
    }
    if (tables_.are_given()) rotation = tables_.rotation(memory[kTables], device);
    return backward(inputs, rotation, gradients, spec);
  }

 private:
  struct Side {
    bool there = true;
    std::int64_t heads = 1;
    std::int64_t dim = 16;
    std::int64_t first = 0;         // channel of a packed row of inputs and of results
    std::int64_t first_number = 0;  // of its gradients, which are (B, H, T, D)
    std::int64_t first_weight = 0;
    std::int64_t weight_heads = 0;  // 0: none
    std::int64_t weight_gap = 0;    // between the rows of weights, and of their gradients
    bool wants_weights = false;
    int place = 0;        // of the result: apart, over the gradient, over the input
    bool spread = false;  // one gradient for all batch rows
  };

  void choose_heads() {
    const std::int64_t dim = draw_.of<std::int64_t>({2, 8, 16, 33, 48, 64, 80, 128, 200});
    sides_[0] = {.heads = draw_.between(1, 5), .dim = dim};
    sides_[1] = {.heads = draw_.between(1, 3), .dim = dim};
    sides_[2] = {.heads = draw_.between(1, 3), .dim = draw_.one_in(2) ? dim : 24};
    if (draw_.one_in(4)) sides_[static_cast<std::size_t>(draw_.below(3))].there = false;
    has_own_offset_ = draw_.one_in(5);
    if (has_own_offset_) sides_[0].dim = dim + 3;
    row_ = draw_.between(0, 5);
    for (Side& side : sides_) {
      side.first = row_;
      side.first_number = numbers_;
      row_ += side.heads * side.dim + draw_.between(0, 3);
      numbers_ += batch_ * tokens_ * side.heads * side.dim;
      side.place = static_cast<int>(draw_.below(3));
      side.spread = side.place != 1 && draw_.one_in(5);
    }
  }

  void choose_rotation() {
    const std::int64_t dim = sides_[1].dim;
    rotates_ = !draw_.one_in(6) && (sides_[0].there || sides_[1].there);
    RotarySpec spec{.head_dim = dim, .rotary_width = dim / 2 * 2};
    if (draw_.one_in(2)) {
      spec.rotary_width = 2 * draw_.between(1, dim / 2);
      spec.rotary_offset = draw_.between(0, dim - spec.rotary_width);
    }
    if (has_own_offset_ && rotates_) spec_.q_rotary_offset = draw_.between(0, sides_[0].dim - spec.rotary_width);
    spec.pairing = draw_.of({Pairing::half, Pairing::interleaved});
    if (draw_.one_in(4)) spec.output_pairing = draw_.of({Pairing::half, Pairing::interleaved});
    if (draw_.one_in(6)) spec.sense = Sense::clockwise;
    const std::int64_t specs = draw_.one_in(3) ? draw_.between(2, 3) : 1;
    for (std::int64_t s = 0; s < specs; ++s) {
      spec.base = std::array{10000.0, 500000.0, 100.0}[static_cast<std::size_t>(s)];
      if (s == 1) spec.scaling = YarnScaling{.factor = 4, .original_length = 4096};  // has an amplitude
      rotaries_.push_back(*Rotary::make(spec));
    }
    if (rotates_ && draw_.one_in(4)) {
      const bool alike = !sides_[0].there || !sides_[1].there || sides_[0].heads == sides_[1].heads;
      const std::int64_t own_heads = alike ? (sides_[0].there ? sides_[0] : sides_[1]).heads : 0;
      spec.head_dim = sides_[sides_[1].there ? 1 : 0].dim;
      tables_ = RandomTables(draw_, spec, {batch_, tokens_, own_heads, dtype_, false});
    }
    offset_ = draw_.one_in(3) ? 0 : draw_.below(100000);
    lists_positions_ = draw_.one_in(3);
    spec_by_token_ = draw_.one_in(2);
    if (draw_.one_in(2)) spec_.between = PrepareSpec::Between::kept;
    if (draw_.one_in(2)) spec_.query_scale = 0.3F;
    has_factors_ = draw_.one_in(3);
    wants_factors_ = has_factors_ && sides_[0].there && !draw_.one_in(4);
  }

  void choose_norms() {
    if (draw_.one_in(2)) spec_.order = PrepareSpec::Order::rotation_first;
    HeadNorm* const norms[] = {&spec_.q_norm, &spec_.k_norm, &spec_.v_norm};
    std::int64_t weights = 0;
    for (std::size_t s = 0; s < 3; ++s) {
      Side& side = sides_[s];
      HeadNorm& norm = *norms[s];
      if (!side.there || draw_.one_in(4)) continue;
      norm.kind = draw_.of({HeadNorm::Kind::rms, HeadNorm::Kind::l2});
      const bool after_rotation = spec_.order == PrepareSpec::Order::rotation_first && rotates_ && s != 2;
      if (!after_rotation && draw_.one_in(2)) norm.over = HeadNorm::Over::all_heads;
      norm.weight_as = draw_.of({HeadNorm::Weight::plain, HeadNorm::Weight::one_plus});
      norm.cast = draw_.of({HeadNorm::Cast::after_weight, HeadNorm::Cast::before_weight});
      norm.epsilon = draw_.of({1e-6F, 1e-2F});
      if (draw_.one_in(3)) norm.width = draw_.between(1, side.dim);
      side.weight_heads = draw_.of<std::int64_t>({0, 1, side.heads});
      side.wants_weights = side.weight_heads > 0 && !draw_.one_in(4);
      side.weight_gap = draw_.between(0, 2);
      side.first_weight = weights;
      weights += side.weight_heads * (width_of(side, norm) + side.weight_gap);
    }
    weights_ = weights;
    weight_dtype_ = draw_.one_in(2) ? DType::f32 : dtype_;
  }
  static std::int64_t width_of(const Side& side, const HeadNorm& norm) { return norm.width == 0 ? side.dim : norm.width; }

  void fill_call(const Pointers& memory, Device device, PrepareInputs& inputs, PrepareGradients& gradients, PrepareSpec& spec) const {
    ConstTensorView* const in[] = {&inputs.q, &inputs.k, &inputs.v};
    PrepareGradient* const out[] = {&gradients.q, &gradients.k, &gradients.v};
    HeadNorm* const norms[] = {&spec.q_norm, &spec.k_norm, &spec.v_norm};
    for (std::size_t s = 0; s < 3; ++s) {
      const Side& side = sides_[s];
      if (!side.there) continue;
      const Extents shape = {batch_, tokens_, side.heads, side.dim};
      const TensorView input = {
          memory[kInputs] + side.first * bytes_of(dtype_), dtype_, shape, {tokens_ * row_, row_, side.dim, 1}, device};
      const TensorView gradient = {memory[kGradients] + side.first_number * bytes_of(dtype_),
                                   dtype_,
                                   shape,
                                   {side.spread ? 0 : side.heads * tokens_ * side.dim, side.dim, tokens_ * side.dim, 1},
                                   device};
      TensorView apart = input;
      apart.data = memory[kResults] + side.first * bytes_of(dtype_);
      *in[s] = input;
      out[s]->by_output = gradient;
      out[s]->by_input = side.place == 0 ? apart : side.place == 1 ? gradient : input;
      fill_weights(memory, device, side, *norms[s], *out[s]);
    }
    if (has_factors_) {
      inputs.query_factors = ConstTensorView(memory[kFactors], DType::f32, {batch_, tokens_, 1, 1}, {tokens_, 1, 1, 1}, device);
    }
    if (wants_factors_) gradients.by_query_factors = {memory[kByFactors], DType::f32, {batch_, tokens_, 1, 1}, {1, batch_, 1, 1}, device};
    gradients.workspace = {memory[kWorkspace], DType::f64, {1, 1, 1, workspace_}, {0, 0, 0, 1}, device};
    if (workspace_ == 0) gradients.workspace = {};
  }
  void fill_weights(const Pointers& memory, Device device, const Side& side, HeadNorm& norm, PrepareGradient& gradient) const {
    if (side.weight_heads == 0) return;
    const std::int64_t width = width_of(side, norm);
    const Extents shape = {1, 1, side.weight_heads, width};
    const Extents strides = {0, 0, width + side.weight_gap, 1};
    norm.weight = ConstTensorView(memory[kWeights] + side.first_weight * bytes_of(weight_dtype_), weight_dtype_, shape, strides, device);
    if (side.wants_weights) gradient.by_weight = {memory[kSums] + side.first_weight * 4, DType::f32, shape, strides, device};
  }

  void fill_numbers(Buffer buffer, DType dtype, std::int64_t count) {
    std::vector<std::byte>& bytes = memory_[buffer];
    bytes.resize(static_cast<std::size_t>(count * bytes_of(dtype)));
    const auto size = static_cast<std::size_t>(bytes_of(dtype));
    for (std::size_t i = 0; i + size <= bytes.size(); i += size) {
      const auto x = static_cast<float>(8 * draw_.real() - 4);
      const std::uint16_t half =
          dtype == DType::f16 ? reference::Element<Float16>::narrow(x).bits : reference::Element<BFloat16>::narrow(x).bits;
      dtype == DType::f32 ? std::memcpy(&bytes[i], &x, 4) : std::memcpy(&bytes[i], &half, 2);
    }
  }
  void fill_memory() {
    memory_.resize(kBuffers);
    fill_numbers(kInputs, dtype_, batch_ * tokens_ * row_);
    fill_numbers(kGradients, dtype_, numbers_);
    fill_numbers(kWeights, weight_dtype_, weights_);
    fill_numbers(kFactors, DType::f32, batch_ * tokens_);
    memory_[kTables] = tables_.bytes();
    memory_[kResults].resize(static_cast<std::size_t>(batch_ * tokens_ * row_ * bytes_of(dtype_)));
    memory_[kSums].resize(static_cast<std::size_t>(weights_ * 4));
    memory_[kByFactors].resize(static_cast<std::size_t>(batch_ * tokens_ * 4));
    for (const Buffer buffer : {kResults, kSums, kByFactors}) {
      for (std::byte& byte : memory_[buffer]) byte = static_cast<std::byte>(draw_.bits());
    }
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < batch_ * tokens_; ++i) list.push_back(draw_.below(1 << 20));
    for (std::int64_t i = 0; i < batch_ * tokens_; ++i) list.push_back(draw_.below(static_cast<std::int64_t>(rotaries_.size())));
    memory_[kIntegers].resize(list.size() * 8);
    std::memcpy(memory_[kIntegers].data(), list.data(), list.size() * 8);
    (void)run(memory_,
              [&](const PrepareInputs& inputs, const PrepareRotation&, const PrepareGradients& gradients, const PrepareSpec& spec) {
                workspace_ = *prepare_attention_backward_workspace(inputs, gradients, spec);
                return Status();
              });
    memory_[kWorkspace].resize(static_cast<std::size_t>(workspace_ * 8));
    for (std::byte& byte : memory_[kWorkspace]) byte = static_cast<std::byte>(draw_.bits());
  }

  Draw draw_;
  DType dtype_ = DType::f32;
  DType weight_dtype_ = DType::f32;
  std::int64_t batch_ = 1, tokens_ = 1, row_ = 0, numbers_ = 0, weights_ = 0, offset_ = 0, workspace_ = 0;
  bool rotates_ = true, has_own_offset_ = false, lists_positions_ = false, spec_by_token_ = false, has_factors_ = false,
       wants_factors_ = false;
  std::array<Side, 3> sides_;
  PrepareSpec spec_;
  std::vector<Rotary> rotaries_;
  RandomTables tables_;  // in the place of rotaries
  Memory memory_;
};

/// A call whose sums of weights show the order of additions: numbers of 2^60 that cancel, among small ones. 2600 tokens (41 runs), 3 heads.
struct LargeAndSmall {
  static constexpr std::int64_t kTokens = 1300;
  std::vector<float> x = std::vector<float>(2 * kTokens * 15, 1);
  std::vector<float> gradient;
  std::vector<float> weights = std::vector<float>(15, 1);
  std::vector<float> by_input = std::vector<float>(x.size());
  std::vector<float> by_weight = std::vector<float>(15);
  std::vector<double> workspace = std::vector<double>(41 * 15);

  LargeAndSmall() {
    Draw draw(7);
    std::vector<float> large;  // of each token: as many of either sign, in any order
    for (std::int64_t t = 0; t < 2 * kTokens; ++t) large.push_back(t < 800 ? 0x1p60F : t < 1600 ? -0x1p60F : 0);
    for (std::size_t i = large.size() - 1; i > 0; --i) {
      std::swap(large[i], large[static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(i) + 1))]);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto small = static_cast<float>(1000 * draw.real());
      gradient.push_back(large[i / 15] == 0 ? small : large[i / 15]);
    }
  }
  Status run(std::int64_t weight_heads, const RunBackward& backward) {
    const Extents shape = {2, kTokens, 3, 5};
    PrepareInputs inputs;
    inputs.k = view(x.data(), shape);
    PrepareGradients gradients;
    gradients.k = {view(gradient.data(), shape), view(by_input.data(), shape), view(by_weight.data(), {1, 1, weight_heads, 5})};
    gradients.workspace = view(workspace.data(), {1, 1, 1, 41 * 15});
    PrepareSpec spec;
    spec.k_norm = {.kind = HeadNorm::Kind::rms, .weight = view(weights.data(), {1, 1, weight_heads, 5})};
    return backward(inputs, {}, gradients, spec);
  }
};

}  // namespace phasor::test
