// SPDX-License-Identifier: Apache-2.0
// Hashes of what tests/cpu/hash_job.hpp does not turn: several axes, numerics profiles, given tables, keys that move, encodings that are
// added. Each is one constant on every target and under every compiler.
#include <gtest/gtest.h>

#include "../tensor.hpp"
#include "cpu/hash_job.hpp"
#include "cpu/serial.hpp"
#include "golden/hash.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

using HashOf = EveryTarget;
using hash::u64;

constexpr std::int64_t kTokens = 41;  // two blocks of rows, and five of eight tokens and one more
constexpr DType kDTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

/// A tensor whose bits come from integers alone, as in hash_job.hpp.
struct Bits {
  DType dtype;
  Extents shape;
  std::vector<std::byte> bytes;

  Bits(DType of, const Extents& extents, u64 seed) : dtype(of), shape(extents) {
    const std::size_t size = static_cast<std::size_t>(bytes_of(dtype));
    bytes.resize(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * shape[3]) * size);
    hash::Random random(seed);
    for (std::size_t at = 0; at < bytes.size(); at += size) put(at, random());
  }
  TensorView view() { return {bytes.data(), dtype, shape, contiguous_strides(shape)}; }
  ConstTensorView view() const { return {bytes.data(), dtype, shape, contiguous_strides(shape)}; }

  /// Every element into `hash`, by value, so that the order of bytes in memory does not matter.
  u64 into(u64 hash) const {
    const std::size_t size = static_cast<std::size_t>(bytes_of(dtype));
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      u64 bits = 0;
      for (std::size_t i = size; i-- > 0;) bits = bits << 8 | static_cast<u64>(bytes[at + i]);
      EXPECT_FALSE(hash::is_nan(bits, dtype)) << "payloads are the machine's";
      hash = hash::mix(hash, bits);
    }
    return hash;
  }

 private:
  void put(std::size_t at, u64 random) {
    const int exponent_bits = dtype == DType::f64 ? 11 : dtype == DType::f16 ? 5 : 8;
    const int significand_bits = static_cast<int>(8 * bytes_of(dtype)) - 1 - exponent_bits;
    u64 bits = hash::float_bits(random, exponent_bits, significand_bits);
    for (std::int64_t i = 0; i < bytes_of(dtype); ++i, bits >>= 8) bytes[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(bits);
  }
};

/// Positions of so many axes: the first rows follow each other on the first axis, the others are anywhere, both signs, one at the origin.
std::vector<std::int64_t> whole_positions(std::int64_t axes, u64 seed) {
  hash::Random random(seed);
  std::vector<std::int64_t> all;
  for (std::int64_t a = 0; a < axes; ++a) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const std::int64_t drawn = static_cast<std::int64_t>(random()) >> (40 + t % 20);
      all.push_back(t == 25 ? 0 : t < 20 ? (a == 0 ? 1000 + t : 17 * a) : drawn);
    }
  }
  return all;
}

Rotary made(const RotarySpec& spec) {
  const Result<Rotary> rotary = Rotary::make(spec);
  EXPECT_TRUE(rotary.ok()) << rotary.status().message();
  return *rotary;
}

void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

std::vector<RotarySpec> specs_with_axes() {
  RotarySpec chunked{.head_dim = 128, .base = 1e6, .axes = {.sections = {16, 24, 24}}};
  RotarySpec mixed{.head_dim = 96, .rotary_width = 64, .rotary_offset = 8, .base = 1e7, .pairing = Pairing::interleaved};
  mixed.axes = {.sections = {11, 11, 10}, .order = AxisOrder::interleaved};
  RotarySpec own{.head_dim = 72, .axes = {.sections = {18, 18}, .ladder = AxisLadder::own}};
  RotarySpec dealt{.head_dim = 64, .axes = {.sections = {16, 16}, .ladder = AxisLadder::dealt}};
  RotarySpec segments{.head_dim = 64, .axes = {.sections = {16, 16}, .ladder = AxisLadder::own}, .segments = 2};
  RotarySpec per_channel{.head_dim = 66, .rotary_width = 60, .pairing = Pairing::interleaved};
  per_channel.axes = {.sections = {10, 10, 10}, .ladder = AxisLadder::own};
  per_channel.segments = 3;
  per_channel.lanes = Lanes::per_channel_frequencies;
  return {chunked, mixed, own, dealt, segments, per_channel};
}

