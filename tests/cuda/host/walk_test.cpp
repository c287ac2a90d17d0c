// SPDX-License-Identifier: Apache-2.0
// Walks of src/cuda/rotary/walk.hpp: positions that are evenly apart are walked, and nearly every value of them is proven; others are left
// to be made apart.
#include "cuda/rotary/walk.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace phasor::test {
namespace {

constexpr std::uint32_t kAll = (1U << cuda::kWalk) - 1;

/// Bits of the tokens that a walk of a pair at these positions leaves, of `tokens` from token 0 on.
std::uint32_t left_by(const job::PositionSource& positions, int tokens = cuda::kWalk) {
  job::RowSource rows{};
  rows.positions = positions;
  const math::Step step = {{1, 0x123456789abcdef, 0x00f1e2d3c4b5a697}, 0};  // a step of 0.0037 turns
  return cuda::walk_pair<cuda::kWalk>({rows, step, 0, {0, 0, tokens}}, [](auto, const cuda::CosSin<float>&) {});
}
job::PositionSource source(const std::vector<std::int64_t>& list) {
  job::PositionSource positions{};
  positions.data = list.data();
  positions.type = PositionType::i64;
  positions.token_stride = 1;
  return positions;
}
std::vector<std::int64_t> from(std::int64_t first, std::int64_t apart) {
  std::vector<std::int64_t> list;
  for (int i = 0; i < cuda::kWalk; ++i) list.push_back(first + i * apart);
  return list;
}

TEST(CudaWalk, proves_nearly_every_value_of_positions_that_are_evenly_apart) {
  int left = 0;
  int walks = 0;
  for (std::int64_t first = -5000; first < 200000; first += 511) {
    for (const std::int64_t apart : {1, -1, 3}) {
      left += cuda::bit_count(left_by(source(from(first, apart))));
      ++walks;
    }
  }
  EXPECT_LT(left, walks * cuda::kWalk / 200);
  job::PositionSource counted{};
  counted.offset = 1000;
  EXPECT_NE(left_by(counted), kAll);
}

TEST(CudaWalk, leaves_what_is_not_evenly_apart_or_too_far) {
  for (int odd = 0; odd < cuda::kWalk; ++odd) {
    std::vector<std::int64_t> list = from(1000, 1);
    list[static_cast<std::size_t>(odd)] += 5;
    EXPECT_EQ(left_by(source(list)), kAll) << odd;
  }
  EXPECT_EQ(left_by(source(from(std::int64_t{1} << 62, 1))), kAll);
  EXPECT_EQ(left_by(source(from(0, std::int64_t{1} << 32))), kAll);
  EXPECT_EQ(left_by(source(from(7, 0))), kAll);  // the turn of no step has no point
  EXPECT_EQ(left_by(source(from(1000, 1)), 5), 0x1fU);
}

}  // namespace
}  // namespace phasor::test
