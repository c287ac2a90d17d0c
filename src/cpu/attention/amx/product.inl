// SPDX-License-Identifier: Apache-2.0
// The two products of attention on tile registers: 0 to 3 sum 32 rows by 32 columns, 4 and 5 hold the rows, 6 and 7 the columns. Packed
// keys and values are loaded past the first cache, which the block's own data fills. Included by cpu/attention/amx/processor.cpp.

// Of whatever the registers hold, into one that is free between calls. Measured: up to 380 ns after a product the next one costs nothing
// more; after 420 ns either the unit or the core has spent 300 ns on changing over, even when only scalar code runs in between.
void keep_awake() { _tile_dpbf16ps(0, 4, 6); }

void scores(const BFloat16* queries, const BFloat16* keys, std::int64_t depth, float* to) {
  constexpr std::int64_t kRow = kTileKeys * 4;  // bytes
  const std::int64_t query_row = depth * 2;
  const BFloat16* below = queries + 16 * depth;
  float* to_below = to + 16 * kTileKeys;
  memory_barrier();
  for (std::int64_t n = 0; n < 4; n += 2) {
    const BFloat16* key = keys + n * kTile;
    // Sums of the 32 keys before are stored one by one as their registers are wanted again: four at a time would leave the unit waiting.
    _tile_loadd(4, queries, query_row);
    _tile_stream_loadd(6, key, 64);
    if (n > 0) _tile_stored(0, to, kRow);
    _tile_zero(0);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stream_loadd(7, key + kTile, 64);
    if (n > 0) _tile_stored(1, to + 16, kRow);
    _tile_zero(1);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, below, query_row);
    if (n > 0) _tile_stored(2, to_below, kRow);
    _tile_zero(2);
    _tile_dpbf16ps(2, 5, 6);
    if (n > 0) _tile_stored(3, to_below + 16, kRow);
    _tile_zero(3);
    _tile_dpbf16ps(3, 5, 7);
    for (std::int64_t c = 32; c < depth; c += 32) {
      key += 4 * kTile;
      _tile_loadd(4, queries + c, query_row);
      _tile_stream_loadd(6, key, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_stream_loadd(7, key + kTile, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, below + c, query_row);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, to + 32, kRow);
  _tile_stored(1, to + 48, kRow);
  _tile_stored(2, to_below + 32, kRow);
  _tile_stored(3, to_below + 48, kRow);
  memory_barrier();
}

namespace {

constexpr std::int64_t kPartRow = kTileKeys * 4;  // bytes from a row of probabilities to the next
constexpr std::int64_t kLow = 32;                 // float32 places from upper parts to lower ones
constexpr std::int64_t kSecond = 16;              // from 32 keys to the others

/// The second 32 keys, and all lower parts. The upper parts of the first 32 keys are done; their values are in registers 6 and 7.
template <Parts parts>
inline void add_rest(const float* above, const float* below, const BFloat16* value) {
  if constexpr (parts == Parts::two) {
    _tile_loadd(4, above + kLow, kPartRow);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, below + kLow, kPartRow);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_loadd(4, above + kSecond, kPartRow);
  _tile_stream_loadd(6, value, 64);
  _tile_dpbf16ps(0, 4, 6);
  _tile_stream_loadd(7, value + kTile, 64);
  _tile_dpbf16ps(1, 4, 7);
  _tile_loadd(5, below + kSecond, kPartRow);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
  if constexpr (parts == Parts::two) {
    _tile_loadd(4, above + kLow + kSecond, kPartRow);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, below + kLow + kSecond, kPartRow);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

template <Parts parts, Fill fill>
void add_products(const float* p, const BFloat16* values, const Output& out) {
  const float* p_below = p + 16 * kTileKeys;
  const std::int64_t row = out.stride * 4;              // bytes
  const std::int64_t half = out.channels / 16 * kTile;  // from 32 keys to the next
  float* above = out.data;
  float* below = out.data + 16 * out.stride;
  memory_barrier();
  for (std::int64_t c = 0; c < out.channels; c += 32, values += 2 * kTile) {
    _tile_loadd(4, p, kPartRow);
    _tile_stream_loadd(6, values, 64);
    if (c > 0) _tile_stored(0, above + c - 32, row);
    if constexpr (fill == Fill::add) _tile_loadd(0, above + c, row);
    if constexpr (fill == Fill::overwrite) _tile_zero(0);
    _tile_dpbf16ps(0, 4, 6);
    _tile_stream_loadd(7, values + kTile, 64);
    if (c > 0) _tile_stored(1, above + c - 16, row);
    if constexpr (fill == Fill::add) _tile_loadd(1, above + c + 16, row);
    if constexpr (fill == Fill::overwrite) _tile_zero(1);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, p_below, kPartRow);
    if (c > 0) _tile_stored(2, below + c - 32, row);
    if constexpr (fill == Fill::add) _tile_loadd(2, below + c, row);
    if constexpr (fill == Fill::overwrite) _tile_zero(2);
    _tile_dpbf16ps(2, 5, 6);
    if (c > 0) _tile_stored(3, below + c - 16, row);
    if constexpr (fill == Fill::add) _tile_loadd(3, below + c + 16, row);
    if constexpr (fill == Fill::overwrite) _tile_zero(3);
    _tile_dpbf16ps(3, 5, 7);
    add_rest<parts>(p, p_below, values + half);
  }
  _tile_stored(0, above + out.channels - 32, row);
  _tile_stored(1, above + out.channels - 16, row);
  _tile_stored(2, below + out.channels - 32, row);
  _tile_stored(3, below + out.channels - 16, row);
  memory_barrier();
}

}  // namespace

void add_values(const float* tile, Parts parts, const BFloat16* values, const Output& out, Fill fill) {
  if (parts == Parts::one) {
    if (fill == Fill::add) return add_products<Parts::one, Fill::add>(tile, values, out);
    return add_products<Parts::one, Fill::overwrite>(tile, values, out);
  }
  if (fill == Fill::add) return add_products<Parts::two, Fill::add>(tile, values, out);
  return add_products<Parts::two, Fill::overwrite>(tile, values, out);
}
