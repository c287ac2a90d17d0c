// SPDX-License-Identifier: Apache-2.0
// Philox 4x32-10 against the known answers of its authors (Random123, kat_vectors), and what dropout makes of it, word by word.
#include "math/philox.hpp"

#include <gtest/gtest.h>

#include <array>

namespace phasor::math {
namespace {

std::array<u32, 4> words(const PhiloxBlock& b) { return {b.word[0], b.word[1], b.word[2], b.word[3]}; }

using Words = std::array<u32, 4>;

TEST(philox, known_answers) {
  constexpr u32 kOnes = 0xffffffff;
  EXPECT_EQ(words(philox({{0, 0, 0, 0}}, {{0, 0}})), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox({{kOnes, kOnes, kOnes, kOnes}}, {{kOnes, kOnes}})), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}})),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(philox, which_bits_of_a_dropout_are_what) {
  const PhiloxKey row = dropout_row_key(0x1122334455667788, -2, 3, 9);
  const PhiloxBlock wanted = philox({{0xfffffffe, 0xffffffff, 3, 9}}, {{0x55667788, 0x11223344}});
  EXPECT_EQ(row.word[0], wanted.word[0]);
  EXPECT_EQ(row.word[1], wanted.word[1]);
  EXPECT_EQ(words(dropout_words(row, 0x100000007, 0xaabbccdd00000001)), words(philox({{7, 1, 1, 0xaabbccdd}}, row)));
  EXPECT_EQ(dropout_block(7), 1);
  EXPECT_EQ(dropout_word(7), 3);
  EXPECT_EQ(dropout_block(-1), -1);
  EXPECT_EQ(dropout_word(-1), 3);
  EXPECT_EQ(dropout_block(-4), -1);
  EXPECT_EQ(dropout_word(-4), 0);
}

TEST(philox, the_threshold_of_a_dropout) {
  EXPECT_EQ(dropout_threshold(0), 0U);
  EXPECT_EQ(dropout_threshold(0x1p-33), 0U);
  EXPECT_EQ(dropout_threshold(0.5), 0x80000000U);
  EXPECT_EQ(dropout_threshold(0.1), 429496729U);
  EXPECT_EQ(dropout_threshold(1 - 0x1p-53), 0xffffffffU);
}

}  // namespace
}  // namespace phasor::math
