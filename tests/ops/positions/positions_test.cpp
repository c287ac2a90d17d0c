// SPDX-License-Identifier: Apache-2.0
// Builders of positions against naive lists: offsets, ragged batches, masks, pages, slots, trees, grids, shards, random draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "phasor/position_builders.hpp"

namespace phasor::test {
namespace {

using Ids = std::vector<std::int64_t>;

/// Runs a builder into int64, int32 and float64 with strides that leave gaps, which must stay; returns the values as (axes, B, T).
template <class Fill>
Ids filled(std::int64_t axes, std::int64_t batch, std::int64_t tokens, const Fill& fill) {
  Ids first;
  const auto with = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> memory(static_cast<std::size_t>(axes * batch * tokens * 2 + 5), static_cast<T>(-77));
    PositionsView out = positions(memory.data() + 3, axes, batch, tokens);
    for (std::int64_t& stride : out.strides) stride *= 2;
    const Status status = fill(out);
    EXPECT_TRUE(status.ok()) << status.message();
    Ids values;
    for (std::int64_t i = 0; i < axes * batch * tokens; ++i) {
      T& x = memory[static_cast<std::size_t>(3 + 2 * i)];
      values.push_back(static_cast<std::int64_t>(x));
      x = static_cast<T>(-77);
    }
    for (const T x : memory) EXPECT_EQ(x, static_cast<T>(-77)) << "between the elements";
    if (first.empty()) first = values;
    EXPECT_EQ(values, first);
  };
  with(std::int64_t{});
  with(std::int32_t{});
  with(double{});
  return first;
}

TEST(Positions, a_view_of_memory_that_may_be_written_is_positions_too) {
  std::vector<std::int32_t> memory(24);
  const PositionsView out = positions(memory.data(), 2, 3, 4);
  const Positions in = out;
  EXPECT_EQ(in.data, memory.data());
  EXPECT_EQ(in.type, PositionType::i32);
  EXPECT_EQ(in.shape, (std::array<std::int64_t, 3>{2, 3, 4}));
  EXPECT_EQ(in.strides, (std::array<std::int64_t, 3>{12, 4, 1}));
  const std::vector<double> fixed(6);
  const Positions of_constant = positions(fixed.data(), 3, 2);
  EXPECT_EQ(of_constant.strides[1], 2);
}

TEST(Positions, from_an_offset_count_up_in_every_row_and_axis) {
  const Ids got = filled(2, 3, 5, [](const PositionsView& out) { return fill_from_offset(out, -2); });
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<std::int64_t>(i % 5) - 2);
}

TEST(Positions, from_offsets_begin_at_each_rows_own) {
  const std::vector<std::int32_t> offsets = {7, 0, 100};
  const Ids got = filled(1, 3, 3, [&](const PositionsView& out) { return fill_from_offsets(out, offsets); });
  EXPECT_EQ(got, (Ids{7, 8, 9, 0, 1, 2, 100, 101, 102}));
}

TEST(Positions, from_cu_seqlens_begin_anew_at_every_sequence_or_at_its_offset) {
  const std::vector<std::int32_t> cu = {0, 3, 3, 4, 9};  // one sequence is empty
  const Ids got = filled(1, 1, 9, [&](const PositionsView& out) { return fill_from_cu_seqlens(out, {.cu_seqlens = cu}); });
  EXPECT_EQ(got, (Ids{0, 1, 2, 0, 0, 1, 2, 3, 4}));
  const Ids cu64(cu.begin(), cu.end());
  const Ids offsets = {10, 5, 0, 1000};
  const Ids chunked =
      filled(1, 1, 9, [&](const PositionsView& out) { return fill_from_cu_seqlens(out, {.cu_seqlens = cu64, .offsets = offsets}); });
  EXPECT_EQ(chunked, (Ids{10, 11, 12, 0, 1000, 1001, 1002, 1003, 1004}));
}

TEST(Positions, from_a_mask_of_bytes_are_those_of_a_mask_of_words) {
  const std::vector<std::uint8_t> bytes = {0, 1, 1, 1, 0, 1};
  const Ids got =
      filled(1, 2, 3, [&](const PositionsView& out) { return fill_from_mask(out, {.values = bytes}, {.first = 0, .masked = 1}); });
  EXPECT_EQ(got, (Ids{1, 0, 1, 0, 1, 1}));
}

TEST(Pages, tell_the_position_of_every_place_and_may_be_shared_as_the_same_page) {
  const Ids blocks = {4, 1, -1, 4, 0, 2};  // two sequences of up to 3 pages; both begin with block 4
  const Ids lengths = {7, 9};
  const PageTable table = {.blocks = blocks, .lengths = lengths, .page_size = 4};
  const Ids got = filled(1, 6, 4, [&](const PositionsView& out) { return fill_from_pages(out, table); });
  const Ids wanted = {4, 5, 6, 7, 4, 5, 6, -1, 8, -1, -1, -1, -1, -1, -1, -1, 0, 1, 2, 3, -1, -1, -1, -1};
  EXPECT_EQ(got, wanted);
}