u64 hash_of_axes() {
  u64 hash = 0;
  u64 seed = 100;
  for (const RotarySpec& spec : specs_with_axes()) {
    const std::int64_t axes = static_cast<std::int64_t>(spec.axes.sections.size());
    for (const DType dtype : kDTypes) {
      for (const Direction direction : {Direction::forward, Direction::transpose}) {
        Bits x(dtype, {1, kTokens, 3, spec.head_dim}, ++seed);
        const std::vector<std::int64_t> whole = whole_positions(axes, seed);
        std::vector<double> fractions;
        for (const std::int64_t p : whole) fractions.push_back(static_cast<double>(p) / 16);
        const bool fractional = seed % 3 == 0;
        expect_ok(made(spec).apply(x.view(),
                                   fractional ? positions(fractions.data(), axes, 1, kTokens) : positions(whole.data(), axes, 1, kTokens),
                                   {.direction = direction, .execution = {.runner = kSerial}}));
        hash = x.into(hash);
      }
    }
  }
  return hash;
}

u64 hash_of_profiles() {
  u64 hash = 0;
  u64 seed = 200;
  for (const Numerics numerics : {Numerics::hf, Numerics::hf_float32, Numerics::vllm, Numerics::ggml}) {
    for (const DType dtype : kDTypes) {
      for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
        RotarySpec spec{.head_dim = 84, .rotary_width = 74, .rotary_offset = 5, .base = 500000, .pairing = pairing, .numerics = numerics};
        spec.scaling = YarnScaling{.factor = 40, .original_length = 4096};
        Bits x(dtype, {1, kTokens, 3, spec.head_dim}, ++seed);
        const std::vector<std::int64_t> at = whole_positions(1, seed);
        expect_ok(made(spec).apply(x.view(), positions(at.data(), kTokens), {.execution = {.runner = kSerial}}));
        hash = x.into(hash);
      }
    }
  }
  return hash;
}

/// One rotation by given tables of `lanes` values per pair.
u64 hash_of_table(DType dtype, DType table, std::int64_t lanes, const TableLayout& layout, u64 seed) {
  Bits x(dtype, {1, kTokens, 3, 58}, seed);
  const Bits cos(table, {1, kTokens, 1, 27 * lanes}, 1000 + seed);
  const Bits sin(table, {1, kTokens, 1, 27 * lanes}, 2000 + seed);
  expect_ok(apply_rotary(x.view(), cos.view(), sin.view(), layout, {.execution = {.runner = kSerial}}));
  return x.into(0);
}

/// Half-width and full-width tables of every dtype that a tensor's may have, in every numerics of products (vllm and ggml: as hf_float32).
u64 hash_of_tables() {
  u64 hash = 0;
  u64 seed = 300;
  for (const DType dtype : kDTypes) {
    for (const DType table : {dtype == DType::f64 ? DType::f64 : DType::f32, DType::f16, DType::bf16}) {
      for (const std::int64_t lanes : {1, 2}) {
        for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
          for (const Numerics numerics : {Numerics::exact, Numerics::hf, Numerics::hf_float32}) {
            const TableLayout layout = {.rotary_width = 54, .rotary_offset = 2, .pairing = pairing, .numerics = numerics};
            hash = hash::mix(hash, hash_of_table(dtype, table, lanes, layout, ++seed));
          }
        }
      }
    }
  }
  return hash;
}

