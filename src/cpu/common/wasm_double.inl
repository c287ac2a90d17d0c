// SPDX-License-Identifier: Apache-2.0
// Arithmetic on doubles that Highway 1.0.3 lacks on WebAssembly, in Highway's own namespace and words. Only for versions without it.
#include <wasm_simd128.h>

namespace hwy::N_WASM {

template <size_t N, HWY_IF_LE128(double, N)>
HWY_API Vec128<double, N> Set(Simd<double, N, 0> /*d*/, double value) {
  return Vec128<double, N>{wasm_f64x2_splat(value)};
}
template <size_t N>
HWY_API Vec128<double, N> operator+(Vec128<double, N> a, Vec128<double, N> b) {
  return Vec128<double, N>{wasm_f64x2_add(a.raw, b.raw)};
}
template <size_t N>
HWY_API Vec128<double, N> operator-(Vec128<double, N> a, Vec128<double, N> b) {
  return Vec128<double, N>{wasm_f64x2_sub(a.raw, b.raw)};
}
template <size_t N>
HWY_API Vec128<double, N> operator*(Vec128<double, N> a, Vec128<double, N> b) {
  return Vec128<double, N>{wasm_f64x2_mul(a.raw, b.raw)};
}
template <size_t N>
HWY_API Vec128<double, N> MulAdd(Vec128<double, N> a, Vec128<double, N> b, Vec128<double, N> c) {
  return a * b + c;
}
template <size_t N>
HWY_API Vec128<double, N> NegMulAdd(Vec128<double, N> a, Vec128<double, N> b, Vec128<double, N> c) {
  return c - a * b;
}
template <size_t N>
HWY_API Vec128<double, N> Abs(Vec128<double, N> a) {
  return Vec128<double, N>{wasm_f64x2_abs(a.raw)};
}
template <size_t N>
HWY_API Mask128<double, N> Lt(Vec128<double, N> a, Vec128<double, N> b) {
  return Mask128<double, N>{wasm_f64x2_lt(a.raw, b.raw)};
}
template <size_t N>
HWY_API Mask128<double, N> Eq(Vec128<double, N> a, Vec128<double, N> b) {
  return Mask128<double, N>{wasm_f64x2_eq(a.raw, b.raw)};
}
template <size_t N>
HWY_API Vec128<float, N> DemoteTo(Simd<float, N, 0> /*d*/, Vec128<double, N> v) {
  return Vec128<float, N>{wasm_f32x4_demote_f64x2_zero(v.raw)};
}

}  // namespace hwy::N_WASM
