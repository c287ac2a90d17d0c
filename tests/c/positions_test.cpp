// SPDX-License-Identifier: Apache-2.0
// Positions in C: every builder, map and temperature gives what the C++ function gives.
#include <cmath>
#include <cstring>

#include "c/support.hpp"
#include "phasor/phasor.h"
#include "phasor/phasor.hpp"
#include "phasor/position_maps.hpp"
#include "specs/position_map.hpp"

namespace phasor::test {
namespace {

using Ids = std::vector<std::int64_t>;

/// EXPECTs that fill_c(tensor, error) writes what fill(view) writes, in every type that both may have.
template <class T, class FillC, class Fill>
void expect_same(const Ids& shape, const FillC& fill_c, const Fill& fill) {
  const std::vector<T> untouched(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]), -77);
  const CTensor<T> out(shape, untouched);
  std::vector<T> want = untouched;
  const Status status = fill(positions(want.data(), shape[0], shape[1], shape[2]));
  ASSERT_TRUE(status.ok()) << status.message();
  succeeds([&](phasor_error* error) { return fill_c(out.get(), error); });
  EXPECT_EQ(out.values, want);
  EXPECT_NE(want, untouched);
}
template <class FillC, class Fill>
void expect_same_everywhere(const Ids& shape, const FillC& fill_c, const Fill& fill) {
  expect_same<std::int64_t>(shape, fill_c, fill);
  expect_same<std::int32_t>(shape, fill_c, fill);
  expect_same<double>(shape, fill_c, fill);
}

/// The message of a builder that fails; nothing may be written.
template <class FillC>
std::string refused(const Ids& shape, const FillC& fill_c, phasor_status status = PHASOR_INVALID) {
  const CTensor<std::int64_t> out(shape);
  const std::string message = failure(status, [&](phasor_error* error) { return fill_c(out.get(), error); });
  EXPECT_EQ(out.values, Ids(out.values.size()));
  return message;
}

TEST(CPositions, from_offsets_and_sequences_are_those_of_cpp) {
  expect_same_everywhere(
      {2, 3, 5}, [](auto* out, auto* error) { return phasor_fill_from_offset(out, -2, nullptr, error); },
      [](const PositionsView& out) { return fill_from_offset(out, -2); });
  const CTensor<std::int32_t> offsets({3}, {7, 0, 100});
  const phasor_execution execution = {};
  expect_same_everywhere(
      {1, 3, 4}, [&](auto* out, auto* error) { return phasor_fill_from_offsets(out, offsets.get(), &execution, error); },
      [&](const PositionsView& out) { return fill_from_offsets(out, offsets.values); });
  const CTensor<std::int64_t> cu({5}, {0, 3, 3, 4, 9});
  const CTensor<std::int32_t> begins({4}, {10, 5, 0, 1000});
  for (const bool chunked : {false, true}) {
    const phasor_ragged ragged = {cu.get(), chunked ? begins.get() : nullptr};
    const Ragged same = {.cu_seqlens = cu.values, .offsets = chunked ? Integers(begins.values) : Integers()};
    expect_same_everywhere(
        {1, 1, 9}, [&](auto* out, auto* error) { return phasor_fill_from_cu_seqlens(out, &ragged, nullptr, error); },
        [&](const PositionsView& out) { return fill_from_cu_seqlens(out, same); });
  }
  EXPECT_EQ(refused({1, 3, 4}, [&](auto* out, auto* error) { return phasor_fill_from_offsets(out, begins.get(), nullptr, error); }),
            "fill_from_offsets: offsets has 4 elements, wanted 3");
  const CTensor<float> fractions({3});
  EXPECT_EQ(refused({1, 3, 4}, [&](auto* out, auto* error) { return phasor_fill_from_offsets(out, fractions.get(), nullptr, error); }),
            "fill_from_offsets: offsets has a dtype of code 2, 32 bits, 1 lanes, wanted int32, int64, uint8 or bool");
  EXPECT_EQ(refused({1, 1, 9}, [](auto* out, auto* error) { return phasor_fill_from_cu_seqlens(out, nullptr, nullptr, error); }),
            "fill_from_cu_seqlens: ragged is null, wanted one");
  EXPECT_EQ(failure(PHASOR_INVALID, [](phasor_error* error) { return phasor_fill_from_offset(nullptr, 0, nullptr, error); }),
            "fill_from_offset: out is null, wanted one");
}