TEST(Pages, slots_and_positions_of_places_undo_each_other) {
  const std::vector<std::int32_t> blocks = {4, 1, 3, 5, 0, 2};
  const std::vector<std::int32_t> lengths = {11, 9};
  const PageTable table = {.blocks = blocks, .lengths = lengths, .page_size = 4};
  Ids places(24);
  ASSERT_TRUE(fill_from_pages(positions(places.data(), 6, 4), table).ok());
  Ids at(22);
  ASSERT_TRUE(fill_from_offset(positions(at.data(), 2, 11), 0).ok());
  for (std::size_t t = 9; t < 11; ++t) at[11 + t] = -1;  // padding
  const Ids slots = filled(1, 2, 11, [&](const PositionsView& out) { return fill_slots(out, table, positions(at.data(), 2, 11)); });
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; i < 22; ++i) {
    if (at[i] < 0) {
      EXPECT_EQ(slots[i], -1);
    } else {
      EXPECT_EQ(places[static_cast<std::size_t>(slots[i])], at[i]);
      EXPECT_TRUE(seen.insert(slots[i]).second);
    }
  }
  const Ids cu = {0, 2, 3};  // decoding: the last two tokens of the first sequence, the last of the second
  const Ids ragged_at = {9, 10, 8};
  const Ids ragged = filled(1, 1, 3, [&](const PositionsView& out) { return fill_slots(out, table, positions(ragged_at.data(), 3), cu); });
  EXPECT_EQ(ragged, (Ids{slots[9], slots[10], slots[11 + 8]}));
}

TEST(Pages, an_offset_stands_for_consecutive_positions) {
  const std::vector<std::int32_t> blocks = {4, 1, 3, 5};
  const PageTable table = {.blocks = blocks, .page_size = 4};
  const auto slots = [&](std::int64_t offset) {
    return filled(1, 2, 3, [&](const PositionsView& out) { return fill_slots(out, table, positions_from(offset)); });
  };
  EXPECT_EQ(slots(2), (Ids{4 * 4 + 2, 4 * 4 + 3, 1 * 4 + 0, 3 * 4 + 2, 3 * 4 + 3, 5 * 4 + 0}));
  EXPECT_EQ(slots(-1), (Ids{-1, 4 * 4, 4 * 4 + 1, -1, 3 * 4, 3 * 4 + 1}));
  Ids untouched(6, 77);
  EXPECT_EQ(fill_slots(positions(untouched.data(), 2, 3), table, positions_from(6)).message(),
            "fill_slots: token 2 is at 8, sequence 0 has 2 pages of 4 slots");
  EXPECT_EQ(untouched, Ids(6, 77));
}

TEST(DraftTrees, give_every_token_its_depth_below_the_offset) {
  const Ids parents = {-1, 0, 0, 1, 3, -1, 5};
  const Ids offsets = {100, 7};
  const Ids got = filled(1, 2, 7, [&](const PositionsView& out) { return fill_from_tree(out, {.parents = parents, .offsets = offsets}); });
  EXPECT_EQ(got, (Ids{100, 101, 101, 102, 103, 100, 101, 7, 8, 8, 9, 10, 7, 8}));
  const std::vector<std::int32_t> each = {-1, 0, 1, -1, -1, 1};
  EXPECT_EQ(filled(1, 2, 3, [&](const PositionsView& out) { return fill_from_tree(out, {.parents = each}); }), (Ids{0, 1, 2, 0, 0, 1}));
}

TEST(Grids, go_by_squares_and_pad_as_gemma_4_does) {
  const GridAxis column_row[] = {GridAxis::column, GridAxis::row};
  const ImageGrid grid[] = {{1, 2, 3}};
  const Ids got = filled(
      2, 1, 8, [&](const PositionsView& out) { return fill_from_grids(out, grid, {.axes = column_row, .suffix = 2, .outside = -1}); });
  EXPECT_EQ(got, (Ids{0, 1, 2, 0, 1, 2, -1, -1, 0, 0, 0, 1, 1, 1, -1, -1}));
  const ImageGrid square[] = {{1, 4, 4}};
  Ids rows(32);
  ASSERT_TRUE(fill_from_grids(positions(rows.data(), 2, 1, 16), square, {.merge = 4}).ok());
  for (std::size_t t = 0; t < 16; ++t) EXPECT_EQ(rows[t] * 4 + rows[16 + t], static_cast<std::int64_t>(t)) << "one square is row by row";
}

struct Dealt {
  ShardOrder order;
  std::int64_t ranks;
};

