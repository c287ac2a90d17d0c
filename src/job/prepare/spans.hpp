// SPDX-License-Identifier: Apache-2.0
// What happens to the channels of a head, step by step, one channel at a time: for a lane of a team that shares them (a warp's thread on a
// GPU, one of one on a CPU without registers). Registers have the same steps in src/cpu/prepare/spans.inl.
#pragma once

#include <cstdint>

#include "job/prepare/job.hpp"
#include "math/prepare.hpp"

namespace phasor::job {

/// Lane `at` of `of` that share a head.
struct TeamLane {
  int at;
  int of;
};

/// Row of a token: cosines and sines of each pair, for both lanes of a pair.
struct PreparedRow {
  const float* cos[2];
  const float* sin[2];
  bool identities = true;  // false: it is known that no pair has cosine 1 and sine 0
};

/// What norms, and factors on queries, do to channels.
struct NormScale {
  float factor;
  const float* weight;  // as it is applied; null: none
  bool rounds_before;   // to the dtype, before the weight
  bool rounds;          // and after it
  DType dtype;
};

/// What turns: `x` begins with the first rotated channel; the result goes to `y`, which may be `x` where the pairing stays.
struct TurnedSpan {
  const float* x;
  float* y;
  bool rounds;
};

/// Channels [first, first + count) of a sink's, from where head and token begin.
struct StoreRange {
  std::byte* to;
  std::int64_t first;
  std::int64_t count;
  bool scales;
  float scale;
  bool multiplies;
  bool bf16_nan;  // a NaN among the values has no bits that bfloat16 lacks
};

PHASOR_HD inline float rounded_as(DType dtype, float value) {
  const math::One<float> d;
  if (dtype == DType::bf16) return math::widen_bf16(d, math::narrow_bf16(d, value));
  return dtype == DType::f16 ? math::rounded_f16(d, value) : value;
}
PHASOR_HD inline float widened(DType dtype, const std::byte* data, std::int64_t index) {
  if (dtype == DType::f32) return reinterpret_cast<const float*>(data)[index];
  const math::u32 bits = reinterpret_cast<const std::uint16_t*>(data)[index];
  return dtype == DType::f16 ? math::widen_f16(math::One<float>(), bits) : math::widen_bf16(math::One<float>(), bits);
}
/// The bits of a value as it is stored.
PHASOR_HD inline math::u32 stored_bits(Storage storage, float value) {
  const math::One<float> d;
  switch (storage) {
    case Storage::f32:
      return math::bit_cast<math::u32>(value);
    case Storage::f16:
      return math::narrow_f16(d, value);
    case Storage::bf16:
      return math::narrow_bf16(d, value);
    case Storage::f8_e4m3:
      return math::narrow_f8<math::E4M3>(d, value);
    case Storage::f8_e5m2:
      return math::narrow_f8<math::E5M2>(d, value);
    case Storage::i8:
      break;
  }
  return static_cast<math::u32>(math::narrow_i8(d, value)) & 0xffU;
}
PHASOR_HD inline void store_bits(Storage storage, std::byte* to, math::u32 bits) {
  if (storage == Storage::f32) {
    *reinterpret_cast<math::u32*>(to) = bits;
  } else if (storage <= Storage::bf16) {
    *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(bits);
  } else {
    *to = static_cast<std::byte>(bits);
  }
}
/// The largest magnitude that a storage of 8 bits has.
PHASOR_HD inline float largest_of(Storage storage) {
  return storage == Storage::f8_e4m3 ? 448.0F : storage == Storage::f8_e5m2 ? 57344.0F : 127.0F;
}

/// Each product of a rotation, rounded where a numerics profile does so.
struct ProductAs {
  DType dtype;
  bool rounds;
  PHASOR_HD float operator()(float product) const { return rounds ? rounded_as(dtype, product) : product; }
};

/// Where the two channels of pair `i` of a segment lie, from its first on.
PHASOR_HD inline math::Pair<std::int64_t> lanes_of(Pairing pairing, std::int64_t i, std::int64_t half) {
  return pairing == Pairing::half ? math::Pair<std::int64_t>{i, i + half} : math::Pair<std::int64_t>{2 * i, 2 * i + 1};
}

struct OneByOne {
  static PHASOR_HD void widen(const TeamLane& lane, DType dtype, const std::byte* in, std::int64_t count, float* x) {
    for (std::int64_t c = lane.at; c < count; c += lane.of) x[c] = widened(dtype, in, c);
  }
  static PHASOR_HD void weights(const TeamLane& lane, const PrepareNorm& norm, std::int64_t head, float* weight) {
    for (std::int64_t c = lane.at; c < norm.width; c += lane.of) {
      weight[c] = math::applied_weight(widened(norm.weight_dtype, norm.weight + head * norm.weight_head_stride, c), norm.one_plus);
    }
  }
  /// Elements of the sink's storage, as they are.
  static PHASOR_HD void move(const TeamLane& lane, const PrepareSink& sink, const std::byte* in, std::byte* to) {
    for (std::int64_t c = lane.at; c < sink.count; c += lane.of) {
      std::byte* const at = to + c / sink.inner * sink.strides[3] + c % sink.inner * sink.strides[4];
      if (sink.storage == Storage::f32) {
        *reinterpret_cast<std::uint32_t*>(at) = reinterpret_cast<const std::uint32_t*>(in)[c];
      } else {
        *reinterpret_cast<std::uint16_t*>(at) = reinterpret_cast<const std::uint16_t*>(in)[c];
      }
    }
  }
  /// Channels that are number `first` and on of those that are summed.
  static PHASOR_HD void add_squares(const TeamLane& lane, const float* x, std::int64_t count, std::int64_t first, float* sums) {
    for (int j = lane.at; j < math::kNormPartials; j += lane.of) {
      const std::int64_t from = (j - first % math::kNormPartials + math::kNormPartials) % math::kNormPartials;
      for (std::int64_t c = from; c < count; c += math::kNormPartials) sums[j] += x[c] * x[c];
    }
  }
  static PHASOR_HD float fold(float* sums) { return math::fold_partials(sums); }
  static PHASOR_HD void scale_by_norm(const TeamLane& lane, const NormScale& by, std::int64_t count, float* x) {
    for (std::int64_t c = lane.at; c < count; c += lane.of) {
      float value = x[c] * by.factor;
      if (by.rounds_before) value = rounded_as(by.dtype, value);
      if (by.weight != nullptr) value = value * by.weight[c];
      x[c] = by.rounds ? rounded_as(by.dtype, value) : value;
    }
  }
  static PHASOR_HD void turn(const TeamLane& lane, const RotateJob& turn, const PreparedRow& row, const TurnedSpan& span) {
    for (std::int64_t p = lane.at; p < turn.pairs; p += lane.of) turn_pair(turn, row, p, span);
  }
  static PHASOR_HD void turn_pair(const RotateJob& turn, const PreparedRow& row, std::int64_t p, const TurnedSpan& span) {
    const std::int64_t half = turn.pairs / turn.segments;
    const std::int64_t base = p / half * 2 * half;
    const math::Pair<std::int64_t> from = lanes_of(turn.read, p % half, half);
    const math::Pair<std::int64_t> to = lanes_of(turn.write, p % half, half);
    const math::Pair<float> cos = {row.cos[0][p], row.cos[1][p]};
    const math::Pair<float> sin = {row.sin[0][p], row.sin[1][p]};
    math::Pair<float> pair = {span.x[base + from.x], span.x[base + from.y]};
    if (turn.turns_all || !math::is_identity(cos.x, sin.x) || !math::is_identity(cos.y, sin.y)) {
      pair = math::rotate<float>(pair, cos, sin, ProductAs{turn.dtype, turn.rounds_products});
      if (span.rounds) pair = {rounded_as(turn.dtype, pair.x), rounded_as(turn.dtype, pair.y)};
    }
    span.y[base + to.x] = pair.x;
    span.y[base + to.y] = pair.y;
  }
  static PHASOR_HD void copy(const TeamLane& lane, const float* x, std::int64_t count, float* y) {
    for (std::int64_t c = lane.at; c < count; c += lane.of) y[c] = x[c];
  }
  /// The largest magnitude of the lane's channels; a NaN is none.
  static PHASOR_HD float largest(const TeamLane& lane, const float* x, std::int64_t count) {
    float most = 0;
    for (std::int64_t c = lane.at; c < count; c += lane.of) {
      const float magnitude = x[c] < 0 ? -x[c] : x[c];
      most = magnitude > most ? magnitude : most;
    }
    return most;
  }
  static PHASOR_HD void store(const TeamLane& lane, const PrepareSink& sink, const StoreRange& range, const float* x) {
    for (std::int64_t i = lane.at; i < range.count; i += lane.of) {
      const std::int64_t c = range.first + i;
      const float value = range.scales ? math::scaled(x[i], range.scale, range.multiplies) : x[i];
      store_bits(sink.storage, range.to + c / sink.inner * sink.strides[3] + c % sink.inner * sink.strides[4],
                 stored_bits(sink.storage, value));
    }
  }
};

}  // namespace phasor::job
