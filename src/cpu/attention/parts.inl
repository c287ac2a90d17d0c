// SPDX-License-Identifier: Apache-2.0
// The parts of attention of one target by themselves, for the tests. Included once in each target's namespace.

#include "cpu/attention/body.inl"

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
constexpr AttentionPartsOfTarget kKernels = {parts<float>(), parts<double>()};
