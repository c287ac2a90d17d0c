// SPDX-License-Identifier: Apache-2.0
// A thread's part of a head, from load to store in registers: every 32nd run of eight (or, in f32, four) channels. The steps and their
// roundings are those of job/prepare/token.hpp. What is the same for all channels of a head (does a step round?) is asked once, not for
// each: such questions were most of the time.
#pragma once

#include <type_traits>

#include "cuda/prepare/squads/shape.hpp"
#include "cuda/teams/eight_bytes.hpp"
#include "cuda/teams/memory.hpp"

namespace phasor::cuda {

/// Two neighbours rounded to a dtype.
template <DType dtype>
PHASOR_HD inline void round_two(float& first, float& second) {
  using E = Element<dtype>;
  if constexpr (E::kHalf) {
    const std::uint32_t word = E::narrow(first, second);
    first = E::widen(static_cast<std::uint16_t>(word));
    second = E::widen(static_cast<std::uint16_t>(word >> 16));
  }
}
/// body(std::true_type) or body(std::false_type).
template <class Body>
PHASOR_HD inline void asked_once(bool answer, const Body& body) {
  answer ? body(std::true_type{}) : body(std::false_type{});
}

/// `vectors`: of a thread, head_dim / 32. `norms`: whether any operand of the call has one; without them more threads find room.
template <DType dtype, int vectors, bool norms>
struct SquadHead {
  static constexpr int kWidth = Squad<dtype>::kWidth;
  static constexpr int kPart = kWidth / 2;
  static constexpr bool kHoldsWeights =
      norms && vectors <= 4;  // beside the words; else there are too few registers, and they are read late
  SquadSpot spot;
  Words words[vectors];
  Words weights[vectors];
  float sums[kWidth];         // of squares: the norm's partial sums of the thread's channels
  float x[vectors * kWidth];  // channel 32 v + kWidth lane + i is x[v kWidth + i]
  float most;                 // the largest magnitude

  PHASOR_HD static int channel(int vector, int lane) { return 32 * vector + kWidth * lane; }
  PHASOR_HD static void load_all(const std::byte* first, int lane, Words (&to)[vectors]) {
    unrolled<vectors>([&](auto v) { to[v] = load_words<false>(first + channel(v, lane) * static_cast<int>(bytes_of(dtype))); });
  }
  /// Part 0 or 1 of vector part / 2.
  PHASOR_HD static EightBytes<dtype> part_of(const Words (&from)[vectors], int part) {
    EightBytes<dtype> values;
    values.read(from[part / 2].at[part % 2 * 2], from[part / 2].at[part % 2 * 2 + 1]);
    return values;
  }

