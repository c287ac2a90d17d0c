// SPDX-License-Identifier: Apache-2.0
// The attention kernels of one target. Included once in each target's namespace by cpu/attention/kernels.cpp, with PHASOR_LANES 1 where
// there are registers, 0 for plain C++.
// clang-format off
#if PHASOR_LANES
#include "cpu/common/lanes.inl"
#endif
#include "cpu/common/vec.inl"
#include "cpu/attention/tile/pack.inl"
#include "cpu/attention/tile/gemm.inl"
#include "cpu/attention/tile/softmax_rows.inl"
// clang-format on

/// The parts by themselves, for the tests.
template <class T>
void exponential_of(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += lanes<T>) store(exponential<T>(load(x + i)), y + i);
}
template <class T>
void hyperbolic_tangent_of(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += lanes<T>) store(hyperbolic_tangent<T>(load(x + i)), y + i);
}
template <class T>
constexpr AttentionParts<T> parts() {
  return {gemm<T>,      exponential_of<T>, hyperbolic_tangent_of<T>, pack_rows<T>,    pack_transposed<T>,
          transpose<T>, unpack_rows<T>,    update_softmax<T>,        probabilities<T>};
}