TEST(CPositions, from_masks_are_those_of_cpp) {
  const CTensor<std::uint8_t> bytes({2, 4}, {0, 1, 1, 1, 1, 0, 1, 1});
  phasor_attention_mask mask = {};
  mask.size = sizeof mask;
  mask.values = bytes.get();
  mask.past = 1;
  const phasor_mask_rule rule = {0, -1};
  expect_same_everywhere(
      {1, 2, 3}, [&](auto* out, auto* error) { return phasor_fill_from_mask(out, &mask, &rule, error); },
      [&](const PositionsView& out) { return fill_from_mask(out, {.values = bytes.values, .past = 1}, {.first = 0, .masked = -1}); });
  expect_same_everywhere(
      {1, 2, 3}, [&](auto* out, auto* error) { return phasor_fill_from_mask(out, &mask, nullptr, error); },
      [&](const PositionsView& out) { return fill_from_mask(out, {.values = bytes.values, .past = 1}); });
  const CTensor<std::int32_t> ids({2, 3}, {0, 5, 7, 5, 0, 0});
  const phasor_mask_rule roberta = phasor_roberta_rule(1);
  EXPECT_EQ(roberta.first, 2);
  EXPECT_EQ(roberta.masked, 1);
  EXPECT_EQ(phasor_roberta_rule(INT64_MAX).first, INT64_MAX);  // nothing is behind it
  EXPECT_EQ(phasor_roberta_rule(INT64_MAX).masked, INT64_MAX);
  phasor_attention_mask padded = {};
  padded.size = sizeof padded;
  padded.values = ids.get();
  padded.has_pad = 1;
  expect_same_everywhere(
      {1, 2, 3}, [&](auto* out, auto* error) { return phasor_fill_from_mask(out, &padded, &roberta, error); },
      [&](const PositionsView& out) { return fill_from_mask(out, {.values = ids.values, .pad = 0}, roberta_rule(1)); });
  padded.has_pad = 0;
  padded.pad = 5;
  EXPECT_EQ(refused({1, 2, 3}, [&](auto* out, auto* error) { return phasor_fill_from_mask(out, &padded, nullptr, error); }),
            "fill_from_mask: pad is given and has_pad is 0, wanted 1");
  padded.size = 3;
  EXPECT_EQ(refused({1, 2, 3}, [&](auto* out, auto* error) { return phasor_fill_from_mask(out, &padded, nullptr, error); }),
            "fill_from_mask: the size of the mask is 3, wanted its sizeof, " + std::to_string(sizeof padded) + " in this version");
  EXPECT_EQ(refused({1, 2, 3}, [](auto* out, auto* error) { return phasor_fill_from_mask(out, nullptr, nullptr, error); }),
            "fill_from_mask: the mask is null, wanted one");
}

TEST(CPositions, pages_and_slots_are_those_of_cpp) {
  const CTensor<std::int32_t> blocks({2, 3}, {4, 1, 3, 5, 0, 2});
  const CTensor<std::int64_t> lengths({2}, {11, 9});
  const phasor_page_table table = {blocks.get(), lengths.get(), 4};
  const PageTable same = {.blocks = blocks.values, .lengths = lengths.values, .page_size = 4};
  expect_same_everywhere(
      {1, 6, 4}, [&](auto* out, auto* error) { return phasor_fill_from_pages(out, &table, -7, error); },
      [&](const PositionsView& out) { return fill_from_pages(out, same, -7); });
  const CTensor<std::int32_t> at({2, 2}, {9, 10, 8, -1});
  phasor_slots_call slots = {};
  slots.size = sizeof slots;
  slots.table = table;
  slots.at.tensor = at.get();
  expect_same_everywhere(
      {1, 2, 2},
      [&](auto* out, auto* error) {
        slots.out = out;
        return phasor_fill_slots(&slots, error);
      },
      [&](const PositionsView& out) { return fill_slots(out, same, positions(at.values.data(), 2, 2)); });
  const CTensor<std::int64_t> cu({3}, {0, 2, 3});
  const CTensor<std::int64_t> ragged_at({3}, {9, 10, 8});
  slots.cu_seqlens = cu.get();
  slots.at.tensor = ragged_at.get();
  slots.table.lengths = nullptr;
  PageTable without = same;
  without.lengths = {};
  expect_same_everywhere(
      {1, 1, 3},
      [&](auto* out, auto* error) {
        slots.out = out;
        return phasor_fill_slots(&slots, error);
      },
      [&](const PositionsView& out) { return fill_slots(out, without, positions(ragged_at.values.data(), 3), cu.values); });
  slots.at.offset = 1;
  EXPECT_EQ(refused({1, 1, 3},
                    [&](auto* out, auto* error) {
                      slots.out = out;
                      return phasor_fill_slots(&slots, error);
                    }),
            "fill_slots: at are a tensor and an offset of 1, wanted one of them");
  EXPECT_EQ(refused({1, 6, 4}, [](auto* out, auto* error) { return phasor_fill_from_pages(out, nullptr, -1, error); }),
            "fill_from_pages: table is null, wanted one");
  EXPECT_EQ(failure(PHASOR_INVALID, [](phasor_error* error) { return phasor_fill_slots(nullptr, error); }),
            "fill_slots: the call is null, wanted one");
}

