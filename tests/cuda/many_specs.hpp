// SPDX-License-Identifier: Apache-2.0
// Calls of prepare_attention_backward whose plans have more numbers than a kernel's parameter holds: tens and hundreds of specs, or
// directions of many heads. All memory is one list of numbers, so that a call can run on copies, and on a device.
#pragma once

#include <vector>

#include "cuda/random_specs.hpp"
#include "phasor/prepare.hpp"
#include "prepare/random_backward.hpp"

namespace phasor::test {

class ManySpecs {
 public:
  using Memory = std::vector<float>;

  /// In turn: a dozen specs with gradients by weights, 200 without, directions of 24 heads.
  explicit ManySpecs(std::uint64_t seed) : draw_(seed), kind_(static_cast<Kind>(seed % 3)) {
    const std::int64_t specs = kind_ == Kind::dozen ? draw_.between(12, 20) : kind_ == Kind::hundreds ? draw_.between(80, 200) : 1;
    heads_ = kind_ == Kind::directions ? 24 : draw_.between(1, 4);
    RotarySpec spec{.head_dim = kDim};
    if (kind_ == Kind::directions) {
      GivenDirections directions{.heads = heads_};
      for (std::int64_t i = 0; i < 2 * heads_ * kDim / 2; ++i) directions.frequencies.push_back(draw_.real());
      spec.scaling = directions;
    }
    for (std::int64_t s = 0; s < specs; ++s) {
      spec.base = 100 + 50 * static_cast<double>(s);
      rotaries_.push_back(*Rotary::make(spec));
    }
    norm_.kind = draw_.of({HeadNorm::Kind::rms, HeadNorm::Kind::l2});
    if (draw_.one_in(2)) norm_.over = HeadNorm::Over::all_heads;
    spec_.query_scale = 0.7F;
    memory_.resize(static_cast<std::size_t>(numbers()));
    for (float& number : memory_) number = static_cast<float>(8 * draw_.real() - 4);
    auto* const specs_of = reinterpret_cast<std::int32_t*>(memory_.data() + at(kSpecOf));
    for (std::int64_t i = 0; i < kTokens; ++i) specs_of[i] = static_cast<std::int32_t>(draw_.below(specs));
  }

  const Memory& memory() const { return memory_; }
  bool has_hundreds() const { return kind_ == Kind::hundreds; }
  /// Gradients by weights even where there are too many specs for a device.
  void want_weights() { wants_weights_ = true; }

  Status run(float* memory, Device device, const RunBackward& backward) const {
    const auto tensor = [&](Part part, const Extents& shape) {
      TensorView made = view(memory + at(part), shape);
      made.device = device;
      return made;
    };
    const Extents shape = {1, kTokens, heads_, kDim};
    PrepareSpec spec = spec_;
    spec.q_norm = norm_;
    spec.q_norm.weight = tensor(kWeight, {1, 1, 1, kDim});
    PrepareInputs inputs;
    inputs.q = tensor(kInput, shape);
    inputs.v = tensor(kValues, shape);
    PrepareGradients gradients;
    gradients.q = {tensor(kGradient, shape), tensor(kResult, shape), {}};
    gradients.v = {tensor(kValues, shape), tensor(kValues, shape), {}};  // in place: made twice it would be another one
    spec.v_norm.kind = HeadNorm::Kind::rms;
    if (kind_ != Kind::hundreds || wants_weights_) gradients.q.by_weight = tensor(kSum, {1, 1, 1, kDim});
    gradients.workspace = {memory + at(kWorkspace), DType::f64, {1, 1, 1, kWorkspaceNumbers}, {0, 0, 0, 1}, device};
    PrepareRotation rotation;
    rotation.rotaries = rotaries_;
    rotation.positions = positions_from(1000);
    if (rotaries_.size() > 1) rotation.spec_of = {memory + at(kSpecOf), PositionType::i32, kTokens, device};
    return backward(inputs, rotation, gradients, spec);
  }
  /// Numbers before the workspace, which nobody compares.
  std::int64_t compared() const { return at(kWorkspace); }

 private:
  enum class Kind : std::uint8_t { dozen, hundreds, directions };
  enum Part { kInput, kGradient, kResult, kValues, kWeight, kSum, kSpecOf, kWorkspace, kParts };
  static constexpr std::int64_t kDim = 128, kTokens = 150, kWorkspaceNumbers = 2 * kTokens + 3 * 24 * kDim;

  std::int64_t at(Part part) const {
    const std::int64_t heads = kTokens * heads_ * kDim;
    const std::int64_t sizes[kParts] = {heads, heads, heads, heads, kDim, kDim, kTokens, 2 * kWorkspaceNumbers};
    std::int64_t first = 0;
    for (int p = 0; p < part; ++p) first += sizes[p];
    return first;
  }
  std::int64_t numbers() const { return at(kWorkspace) + 2 * kWorkspaceNumbers; }

  Draw draw_;
  Kind kind_;
  bool wants_weights_ = false;
  std::int64_t heads_ = 1;
  HeadNorm norm_;
  PrepareSpec spec_;
  std::vector<Rotary> rotaries_;
  Memory memory_;
};

}  // namespace phasor::test
