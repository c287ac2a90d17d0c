// SPDX-License-Identifier: Apache-2.0
// Softmax of a tile of scores to bfloat16 probabilities, half a block (16 rows, one lane each) at a time. Included by cpu/amx.cpp.

namespace {

constexpr std::int64_t kHalfRows = 16;
constexpr float kLazy = 8;  // log2 of how much larger than at its shift a probability may get
constexpr float kLog2e = 0x1.715476p+0F;
constexpr float kMaxLaneSum = 4.125F * 256;  // of the four probabilities a lane adds, each at most 2^kLazy and its error

inline __m512i upper_halves() { return _mm512_set1_epi32(static_cast<int>(0xffff0000)); }

/// Two registers of float32 cut to bfloat16: those of a in the low halves of 32 bits, those of b in the high ones.
inline __m512i cut_pair(__m512i a, __m512i b) { return _mm512_ternarylogic_epi32(upper_halves(), b, _mm512_srli_epi32(a, 16), 0xca); }

inline __m512 cut(__m512 x) { return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), upper_halves())); }

/// What is left of x after cutting, with half an ulp of bfloat16 for the next cut.
inline __m512i rest(__m512 x) { return _mm512_add_epi32(_mm512_castps_si512(_mm512_sub_ps(x, cut(x))), _mm512_set1_epi32(0x8000)); }

/// One row's probabilities, to the row's place in its tiles; gives their sums of four.
template <Parts parts>
inline __m512 row_probabilities(const float* scores, __m512 scale, __m512 negated_shift, BFloat16* to) {
  __m512 p[4];
  for (int i = 0; i < 4; ++i) {
    const __m512 x = _mm512_fmadd_ps(_mm512_load_ps(scores + 16 * i), scale, negated_shift);
    p[i] = parts == Parts::one ? exp2_degree3(x, 0x1p-8F) : exp2_degree4(x);
  }
  for (int h = 0; h < 2; ++h) {
    _mm512_store_si512(to + h * kTile, cut_pair(_mm512_castps_si512(p[2 * h]), _mm512_castps_si512(p[2 * h + 1])));
    if constexpr (parts == Parts::two) {
      _mm512_store_si512(to + kBlockRows * kTileKeys + h * kTile, cut_pair(rest(p[2 * h]), rest(p[2 * h + 1])));
    }
  }
  if constexpr (parts == Parts::one) {  // what is summed is what was rounded, so that the weights add up to 1
    for (__m512& x : p) x = cut(x);
  }
  return _mm512_add_ps(_mm512_add_ps(p[0], p[1]), _mm512_add_ps(p[2], p[3]));
}

/// A half block's probabilities with given shifts; their sums to `sums` (16, 16). Gives the largest sum of each lane.
template <Parts parts>
inline __m512i half_probabilities(const float* scores, float scale, __m512 shift, BFloat16* to, float* sums) {
  alignas(64) float negated[kHalfRows];
  const __mmask16 begun = _mm512_cmp_ps_mask(shift, _mm512_set1_ps(-std::numeric_limits<float>::infinity()), _CMP_NEQ_UQ);
  _mm512_store_ps(negated, _mm512_maskz_mul_ps(begun, shift, _mm512_set1_ps(-scale)));  // 0 for rows masked so far
  const __m512 scales = _mm512_set1_ps(scale);
  __m512i largest = _mm512_setzero_si512();
  for (std::int64_t r = 0; r < kHalfRows; ++r) {
    const __m512 sum = row_probabilities<parts>(scores + r * kTileKeys, scales, _mm512_set1_ps(negated[r]), to + r * 32);
    _mm512_store_ps(sums + r * kLanes, sum);
    largest = _mm512_max_epu32(largest, _mm512_castps_si512(sum));  // as integers a NaN is larger than any number
  }
  return largest;
}

/// The largest of each of 16 registers, in order.
inline __m512 largest_of_each(const __m512 v[16]) {
  __m512 a[8], b[4], c[2];
  for (int i = 0; i < 8; ++i) {
    a[i] = _mm512_max_ps(_mm512_shuffle_f32x4(v[i], v[i + 8], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 8], 0xee));
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = _mm512_max_ps(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd));
  }
  for (int i = 0; i < 2; ++i) c[i] = _mm512_max_ps(_mm512_unpacklo_ps(b[i], b[i + 2]), _mm512_unpackhi_ps(b[i], b[i + 2]));
  const __m512d d0 = _mm512_castps_pd(c[0]);
  const __m512d d1 = _mm512_castps_pd(c[1]);
  const __m512 e = _mm512_max_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(d0, d1)), _mm512_castpd_ps(_mm512_unpackhi_pd(d0, d1)));
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15), e);
}

