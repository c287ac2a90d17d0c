// SPDX-License-Identifier: Apache-2.0
// Positions of a context-parallel shard, and randomised positions.
#include <algorithm>
#include <vector>

#include "job/positions/positions.hpp"
#include "math/portable.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using job::at;
using job::error;
using job::PositionSink;

// ---- Shards ----

enum class Wanted : std::uint8_t { positions, tokens };

/// The i-th token that a rank holds of a sequence of n.
std::int64_t token_of(const Shard& shard, std::int64_t n, std::int64_t i) {
  const std::int64_t mine = n / shard.ranks;
  switch (shard.order) {
    case ShardOrder::contiguous:
      return shard.rank * mine + i;
    case ShardOrder::striped:
      return i * shard.ranks + shard.rank;
    case ShardOrder::permuted:
      return at(shard.permutation, shard.rank * mine + i);
    case ShardOrder::zigzag:
      break;
  }
  const std::int64_t part = mine / 2;
  return i < part ? shard.rank * part + i : (2 * shard.ranks - 1 - shard.rank) * part + (i - part);
}

Status check_permutation(const char* where, const Shard& shard, const PositionsView& out) {
  if (Status s = job::check_list_of(where, "permutation", shard.permutation, out, shard.tokens); !s) return s;
  std::vector<bool> seen(static_cast<std::size_t>(shard.tokens));
  for (std::int64_t i = 0; i < shard.tokens; ++i) {
    const std::int64_t token = at(shard.permutation, i);
    if (token < 0 || token >= shard.tokens) {
      return error(where, "permutation[{}] is {}, wanted 0 to {}", i, token, shard.tokens - 1);
    }
    if (seen[static_cast<std::size_t>(token)]) return error(where, "permutation[{}] is {} again, wanted every token once", i, token);
    seen[static_cast<std::size_t>(token)] = true;
  }
  return {};
}

Status check_shard(const char* where, const Shard& shard, const PositionsView& out) {
  if (shard.ranks < 1 || shard.ranks > std::int64_t{1} << 32) return error(where, "ranks is {}, wanted 1 to 2^32", shard.ranks);
  if (shard.rank < 0 || shard.rank >= shard.ranks) return error(where, "rank is {}, wanted 0 to {}", shard.rank, shard.ranks - 1);
  if (shard.order > ShardOrder::permuted) return error(where, "order is unknown ({})", static_cast<int>(shard.order));
  if (shard.tokens < 0) return error(where, "tokens is {}, wanted at least 0", shard.tokens);
  const Integers& cu = shard.whole.cu_seqlens;
  if (cu.size != 0 && shard.order == ShardOrder::permuted) return error(where, "cu_seqlens given, permuted shards want tokens");
  if (cu.size != 0 && shard.tokens != 0) return error(where, "tokens is {} and cu_seqlens given, wanted one of them", shard.tokens);
  const std::int64_t total = cu.size == 0 ? shard.tokens : out.shape[2] * shard.ranks;
  if (cu.size != 0) {
    if (out.shape[2] > (std::int64_t{1} << 56) / shard.ranks) return error(where, "out has {} tokens, wanted fewer", out.shape[2]);
    if (Status s = job::check_ragged(where, shard.whole, out, total); !s) return s;
  }
  const std::int64_t parts = shard.order == ShardOrder::zigzag ? 2 * shard.ranks : shard.ranks;
  for (std::int64_t s = 0; s < (cu.size == 0 ? 1 : cu.size - 1); ++s) {
    const std::int64_t n = cu.size == 0 ? total : at(cu, s + 1) - at(cu, s);
    if (n % parts != 0) return error(where, "sequence {} has {} tokens, wanted a multiple of {}", s, n, parts);
  }
  if (Status s = job::check_extents(where, out, 1, total / shard.ranks); !s) return s;
  return shard.order == ShardOrder::permuted ? check_permutation(where, shard, out) : Status();
}

Status fill_shard_with(const char* where, const PositionsView& out, const Shard& shard, Wanted wanted) {
  if (Status s = job::check_output(where, out); !s) return s;
  if (Status s = spec::without_exceptions([&] { return check_shard(where, shard, out); }); !s) return s;
  const Integers& cu = shard.whole.cu_seqlens;
  return job::fill(where, out, [&](PositionSink& sink) {
    std::int64_t t = 0;
    for (std::int64_t s = 0; s < (cu.size == 0 ? 1 : cu.size - 1); ++s) {
      const std::int64_t first = cu.size == 0 ? 0 : at(cu, s);
      const std::int64_t n = cu.size == 0 ? shard.tokens : at(cu, s + 1) - first;
      const std::int64_t offset = shard.whole.offsets.size == 0 ? 0 : at(shard.whole.offsets, s);
      for (std::int64_t i = 0; i < n / shard.ranks; ++i) {
        sink.put(0, t++, wanted == Wanted::positions ? offset : first, token_of(shard, n, i));
      }
    }
    return Status();
  });
}

// ---- Randomised positions ----

/// splitmix64 (Steele, Lea, Flood 2014).
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  /// Uniform below bound > 0: the high half of a product, whose low half must not be among the 2^64 mod bound least (Lemire 2019).
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t least = (0 - bound) % bound;
    math::u128 product = 0;
    do product = math::u128{next()} * bound;
    while (static_cast<std::uint64_t>(product) < least);
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  std::uint64_t state_;
};

/// n different numbers below `length`, sorted: draws as many as are missing until none is. By symmetry every set is as likely.
void draw(SplitMix64& generator, std::int64_t length, std::size_t n, std::vector<std::int64_t>& out) {
  out.clear();
  while (out.size() < n) {
    for (std::size_t i = out.size(); i < n; ++i) {
      out.push_back(static_cast<std::int64_t>(generator.below(static_cast<std::uint64_t>(length))));
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }
}

Status fill_checked_random(const char* where, const PositionsView& out, const RandomPositions& random) {
  const std::int64_t tokens = out.shape[2];
  // Of many, those left out are drawn instead: then a draw is at least as likely new as not.
  const bool left_out = tokens > random.length / 2;
  const auto drawn = static_cast<std::size_t>(left_out ? random.length - tokens : tokens);
  std::vector<std::int64_t> numbers;
  numbers.reserve(drawn);
  return job::fill(where, out, [&](PositionSink& sink) {
    SplitMix64 generator(random.seed);
    for (std::int64_t b = 0; b < out.shape[1]; ++b) {
      draw(generator, random.length, drawn, numbers);
      std::int64_t position = 0;
      std::size_t skipped = 0;
      for (std::int64_t t = 0; t < tokens; ++t) {
        while (left_out && skipped < drawn && numbers[skipped] == position) ++skipped, ++position;
        sink.put(b, t, left_out ? position++ : numbers[static_cast<std::size_t>(t)]);
      }
    }
    return Status();
  });
}

}  // namespace

Status fill_shard(const PositionsView& out, const Shard& shard) { return fill_shard_with("fill_shard", out, shard, Wanted::positions); }
Status fill_shard_tokens(const PositionsView& out, const Shard& shard) {
  return fill_shard_with("fill_shard_tokens", out, shard, Wanted::tokens);
}

Status fill_random(const PositionsView& out, const RandomPositions& random) {
  constexpr const char* where = "fill_random";
  if (Status s = job::check_output(where, out); !s) return s;
  if (random.length < out.shape[2]) return error(where, "length is {}, wanted at least the {} tokens", random.length, out.shape[2]);
  return spec::without_exceptions([&] { return fill_checked_random(where, out, random); });
}

}  // namespace phasor
