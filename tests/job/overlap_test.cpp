// SPDX-License-Identifier: Apache-2.0
// Overlap of strided views, against a list of every byte they touch.
#include "job/overlap.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "../tensor.hpp"

namespace phasor::job {
namespace {

/// Never read: overlap looks at addresses only.
alignas(64) std::byte arena[1 << 16];

/// A view of the arena, `at` in bytes from its middle.
ConstTensorView place(DType dtype, std::int64_t at, const Extents& shape, const Extents& strides) {
  return {arena + sizeof arena / 2 + at, dtype, shape, strides};
}

/// Addresses of the first byte of every element, in index order.
std::vector<std::intptr_t> addresses(const ConstTensorView& v) {
  std::vector<std::intptr_t> list;
  for (std::int64_t b = 0; b < v.shape[0]; ++b) {
    for (std::int64_t t = 0; t < v.shape[1]; ++t) {
      for (std::int64_t h = 0; h < v.shape[2]; ++h) {
        for (std::int64_t d = 0; d < v.shape[3]; ++d) {
          const std::int64_t element = b * v.strides[0] + t * v.strides[1] + h * v.strides[2] + d * v.strides[3];
          list.push_back(reinterpret_cast<std::intptr_t>(v.data) + element * bytes_of(v.dtype));
        }
      }
    }
  }
  return list;
}

Overlap by_listing(const ConstTensorView& a, const ConstTensorView& b) {
  const std::vector<std::intptr_t> first = addresses(a);
  const std::vector<std::intptr_t> second = addresses(b);
  if (a.shape == b.shape && first == second && !first.empty()) return Overlap::exact;
  std::set<std::intptr_t> bytes;
  for (const std::intptr_t address : first) {
    for (std::int64_t i = 0; i < bytes_of(a.dtype); ++i) bytes.insert(address + i);
  }
  for (const std::intptr_t address : second) {
    for (std::int64_t i = 0; i < bytes_of(b.dtype); ++i) {
      if (bytes.count(address + i) != 0) return Overlap::partial;
    }
  }
  return Overlap::none;
}

Overlap by_listing(const ConstTensorView& a) {
  const std::vector<std::intptr_t> list = addresses(a);
  return std::set<std::intptr_t>(list.begin(), list.end()).size() == list.size() ? Overlap::none : Overlap::partial;
}

/// Small extents and strides of any sign, often ones that fit together.
ConstTensorView random_view(test::Random& random, DType dtype) {
  Extents shape{};
  Extents strides{};
  for (std::size_t i = 0; i < 4; ++i) shape[i] = static_cast<std::int64_t>(random.bits() % 5);
  strides[3] = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t any = static_cast<std::int64_t>(random.bits() % 41) - 20;
    const std::int64_t fitting = (i == 0 ? 60 : i == 1 ? 12 : 4) * (random.bits() % 2 == 0 ? 1 : -1);
    strides[i] = random.bits() % 3 == 0 ? any : fitting;
  }
  return place(dtype, static_cast<std::int64_t>(random.bits() % 61) - 30, shape, strides);
}

TEST(Overlap, of_random_views_is_what_listing_their_bytes_says) {
  test::Random random(7);
  int counts[4] = {0, 0, 0, 0};
  for (int i = 0; i < 3000; ++i) {
    const DType dtype = i % 2 == 0 ? DType::f32 : DType::f16;
    const ConstTensorView a = random_view(random, dtype);
    ConstTensorView b = random_view(random, dtype);
    if (i % 10 == 0) b = a;
    const Overlap is = overlap(a, b);
    ASSERT_EQ(static_cast<int>(is), static_cast<int>(by_listing(a, b))) << i;
    ASSERT_EQ(share_bytes(strided(a), strided(b)), is != Overlap::none) << i;
    ++counts[static_cast<int>(is)];
  }
  EXPECT_GT(counts[0], 100);
  EXPECT_GT(counts[1], 100);
  EXPECT_GT(counts[2], 100);
}

/// Up to six axes of any strides, in any order.
StridedBytes random_bytes(test::Random& random) {
  StridedBytes a{arena + sizeof arena / 2 + static_cast<std::int64_t>(random.bits() % 61) - 30,
                 1 + static_cast<std::int64_t>(random.bits() % 4)};
  const std::int64_t fitting[] = {4, 12, 60, 61, 180, 1000};
  for (std::int64_t axes = static_cast<std::int64_t>(random.bits() % 7); axes > 0; --axes) {
    const std::int64_t any = static_cast<std::int64_t>(random.bits() % 41) - 20;
    a.add(static_cast<std::int64_t>(random.bits() % 3 + (random.bits() % 40 == 0 ? 0 : 1)),
          random.bits() % 3 == 0 ? any : fitting[random.bits() % 6]);
  }
  return a;
}
void list_bytes(const StridedBytes& a, int axis, std::intptr_t at, std::set<std::intptr_t>& bytes) {
  if (axis == a.axes) {
    for (std::int64_t i = 0; i < a.size; ++i) bytes.insert(at + i);
    return;
  }
  for (std::int64_t i = 0; i < a.extents[axis]; ++i) list_bytes(a, axis + 1, at + i * a.strides[axis], bytes);
}

TEST(Overlap, of_bytes_of_many_axes_is_what_listing_them_says) {
  test::Random random(9);
  int counts[2] = {0, 0};
  for (int i = 0; i < 3000; ++i) {
    const StridedBytes a = random_bytes(random);
    const StridedBytes b = random_bytes(random);
    std::set<std::intptr_t> of_a;
    std::set<std::intptr_t> of_b;
    list_bytes(a, 0, reinterpret_cast<std::intptr_t>(a.data), of_a);
    list_bytes(b, 0, reinterpret_cast<std::intptr_t>(b.data), of_b);
    bool shared = false;
    for (const std::intptr_t byte : of_a) shared |= of_b.count(byte) != 0;
    ASSERT_EQ(share_bytes(a, b), shared) << i;
    ++counts[shared ? 1 : 0];
  }
  EXPECT_GT(counts[0], 300);
  EXPECT_GT(counts[1], 300);
}

TEST(Overlap, of_random_views_with_themselves_is_what_listing_their_elements_says) {
  test::Random random(8);
  int counts[4] = {0, 0, 0, 0};
  for (int i = 0; i < 3000; ++i) {
    const ConstTensorView a = random_view(random, DType::f64);
    const Overlap is = self_overlap(a);
    ASSERT_EQ(static_cast<int>(is), static_cast<int>(by_listing(a))) << i;
    ++counts[static_cast<int>(is)];
  }
  EXPECT_GT(counts[0], 100);
  EXPECT_GT(counts[2], 100);
}

TEST(Overlap, of_combs_that_interleave_is_none_and_of_combs_that_meet_once_is_partial) {
  const ConstTensorView even = place(DType::f32, 0, {1, 1, 50, 1}, {0, 0, 2, 1});
  EXPECT_EQ(overlap(even, place(DType::f32, 4, {1, 1, 50, 1}, {0, 0, 2, 1})), Overlap::none);
  EXPECT_EQ(overlap(even, place(DType::f32, 8, {1, 1, 50, 1}, {0, 0, 2, 1})), Overlap::partial);
  // 0, 2, ..., 98 and 98, 195, ...: one element in common; 97, 194, ...: none.
  EXPECT_EQ(overlap(even, place(DType::f32, 4 * 98, {1, 1, 5, 1}, {0, 0, 97, 1})), Overlap::partial);
  EXPECT_EQ(overlap(even, place(DType::f32, 4 * 97, {1, 1, 5, 1}, {0, 0, 97, 1})), Overlap::none);
}

TEST(Overlap, of_slices_of_a_packed_qkv_is_none) {
  const Extents strides = {5 * 10 * 64, 10 * 64, 64, 1};
  const ConstTensorView q = place(DType::f16, 0, {2, 5, 8, 64}, strides);
  EXPECT_EQ(overlap(q, place(DType::f16, 2 * 8 * 64, {2, 5, 1, 64}, strides)), Overlap::none);
  EXPECT_EQ(overlap(q, place(DType::f16, 2 * (8 * 64 - 1), {2, 5, 1, 64}, strides)), Overlap::partial);
}

TEST(Overlap, is_decided_or_given_up_quickly_whatever_the_strides) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t many = std::int64_t{1} << 20;
  const ConstTensorView a = place(DType::f16, 0, {many, many, many, 2}, {999999937 * 2, 999999893 * 2, 999999883 * 2, 1});
  const ConstTensorView b = place(DType::f16, 6, {many, many, many, 2}, {999999761 * 2, 999999757 * 2, 999999739 * 2, 1});
  const Overlap both = overlap(a, b);
  EXPECT_TRUE(both == Overlap::undecided || both == Overlap::partial);
  EXPECT_NE(self_overlap(a), Overlap::exact);
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 5.0);  // hours without a budget; an emulator on a busy machine needs a few tenths
}

}  // namespace
}  // namespace phasor::job
