// SPDX-License-Identifier: Apache-2.0
// Packing for AMX: the second operand of a product has two neighbours along the sum in each 32 bits. Included by
// cpu/attention/amx/processor.cpp.

namespace {

/// 32 channels from c on of row r, zeros beyond the tensor.
inline __m512i load_channels(const Rows& from, std::int64_t r, std::int64_t c) {
  if (r >= from.count) return _mm512_setzero_si512();
  const BFloat16* row = from.data + r * from.stride + c;
  if (c + 32 <= from.channels) return _mm512_loadu_si512(row);
  return _mm512_maskz_loadu_epi16((std::uint32_t{1} << (from.channels - c)) - 1, row);
}

/// 16 keys of 32 channels, rows of channels to rows of pairs of channels: a transposition of 32-bit numbers.
inline void pack_key_tile(__m512i r[16], BFloat16* to) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {  // r[i], r[i + 4], ... have pairs i, i + 4, i + 8, i + 12 of four keys each
    const __m512i even_low = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    const __m512i even_high = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    const __m512i odd_high = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    _mm512_store_si512(to + 32 * i, _mm512_shuffle_i32x4(even_low, even_high, 0x88));
    _mm512_store_si512(to + 32 * (i + 4), _mm512_shuffle_i32x4(odd_low, odd_high, 0x88));
    _mm512_store_si512(to + 32 * (i + 8), _mm512_shuffle_i32x4(even_low, even_high, 0xdd));
    _mm512_store_si512(to + 32 * (i + 12), _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd));
  }
}

}  // namespace

void pack_queries(const Rows& from, BFloat16* to) {
  const std::int64_t depth = padded(from.channels);
  for (std::int64_t r = 0; r < kBlockRows; ++r) {
    for (std::int64_t c = 0; c < depth; c += 32) _mm512_store_si512(to + r * depth + c, load_channels(from, r, c));
  }
}

// (depth / 32, keys / 16) tiles
void pack_keys(const Rows& from, BFloat16* to) {
  for (std::int64_t c = 0; c < padded(from.channels); c += 32) {
    for (std::int64_t k = 0; k < kTileKeys; k += 16, to += kTile) {
      __m512i rows[16];
      for (std::int64_t i = 0; i < 16; ++i) rows[i] = load_channels(from, k + i, c);
      pack_key_tile(rows, to);
    }
  }
}

// (keys / 32, channels / 16) tiles; row r of a tile pairs keys r and r + 16, as softmax does.
void pack_values(const Rows& from, BFloat16* to) {
  const std::int64_t channels = padded(from.channels);
  const __m512i apart = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);  // so that unpacking within 128 bits leaves channels in order
  for (std::int64_t k = 0; k < kTileKeys; k += 32, to += channels * 32) {
    for (std::int64_t r = 0; r < 16; ++r) {
      for (std::int64_t c = 0; c < channels; c += 32) {
        const __m512i a = _mm512_permutexvar_epi64(apart, load_channels(from, k + r, c));
        const __m512i b = _mm512_permutexvar_epi64(apart, load_channels(from, k + r + 16, c));
        BFloat16* row = to + c / 16 * kTile + r * 32;
        _mm512_store_si512(row, _mm512_unpacklo_epi16(a, b));
        _mm512_store_si512(row + kTile, _mm512_unpackhi_epi16(a, b));
      }
    }
  }
}
