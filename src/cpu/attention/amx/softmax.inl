// SPDX-License-Identifier: Apache-2.0
// Softmax of a tile of scores to bfloat16 probabilities, in place, half a block (16 rows, a lane each) at a time. Included by
// cpu/attention/amx/processor.cpp.

namespace {

constexpr std::int64_t kHalfRows = 16;
constexpr float kLazy = 8;                   // octaves that a score may lie above its row's shift
constexpr float kMaxLaneSum = 4.125F * 256;  // four probabilities of 2^kLazy, with their errors
constexpr float kLog2e = 0x1.715476p+0F;

inline __m512 minus_infinity() { return _mm512_set1_ps(-std::numeric_limits<float>::infinity()); }

inline __m512i upper_halves() { return _mm512_set1_epi32(static_cast<int>(0xffff0000)); }

/// Two registers of float32 cut to bfloat16: those of a in the low halves of 32 bits, those of b in the high ones.
inline __m512i cut_pair(__m512i a, __m512i b) { return _mm512_ternarylogic_epi32(upper_halves(), b, _mm512_srli_epi32(a, 16), 0xca); }

inline __m512 cut(__m512 x) { return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), upper_halves())); }

/// What is left of x after cutting, with half an ulp of bfloat16 for the next cut.
inline __m512i rest(__m512 x) { return _mm512_add_epi32(_mm512_castps_si512(_mm512_sub_ps(x, cut(x))), _mm512_set1_epi32(0x8000)); }

template <Parts parts>
inline void exponentiate(const float* scores, __m512 scale, __m512 shift, __m512 p[4]) {
  for (int i = 0; i < 4; ++i) {
    const __m512 x = _mm512_fmsub_ps(_mm512_load_ps(scores + 16 * i), scale, shift);
    p[i] = parts == Parts::one ? exp2_degree3(x, 0x1p-8F) : exp2_degree4(x);
  }
}

/// The sums of four. Of one part, what is summed is what was rounded, so that the weights add up to 1.
template <Parts parts>
inline __m512 sum_of(const __m512 p[4]) {
  if constexpr (parts == Parts::two) return _mm512_add_ps(_mm512_add_ps(p[0], p[1]), _mm512_add_ps(p[2], p[3]));
  return _mm512_add_ps(_mm512_add_ps(cut(p[0]), cut(p[1])), _mm512_add_ps(cut(p[2]), cut(p[3])));
}

/// Over the row's scores: the upper parts of 32 keys, those of the other 32, then the lower parts.
template <Parts parts>
inline void store_row(const __m512 p[4], float* row) {
  for (int h = 0; h < 2; ++h) {
    const __m512 a = p[2 * h];
    const __m512 b = p[2 * h + 1];
    _mm512_store_si512(row + 16 * h, cut_pair(_mm512_castps_si512(a), _mm512_castps_si512(b)));
    if constexpr (parts == Parts::two) _mm512_store_si512(row + 32 + 16 * h, cut_pair(rest(a), rest(b)));
  }
}

enum class Fold { maximum, sum };

template <Fold fold>
inline __m512 folded(__m512 a, __m512 b) {
  return fold == Fold::maximum ? _mm512_max_ps(a, b) : _mm512_add_ps(a, b);
}

/// The largest lane, or the sum, of each of 16 registers, in order.
template <Fold fold>
inline __m512 fold_each(const __m512 v[16]) {
  __m512 a[8], b[4], c[2];
  for (int i = 0; i < 8; ++i) {
    a[i] = folded<fold>(_mm512_shuffle_f32x4(v[i], v[i + 8], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 8], 0xee));
  }
  for (int i = 0; i < 4; ++i) {
    b[i] = folded<fold>(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd));
  }
  for (int i = 0; i < 2; ++i) c[i] = folded<fold>(_mm512_unpacklo_ps(b[i], b[i + 2]), _mm512_unpackhi_ps(b[i], b[i + 2]));
  const __m512d d0 = _mm512_castps_pd(c[0]);
  const __m512d d1 = _mm512_castps_pd(c[1]);
  const __m512 e = folded<fold>(_mm512_castpd_ps(_mm512_unpacklo_pd(d0, d1)), _mm512_castpd_ps(_mm512_unpackhi_pd(d0, d1)));
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15), e);
}

inline __m512 row_maxima(const float* scores) {
  __m512 v[16];
  for (std::int64_t r = 0; r < kHalfRows; ++r) {
    const float* s = scores + r * kTileKeys;
    v[r] = _mm512_max_ps(_mm512_max_ps(_mm512_load_ps(s), _mm512_load_ps(s + 16)),
                         _mm512_max_ps(_mm512_load_ps(s + 32), _mm512_load_ps(s + 48)));
  }
  return fold_each<Fold::maximum>(v);
}

