// SPDX-License-Identifier: Apache-2.0
// Dropout of the reference: Philox 4x32-10 as its paper writes it, one weight at a time.
#include <array>

#include "attention/reference/parts.hpp"

namespace phasor::attend::reference {
namespace {

using Word = std::uint64_t;  // of 32 bits
constexpr Word kWord = 0xffffffff;

/// The paper's rounds: two products, whose halves change places.
std::array<Word, 4> philox(std::array<Word, 4> x, Word key) {
  Word low = key & kWord;
  Word high = key >> 32;
  for (int round = 0; round < 10; ++round) {
    const Word first = x[0] * 0xD2511F53;
    const Word second = x[2] * 0xCD9E8D57;
    x = {(second >> 32) ^ x[1] ^ low, second & kWord, (first >> 32) ^ x[3] ^ high, first & kWord};
    low = (low + 0x9E3779B9) & kWord;
    high = (high + 0xBB67AE85) & kWord;
  }
  return x;
}

std::array<Word, 4> counter(std::int64_t first, Word third, Word fourth) {
  const auto bits = static_cast<Word>(first);
  return {bits & kWord, bits >> 32, third, fourth};
}

}  // namespace

double dropout_factor(const Problem& p, const Cell& cell) {
  const Dropout& d = p.dropout;
  if (d.probability == 0) return 1;
  const Word sequence = static_cast<Word>(d.first_sequence + sequence_of(p, cell));
  const Word head = static_cast<Word>(d.first_head + cell.h);
  const std::array<Word, 4> row = philox(counter(query_position(p, cell), head, sequence), d.seed);
  const std::int64_t key = key_position(p, cell);
  const std::int64_t word = (key % 4 + 4) % 4;
  const std::array<Word, 4> drawn = philox(counter((key - word) / 4, d.offset & kWord, d.offset >> 32), row[0] | row[1] << 32);
  const bool dropped = drawn[static_cast<std::size_t>(word)] < static_cast<Word>(d.probability * 0x1p32);
  return dropped ? 0 : 1 / (1 - d.probability);
}

}  // namespace phasor::attend::reference