/// From one ladder to another, within one, and by one shift for all.
u64 hash_of_moves() {
  u64 hash = 0;
  u64 seed = 400;
  const Scaling from_scaling = YarnScaling{.factor = 8, .original_length = 4096};
  for (const DType dtype : kDTypes) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (int kind = 0; kind < 3; ++kind) {
        const RotarySpec to{.head_dim = 100, .rotary_width = 90, .rotary_offset = 4, .base = 500000, .pairing = pairing};
        RotarySpec from = to;
        if (kind == 0) from.scaling = from_scaling;
        Bits keys(dtype, {1, kTokens, 3, to.head_dim}, ++seed);
        const std::vector<std::int64_t> old = whole_positions(1, seed);
        std::vector<std::int64_t> moved = whole_positions(1, kind == 0 ? seed : seed + 1);  // kind 0: only the ladder changes
        for (std::size_t t = 0; kind == 2 && t < moved.size(); ++t) moved[t] = old[t] + 77;
        expect_ok(rerotate(keys.view(), {made(from), positions(old.data(), kTokens)}, {made(to), positions(moved.data(), kTokens)},
                           {.execution = {.runner = kSerial}}));
        hash = keys.into(hash);
      }
    }
  }
  return hash;
}

/// Rows added to a tensor, and rows written over it.
u64 hash_of_sinusoids(const SinusoidalSpec& spec, DType dtype, u64 seed) {
  const std::int64_t axes = spec.axis_widths.empty() ? 1 : static_cast<std::int64_t>(spec.axis_widths.size());
  const Result<Sinusoidal> sinusoidal = Sinusoidal::make(spec);
  EXPECT_TRUE(sinusoidal.ok()) << sinusoidal.status().message();
  Bits x(dtype, {1, kTokens, 1, spec.width}, seed);
  const std::vector<std::int64_t> at = whole_positions(axes, seed);
  const Positions where = positions(at.data(), axes, 1, kTokens);
  expect_ok(sinusoidal->add(x.view(), where, {.execution = {.runner = kSerial}}));
  const u64 added = x.into(0);
  expect_ok(sinusoidal->fill(x.view(), where, {.execution = {.runner = kSerial}}));
  return x.into(added);
}

u64 hash_of_additive_rows() {
  u64 hash = 0;
  u64 seed = 500;
  for (const SinusoidOrder order : {SinusoidOrder::interleaved, SinusoidOrder::sin_cos, SinusoidOrder::cos_sin}) {
    for (const OddChannel odd : {OddChannel::zero, OddChannel::unpaired}) {
      for (const DType dtype : kDTypes) {
        for (const bool two_axes : {false, true}) {
          for (const double amplitude : {1.0, 0.625}) {
            SinusoidalSpec spec{.width = 101, .order = order, .odd = odd, .amplitude = amplitude};
            if (two_axes) spec = {.width = 150, .order = order, .axis_widths = {51, 99}, .odd = odd, .amplitude = amplitude};
            hash = hash::mix(hash, hash_of_sinusoids(spec, dtype, ++seed));
          }
        }
      }
    }
  }
  return hash;
}

TEST_F(HashOf, axes_is_one_constant_on_every_target) {
  on_every_target([] { EXPECT_EQ(hash_of_axes(), golden::kAxesHash); });
}
TEST_F(HashOf, profiles_is_one_constant_on_every_target) {
  on_every_target([] { EXPECT_EQ(hash_of_profiles(), golden::kProfilesHash); });
}
TEST_F(HashOf, given_tables_is_one_constant_on_every_target) {
  on_every_target([] { EXPECT_EQ(hash_of_tables(), golden::kTablesHash); });
}
TEST_F(HashOf, keys_that_move_is_one_constant_on_every_target) {
  on_every_target([] { EXPECT_EQ(hash_of_moves(), golden::kMovesHash); });
}
TEST_F(HashOf, additive_rows_is_one_constant_on_every_target) {
  on_every_target([] { EXPECT_EQ(hash_of_additive_rows(), golden::kAdditiveHash); });
}

}  // namespace
}  // namespace phasor::test