TEST(CPositions, trees_are_those_of_cpp) {
  const CTensor<std::int32_t> parents({7}, {-1, 0, 0, 1, 3, -1, 5});
  const CTensor<std::int64_t> offsets({2}, {100, 7});
  phasor_draft_tree tree = {parents.get(), offsets.get()};
  const auto fill = [&](auto* out, auto* error) { return phasor_fill_from_tree(out, &tree, error); };
  expect_same_everywhere({1, 2, 7}, fill, [&](const PositionsView& out) {
    return fill_from_tree(out, {.parents = parents.values, .offsets = offsets.values});
  });
  tree.offsets = nullptr;
  expect_same_everywhere({1, 2, 7}, fill, [&](const PositionsView& out) { return fill_from_tree(out, {.parents = parents.values}); });
  const CTensor<std::int32_t> late({3}, {-1, 2, 0});
  tree.parents = late.get();
  EXPECT_NE(refused({1, 1, 3}, fill), "");
  EXPECT_EQ(refused({1, 1, 3}, [](auto* out, auto* error) { return phasor_fill_from_tree(out, nullptr, error); }),
            "fill_from_tree: tree is null, wanted one");
}

TEST(CPositions, shards_are_those_of_cpp_in_an_order_that_begins_with_the_default) {
  const CTensor<std::int64_t> permutation({12}, {5, 0, 7, 2, 11, 4, 1, 6, 3, 8, 10, 9});
  const ShardOrder orders[] = {ShardOrder::zigzag, ShardOrder::contiguous, ShardOrder::striped, ShardOrder::permuted};
  phasor_shard shard = {};
  const auto fill = [&](auto* out, auto* error) { return phasor_fill_shard(out, &shard, error); };
  const auto fill_tokens = [&](auto* out, auto* error) { return phasor_fill_shard_tokens(out, &shard, error); };
  for (const phasor_shard_order order : {PHASOR_SHARD_ZIGZAG, PHASOR_SHARD_CONTIGUOUS, PHASOR_SHARD_STRIPED, PHASOR_SHARD_PERMUTED}) {
    shard = {};
    shard.size = sizeof shard;
    shard.rank = 1;
    shard.ranks = 3;
    shard.order = order;
    shard.tokens = 12;
    Shard same = {.rank = 1, .ranks = 3, .order = orders[order], .tokens = 12};
    if (order == PHASOR_SHARD_PERMUTED) {
      shard.permutation = permutation.get();
      same.permutation = permutation.values;
    }
    expect_same_everywhere({1, 1, 4}, fill, [&](const PositionsView& out) { return fill_shard(out, same); });
    expect_same_everywhere({1, 1, 4}, fill_tokens, [&](const PositionsView& out) { return fill_shard_tokens(out, same); });
  }
  const CTensor<std::int32_t> cu({4}, {0, 4, 12, 12});
  const CTensor<std::int32_t> offsets({3}, {0, 100, 0});
  shard = {};
  shard.size = sizeof shard;
  shard.ranks = 2;
  shard.whole = {cu.get(), offsets.get()};
  const Shard same = {.ranks = 2, .whole = {.cu_seqlens = cu.values, .offsets = offsets.values}};
  expect_same_everywhere({1, 1, 6}, fill, [&](const PositionsView& out) { return fill_shard(out, same); });
  expect_same_everywhere({1, 1, 6}, fill_tokens, [&](const PositionsView& out) { return fill_shard_tokens(out, same); });
  shard.order = 4;
  EXPECT_EQ(refused({1, 1, 6}, fill), "fill_shard: order is 4, wanted 0 to 3");
  EXPECT_EQ(refused({1, 1, 6}, fill_tokens), "fill_shard_tokens: order is 4, wanted 0 to 3");
  shard.order = 0;
  shard.reserved = 1;
  EXPECT_EQ(refused({1, 1, 6}, fill), "fill_shard: `reserved` of the shard is 1, wanted 0");
}

