// SPDX-License-Identifier: Apache-2.0
// Input that builders of positions refuse: the message says where, what is and what is wanted, and nothing is written.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "phasor/position_builders.hpp"

namespace phasor::test {
namespace {

using Ids = std::vector<std::int64_t>;

/// Memory of a call; `out` is (1, 2, 6) of it, or what a case makes of it.
struct Attempt {
  std::vector<std::int32_t> narrow = std::vector<std::int32_t>(72, -77);
  Ids wide = Ids(72, -77);
  PositionsView out = positions(wide.data(), 2, 6);
  PositionsView flat = positions(wide.data(), 6);
};

struct Case {
  std::string message;
  std::function<Status(Attempt&)> call;
};

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    Attempt attempt;
    const Ids before = attempt.wide;
    const Status status = c.call(attempt);
    EXPECT_EQ(status.kind(), ErrorKind::invalid) << c.message;
    EXPECT_EQ(status.message(), c.message);
    for (const std::int32_t x : attempt.narrow) ASSERT_EQ(x, -77) << c.message;
    EXPECT_TRUE(attempt.wide == before || c.message.find("lies in out") != std::string::npos) << c.message;
  }
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();

TEST(BadPositions, outputs_that_cannot_be_written_are_refused) {
  check({
      {"fill_from_offset: out has strides (12, 0, 1) that write an element twice, wanted every element once",
       [](Attempt& a) {
         a.out.strides[1] = 0;
         return fill_from_offset(a.out, 0);
       }},
      {"fill_from_offset: out has an unknown type (9), wanted i32, i64 or f64",
       [](Attempt& a) {
         a.out.type = static_cast<PositionType>(9);
         return fill_from_offset(a.out, 0);
       }},
      {"fill_from_offset: out has 0 axes, wanted at least 1",
       [](Attempt& a) {
         a.out.shape[0] = 0;
         return fill_from_offset(a.out, 0);
       }},
      {"fill_from_offset: out has null data and 2 x 6 x 1 x 1 elements, wanted memory",
       [](Attempt& a) {
         a.out.data = nullptr;
         return fill_from_offset(a.out, 0);
       }},
      {"fill_from_offset: token 3 of batch row 0 is at 2147483648, wanted what i32 holds",
       [](Attempt& a) { return fill_from_offset(positions(a.narrow.data(), 2, 6), kMost32 - 2); }},
      {"fill_from_offset: token 1 of batch row 0 is at 9223372036854775807 + 1, wanted what i64 holds",
       [](Attempt& a) { return fill_from_offset(a.out, kMost); }},
      {"fill_from_offset: token 1 of batch row 0 is at 9007199254740993, wanted what f64 holds",
       [](Attempt& a) { return fill_from_offset(positions(reinterpret_cast<double*>(a.wide.data()), 2, 6), std::int64_t{1} << 53); }},
  });
}

TEST(BadPositions, lists_of_another_size_or_in_the_output_are_refused) {
  const Ids three = {1, 2, 3};
  check({
      {"fill_from_offsets: offsets has 3 elements, wanted 2", [&](Attempt& a) { return fill_from_offsets(a.out, three); }},
      {"fill_from_offsets: offsets lies in out, wanted it apart",
       [](Attempt& a) { return fill_from_offsets(a.out, std::span(a.wide).subspan(11, 2)); }},
      {"fill_from_offsets: offsets is null and has 2 elements, wanted memory",
       [](Attempt& a) { return fill_from_offsets(a.out, Integers(static_cast<const std::int64_t*>(nullptr), 2)); }},
      {"fill_from_offsets: offsets is not aligned to its elements of 4 bytes",
       [&](Attempt& a) {
         const auto* odd = reinterpret_cast<const std::int32_t*>(reinterpret_cast<const char*>(three.data()) + 1);
         return fill_from_offsets(a.out, Integers(odd, 2));
       }},
      {"fill_from_mask: mask has 3 elements, wanted 2 rows of 6", [&](Attempt& a) { return fill_from_mask(a.out, {.values = three}); }},
      {"fill_from_mask: past is -1, wanted 0 to 2^56", [&](Attempt& a) { return fill_from_mask(a.out, {.values = three, .past = -1}); }},
      {"fill_from_mask: mask of token 1 of batch row 0 is 2, wanted 0 or 1",
       [&](Attempt& a) { return fill_from_mask(positions(a.wide.data(), 3), {.values = three}); }},
  });
}

TEST(BadPositions, cu_seqlens_that_do_not_rise_to_the_tokens_are_refused) {
  const Ids falling = {0, 4, 3, 6};
  const Ids late = {1, 6};
  const Ids shorter = {0, 5};
  const Ids good = {0, 2, 6};
  const Ids offsets = {1, kMost - 2};
  check({
      {"fill_from_cu_seqlens: cu_seqlens[2] is 3 after 4, wanted it to rise",
       [&](Attempt& a) { return fill_from_cu_seqlens(a.flat, {.cu_seqlens = falling}); }},
      {"fill_from_cu_seqlens: cu_seqlens begins with 1, wanted 0",
       [&](Attempt& a) { return fill_from_cu_seqlens(a.flat, {.cu_seqlens = late}); }},
      {"fill_from_cu_seqlens: cu_seqlens ends with 5, wanted 6 tokens",
       [&](Attempt& a) { return fill_from_cu_seqlens(a.flat, {.cu_seqlens = shorter}); }},
      {"fill_from_cu_seqlens: cu_seqlens is empty, wanted a 0 and the end of each sequence",
       [](Attempt& a) { return fill_from_cu_seqlens(a.flat, {}); }},
      {"fill_from_cu_seqlens: out has batch 2, wanted 1", [&](Attempt& a) { return fill_from_cu_seqlens(a.out, {.cu_seqlens = good}); }},
      {"fill_from_cu_seqlens: offsets has 4 elements, wanted 2",
       [&](Attempt& a) { return fill_from_cu_seqlens(a.flat, {.cu_seqlens = good, .offsets = falling}); }},
      {"fill_from_cu_seqlens: token 5 of batch row 0 is at 9223372036854775805 + 3, wanted what i64 holds",
       [&](Attempt& a) { return fill_from_cu_seqlens(a.flat, {.cu_seqlens = good, .offsets = offsets}); }},
  });
}

TEST(BadPositions, page_tables_that_contradict_themselves_are_refused) {
  const Ids blocks = {0, 1, 1, 0};
  const Ids lengths = {7, 3};
  const Ids negative = {-1, 3};
  const Ids longer = {13, 3};
  const Ids holes = {0, -1, 1, 0};
  const Ids far = {0, 6};
  const auto pages = [](Attempt& a, const PageTable& t) { return fill_from_pages(a.out, t); };
  const auto slots = [](Attempt& a, const PageTable& t, const Ids& at) {
    return fill_slots(positions(a.wide.data(), 2, 1), t, positions(at.data(), 2, 1));
  };
  check({
      {"fill_from_pages: block 1 is page 1 and page 0 (of sequence 1), wanted one",
       [&](Attempt& a) { return pages(a, {.blocks = blocks, .lengths = lengths, .page_size = 6}); }},
      {"fill_from_pages: sequence 0 has -1 tokens, wanted 0 to 12 for its 2 pages",
       [&](Attempt& a) { return pages(a, {.blocks = blocks, .lengths = negative, .page_size = 6}); }},
      {"fill_from_pages: sequence 0 has 13 tokens, wanted 0 to 12 for its 2 pages",
       [&](Attempt& a) { return pages(a, {.blocks = blocks, .lengths = longer, .page_size = 6}); }},
      {"fill_from_pages: page 1 of sequence 0 is block -1, wanted 0 to 1",
       [&](Attempt& a) { return pages(a, {.blocks = holes, .lengths = lengths, .page_size = 6}); }},
      {"fill_from_pages: page_size is 0, wanted 1 to 2^40", [&](Attempt& a) { return pages(a, {.blocks = blocks, .lengths = lengths}); }},
      {"fill_from_pages: out has 6 tokens, wanted 5",
       [&](Attempt& a) { return pages(a, {.blocks = blocks, .lengths = lengths, .page_size = 5}); }},
      {"fill_from_pages: blocks has 4 elements, wanted as many for each of 3 sequences",
       [&](Attempt& a) { return pages(a, {.blocks = blocks, .lengths = Integers(blocks.data(), 3), .page_size = 6}); }},
      {"fill_slots: token 0 is at 6, but page 1 of sequence 1 has no block",
       [&](Attempt& a) {
         const Ids table = {0, 1, 1, -1};
         return slots(a, {.blocks = table, .page_size = 6}, far);
       }},
      {"fill_slots: token 0 is at 6, sequence 1 has 2 pages of 3 slots",
       [&](Attempt& a) { return slots(a, {.blocks = blocks, .page_size = 3}, far); }},
      {"fill_slots: token 0 is at 6, sequence 1 has 2 pages of 6 slots and ends before it",
       [&](Attempt& a) { return slots(a, {.blocks = blocks, .lengths = lengths, .page_size = 6}, far); }},
  });
}

TEST(BadPositions, trees_whose_parents_come_later_are_refused) {
  const Ids forward = {-1, 2, 0, 1, 1, 1};
  const Ids own = {-1, 0, 2, 1, 1, 1};
  const Ids three = {-1, 0, 1};
  check({
      {"fill_from_tree: token 1 of row 0 has parent 2, wanted -1 or a token before it",
       [&](Attempt& a) { return fill_from_tree(a.out, {.parents = forward}); }},
      {"fill_from_tree: token 2 of row 0 has parent 2, wanted -1 or a token before it",
       [&](Attempt& a) { return fill_from_tree(a.out, {.parents = own}); }},
      {"fill_from_tree: parents has 3 elements, wanted 6 or 12", [&](Attempt& a) { return fill_from_tree(a.out, {.parents = three}); }},
      {"fill_from_tree: offsets has 3 elements, wanted 1 or 2",
       [&](Attempt& a) {
         const Ids good = {-1, 0, 1, 1, 0, 0};
         return fill_from_tree(a.out, {.parents = good, .offsets = three});
       }},
  });
}

TEST(BadPositions, grids_that_do_not_fit_are_refused) {
  const ImageGrid odd[] = {{1, 2, 3}};
  const ImageGrid negative[] = {{1, -2, 3}};
  const ImageGrid huge[] = {{kMost, kMost, kMost}};
  const GridAxis one[] = {GridAxis::row};
  const auto grids = [](Attempt& a, std::span<const ImageGrid> list, const GridLayout& layout) {
    return fill_from_grids(positions(a.wide.data(), 2, 1, 6), list, layout);
  };
  check({
      {"fill_from_grids: grid 0 has 2 rows and 3 columns, wanted multiples of merge 2",
       [&](Attempt& a) { return grids(a, odd, {.merge = 2}); }},
      {"fill_from_grids: grid 0 is 1 x -2 x 3, wanted no negative extent", [&](Attempt& a) { return grids(a, negative, {}); }},
      {"fill_from_grids: grid 0 is 9223372036854775807 x 9223372036854775807 x 9223372036854775807, wanted at most 2^50 patches",
       [&](Attempt& a) { return grids(a, huge, {}); }},
      {"fill_from_grids: out has 6 tokens, wanted 7", [&](Attempt& a) { return grids(a, odd, {.prefix = 1}); }},
      {"fill_from_grids: out has 2 axes, the layout has 1", [&](Attempt& a) { return grids(a, odd, {.axes = one}); }},
      {"fill_from_grids: out holds integers, patch centres want f64",
       [&](Attempt& a) { return grids(a, odd, {.unit = GridUnit::centre}); }},
      {"fill_from_grids: merge is 0, wanted at least 1", [&](Attempt& a) { return grids(a, odd, {.merge = 0}); }},
      {"fill_from_patches: patch 2 is 6, wanted 0 to 5",
       [&](Attempt& a) {
         const Ids patches = {0, 5, 6};
         return fill_from_patches(positions(a.wide.data(), 2, 1, 3), patches, odd[0]);
       }},
  });
}

TEST(BadPositions, shards_and_draws_that_cannot_be_are_refused) {
  const Ids twice = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10};
  const Ids outside = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12};
  const Ids cu = {0, 6, 12};
  const auto shard = [](Attempt& a, const Shard& s) { return fill_shard(a.flat, s); };
  check({
      {"fill_shard: rank is 2, wanted 0 to 1", [&](Attempt& a) { return shard(a, {.rank = 2, .ranks = 2, .tokens = 12}); }},
      {"fill_shard: rank is -1, wanted 0 to 1", [&](Attempt& a) { return shard(a, {.rank = -1, .ranks = 2, .tokens = 12}); }},
      {"fill_shard: ranks is 0, wanted 1 to 2^32", [&](Attempt& a) { return shard(a, {.rank = 0, .ranks = 0, .tokens = 12}); }},
      {"fill_shard: sequence 0 has 14 tokens, wanted a multiple of 4", [&](Attempt& a) { return shard(a, {.ranks = 2, .tokens = 14}); }},
      {"fill_shard: sequence 0 has 6 tokens, wanted a multiple of 4",
       [&](Attempt& a) { return shard(a, {.ranks = 2, .whole = {.cu_seqlens = cu}}); }},
      {"fill_shard: out has 6 tokens, wanted 8", [&](Attempt& a) { return shard(a, {.ranks = 2, .tokens = 16}); }},
      {"fill_shard: permutation[11] is 10 again, wanted every token once",
       [&](Attempt& a) { return shard(a, {.ranks = 2, .order = ShardOrder::permuted, .tokens = 12, .permutation = twice}); }},
      {"fill_shard: permutation[11] is 12, wanted 0 to 11",
       [&](Attempt& a) { return shard(a, {.ranks = 2, .order = ShardOrder::permuted, .tokens = 12, .permutation = outside}); }},
      {"fill_random: length is 5, wanted at least the 6 tokens", [](Attempt& a) { return fill_random(a.out, {.length = 5}); }},
  });
}