  /// What is not loaded is nothing: else what was there before would be kept for it.
  PHASOR_HD void clear() {
    unrolled<vectors>([&](auto v) { words[v] = weights[v] = Words{}; });
  }
  PHASOR_HD void load(const SquadOperand& operand, const SquadPlace& place) {
    const math::u64 before =
        math::u64{static_cast<unsigned>(place.batch)} * operand.in_batch + math::u64{static_cast<unsigned>(place.token)} * operand.in_token;
    load_all(operand.in + before * sizeof(Words) + spot.head * operand.in_head, spot.lane, words);
    if (kHoldsWeights && operand.weight != nullptr && !operand.wide_weight) load_weights(operand);
  }
  PHASOR_HD void load_weights(const SquadOperand& operand) {
    load_all(operand.weight + spot.head * operand.weight_head, spot.lane, weights);
  }
  PHASOR_HD void add_squares() {
    unrolled<kWidth>([&](auto i) { sums[i] = 0; });
    unrolled<2 * vectors>([&](auto part) {
      const EightBytes<dtype> values = part_of(words, part);
      unrolled<kPart>([&](auto i) { sums[part % 2 * kPart + i] += values.at[i] * values.at[i]; });
    });
  }
  PHASOR_HD void widen() {
    unrolled<vectors>([&](auto v) { still_narrow(words[v]); });
    unrolled<2 * vectors>([&](auto part) {
      const EightBytes<dtype> values = part_of(words, part);
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
  PHASOR_HD void norm(const SquadOperand& operand) {
    const float sum = folded<kWidth>();
    const float factor =
        operand.norm == HeadNorm::Kind::rms ? math::rms_factor(sum, 32 * vectors, operand.epsilon) : math::l2_factor(sum, operand.epsilon);
    asked_once(operand.casts_before_weight, [&](auto before) {
      unrolled<vectors * kWidth>([&](auto i) { x[i] = x[i] * factor; });
      if constexpr (before) round_all();
    });
    if (operand.weight != nullptr && operand.wide_weight) {
      const std::byte* const all = operand.weight + spot.head * operand.weight_head;
      apply_weights(operand.one_plus, [&](int part) {
        EightBytes<dtype> weight;
        const auto* const from = reinterpret_cast<const float*>(all) + channel(part / 2, spot.lane) + part % 2 * kPart;
        unrolled<kPart>([&](auto i) { weight.at[i] = from[i]; });
        return weight;
      });
    } else if (operand.weight != nullptr) {
      if (!kHoldsWeights) load_weights(operand);
      apply_weights(operand.one_plus, [&](int part) { return part_of(weights, part); });
    }
    if (operand.rounds_norm) round_all();
  }
  template <class Weights>
  PHASOR_HD void apply_weights(bool one_plus, const Weights& weights_of_part) {
    asked_once(one_plus, [&](auto plus) {
      unrolled<2 * vectors>([&](auto part) {
        const EightBytes<dtype> weight = weights_of_part(part);
        unrolled<kPart>([&](auto i) { x[part * kPart + i] *= applied(weight.at[i], plus); });
      });
    });
  }
  static PHASOR_HD float applied(float weight, bool one_plus) {
#ifdef __CUDA_ARCH__
    return one_plus ? 1.0F + weight : weight;  // its conversions take any NaN
#else
    return math::applied_weight(weight, one_plus);
#endif
  }
  PHASOR_HD void round_all() {
    unrolled<vectors * kPart>([&](auto i) { round_two<dtype>(x[2 * i], x[2 * i + 1]); });
  }

  /// Half pairing: the first 32 `half` channels and as many after them.
  template <int half, bool rests>
  PHASOR_HD void turn_half(const CosSin<float>* row, int lane) {
    unrolled<2 * half>([&](auto part) {
      const auto by = values_at<float, kPart>(row + channel(part / 2, lane) + part % 2 * kPart);
      unrolled<kPart>([&](auto i) { turn_one<rests>(x[part * kPart + i], x[(part + 2 * half) * kPart + i], by.at[i]); });
    });
  }
  template <bool rests>
  PHASOR_HD void turn_interleaved(const CosSin<float>* row, int lane, int first, int pairs) {
    unrolled<vectors>([&](auto v) {
      const int pair = (channel(v, lane) - first) / 2;
      if (channel(v, lane) < first || pair >= pairs) return;
      const auto by = values_at<float, kPart>(row + pair);
      unrolled<kPart>([&](auto i) { turn_one<rests>(x[v * kWidth + 2 * i], x[v * kWidth + 2 * i + 1], by.at[i]); });
    });
  }
  /// A pair that rests is left bit for bit.
  template <bool rests>
  static PHASOR_HD void turn_one(float& a, float& b, const CosSin<float>& by) {
    if (rests && math::is_identity(by.cos, by.sin)) return;
    turn(a, b, by);
  }
  template <Pairing pairing, bool rests>
  PHASOR_HD void turn_by(const CosSin<float>* row, int lane, int first, int pairs) {
    if constexpr (pairing == Pairing::interleaved) {
      turn_interleaved<rests>(row, lane, first, pairs);
    } else {
      if (pairs == 32) turn_half<1, rests>(row, lane);
      if constexpr (vectors >= 4) {
        if (pairs == 64) turn_half<2, rests>(row, lane);
      }
      if constexpr (vectors >= 8) {
        if (pairs == 128) turn_half<4, rests>(row, lane);
      }
    }
  }

  PHASOR_HD void multiply(float factor) {
    unrolled<vectors * kWidth>([&](auto i) { x[i] = x[i] * factor; });
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