inline __m512 row_maxima(const float* scores) {
  __m512 v[16];
  for (std::int64_t r = 0; r < kHalfRows; ++r) {
    const float* s = scores + r * kTileKeys;
    v[r] = _mm512_max_ps(_mm512_max_ps(_mm512_load_ps(s), _mm512_load_ps(s + 16)),
                         _mm512_max_ps(_mm512_load_ps(s + 32), _mm512_load_ps(s + 48)));
  }
  return largest_of_each(v);
}

/// Raises the shifts that are too low for these scores and scales the sums accordingly; gives the rows.
inline std::uint32_t raise_shifts(const float* scores, float scale, float* shift, float* factor, float* sums) {
  const __m512 old = _mm512_load_ps(shift);
  const __m512 top = row_maxima(scores);
  const __mmask16 rows = _mm512_cmp_ps_mask(top, _mm512_add_ps(old, _mm512_set1_ps(kLazy / scale)), _CMP_GT_OQ);
  if (rows == 0) return 0;
  _mm512_mask_store_ps(shift, rows, top);
  const __m512 by = exp2_degree4(_mm512_mul_ps(_mm512_sub_ps(old, top), _mm512_set1_ps(scale)));
  _mm512_mask_store_ps(factor, rows, by);
  for (std::uint32_t left = rows; left != 0; left &= left - 1) {
    float* sum = sums + __builtin_ctz(left) * kLanes;
    _mm512_store_ps(sum, _mm512_mul_ps(_mm512_load_ps(sum), _mm512_set1_ps(factor[__builtin_ctz(left)])));
  }
  return rows;
}

/// First without looking for a maximum, unless the last tile raised one: the sums tell whether a shift was too low, and then it is done
/// again.
template <Parts parts>
std::uint32_t half_softmax(const SoftmaxTile& tile, BlockState& state, std::int64_t half) {
  const float* scores = tile.scores + half * kHalfRows * kTileKeys;
  const float scale = tile.scale * kLog2e;
  float* shift = state.shift + half * kHalfRows;
  float* sums = state.sums + half * kHalfRows * kLanes;
  BFloat16* to = tile.probabilities + half * 2 * kTile;
  alignas(64) float added[kHalfRows * kLanes];
  const std::uint32_t rising = bit(static_cast<int>(half));
  bool fits = false;
  if ((state.rising & rising) == 0) {
    const __m512i largest = half_probabilities<parts>(scores, scale, _mm512_load_ps(shift), to, added);
    fits = _mm512_cmp_ps_mask(_mm512_castsi512_ps(largest), _mm512_set1_ps(kMaxLaneSum), _CMP_NLE_UQ) == 0;
  }
  std::uint32_t rows = 0;
  if (!fits) {
    rows = raise_shifts(scores, scale, shift, state.factor + half * kHalfRows, sums);
    half_probabilities<parts>(scores, scale, _mm512_load_ps(shift), to, added);
    const __mmask16 empty = _mm512_cmp_ps_mask(_mm512_load_ps(shift), _mm512_set1_ps(-std::numeric_limits<float>::infinity()), _CMP_EQ_OQ);
    state.rising = (rows | empty) != 0 ? state.rising | rising : state.rising & ~rising;
  }
  for (std::int64_t i = 0; i < kHalfRows * kLanes; i += kLanes) {
    _mm512_store_ps(sums + i, _mm512_add_ps(_mm512_load_ps(sums + i), _mm512_load_ps(added + i)));
  }
  return rows << (half * kHalfRows);
}

}  // namespace

void reset(BlockState& state) {
  for (float& x : state.shift) x = -std::numeric_limits<float>::infinity();
  for (float& x : state.factor) x = 1;
  for (float& x : state.sums) x = 0;
  state.rising = 3;
}

std::uint32_t softmax(const SoftmaxTile& tile, BlockState& state) {
  if (tile.parts == Parts::one) return half_softmax<Parts::one>(tile, state, 0) | half_softmax<Parts::one>(tile, state, 1);
  return half_softmax<Parts::two>(tile, state, 0) | half_softmax<Parts::two>(tile, state, 1);
}

void rescale(const Output& out, const BlockState& state, std::uint32_t rows) {
  for (; rows != 0; rows &= rows - 1) {
    const int r = __builtin_ctz(rows);
    const __m512 by = _mm512_set1_ps(state.factor[r]);
    float* row = out.data + r * out.stride;
    for (std::int64_t c = 0; c < out.channels; c += kLanes) _mm512_store_ps(row + c, _mm512_mul_ps(_mm512_load_ps(row + c), by));
  }
}

void row_sums(const BlockState& state, float* sums) {
  for (std::int64_t r = 0; r < kBlockRows; ++r) sums[r] = _mm512_reduce_add_ps(_mm512_load_ps(state.sums + r * kLanes));
}
