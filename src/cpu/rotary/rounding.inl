// SPDX-License-Identifier: Apache-2.0
// Rounding of float32 values to the dtype of a tensor, kept in float32: products and tables of the numerics profiles.

#if !PHASOR_LANES
using math::KeepProduct;  // registers have one of their own
#endif

/// dtype other than f16 and bf16: nothing to do. A NaN must have no low bits set (see split_bf16), which arithmetic makes none of.
template <DType dtype>
struct RoundProduct {
  float operator()(float value) const {
    if constexpr (dtype == DType::bf16) return math::rounded_bf16(math::One<float>(), value);
    if constexpr (dtype == DType::f16) return math::rounded_f16(math::One<float>(), value);
    return value;
  }
#if PHASOR_LANES
  template <class V>
  HWY_INLINE V operator()(V value) const {
    const hn::DFromV<V> d;
    if constexpr (dtype == DType::bf16) return rounded_bf16(d, value);
    if constexpr (dtype == DType::f16) return promote_f16(d, demote_f16(d, value));
    return value;
  }
#endif
};