TEST(Shards, of_all_ranks_are_the_whole_and_each_is_what_its_order_says) {
  const Ids permutation = {5, 0, 7, 2, 11, 4, 1, 6, 3, 8, 10, 9};
  for (const auto& [order, ranks] :
       {Dealt{ShardOrder::contiguous, 3}, Dealt{ShardOrder::zigzag, 3}, Dealt{ShardOrder::striped, 4}, Dealt{ShardOrder::permuted, 2}}) {
    Ids all;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Shard shard = {.rank = rank, .ranks = ranks, .order = order, .tokens = 12};
      if (order == ShardOrder::permuted) shard.permutation = permutation;
      const Ids part = filled(1, 1, 12 / ranks, [&](const PositionsView& out) { return fill_shard(out, shard); });
      EXPECT_EQ(part, filled(1, 1, 12 / ranks, [&](const PositionsView& out) { return fill_shard_tokens(out, shard); }));
      if (order == ShardOrder::zigzag && rank == 1) {
        EXPECT_EQ(part, (Ids{2, 3, 8, 9}));
      }
      if (order == ShardOrder::striped && rank == 1) {
        EXPECT_EQ(part, (Ids{1, 5, 9}));
      }
      if (order == ShardOrder::contiguous && rank == 1) {
        EXPECT_EQ(part, (Ids{4, 5, 6, 7}));
      }
      all.insert(all.end(), part.begin(), part.end());
    }
    if (order == ShardOrder::permuted) {
      EXPECT_EQ(all, permutation);
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i));
  }
}

TEST(Shards, of_packed_sequences_deal_out_each_by_itself) {
  const Ids cu = {0, 4, 12, 12};
  const Ids offsets = {0, 100, 0};
  const Shard shard = {.rank = 0, .ranks = 2, .order = ShardOrder::zigzag, .whole = {.cu_seqlens = cu, .offsets = offsets}};
  EXPECT_EQ(filled(1, 1, 6, [&](const PositionsView& out) { return fill_shard(out, shard); }), (Ids{0, 3, 100, 101, 106, 107}));
  EXPECT_EQ(filled(1, 1, 6, [&](const PositionsView& out) { return fill_shard_tokens(out, shard); }), (Ids{0, 3, 4, 5, 10, 11}));
}

TEST(RandomDraws, are_sorted_different_and_the_same_on_every_machine) {
  // The first numbers of splitmix64 from 1234567 are published with it; their high bits choose here.
  const Ids two = filled(1, 1, 2, [](const PositionsView& out) { return fill_random(out, {.length = 1000000, .seed = 1234567}); });
  const std::uint64_t published[] = {6457827717110365317U, 3203168211198807973U};
  Ids wanted;
  for (const std::uint64_t x : published) wanted.push_back(static_cast<std::int64_t>((x >> 32) * 1000000 >> 32));
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(two, wanted);
  for (const std::int64_t length : {40, 41, 60, 100, 1000000007}) {
    const Ids got = filled(1, 3, 40, [&](const PositionsView& out) { return fill_random(out, {.length = length, .seed = 5}); });
    for (std::size_t i = 0; i < 120; ++i) {
      EXPECT_TRUE(got[i] >= 0 && got[i] < length);
      if (i % 40 != 0) {
        EXPECT_LT(got[i - 1], got[i]);
      }
    }
    if (length > 50) {
      EXPECT_FALSE(std::equal(got.begin(), got.begin() + 40, got.begin() + 40)) << "rows are drawn anew";
    }
    if (length == 40) {
      EXPECT_EQ(got[7], 7);
    }
  }
}

TEST(RandomDraws, choose_every_set_alike) {
  // 2 of 5 and 3 of 5 (drawn as the 2 left out): 10 sets each. 20000 draws, 2000 wanted of each, standard deviation 42.
  for (const std::int64_t n : {2, 3}) {
    Ids out(static_cast<std::size_t>(20000 * n));
    ASSERT_TRUE(fill_random(positions(out.data(), 20000, n), {.length = 5, .seed = 99}).ok());
    std::map<Ids, int> counts;
    for (std::size_t i = 0; i < out.size(); i += static_cast<std::size_t>(n)) {
      ++counts[Ids(out.data() + i, out.data() + i + static_cast<std::size_t>(n))];
    }
    EXPECT_EQ(counts.size(), 10U);
    for (const auto& [set, count] : counts) EXPECT_NEAR(count, 2000, 6 * 42);
  }
}

TEST(Positions, of_no_tokens_are_no_error) {
  const Ids zero = {0};
  EXPECT_TRUE(fill_from_offset({}, 5).ok());
  EXPECT_TRUE(fill_from_cu_seqlens({}, {.cu_seqlens = zero}).ok());
  EXPECT_TRUE(fill_from_mask({}, {}).ok());
  EXPECT_TRUE(fill_from_offset({.shape = {1, std::int64_t{1} << 50, 0}, .strides = {0, 0, 1}}, 5).ok()) << "however many rows of none";
  EXPECT_TRUE(fill_from_tree({}, {}).ok());
  EXPECT_TRUE(fill_random({}, {}).ok());
  EXPECT_TRUE(fill_shard({}, {}).ok());
}

}  // namespace
}  // namespace phasor::test