TEST(CPositions, random_ones_are_those_of_cpp) {
  phasor_random_positions random = {sizeof random, 1000, 1234567};
  const auto fill = [&](auto* out, auto* error) { return phasor_fill_random(out, &random, error); };
  expect_same_everywhere({1, 3, 7}, fill, [](const PositionsView& out) { return fill_random(out, {.length = 1000, .seed = 1234567}); });
  random.length = 6;
  EXPECT_NE(refused({1, 3, 7}, fill), "");
  random.size = 0;
  EXPECT_EQ(refused({1, 3, 7}, fill), "fill_random: the size of random is 0, wanted its sizeof, 24 in this version");
}

TEST(CPositions, temperatures_are_those_of_cpp) {
  const QueryTemperature llama4 = {.kind = QueryTemperature::Kind::floored_log, .scale = 0.1, .length = 8, .shift = 1};
  const QueryTemperature log_n = {.length = 5};
  const CTensor<std::int32_t> at({2, 3}, {0, 7, 123456, 8, 15, 1000000000});
  for (const QueryTemperature& same : {llama4, log_n}) {
    phasor_query_temperature c = c::c_query_temperature_of(same);
    double factor = 0;
    succeeds([&](phasor_error* error) { return phasor_query_temperature_at(&c, 123456, &factor, error); });
    EXPECT_EQ(factor, query_temperature(same, 123456));
    EXPECT_GT(factor, 1);
    std::vector<float> factors(6);
    std::vector<float> want(6);
    ASSERT_TRUE(fill_temperature(want, same, positions(at.values.data(), 2, 3)).ok());
    succeeds([&](phasor_error* error) { return phasor_fill_temperature(factors.data(), 6, &c, {at.get(), 0}, error); });
    EXPECT_EQ(factors, want);
    const CTensor<float> tensor({2, 3, 1, 1}, std::vector<float>(6));
    succeeds([&](phasor_error* error) { return phasor_fill_query_factors(tensor.get(), &c, {at.get(), 0}, nullptr, error); });
    EXPECT_EQ(tensor.values, want);
    const std::vector<float> before = factors;
    EXPECT_EQ(
        failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_fill_temperature(factors.data(), 5, &c, {at.get(), 0}, error); }),
        "fill_temperature: out has 5 elements, wanted 2 x 3");
    c.kind = 2;
    EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_query_temperature_at(&c, 1, &factor, error); }),
              "query_temperature: kind is 2, wanted 0 to 1");
    EXPECT_EQ(factors, before);
  }
  double factor = 0;
  phasor_query_temperature none = c::c_query_temperature_of({});
  succeeds([&](phasor_error* error) { return phasor_query_temperature_at(&none, 1, &factor, error); });
  EXPECT_TRUE(std::isnan(factor));
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_query_temperature_at(&none, 1, nullptr, error); }),
            "query_temperature: factor is null, wanted one");
}

const std::vector<PositionMap>& maps() {
  static const std::vector<PositionMap> list = {ReRope{.window = 7},
                                                LeakyReRope{.window = 7},
                                                LeakyReRope{.window = 11, .factor = 2.7},
                                                SelfExtend{.window = 9, .group = 4},
                                                DualChunk{.chunk = 16, .local = 4},
                                                DualChunk{.chunk = 16, .local = 4, .critical = true}};
  return list;
}

