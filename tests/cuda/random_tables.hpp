// SPDX-License-Identifier: Apache-2.0
// Random tables of cosines and sines for random calls of prepare_attention and of its gradients.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "cuda/random_specs.hpp"
#include "phasor/prepare.hpp"
#include "reference.hpp"

namespace phasor::test {

/// What is known of a call before its tables are drawn.
struct TablesFor {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t own_heads;  // heads that may have tables of their own; 0: none may
  DType dtype;             // of the tensors
  bool common;             // as most callers have them: a value for each pair, exact
};

class RandomTables {
 public:
  RandomTables() = default;
  /// Turns what `spec` turns.
  RandomTables(Draw& draw, const RotarySpec& spec, const TablesFor& call) {
    layout_ = {.rotary_width = spec.rotary_width,
               .rotary_offset = spec.rotary_offset,
               .pairing = spec.pairing,
               .output_pairing = spec.output_pairing,
               .sense = spec.sense};
    const std::int64_t width = spec.rotary_width == 0 ? spec.head_dim : spec.rotary_width;
    dtype_ = draw.one_in(2) ? DType::f32 : draw.one_in(2) ? call.dtype : draw.of({DType::f16, DType::bf16});
    shape_ = {draw.one_in(3) ? 1 : call.batch, call.tokens, 1, width / 2};
    if (!call.common) {
      layout_.numerics = draw.of({Numerics::exact, Numerics::exact, Numerics::hf, Numerics::vllm});
      if (draw.one_in(3)) shape_[3] = width;
      if (draw.one_in(3) && call.own_heads > 0) shape_[2] = call.own_heads;
      if (draw.one_in(3) && width % 4 == 0) layout_.segments = 2;
    }
    gap_ = draw.between(0, 3);
    values_.resize(static_cast<std::size_t>(2 * numbers()));
    for (std::size_t i = 0; i < values_.size() / 2; ++i) {
      const double angle = 7 * draw.real();
      const bool rests = draw.one_in(9);  // cosine 1 and sine 0
      values_[i] = rests ? 1 : static_cast<float>(std::cos(angle));
      values_[values_.size() / 2 + i] = rests ? 0 : static_cast<float>(std::sin(angle));
    }
  }

  bool are_given() const { return !values_.empty(); }
  std::vector<std::byte> bytes() const {
    const auto size = static_cast<std::size_t>(bytes_of(dtype_));
    std::vector<std::byte> made(values_.size() * size);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const std::uint16_t half = dtype_ == DType::f16 ? reference::Element<Float16>::narrow(values_[i]).bits
                                                      : reference::Element<BFloat16>::narrow(values_[i]).bits;
      dtype_ == DType::f32 ? std::memcpy(&made[i * 4], &values_[i], 4) : std::memcpy(&made[i * 2], &half, 2);
    }
    return made;
  }
  /// The rotation of a call whose tables lie at `memory`.
  PrepareRotation rotation(const std::byte* memory, Device device) const {
    const std::int64_t row = shape_[3] + gap_;
    const Extents strides = {shape_[1] * shape_[2] * row, shape_[2] * row, row, 1};
    PrepareRotation rotation;
    rotation.cos = ConstTensorView(memory, dtype_, shape_, strides, device);
    rotation.sin = ConstTensorView(memory + numbers() * bytes_of(dtype_), dtype_, shape_, strides, device);
    rotation.layout = layout_;
    return rotation;
  }

 private:
  /// Of either table, rows with gaps behind them.
  std::int64_t numbers() const { return shape_[0] * shape_[1] * shape_[2] * (shape_[3] + gap_); }

  TableLayout layout_;
  DType dtype_ = DType::f32;
  Extents shape_ = {0, 0, 0, 0};
  std::int64_t gap_ = 0;
  std::vector<float> values_;
};

}  // namespace phasor::test
