// SPDX-License-Identifier: Apache-2.0
// Memory of random calls: tensors in buffers, with strides and gaps, and positions of every type.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/random_specs.hpp"
#include "phasor/positions.hpp"
#include "phasor/tensor_view.hpp"

namespace phasor::test {

// ---- Memory ----

/// A tensor in a buffer: its shape and strides, and where it begins.
struct Placed {
  std::size_t buffer;
  DType dtype;
  Extents shape;
  Extents strides;
  int64_t first;  // elements before it

  TensorView at(const std::vector<std::byte*>& memory, Device device) const {
    return {memory[buffer] + first * bytes_of(dtype), dtype, shape, strides, device};
  }
};

class Builder {
 public:
  /// Every second call has tensors as they usually are: contiguous.
  explicit Builder(Draw& draw) : draw_(draw), usual_(draw.one_in(2)) {}
  std::vector<std::vector<std::byte>> buffers;
  std::vector<DType> elements;

  /// B, T and H in any order in memory, with gaps, at any multiple of an element or of a vector.
  Placed tensor(DType dtype, const Extents& shape, bool cosines = false) {
    if (usual_) {
      fill(dtype, shape[0] * shape[1] * shape[2] * shape[3], cosines);
      return {buffers.size() - 1, dtype, shape, contiguous_strides(shape), 0};
    }
    int order[3] = {0, 1, 2};
    for (int i = 2; i > 0; --i) std::swap(order[i], order[draw_.below(i + 1)]);
    const bool aligned = !draw_.one_in(3);
    const int64_t step = aligned ? 16 / bytes_of(dtype) : 1;
    const auto up = [step](int64_t n) { return (n + step - 1) / step * step; };
    Placed placed = {buffers.size(), dtype, shape, {0, 0, 0, 1}, aligned ? 0 : draw_.between(0, 3)};
    int64_t next = up(shape[3]);
    for (const int axis : order) {
      placed.strides[static_cast<std::size_t>(axis)] = next + step * draw_.of<int64_t>({0, 0, 1, 3});
      next = up(placed.strides[static_cast<std::size_t>(axis)] * shape[static_cast<std::size_t>(axis)]);
    }
    fill(dtype, next + placed.first, cosines);
    return placed;
  }

  /// Its copy to write to, of other strides.
  Placed like(const Placed& in) { return tensor(in.dtype, in.shape); }

  template <class T>
  std::size_t list(const std::vector<T>& values) {
    std::vector<std::byte>& buffer = buffers.emplace_back(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(buffer.data(), values.data(), buffer.size());
    elements.push_back(sizeof(T) == 8 ? DType::f64 : DType::f32);
    return buffers.size() - 1;
  }

 private:
  void fill(DType dtype, int64_t count, bool cosines) {
    std::vector<std::byte>& buffer = buffers.emplace_back(static_cast<std::size_t>(count * bytes_of(dtype)));
    elements.push_back(dtype);
    for (int64_t i = 0; i < count; ++i) store(buffer.data(), dtype, i, draw_.one_in(16) ? draw_.of({0.0, -0.0, 1.0}) : value(cosines));
  }
  double value(bool cosines) { return (cosines ? 2.0 : 16.0) * (draw_.real() - 0.5); }
  static void store(std::byte* data, DType dtype, int64_t i, double x) {
    if (dtype == DType::f64) {
      reinterpret_cast<double*>(data)[i] = x;
    } else if (dtype == DType::f32) {
      reinterpret_cast<float*>(data)[i] = static_cast<float>(x);
    } else {  // what is drawn need not be rounded: sign, exponent and bits as they come
      const float f = static_cast<float>(x);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &f, sizeof f);
      const std::uint32_t exponent = (bits >> 23 & 0xff) + 15 - 127;
      const bool small = x == 0 || (bits >> 23 & 0xff) < 113;
      reinterpret_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(
          dtype == DType::bf16 ? bits >> 16 : (bits >> 16 & 0x8000) | (small ? 0 : exponent << 10 | (bits >> 13 & 0x3ff)));
    }
  }

  Draw& draw_;
  bool usual_;
};

// ---- Positions ----

struct PlacedPositions {
  std::optional<std::size_t> buffer = std::nullopt;  // none: consecutive ones from `offset` on
  PositionType type = PositionType::i64;
  Extents shape{};  // axes, batch, tokens
  int64_t offset = 0;

  Positions at(const std::vector<std::byte*>& memory, Device device) const {
    if (!buffer) return positions_from(offset);
    return {.data = memory[*buffer],
            .type = type,
            .shape = {shape[0], shape[1], shape[2]},
            .strides = {shape[1] * shape[2], shape[2], 1},
            .device = device};
  }
};

/// The farthest that positions are promised to be exact at.
inline constexpr int64_t kFarthest = int64_t{1} << 62;

/// Of any magnitude, to the farthest, which is met itself.
inline int64_t far_position(Draw& draw) {
  if (draw.one_in(32)) return draw.of({kFarthest, -kFarthest});
  return static_cast<int64_t>(draw.bits()) >> draw.between(1, 62);
}

inline int64_t any_position(Draw& draw, int64_t& last) {
  switch (draw.below(6)) {
    case 0:
      return last = 0;
    case 1:
      return last = far_position(draw);
    default:
      return last += last < kFarthest ? 1 : 0;
  }
}

inline PlacedPositions any_positions(Draw& draw, Builder& builder, int64_t axes, int64_t batch, int64_t tokens) {
  if (draw.one_in(5)) return {.offset = far_position(draw)};
  PlacedPositions placed = {.type = draw.of({PositionType::i32, PositionType::i64, PositionType::i64, PositionType::f64}),
                            .shape = {draw.one_in(4) ? 1 : axes, draw.one_in(2) ? 1 : batch, tokens, 1}};
  const int64_t count = placed.shape[0] * placed.shape[1] * tokens;
  int64_t last = draw.between(0, 100000);
  std::vector<int64_t> whole(static_cast<std::size_t>(count));
  for (int64_t& p : whole) p = any_position(draw, last);
  if (placed.type == PositionType::i64) {
    placed.buffer = builder.list(whole);
  } else if (placed.type == PositionType::i32) {
    std::vector<std::int32_t> narrow;
    for (const int64_t p : whole) narrow.push_back(static_cast<std::int32_t>(p % 1000000007));
    placed.buffer = builder.list(narrow);
  } else {
    std::vector<double> fractions;
    for (const int64_t p : whole) {
      fractions.push_back(draw.one_in(40) ? draw.of({std::numeric_limits<double>::quiet_NaN(), 1e300, -0x1p63})
                                          : static_cast<double>(p) + draw.of({0.0, 0.5, draw.real()}));
    }
    placed.buffer = builder.list(fractions);
  }
  return placed;
}

}  // namespace phasor::test
