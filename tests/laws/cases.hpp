// SPDX-License-Identifier: Apache-2.0
// Random cases: a spec with a dtype, shape, strides, data and positions; and how a law rotates one on every target.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <vector>

#include "laws/specs.hpp"
#include "laws/tensor.hpp"
#include "phasor/phasor.hpp"

namespace phasor::laws {

enum class Place : std::uint8_t { in, out_of };

struct Case {
  RotarySpec spec;
  DType dtype;
  Extents shape;
  Extents strides;
  Place place;
  std::uint64_t seed;
};

inline void showValue(const Case& c, std::ostream& out) {  // RapidCheck's name
  show(c.spec, out);
  out << ", " << name_of(c.dtype);
  for (int i = 0; i < 4; ++i) out << (i == 0 ? ", (" : ", ") << c.shape[i] << " by " << c.strides[i];
  out << "), " << (c.place == Place::in ? "in place" : "out of place") << ", seed " << c.seed;
}

/// B, T and H in any order in memory, with gaps.
inline Extents any_strides(const Extents& shape) {
  std::vector<int> order = {0, 1, 2};
  std::rotate(order.begin(), order.begin() + *rc::gen::inRange(0, 3), order.end());
  if (*rc::gen::arbitrary<bool>()) std::swap(order[0], order[1]);
  Extents strides = {0, 0, 0, 1};
  std::int64_t next = shape[3];
  for (const int axis : order) {
    strides[axis] = next + *rc::gen::element<std::int64_t>(0, 0, 1, 5);
    next = strides[axis] * shape[axis];
  }
  return strides;
}

inline rc::Gen<Case> any_case() {
  return rc::gen::exec([] {
    Case c{};
    c.spec = *any_spec();
    c.dtype = *rc::gen::element(DType::f32, DType::f64, DType::f16, DType::bf16);
    c.shape = {*rc::gen::inRange<std::int64_t>(1, 4), *rc::gen::inRange<std::int64_t>(1, 8), *rc::gen::element<std::int64_t>(1, 3, 7),
               c.spec.head_dim};
    c.strides = any_strides(c.shape);
    c.place = *rc::gen::element(Place::in, Place::out_of);
    c.seed = *rc::gen::arbitrary<std::uint64_t>();
    return c;
  });
}

/// SplitMix64: data from a seed, so that a counterexample prints in one line.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  /// 0, or 2^-4 to 255 in magnitude, 8 significant bits: exact in every dtype.
  double value() {
    const std::uint64_t b = bits();
    const double magnitude = std::ldexp(static_cast<double>(b & 255), -static_cast<int>(b >> 8 & 3) - 1);
    return (b >> 10 & 1) != 0 ? -magnitude : magnitude;
  }

 private:
  std::uint64_t state_;
};

inline Tensor drawn(const Case& c, std::uint64_t salt = 0) {
  Tensor x(c.dtype, c.shape, c.strides);
  Draw draw(c.seed + salt);
  for_each_head(c.shape, [&](const Index& head) {
    for (std::int64_t d = 0; d < c.shape[3]; ++d) x.set(channel(head, d), draw.value());
  });
  return x;
}

/// Small, near a power of two, or anywhere below 2^`bits`, of either sign.
inline std::int64_t any_position(int bits) {
  const int width = *rc::gen::element(4, 12, 20, bits);
  const std::int64_t magnitude = static_cast<std::int64_t>(*rc::gen::arbitrary<std::uint64_t>() >> (64 - width));
  return *rc::gen::arbitrary<bool>() ? -magnitude : magnitude;
}

/// (B, T); consecutive along T half of the time, since kernels have a way of their own for that.
inline std::vector<std::int64_t> any_positions(const Case& c, int bits) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(c.shape[0] * c.shape[1]));
  const bool consecutive = *rc::gen::arbitrary<bool>();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const bool first = static_cast<std::int64_t>(i) % c.shape[1] == 0;
    list[i] = consecutive && !first ? list[i - 1] + 1 : any_position(bits);
  }
  return list;
}

template <class P>
Positions view_of(const std::vector<P>& list, const Case& c) {
  return positions(list.data(), c.shape[0], c.shape[1]);
}

inline void check_ok(const Status& status) {
  if (!status) RC_FAIL(status.message());
}

/// `x` turned; gaps are in the result as they were, and nothing but the result is written.
inline Tensor rotated(const Rotary& rotary, const Tensor& x, const Positions& positions, Place place,
                      Direction direction = Direction::forward) {
  if (place == Place::in) {
    Tensor y = x;
    check_ok(rotary.apply(y.view(), positions, {.direction = direction}));
    return y;
  }
  Tensor y(x.dtype(), x.shape(), x.strides());
  const Tensor before = x;
  check_ok(rotary.apply({x.view(), y.view()}, positions, {.direction = direction}));
  RC_ASSERT(x == before);
  return y;
}

/// Runs a law on every target of this machine.
template <class F>
void on_every_target(F law) {
  struct Default {
    ~Default() { (void)force_target(""); }
  } const back_to_default;
  for (const std::string_view target : targets()) {
    check_ok(force_target(target));
    law();
  }
}

struct PairChannels {
  std::int64_t x;
  std::int64_t y;
};

/// The two channels of a pair.
inline PairChannels channels_of(const RotarySpec& spec, Pairing pairing, std::int64_t pair) {
  const std::int64_t first = spec.rotary_offset;
  if (pairing == Pairing::half) return {first + pair, first + pair + spec.rotary_width / 2};
  return {first + 2 * pair, first + 2 * pair + 1};
}

/// Calls f(head, pair) for every pair of every head.
template <class F>
void for_each_pair(const Case& c, F f) {
  for_each_head(c.shape, [&](const Index& head) {
    for (std::int64_t pair = 0; pair < c.spec.rotary_width / 2; ++pair) f(head, pair);
  });
}

struct PairValue {
  long double x;
  long double y;
  long double norm() const { return std::sqrt(x * x + y * y); }
};

inline PairValue pair_of(const Tensor& tensor, const Index& head, const PairChannels& at) {
  return {tensor[channel(head, at.x)], tensor[channel(head, at.y)]};
}
inline PairValue pair_of(const Tensor& tensor, const RotarySpec& spec, const Index& head, std::int64_t pair) {
  return pair_of(tensor, head, channels_of(spec, spec.pairing, pair));
}

}  // namespace phasor::laws
