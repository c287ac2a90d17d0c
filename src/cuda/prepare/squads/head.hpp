// SPDX-License-Identifier: Apache-2.0
// A thread's part of a head, from load to store in registers: every 32nd run of eight (or, in f32, four) channels. The steps and their
// roundings are those of job/prepare/token.hpp.
#pragma once

#include "cuda/prepare/squads/shape.hpp"
#include "cuda/teams/eight_bytes.hpp"
#include "cuda/teams/memory.hpp"

namespace phasor::cuda {

template <DType dtype>
PHASOR_HD inline float rounded_to_dtype(float x) {
  using E = Element<dtype>;
  if constexpr (E::kHalf) return E::widen(E::narrow(x));
  return x;
}

/// `vectors`: of a thread, head_dim / 32.
template <DType dtype, int vectors>
struct SquadHead {
  static constexpr int kWidth = Squad<dtype>::kWidth;
  static constexpr int kPart = kWidth / 2;
  Words words[vectors];
  float sums[kWidth];         // of squares: the norm's partial sums of the thread's channels
  float x[vectors * kWidth];  // channel 32 v + kWidth lane + i is x[v kWidth + i]
  float most;                 // the largest magnitude

  PHASOR_HD static int channel(int vector, int lane) { return 32 * vector + kWidth * lane; }

  PHASOR_HD void load(const job::PrepareOperand& operand, const SquadPlace& place, const SquadSpot& spot) {
    const std::byte* const in = operand.in + place.batch * operand.in_strides[0] + place.token * operand.in_strides[1] +
                                spot.head * operand.in_strides[2] + spot.lane * static_cast<int>(sizeof(Words));
    unrolled<vectors>([&](auto v) { words[v] = load_words<false>(in + v * 32 * bytes_of(dtype)); });
  }
  PHASOR_HD void add_squares() {
    unrolled<kWidth>([&](auto i) { sums[i] = 0; });
    unrolled<2 * vectors>([&](auto part) {
      EightBytes<dtype> values;
      values.read(words[part / 2].at[part % 2 * 2], words[part / 2].at[part % 2 * 2 + 1]);
      unrolled<kPart>([&](auto i) { sums[part % 2 * kPart + i] += values.at[i] * values.at[i]; });
    });
  }
  PHASOR_HD void widen() {
    unrolled<2 * vectors>([&](auto part) {
      if (part % 2 == 0) still_narrow(words[part / 2]);
      EightBytes<dtype> values;
      values.read(words[part / 2].at[part % 2 * 2], words[part / 2].at[part % 2 * 2 + 1]);
      unrolled<kPart>([&](auto i) { x[part * kPart + i] = values.at[i]; });
    });
  }

  /// math::fold_partials of the thread's own, with indices that are known: an array that is indexed at run time is no registers.
  template <int width>
  PHASOR_HD float folded() {
    if constexpr (width == 1) {
      return sums[0];
    } else {
      unrolled<width / 2>([&](auto i) { sums[i] += sums[i + width / 2]; });
      return folded<width / 2>();
    }
  }
  /// The sums are those of the whole head here.
  PHASOR_HD void norm(const job::PrepareNorm& norm, const SquadSpot& spot, bool weight_vectors, bool rounds) {
    const float factor = job::norm_factor(norm, folded<kWidth>(), norm.width);
    const std::byte* const weights = norm.weight == nullptr ? nullptr : norm.weight + spot.head * norm.weight_head_stride;
    unrolled<2 * vectors>([&](auto part) {
      const int first = channel(part / 2, spot.lane) + part % 2 * kPart;
      EightBytes<dtype> weight{};
      if (weights != nullptr) read_weights(weights, norm.weight_dtype, first, weight_vectors, weight);
      unrolled<kPart>([&](auto i) {
        float value = x[part * kPart + i] * factor;
        if (norm.casts_before_weight) value = rounded_to_dtype<dtype>(value);
        if (weights != nullptr) value = value * math::applied_weight(weight.at[i], norm.one_plus);
        x[part * kPart + i] = rounds ? rounded_to_dtype<dtype>(value) : value;
      });
    });
  }
  static PHASOR_HD void read_weights(const std::byte* weights, DType of, int first, bool by_vectors, EightBytes<dtype>& weight) {
    if (by_vectors) {
      const auto* const words = reinterpret_cast<const std::uint32_t*>(weights + first * bytes_of(dtype));
      weight.read(words[0], words[1]);
    } else {
      unrolled<kPart>([&](auto i) { weight.at[i] = job::widened(of, weights, first + i); });
    }
  }

  /// `shared` has the row. Where a pair rests it is left bit for bit.
  PHASOR_HD void turn_one(float& a, float& b, const CosSin<float>& by, bool rests, bool rounds) const {
    if (rests && math::is_identity(by.cos, by.sin)) return;
    turn(a, b, by);
    if (rounds) a = rounded_to_dtype<dtype>(a);
    if (rounds) b = rounded_to_dtype<dtype>(b);
  }
  /// Half pairing: the first 32 `half` channels and as many after them.
  template <int half>
  PHASOR_HD void turn_half(const CosSin<float>* shared, int lane, bool rests, bool rounds) {
    unrolled<2 * half>([&](auto part) {
      const auto by = values_at<float, kPart>(shared + channel(part / 2, lane) + part % 2 * kPart);
      unrolled<kPart>([&](auto i) { turn_one(x[part * kPart + i], x[(part + 2 * half) * kPart + i], by.at[i], rests, rounds); });
    });
  }
  PHASOR_HD void turn_interleaved(const CosSin<float>* shared, int lane, int first, int pairs, bool rests, bool rounds) {
    unrolled<vectors>([&](auto v) {
      const int pair = (channel(v, lane) - first) / 2;
      if (channel(v, lane) < first || pair >= pairs) return;
      const auto by = values_at<float, kPart>(shared + pair);
      unrolled<kPart>([&](auto i) { turn_one(x[v * kWidth + 2 * i], x[v * kWidth + 2 * i + 1], by.at[i], rests, rounds); });
    });
  }
  template <Pairing pairing>
  PHASOR_HD void turn_by(const CosSin<float>* shared, const job::PrepareOperand& operand, int pairs, int lane, bool rests, bool rounds) {
    if constexpr (pairing == Pairing::interleaved) {
      turn_interleaved(shared, lane, static_cast<int>(operand.rotary_offset), pairs, rests, rounds);
    } else {
      if (pairs == 32) turn_half<1>(shared, lane, rests, rounds);
      if constexpr (vectors >= 4) {
        if (pairs == 64) turn_half<2>(shared, lane, rests, rounds);
      }
      if constexpr (vectors >= 8) {
        if (pairs == 128) turn_half<4>(shared, lane, rests, rounds);
      }
    }
  }

  PHASOR_HD void multiply(float factor, bool rounds) {
    unrolled<vectors * kWidth>([&](auto i) {
      const float value = x[i] * factor;
      x[i] = rounds ? rounded_to_dtype<dtype>(value) : value;
    });
  }
  PHASOR_HD void find_largest() {
    most = 0;
    unrolled<vectors * kWidth>([&](auto i) {
      const float magnitude = x[i] < 0 ? -x[i] : x[i];
      most = magnitude > most ? magnitude : most;
    });
  }
};

}  // namespace phasor::cuda
