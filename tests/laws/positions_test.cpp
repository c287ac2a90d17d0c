// SPDX-License-Identifier: Apache-2.0
// Laws of positions: shards of all ranks are the whole, and rotated and put together they are bitwise the whole rotated at once.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "phasor/position_builders.hpp"
#include "phasor/rotary.hpp"

namespace phasor::laws {
namespace {

using Ids = std::vector<std::int64_t>;

/// Sequences packed one after the other, dealt out to ranks.
struct Packed {
  std::int64_t ranks = 1;
  ShardOrder order = ShardOrder::zigzag;
  Ids cu_seqlens = {0};
  Ids offsets;
  Ids permutation;

  std::int64_t tokens() const { return cu_seqlens.back(); }
  Shard shard(std::int64_t rank) const {
    Shard s = {.rank = rank, .ranks = ranks, .order = order};
    if (order == ShardOrder::permuted) {
      s.tokens = tokens();
      s.permutation = permutation;
    } else {
      s.whole = {.cu_seqlens = cu_seqlens, .offsets = offsets};
    }
    return s;
  }
};

Packed drawn_packed() {
  Packed p;
  p.ranks = *rc::gen::inRange<std::int64_t>(1, 6);
  p.order = *rc::gen::element(ShardOrder::contiguous, ShardOrder::zigzag, ShardOrder::striped, ShardOrder::permuted);
  const int sequences = p.order == ShardOrder::permuted ? 1 : *rc::gen::inRange(1, 5);
  for (int s = 0; s < sequences; ++s) {
    p.cu_seqlens.push_back(p.tokens() + 2 * p.ranks * *rc::gen::inRange<std::int64_t>(0, 5));
    p.offsets.push_back(p.order == ShardOrder::permuted ? 0 : *rc::gen::inRange<std::int64_t>(0, 2000000));
  }
  p.permutation.resize(static_cast<std::size_t>(p.tokens()));
  std::iota(p.permutation.begin(), p.permutation.end(), 0);
  for (std::size_t i = p.permutation.size(); i > 1; --i)
    std::swap(p.permutation[i - 1], p.permutation[*rc::gen::inRange<std::size_t>(0, i)]);
  return p;
}

Ids filled(std::int64_t tokens, Status (*fill)(const PositionsView&, const Shard&), const Shard& shard) {
  Ids out(static_cast<std::size_t>(tokens), -1);
  const Status status = fill(positions(out.data(), tokens), shard);
  if (!status.ok()) RC_FAIL(status.message());
  return out;
}

RC_GTEST_PROP(ShardLaws, the_union_of_all_ranks_is_the_whole, ()) {
  const Packed p = drawn_packed();
  Ids whole(static_cast<std::size_t>(p.tokens()));
  RC_ASSERT(fill_from_cu_seqlens(positions(whole.data(), p.tokens()), {.cu_seqlens = p.cu_seqlens, .offsets = p.offsets}).ok());
  std::vector<int> held(whole.size());
  for (std::int64_t rank = 0; rank < p.ranks; ++rank) {
    const Ids tokens = filled(p.tokens() / p.ranks, fill_shard_tokens, p.shard(rank));
    const Ids at = filled(p.tokens() / p.ranks, fill_shard, p.shard(rank));
    for (std::size_t i = 0; i < at.size(); ++i) {
      RC_ASSERT(at[i] == whole.at(static_cast<std::size_t>(tokens[i])));
      ++held[static_cast<std::size_t>(tokens[i])];
    }
  }
  RC_ASSERT(std::all_of(held.begin(), held.end(), [](int n) { return n == 1; }));
}

RC_GTEST_PROP(ShardLaws, rotated_shards_put_together_are_bitwise_the_whole_rotated, ()) {
  const Packed p = drawn_packed();
  const std::int64_t heads = *rc::gen::inRange<std::int64_t>(1, 4);
  const std::int64_t width = 2 * *rc::gen::inRange<std::int64_t>(1, 36);
  const auto pairing = *rc::gen::element(Pairing::half, Pairing::interleaved);
  const Result<Rotary> rotary = Rotary::make({.head_dim = width, .pairing = pairing});
  RC_ASSERT(rotary.ok());
  const auto head = static_cast<std::size_t>(heads * width);
  std::vector<float> x(static_cast<std::size_t>(p.tokens()) * head);
  for (float& v : x) v = static_cast<float>(*rc::gen::inRange(-4000, 4000)) / 512;
  std::vector<float> together(x.size());
  for (std::int64_t rank = 0; rank < p.ranks; ++rank) {
    const std::int64_t mine = p.tokens() / p.ranks;
    const Ids tokens = filled(mine, fill_shard_tokens, p.shard(rank));
    const Ids at = filled(mine, fill_shard, p.shard(rank));
    std::vector<float> part(static_cast<std::size_t>(mine) * head);
    const auto token = [&](std::size_t i) { return static_cast<std::size_t>(tokens[i]) * head; };
    for (std::size_t i = 0; i < tokens.size(); ++i) std::copy_n(x.data() + token(i), head, part.data() + i * head);
    RC_ASSERT(rotary->apply(view(part.data(), {1, mine, heads, width}), positions(at.data(), mine)).ok());
    for (std::size_t i = 0; i < tokens.size(); ++i) std::copy_n(part.data() + i * head, head, together.data() + token(i));
  }
  Ids whole(static_cast<std::size_t>(p.tokens()));
  RC_ASSERT(fill_from_cu_seqlens(positions(whole.data(), p.tokens()), {.cu_seqlens = p.cu_seqlens, .offsets = p.offsets}).ok());
  RC_ASSERT(rotary->apply(view(x.data(), {1, p.tokens(), heads, width}), positions(whole.data(), p.tokens())).ok());
  const auto same_bits = [](const float& a, const float& b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  RC_ASSERT(std::equal(x.begin(), x.end(), together.begin(), together.end(), same_bits));
}

RC_GTEST_PROP(PositionLaws, a_mask_without_padding_counts_up_and_padding_moves_nothing_else, ()) {
  const std::int64_t tokens = *rc::gen::inRange<std::int64_t>(1, 40);
  std::vector<std::uint8_t> mask(static_cast<std::size_t>(tokens));
  for (std::uint8_t& m : mask) m = *rc::gen::element<std::uint8_t>(0, 1);
  Ids out(mask.size());
  const std::int64_t first = *rc::gen::inRange<std::int64_t>(-5, 5);
  RC_ASSERT(fill_from_mask(positions(out.data(), tokens), {.values = mask}, {.first = first, .masked = -99}).ok());
  std::int64_t next = first;
  for (std::size_t i = 0; i < out.size(); ++i) RC_ASSERT(out[i] == (mask[i] == 0 ? -99 : next++));
}

RC_GTEST_PROP(PositionLaws, a_random_draw_is_sorted_different_and_repeats_with_its_seed, ()) {
  const std::int64_t tokens = *rc::gen::inRange<std::int64_t>(0, 60);
  const RandomPositions random = {.length = tokens + *rc::gen::inRange<std::int64_t>(0, 90), .seed = *rc::gen::arbitrary<std::uint64_t>()};
  Ids out(static_cast<std::size_t>(2 * tokens));
  Ids again(out.size());
  RC_ASSERT(fill_random(positions(out.data(), 2, tokens), random).ok());
  RC_ASSERT(fill_random(positions(again.data(), 2, tokens), random).ok());
  RC_ASSERT(out == again);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t p = out[static_cast<std::size_t>(b * tokens + t)];
      RC_ASSERT(p >= 0 && p < random.length);
      // RC_ASSERT takes an expression apart and evaluates both sides of an or.
      if (t > 0) RC_ASSERT(out[static_cast<std::size_t>(b * tokens + t - 1)] < p);
    }
  }
}

}  // namespace
}  // namespace phasor::laws