TEST(BadPositions, mrope_inputs_that_contradict_each_other_are_refused) {
  const Ids types = {0, 1, 1, 1, 0, 0};
  const ImageGrid six[] = {{1, 4, 6}};
  const ImageGrid three[] = {{1, 2, 6}};
  const ImageGrid odd[] = {{1, 3, 6}};
  const Ids mask = {1, 1, 1};
  const Ids strange = {1, 1, 1, 1, 2, 0};
  const float seconds[] = {1, 2};
  const auto mrope = [&](Attempt& a, const std::function<void(MropeInput&)>& change) {
    MropeInput input = {.token_types = types, .images = three};
    change(input);
    return fill_mrope(positions(a.wide.data(), 3, 1, 6), {}, input);
  };
  check({
      {"fill_mrope: batch row 0 has 3 image tokens from token 1 on, the grid wants 6",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.images = six; }); }},
      {"fill_mrope: more images in the tokens than the 0 grids given",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.images = {}; }); }},
      {"fill_mrope: tokens hold 1 images and 0 videos, 1 and 1 grids were given",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.videos = six; }); }},
      {"fill_mrope: image 0 has 3 rows and 6 columns, wanted multiples of merge 2",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.images = odd; }); }},
      {"fill_mrope: attention_mask has 3 elements, wanted 6",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.attention_mask = mask; }); }},
      {"fill_mrope: attention_mask of token 4 of batch row 0 is 2, wanted 0 or 1",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.attention_mask = strange; }); }},
      {"fill_mrope: token_types has 3 elements, wanted 6",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.token_types = mask; }); }},
      {"fill_mrope: token_types given, Omni models want input_ids",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.model = MropeModel::qwen3_omni; }); }},
      {"fill_mrope: seconds_per_grid has 2 elements, wanted 0 for the videos",
       [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.seconds_per_grid = seconds; }); }},
      {"fill_mrope: merge is 0, wanted at least 1", [&](Attempt& a) { return mrope(a, [&](MropeInput& in) { in.merge = 0; }); }},
      {"fill_mrope: out has 1 axes, wanted 3", [&](Attempt& a) { return fill_mrope(a.flat, {}, {.token_types = types}); }},
      {"fill_mrope: images lies in out, wanted it apart",
       [&](Attempt& a) {
         return mrope(a, [&](MropeInput& in) { in.images = {reinterpret_cast<const ImageGrid*>(a.wide.data() + 3), 1}; });
       }},
      {"fill_mrope: deltas has 2 elements, wanted 1 or none",
       [&](Attempt& a) {
         std::vector<double> deltas(2);
         return fill_mrope(positions(a.wide.data(), 3, 1, 6), deltas, {.token_types = types, .images = three});
       }},
  });
}

