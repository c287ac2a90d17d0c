// SPDX-License-Identifier: Apache-2.0
// Rerotation in a paged cache: bitwise what it is of the same keys gathered, and nothing else is touched.
#include <numeric>

#include "ops/rotary/rerotate_call.hpp"

namespace phasor::test {
namespace {

using PagedRerotate = EveryTarget;

constexpr std::int64_t blocks = 9;
constexpr std::int64_t page_size = 5;
constexpr std::int64_t heads = 3;
constexpr std::int64_t width = 34;

RotarySpec spec_of(double base) {
  RotarySpec spec{.head_dim = width + 3, .rotary_width = width, .rotary_offset = 1};
  spec.base = base;
  spec.scaling = YarnScaling{.factor = 4, .original_length = 1000};
  return spec;
}

/// Slots in no order, some skipped.
std::vector<std::int64_t> tangled_slots() {
  std::vector<std::int64_t> slots;
  for (std::int64_t i = 0; i < 38; ++i) slots.push_back(i % 6 == 4 ? -1 - i : (i * 7 + 3) % (blocks * page_size));
  return slots;
}
std::vector<std::int64_t> rising_slots() {
  std::vector<std::int64_t> slots(20);
  std::iota(slots.begin(), slots.end(), 11);
  slots[7] = -5;
  return slots;
}

template <class T>
void check_paged(const Extents& strides, const std::vector<std::int64_t>& slots, const RotatedAt& from, const RotatedAt& to) {
  const Extents shape = {blocks, page_size, heads, width + 3};
  const std::int64_t tokens = static_cast<std::int64_t>(slots.size());
  Tensor<T> cache(shape, strides, 1);
  cache.with_numbers(1, width);
  Tensor<T> wanted = cache;
  Tensor<T> gathered({1, tokens, heads, width + 3}, 2);
  gathered.with_numbers(1, width);
  const auto each = [&](auto body) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        if (slots[static_cast<std::size_t>(t)] >= 0)
          body(t, slots[static_cast<std::size_t>(t)] / page_size, slots[static_cast<std::size_t>(t)] % page_size, h);
      }
    }
  };
  each([&](std::int64_t t, std::int64_t b, std::int64_t p, std::int64_t h) { gathered.set_head(0, t, h, cache.head(b, p, h)); });
  ASSERT_TRUE(rerotate(gathered.view(), from, to).ok());
  each([&](std::int64_t t, std::int64_t b, std::int64_t p, std::int64_t h) { wanted.set_head(b, p, h, gathered.head(0, t, h)); });
  const Status status = rerotate(cache.view(), slots, from, to);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(same_bits(cache.memory, wanted.memory));
}

TEST_F(PagedRerotate, is_bitwise_the_contiguous_one_of_the_keys_gathered) {
  const Extents plain = contiguous_strides({blocks, page_size, heads, width + 3});
  const Extents heads_first = {heads * page_size * (width + 3), width + 3, page_size * (width + 3), 1};
  const Extents keys_and_values = {2 * page_size * heads * (width + 3), heads * (width + 3), width + 3, 1};
  on_every_target([&] {
    for_each_dtype([&](auto tag) {
      using T = typename decltype(tag)::type;
      for (const Extents& strides : {plain, heads_first, keys_and_values}) {
        for (const std::vector<std::int64_t>& slots : {tangled_slots(), rising_slots()}) {
          std::vector<double> fractions(slots.size());
          for (std::size_t i = 0; i < fractions.size(); ++i) fractions[i] = 0.25 * static_cast<double>(i * i);
          const RotatedAt from = {make_rotary(spec_of(10000)), positions_from(1000)};
          check_paged<T>(strides, slots, from, {make_rotary(spec_of(10000)), positions_from(7)});
          check_paged<T>(strides, slots, from, {make_rotary(spec_of(500)), positions_from(1000)});
          check_paged<T>(strides, slots, from,
                         {make_rotary(spec_of(500)), positions(fractions.data(), static_cast<std::int64_t>(slots.size()))});
        }
      }
    });
  });
}

TEST_F(PagedRerotate, many_tokens_in_many_tasks_are_each_moved_once) {
  constexpr std::int64_t many = 3000;
  RotarySpec spec{.head_dim = 64};
  std::vector<std::int64_t> slots(many);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int64_t>((i * 1009) % many);
  Tensor<BFloat16> cache({many / 20, 20, 2, 64}, 1);
  cache.with_numbers(0, 64);
  Tensor<BFloat16> wanted = cache;
  const std::vector<std::int64_t> delta(many, 41);
  ASSERT_TRUE(rerotate(cache.view(), slots, {make_rotary(spec), positions_from(0)}, {make_rotary(spec), positions_from(41)}).ok());
  const TensorView flat = {wanted.view().data, DType::bf16, {1, many, 2, 64}, {0, 128, 64, 1}};
  ASSERT_TRUE(make_rotary(spec).apply(flat, positions(delta.data(), many)).ok());
  EXPECT_TRUE(same_bits(cache.memory, wanted.memory));
}

TEST_F(PagedRerotate, no_slots_or_only_skipped_ones_move_nothing) {
  const RotatedAt at = {make_rotary(spec_of(10000)), positions_from(0)};
  const RotatedAt to = {make_rotary(spec_of(10000)), positions_from(5)};
  Tensor<float> cache({blocks, page_size, heads, width + 3}, 1);
  const Tensor<float> before = cache;
  const std::vector<std::int64_t> skipped = {-1, -2, INT64_MIN};
  EXPECT_TRUE(rerotate(cache.view(), std::span<const std::int64_t>(), at, to).ok());
  EXPECT_TRUE(rerotate(cache.view(), skipped, at, to).ok());
  EXPECT_TRUE(same_bits(cache.memory, before.memory));
  const TensorView none = {nullptr, DType::f32, {0, page_size, heads, width + 3}, {}};
  EXPECT_TRUE(rerotate(none, skipped, at, to).ok());
}

}  // namespace
}  // namespace phasor::test
