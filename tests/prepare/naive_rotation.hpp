// SPDX-License-Identifier: Apache-2.0
// The rotation of prepare_attention written naively, pair by pair: by specs (rows by cos_sin), or by given tables. Shares no code with
// src/.
#pragma once

#include <utility>
#include <vector>

#include "phasor/prepare.hpp"
#include "reference.hpp"

namespace phasor::reference {

inline float round_to(DType dtype, float x) {
  if (dtype == DType::f16) return Element<Float16>::widen(Element<Float16>::narrow(x));
  return dtype == DType::bf16 ? Element<BFloat16>::widen(Element<BFloat16>::narrow(x)) : x;
}
inline float read_number(DType dtype, const void* data, std::int64_t index) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[index];
  if (dtype == DType::f16) return Element<Float16>::widen(static_cast<const Float16*>(data)[index]);
  return Element<BFloat16>::widen(static_cast<const BFloat16*>(data)[index]);
}
inline std::int64_t integer_of(const IntegerList& list, std::int64_t i) {
  return list.type == PositionType::i32 ? static_cast<const std::int32_t*>(list.data)[i] : static_cast<const std::int64_t*>(list.data)[i];
}

class NaiveRotation {
 public:
  /// `head_dim` of k, or of q where there is no k.
  NaiveRotation(const PrepareRotation& rotation, std::int64_t batch, std::int64_t tokens, std::int64_t head_dim, DType dtype)
      : rotation_(rotation), batch_(batch), tokens_(tokens), dtype_(dtype) {
    const TableLayout& given = rotation.layout;
    by_ = {given.rotary_width == 0 ? head_dim : given.rotary_width,
           given.rotary_offset,
           given.segments,
           given.pairing,
           given.output_pairing.value_or(given.pairing),
           given.sense == Sense::clockwise};
    for (const Rotary& rotary : rotation.rotaries) {
      const RotarySpec& spec = rotary.spec();
      by_ = {spec.rotary_width,
             spec.rotary_offset,
             1,
             spec.pairing,
             spec.output_pairing.value_or(spec.pairing),
             spec.sense == Sense::clockwise};
      const Extents shape = {batch, tokens, 1, by_.width / 2};
      const auto size = static_cast<std::size_t>(batch * tokens * shape[3]);
      cos_.emplace_back(size);
      sin_.emplace_back(size);
      (void)rotary.cos_sin(rotation.positions, view(cos_.back().data(), shape), view(sin_.back().data(), shape));
    }
  }

  bool turns() const { return !rotation_.rotaries.empty() || rotation_.cos.data != nullptr; }
  std::int64_t offset() const { return by_.offset; }

  /// Where a head is, and from which channel on it is turned.
  struct At {
    std::int64_t batch, token, head, offset;
    bool transposed = false;
  };
  /// A head turned, or by the transposed rotation, which reads what the rotation writes. round(x) rounds a result.
  template <class Real, class Round>
  std::vector<Real> turned(const std::vector<Real>& from, const At& at, const Round& round) const {
    const std::int64_t half = by_.width / 2 / by_.segments;
    std::vector<Real> to = from;
    for (std::int64_t p = 0; p < by_.width / 2; ++p) {
      const Lanes<Real> cos = lanes<Real>(at, p, rotation_.cos, cos_);
      Lanes<Real> sin = lanes<Real>(at, p, rotation_.sin, sin_);
      if (by_.clockwise) sin = {-sin.x, -sin.y};
      if (at.transposed) sin = {-sin.y, -sin.x};
      const auto [a_at, b_at] = channels(at.transposed ? by_.write : by_.read, p, half);
      const auto [x_at, y_at] = channels(at.transposed ? by_.read : by_.write, p, half);
      const Real a = from[static_cast<std::size_t>(at.offset + a_at)];
      const Real b = from[static_cast<std::size_t>(at.offset + b_at)];
      const Real x = product(a * cos.x) - product(b * sin.x);
      const Real y = product(b * cos.y) + product(a * sin.y);
      const bool rests = !turns_all() && cos.x == 1 && sin.x == 0 && cos.y == 1 && sin.y == 0;
      to[static_cast<std::size_t>(at.offset + x_at)] = rests ? a : round(x);
      to[static_cast<std::size_t>(at.offset + y_at)] = rests ? b : round(y);
    }
    return to;
  }

 private:
  struct By {
    std::int64_t width, offset, segments;
    Pairing read, write;
    bool clockwise;
  };
  /// The two channels of a pair, from the first rotated one on.
  static std::pair<std::int64_t, std::int64_t> channels(Pairing pairing, std::int64_t p, std::int64_t half) {
    if (pairing == Pairing::interleaved) return {2 * p, 2 * p + 1};
    const std::int64_t first = p / half * 2 * half + p % half;
    return {first, first + half};
  }

  /// Of both lanes of a pair.
  template <class Real>
  struct Lanes {
    Real x, y;
  };
  template <class Real>
  Lanes<Real> lanes(const At& at, std::int64_t p, const ConstTensorView& table, const std::vector<std::vector<float>>& made) const {
    if (table.data == nullptr) {
      const auto pairs = static_cast<std::size_t>(by_.width / 2);
      const std::int64_t row = at.batch * tokens_ + at.token;
      std::size_t s = 0;
      if (const IntegerList& list = rotation_.spec_of; list.data != nullptr) {
        s = static_cast<std::size_t>(integer_of(list, list.size == batch_ ? at.batch : row));
      }
      const float value = made[s][static_cast<std::size_t>(row) * pairs + static_cast<std::size_t>(p)];
      return {value, value};
    }
    const std::int64_t first = (table.shape[0] == 1 ? 0 : at.batch * table.strides[0]) + at.token * table.strides[1] +
                               (table.shape[2] == 1 ? 0 : at.head * table.strides[2]);
    const auto read = [&](std::int64_t i) { return read_number(table.dtype, table.data, first + i); };
    if (table.shape[3] == by_.width / 2) return {read(p), read(p)};
    const auto [x, y] = channels(by_.write, p, by_.width / 2 / by_.segments);
    return {read(x), read(y)};
  }

  bool turns_all() const { return rotation_.cos.data != nullptr && rotation_.layout.numerics != Numerics::exact; }
  /// hf rounds products where tensor and table have one dtype of 16 bits.
  template <class Real>
  Real product(Real x) const {
    if constexpr (std::is_same_v<Real, float>) {
      const bool rounds = rotation_.cos.data != nullptr && rotation_.layout.numerics == Numerics::hf && rotation_.cos.dtype == dtype_;
      return rounds ? round_to(dtype_, x) : x;
    }
    return x;
  }

  const PrepareRotation& rotation_;
  std::int64_t batch_;
  std::int64_t tokens_;
  DType dtype_;
  By by_{};
  std::vector<std::vector<float>> cos_;
  std::vector<std::vector<float>> sin_;
};

}  // namespace phasor::reference