TEST(CMaps, distances_passes_and_positions_are_those_of_cpp) {
  const CTensor<std::int32_t> at({1, 5}, {0, 3, 17, 100, 31});
  for (const PositionMap& map : maps()) {
    const phasor_position_map c = c::c_position_map_of(map);
    std::int32_t passes = 0;
    succeeds([&](phasor_error* error) { return phasor_passes_of(&c, &passes, error); });
    ASSERT_EQ(passes, passes_of(map));
    double distance = 0;
    succeeds([&](phasor_error* error) { return phasor_mapped_distance(&c, 40, 3, &distance, error); });
    EXPECT_EQ(distance, mapped_distance(map, 40, 3)) << map.index();
    for (int pass = 0; pass < passes; ++pass) {
      phasor_key_range keys = {-1, -1};
      succeeds([&](phasor_error* error) { return phasor_keys_of_pass(&c, pass, 40, &keys, error); });
      const KeyRange want = keys_of_pass(map, pass, 40);
      EXPECT_EQ(keys.first, want.first);
      EXPECT_EQ(keys.end, want.end);
      for (const phasor_map_side side : {PHASOR_MAP_QUERIES, PHASOR_MAP_KEYS}) {
        expect_same<double>(
            {1, 1, 5}, [&](auto* out, auto* error) { return phasor_fill_pass_positions(out, &c, {pass, side}, {at.get(), 0}, error); },
            [&](const PositionsView& out) {
              return fill_pass_positions(out, map, {.pass = pass, .side = static_cast<MapSide>(side)}, positions(at.values.data(), 5));
            });
      }
    }
  }
}

TEST(CMaps, go_through_structs_unchanged) {
  for (const PositionMap& map : maps()) {
    phasor_position_map c = c::c_position_map_of(map);
    const PositionMap again = c::position_map_of("test", &c);
    const phasor_position_map twice = c::c_position_map_of(again);
    EXPECT_EQ(again.index(), map.index());
    EXPECT_EQ(std::memcmp(&c, &twice, sizeof c), 0) << map.index();
  }
  phasor_position_map leaky = {};
  leaky.size = sizeof leaky;
  leaky.kind = PHASOR_MAP_LEAKY_RE_ROPE;
  leaky.window = 3;
  EXPECT_EQ(std::get<LeakyReRope>(c::position_map_of("test", &leaky)).factor, 1) << "0 is the default";
  const QueryTemperature same = {.kind = QueryTemperature::Kind::floored_log, .scale = -2, .length = 8, .shift = -1};
  const phasor_query_temperature c = c::c_query_temperature_of(same);
  const QueryTemperature again = c::query_temperature_of("test", &c);
  EXPECT_EQ(again.kind, same.kind);
  EXPECT_EQ(again.scale, -2);
  EXPECT_EQ(again.length, 8);
  EXPECT_EQ(again.shift, -1);
}

TEST(CMaps, bad_arguments_are_refused) {
  phasor_position_map map = {};
  map.size = sizeof map;
  map.kind = PHASOR_MAP_SELF_EXTEND;
  map.window = 4;
  map.factor = 2;
  double distance = 5;
  const auto distance_of = [&] {
    return failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_mapped_distance(&map, 40, 3, &distance, error); });
  };
  EXPECT_EQ(distance_of(), "mapped_distance: factor is given, and SelfExtend has none, wanted 0");
  map.factor = 0;
  map.kind = 4;
  EXPECT_EQ(distance_of(), "mapped_distance: the map's kind is 4, wanted 0 to 3");
  EXPECT_EQ(distance, 5);
  map.kind = PHASOR_MAP_RE_ROPE;
  std::int32_t passes = 9;
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_passes_of(nullptr, &passes, error); }),
            "passes_of: the map is null, wanted one");
  EXPECT_EQ(failure(PHASOR_INVALID, [&](phasor_error* error) { return phasor_keys_of_pass(&map, 0, 3, nullptr, error); }),
            "keys_of_pass: keys is null, wanted one");
  EXPECT_EQ(refused({1, 1, 3}, [&](auto* out, auto* error) { return phasor_fill_pass_positions(out, &map, {0, 2}, {nullptr, 0}, error); }),
            "fill_pass_positions: side is 2, wanted 0 to 1");
  EXPECT_EQ(refused({1, 1, 3}, [&](auto* out, auto* error) { return phasor_fill_pass_positions(out, &map, {2, 0}, {nullptr, 0}, error); }),
            "fill_pass_positions: pass is 2, wanted 0 to 1");
}

}  // namespace
}  // namespace phasor::test
