// SPDX-License-Identifier: Apache-2.0
// A backward on Hopper in parts: together they are the call, and none takes more memory than it may.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "cuda/attention/hopper/backward/parts.hpp"
#include "cuda/attention/hopper/backward/work.hpp"

namespace phasor::test {
namespace {

using namespace cuda::hopper;

/// Tensors at made-up addresses, which are those of their first number: nobody reads them.
constexpr std::int64_t kPlace = std::int64_t{1} << 40;
template <class To = void>
To* place(std::int64_t n) {
  return reinterpret_cast<To*>(n * kPlace);  // NOLINT(performance-no-int-to-ptr)
}
TensorView tensor(std::int64_t at, const Extents& shape) {
  return {place(at), DType::bf16, shape, contiguous_strides(shape), {DeviceKind::cuda, 0}};
}

struct Shape {
  std::int64_t batch, tokens, heads, key_heads, table_heads;
  std::int64_t clip;
};
/// A table of queries, and one of keys that heads share; what is added to queries where they meet keys, of each head, and where they meet
/// rows, of all.
Backward call(const Shape& s) {
  Backward b;
  const Extents of_q = {s.batch, s.tokens, s.heads, 128}, of_k = {s.batch, s.tokens, s.key_heads, 128};
  b.forward.q = tensor(1, of_q), b.forward.k = tensor(2, of_k), b.forward.v = tensor(3, of_k);
  b.out = tensor(4, of_q), b.out_gradient = tensor(5, of_q);
  b.q = tensor(6, of_q), b.k = tensor(7, of_k), b.v = tensor(8, of_k);
  b.lse = place<const float>(9), b.lse_gradient = place<const float>(10);
  b.lse_strides = {s.heads * s.tokens, 1, s.tokens}, b.lse_gradient_strides = {s.heads * s.tokens, s.heads, 1};
  b.forward.scale = 0.1;
  for (int side = 0; side < 2; ++side) {
    const Extents shape = {1, 2 * s.clip + 1, side == 0 ? s.table_heads : 1, 128};
    b.tables[side] = {tensor(11 + side, shape), {.left = s.clip, .right = s.clip}, 0.1, s.clip, s.clip, place<float>(13 + side)};
  }
  b.shifts[kOfContent] = {tensor(15, {1, 1, s.heads, 128}), place<float>(17)};
  b.shifts[kOfRows] = {tensor(16, {1, 1, 1, 128}), place<float>(18)};
  return b;
}
std::int64_t address(const void* of) { return reinterpret_cast<std::int64_t>(of); }
template <class View>
std::int64_t number_at(const View& v, std::int64_t batch, std::int64_t head) {
  return address(v.data) + 2 * (batch * v.strides[0] + head * v.strides[2]);
}

void parts_are_the_call(const Shape& s) {
  const Backward b = call(s);
  ASSERT_TRUE(takes(b, 9));
  const Parts parts = parts_for(b);
  const std::int64_t bytes = workspace_bytes(b), group = s.heads / s.key_heads;
  std::vector<int> seen(static_cast<std::size_t>(s.batch * s.heads), 0);
  std::map<const float*, int> written;  // heads of gradients of tables and shifts
  for (std::int64_t n = 0; n < parts.count(b); ++n) {
    const Backward part = part_of(b, parts, n);
    const KeyTiles t = key_tiles_of(part);
    ASSERT_LE(4 * strip_numbers(t, clips_of(part, t)), std::int64_t{2} << 30);
    ASSERT_LT(layout_of(part, t, windows_of(part, t)).bytes, bytes);
    const std::int64_t token = s.heads * 128 * 2, at = (address(part.forward.q.data) - kPlace) / 256;
    const std::int64_t first = at / (s.tokens * s.heads), first_head = at % s.heads;
    ASSERT_EQ(part.forward.q.strides[1] * 2, token);
    ASSERT_EQ(part.forward.q.shape[2], part.forward.k.shape[2] * group);
    for (std::int64_t x = 0; x < t.batch * t.heads; ++x) {
      const std::int64_t batch = x / t.heads, head = x % t.heads;
      const auto same = [&](const auto& of_part, const auto& of_call, std::int64_t heads_of) {
        return number_at(of_part, batch, head / heads_of) == number_at(of_call, first + batch, (first_head + head) / heads_of);
      };
      ASSERT_TRUE(same(part.forward.q, b.forward.q, 1) && same(part.out, b.out, 1) && same(part.out_gradient, b.out_gradient, 1));
      ASSERT_TRUE(same(part.forward.k, b.forward.k, group) && same(part.forward.v, b.forward.v, group));
      ASSERT_TRUE(same(part.q, b.q, 1) && same(part.k, b.k, group) && same(part.v, b.v, group));
      ASSERT_EQ(address(part.lse + batch * b.lse_strides[0] + head * b.lse_strides[2]),
                address(b.lse + (first + batch) * b.lse_strides[0] + (first_head + head) * b.lse_strides[2]));
      ASSERT_EQ(address(part.lse_gradient + batch * b.lse_gradient_strides[0] + head),
                address(b.lse_gradient + (first + batch) * b.lse_gradient_strides[0] + first_head + head));
      ++seen[static_cast<std::size_t>((first + batch) * s.heads + first_head + head)];
    }
    for (int side = 0; side < 2; ++side) {
      const DistanceTable& table = part.tables[side];
      const std::int64_t heads = b.tables[side].rows.shape[2], from = heads == 1 ? 0 : first_head;
      ASSERT_EQ(table.rows.shape[2], heads == 1 ? 1 : t.heads);
      ASSERT_EQ(number_at(table.rows, 0, 0), number_at(b.tables[side].rows, 0, from));
      ASSERT_EQ(table.gradient, b.tables[side].gradient + from * 128);
      ASSERT_EQ(table.gradient_pitch, heads * 128);
      const DistanceTable again = part_of(part, parts_for(part), 0).tables[side];  // as it is run
      ASSERT_TRUE(again.gradient_pitch == table.gradient_pitch && again.adds == table.adds && again.gradient == table.gradient);
      for (std::int64_t head = 0; head < table.rows.shape[2]; ++head) {
        ASSERT_EQ(table.adds, written[table.gradient + head * 128]++ > 0);  // the first one writes
      }
    }
    for (int x = 0; x < 2; ++x) {
      const QueryShift &shift = part.shifts[x], &of_call = b.shifts[x];
      const std::int64_t from = x == kOfRows ? 0 : first_head;
      ASSERT_EQ(shift.vector.shape[2], x == kOfRows ? 1 : t.heads);
      ASSERT_EQ(number_at(shift.vector, 0, 0), number_at(of_call.vector, 0, from));
      ASSERT_EQ(shift.gradient, of_call.gradient + from * 128);
      for (std::int64_t head = 0; head < shift.vector.shape[2]; ++head) {
        ASSERT_EQ(shift.adds, written[shift.gradient + head * 128]++ > 0);
      }
    }
  }
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST(HopperParts, are_the_call) {
  for (const Shape& s : {Shape{2, 300, 6, 3, 6, 40},
                         {16, 4096, 6, 3, 6, 256},
                         {512, 4096, 6, 3, 6, 256},
                         {512, 4096, 6, 3, 1, 256},
                         {4, 4096, 32, 32, 32, 4095},
                         {7, 4096, 32, 8, 32, 4095},
                         {1, 16384, 10, 5, 10, 16383},
                         {3, 16384, 10, 5, 10, 16383},
                         {2, 32768, 4, 4, 4, 32000},
                         {2, 30000, 1, 1, 1, 30000}}) {
    SCOPED_TRACE(std::to_string(s.batch) + " " + std::to_string(s.tokens));
    parts_are_the_call(s);
  }
}

TEST(HopperParts, are_as_few_as_there_is_room_for) {
  const auto parts = [](const Shape& s) {
    const Backward b = call(s);
    return parts_for(b).count(b);
  };
  EXPECT_EQ(parts({2, 300, 6, 3, 6, 40}), 1);
  EXPECT_EQ(parts({4, 4096, 32, 32, 32, 4095}), 2);          // 1 GiB for each batch row
  EXPECT_EQ(parts({3, 16384, 10, 5, 10, 16383}), 9);         // 512 MiB for each head: two key heads at a time
  EXPECT_EQ(parts({2, 32768, 4, 4, 4, 32000}), 8);           // 2 GiB
  EXPECT_FALSE(takes(call({2, 32768, 4, 2, 4, 32000}), 9));  // 4 GiB for the heads of a key head
  Backward plain = call({512, 4096, 6, 3, 6, 256});
  plain.tables[0] = plain.tables[1] = {};
  plain.shifts[0] = plain.shifts[1] = {};
  EXPECT_EQ(parts_for(plain).count(plain), 1);
}

/// Sums of a table's gradient are bounded, too: by batch rows and heads of few tokens.
TEST(HopperParts, bound_sums_of_gradients) {
  Backward b = call({4096, 128, 16, 16, 1, 64});
  for (const bool wanted : {true, false}) {
    for (DistanceTable& table : b.tables) table.gradient = wanted ? place<float>(13) : nullptr;
    const Parts parts = parts_for(b);
    EXPECT_EQ(parts.count(b) > 1, wanted);
    const Backward part = part_of(b, parts, 0);
    if (wanted) {
      EXPECT_LE(4 * band_part_numbers(part, key_tiles_of(part), 0), std::int64_t{512} << 20);
    }
  }
}

}  // namespace
}  // namespace phasor::test