TEST(BadPositions, omni_blocks_that_do_not_fit_their_tokens_are_refused) {
  const MropeTokens special = {.image = 1, .video = 2, .audio = 3, .vision_start = 4, .audio_start = 5};
  const ImageGrid one[] = {{1, 2, 4}};
  const Ids audio = {5};
  const Ids negative = {-5};
  const auto omni = [&](const Ids& ids, const Integers& lengths, MropeModel model) {
    return [&, lengths, model](Attempt& a) {
      return fill_mrope(positions(a.wide.data(), 3, 1, 6), {},
                        {.model = model, .input_ids = ids, .images = one, .audio_lengths = lengths, .tokens = special});
    };
  };
  const Ids shorter = {9, 4, 1, 6, 9, 9};
  const Ids headless = {1, 1, 6, 4, 1, 9};
  const Ids unfinished = {9, 9, 9, 4, 1, 1};
  const Ids sound = {5, 3, 6, 9, 9, 9};
  const Ids wrong = {4, 9, 9, 4, 1, 1};
  check({
      {"fill_mrope: batch row 0 has 1 tokens of a block after token 1, its grid and length want 2",
       omni(shorter, {}, MropeModel::qwen2_5_omni)},
      {"fill_mrope: token 0 of batch row 0 begins a block without 1 start token before it", omni(headless, {}, MropeModel::qwen2_5_omni)},
      {"fill_mrope: batch row 0 ends within a block, wanted 1 end token", omni(unfinished, {}, MropeModel::qwen3_omni)},
      {"fill_mrope: more audios in the tokens than the 0 audio_lengths given", omni(sound, {}, MropeModel::qwen3_omni)},
      {"fill_mrope: audio_lengths[0] is -5, wanted 0 to 2^40", omni(sound, negative, MropeModel::qwen2_5_omni)},
      {"fill_mrope: tokens hold 0 images and 0 videos, 1 and 0 grids were given", omni(sound, audio, MropeModel::qwen2_5_omni)},
      {"fill_mrope: token 0 of batch row 0 starts a block of token 9, wanted an image, a video or an audio",
       omni(wrong, {}, MropeModel::qwen3_omni)},
  });
}

}  // namespace
}  // namespace phasor::test
