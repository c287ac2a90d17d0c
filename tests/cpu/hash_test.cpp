// SPDX-License-Identifier: Apache-2.0
// One hash over a large rotation, equal on every target and under every compiler.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "cpu/hash_job.hpp"
#include "cpu/serial.hpp"
#include "golden/hash.hpp"
#include "phasor/phasor.hpp"

namespace phasor::test {
namespace {

/// Back to the default target, whatever happens.
struct ForcedTarget {
  explicit ForcedTarget(std::string_view name) : status(force_target(name)) {}
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
  ~ForcedTarget() { (void)force_target(""); }
  Status status;
};

std::vector<std::byte> rotate(const hash::Case& c) {
  const Result<Rotary> rotary = Rotary::make(c.spec);
  EXPECT_TRUE(rotary.ok()) << rotary.status().message();
  const std::vector<std::byte> in = hash::input_of(c);
  std::vector<std::byte> out(in.size());
  if (!rotary.ok()) return out;
  const Extents shape = hash::shape_of(c);
  const Extents strides = contiguous_strides(shape);
  const InOut q(ConstTensorView(in.data(), c.dtype, shape, strides), TensorView{out.data(), c.dtype, shape, strides});
  const std::vector<std::int64_t> whole = hash::positions_of(c);
  const std::vector<double> fractions = hash::fractions_of(c);
  const bool fractional = c.positions == hash::PositionKind::fractional;
  const Status status = rotary->apply(q, fractional ? positions(fractions.data(), hash::kTokens) : positions(whole.data(), hash::kTokens),
                                      {.direction = c.direction, .execution = {.runner = test::kSerial}});
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

std::uint64_t hash_of_all_cases() {
  std::uint64_t hash = 0;
  bool nan = false;
  for (const hash::Case& c : hash::cases()) hash = hash::hash_of(c, rotate(c).data(), hash, nan);
  EXPECT_FALSE(nan);
  return hash;
}

TEST(Hash, of_a_large_rotation_is_one_constant_on_every_target) {
  for (const std::string_view target : targets()) {
    const ForcedTarget forced(target);
    ASSERT_TRUE(forced.status.ok()) << forced.status.message();
    EXPECT_EQ(hash_of_all_cases(), golden::kRotationHash) << target;
  }
}

TEST(Hash, notices_one_bit_of_one_element) {
  const hash::Case c = hash::cases()[5];
  std::vector<std::byte> out = rotate(c);
  bool nan = false;
  const std::uint64_t before = hash::hash_of(c, out.data(), 0, nan);
  out[out.size() / 2] ^= std::byte{1};
  EXPECT_NE(hash::hash_of(c, out.data(), 0, nan), before);
}

TEST(Hash, cases_cover_every_dtype_pairing_direction_and_kind_of_position) {
  std::set<std::tuple<DType, Pairing, Pairing, hash::PositionKind>> seen;
  std::set<std::pair<DType, Direction>> directions;
  for (const hash::Case& c : hash::cases()) {
    seen.insert({c.dtype, c.spec.pairing, *c.spec.output_pairing, c.positions});
    directions.insert({c.dtype, c.direction});
  }
  EXPECT_EQ(seen.size(), 4U * 2 * 2 * 4);
  EXPECT_EQ(directions.size(), 4U * 3);
}

}  // namespace
}  // namespace phasor::test