/// 16 rows: what softmax reads and writes.
struct Half {
  float* tile;
  float scale;  // in octaves
  float* shift;
  float* factor;
  float* sums;
};

/// Raises the shifts that are too low for the scores of rows from `first` on, and scales the sums accordingly; gives the rows.
inline std::uint32_t raise_shifts(const Half& half, std::int64_t first) {
  const __m512 old = _mm512_load_ps(half.shift);
  const __m512 top = _mm512_mul_ps(row_maxima(half.tile), _mm512_set1_ps(half.scale));
  const auto asked = static_cast<__mmask16>(0xffffU << first);
  const __mmask16 rows = _mm512_mask_cmp_ps_mask(asked, top, _mm512_add_ps(old, _mm512_set1_ps(kLazy)), _CMP_GT_OQ);
  if (rows == 0) return 0;
  _mm512_mask_store_ps(half.shift, rows, top);
  _mm512_mask_store_ps(half.factor, rows, exp2_degree4(_mm512_sub_ps(old, top)));
  for (std::uint32_t left = rows; left != 0; left &= left - 1) {
    const int r = __builtin_ctz(left);
    float* sum = half.sums + r * kLanes;
    _mm512_store_ps(sum, _mm512_mul_ps(_mm512_load_ps(sum), _mm512_set1_ps(half.factor[r])));
  }
  return rows;
}

inline bool has_empty_rows(const Half& half) { return _mm512_cmp_ps_mask(_mm512_load_ps(half.shift), minus_infinity(), _CMP_EQ_OQ) != 0; }

/// Rows from `first` on, until one whose shift is too low for it; gives that one, or the number of rows. Row `raised` is not asked.
template <Parts parts>
inline std::int64_t exponentiate_rows(const Half& half, std::int64_t first, std::int64_t raised) {
  alignas(64) float shifts[kHalfRows];  // 0 for rows masked so far
  const __m512 shift = _mm512_load_ps(half.shift);
  _mm512_store_ps(shifts, _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(shift, minus_infinity(), _CMP_NEQ_UQ), shift));
  const __m512 scale = _mm512_set1_ps(half.scale);
  for (std::int64_t r = first; r < kHalfRows; ++r) {
    float* row = half.tile + r * kTileKeys;
    __m512 p[4];
    exponentiate<parts>(row, scale, _mm512_set1_ps(shifts[r]), p);
    const __m512 sum = sum_of<parts>(p);
    if (_mm512_cmp_ps_mask(sum, _mm512_set1_ps(kMaxLaneSum), _CMP_GT_OQ) != 0 && r != raised) [[unlikely]]
      return r;
    store_row<parts>(p, row);
    _mm512_store_ps(half.sums + r * kLanes, _mm512_add_ps(_mm512_load_ps(half.sums + r * kLanes), sum));
  }
  return kHalfRows;
}

/// Without looking for maxima first, unless the last tile raised one: a row's sums tell when its shift is too low.
template <Parts parts>
std::uint32_t half_softmax(const Half& half, bool& rising) {
  std::uint32_t rows = rising ? raise_shifts(half, 0) : 0;
  std::int64_t r = exponentiate_rows<parts>(half, 0, -1);
  while (r < kHalfRows) {
    rows |= raise_shifts(half, r);
    r = exponentiate_rows<parts>(half, r, r);
  }
  rising = rows != 0 || (rising && has_empty_rows(half));
  keep_awake();
  return rows;
}

}  // namespace

void reset(BlockState& state) {
  for (float& x : state.shift) x = -std::numeric_limits<float>::infinity();
  for (float& x : state.factor) x = 1;
  for (float& x : state.sums) x = 0;
  for (bool& x : state.rising) x = true;
}

std::uint32_t softmax(float* tile, float scale, Parts parts, BlockState& state) {
  std::uint32_t rows = 0;
  for (std::int64_t h = 0; h < 2; ++h) {
    const std::int64_t r = h * kHalfRows;
    const Half half = {tile + r * kTileKeys, scale * kLog2e, state.shift + r, state.factor + r, state.sums + r * kLanes};
    bool& rising = state.rising[h];
    rows |= (parts == Parts::one ? half_softmax<Parts::one>(half, rising) : half_softmax<Parts::two>(half, rising)) << r;
  }
  return rows;
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
  for (std::int64_t h = 0; h < kBlockRows; h += kHalfRows) {
    __m512 rows[16];
    for (std::int64_t r = 0; r < kHalfRows; ++r) rows[r] = _mm512_load_ps(state.sums + (h + r) * kLanes);
    _mm512_storeu_ps(sums + h, fold_each<Fold::sum>(rows));
  }
}
