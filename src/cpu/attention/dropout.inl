// SPDX-License-Identifier: Apache-2.0
// Dropout of a tile of weights, row by row: the factors of a row are drawn, then used. Apart from the loops, which ask once a tile.
// Included once in each target's namespace.

/// What the weights of one row of a tile are multiplied by: 0 or the factor; 0 behind the last key.
template <class T>
struct DropoutRow {
  HWY_ALIGN T factor[attend::kKeyTile];
};

/// Keys of a tile by the blocks of numbers that they read: neighbours in one block share it. Keys at consecutive positions have seventeen
/// blocks at most, keys far apart one each.
struct DropoutBlocks {
  std::int64_t count = 0;
  std::int64_t block[attend::kKeyTile];
  std::int64_t number[attend::kKeyTile];  // of a key, among the words of all blocks
};
inline void find_blocks(const std::int64_t* positions, std::int64_t keys, DropoutBlocks& out) {
  for (std::int64_t j = 0; j < keys; ++j) {
    const std::int64_t block = math::dropout_block(positions[j]);
    if (out.count == 0 || out.block[out.count - 1] != block) out.block[out.count++] = block;
    out.number[j] = 4 * (out.count - 1) + math::dropout_word(positions[j]);
  }
}

template <class T>
HWY_NOINLINE void draw_row(const ScoreTile<T>& tile, const DropoutBlocks& blocks, std::int64_t row, DropoutRow<T>& out) {
  const attend::DropoutJob& dropout = tile.rows->job->dropout;
  const auto head = dropout.first_head + static_cast<std::uint32_t>(tile.rows->head);
  const auto sequence = dropout.first_sequence + static_cast<std::uint32_t>(tile.rows->tile->sequence);
  const math::PhiloxKey key = math::dropout_row_key(dropout.seed, tile.rows->positions[row], head, sequence);
  const auto factor = static_cast<T>(dropout.factor);
  T of_words[4 * attend::kKeyTile];
  for (std::int64_t b = 0; b < blocks.count; ++b) {
    const math::PhiloxBlock words = math::dropout_words(key, blocks.block[b], dropout.offset);
    for (int w = 0; w < 4; ++w) of_words[4 * b + w] = words.word[w] >= dropout.threshold ? factor : T{0};
  }
  const std::int64_t keys = tile.keys->count;
  if (tile.keys->consecutive) {  // their words lie one after the other
    std::copy_n(of_words + blocks.number[0], keys, out.factor);
  } else {
    for (std::int64_t j = 0; j < keys; ++j) out.factor[j] = of_words[blocks.number[j]];
  }
  std::fill(out.factor + keys, out.factor + attend::kKeyTile, T{0});
}

/// The weights of a tile, in place; rows from `first_row` on.
template <class T>
HWY_NOINLINE void drop_weights(const ScoreTile<T>& tile, std::int64_t first_row) {
  DropoutBlocks blocks;
  find_blocks(tile.key_positions, tile.keys->count, blocks);
  DropoutRow<T> row;
  for (std::int64_t i = first_row; i < tile.rows->tile->count; ++i) {
    draw_row(tile, blocks, i, row);
    T* const weights = tile.scores + i * attend::kKeyTile;
    for (int j = 0; j < attend::kKeyTile; j += lanes<T>) store(mul(load(weights + j), load(row.factor + j)), weights + j);
  }
}
