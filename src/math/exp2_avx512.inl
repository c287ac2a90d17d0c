// SPDX-License-Identifier: Apache-2.0
// 2^x in AVX-512 registers by a reduction, a polynomial and a scaling; no guard and no namespace: included where the instruction set is on.

/// Near 2^x with a relative error below 2^-13.7, plus `bias` times 2^floor(x). x of -infinity gives 0, a NaN stays one; x is below 128.
/// A bias of half a bfloat16 ulp makes cutting the low half off a rounding to nearest.
inline __m512 exp2_degree3(__m512 x, float bias) {
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);  // in [0, 1]; 0 for an infinity
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.3f96a4p-4F), f, _mm512_set1_ps(0x1.cefc4cp-3F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.64444cp-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.fff632p-1F + bias));
  return _mm512_scalef_ps(p, x);  // floors x by itself
}

/// The same with a relative error below 2^-18.5.
inline __m512 exp2_degree4(__m512 x) {
  const __m512 f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.bb7cd4p-7F), f, _mm512_set1_ps(0x1.aa13f0p-5F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.ee798ap-3F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.62d166p-1F));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0x1.00002cp+0F));
  return _mm512_scalef_ps(p, x);
}
