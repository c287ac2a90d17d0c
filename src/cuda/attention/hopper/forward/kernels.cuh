// SPDX-License-Identifier: Apache-2.0
// The forward kernels of one pair of widths, by dtype, term and soft cap; each pair has a file of its own, since they compile long.
#pragma once

#include "cuda/attention/hopper/forward/forward.cuh"
#include "cuda/attention/hopper/forward/valued.cuh"

namespace phasor::cuda::hopper {

template <class Element, int kOfWidths, class Term, bool kCapped>
ForwardKernel kernel_of() {
  using B = Body<Element, kOfWidths, Term, kCapped>;
  return {reinterpret_cast<const void*>(&attend<B>), unsigned{B::kThreads}, int{sizeof(typename B::Shared)}};
}
template <class Element, int kOfWidths>
ForwardKernel kernel_of(const KernelWish& wish) {
  if (wish.capped) return kernel_of<Element, kOfWidths, Plain, true>();  // `takes` refuses both at once
  return wish.diagonal ? kernel_of<Element, kOfWidths, Diagonal, false>() : kernel_of<Element, kOfWidths, Plain, false>();
}
template <int kOfWidths, class Term = Clipped>
ForwardKernel table_kernel_of(DType dtype) {
  return dtype == DType::f16 ? kernel_of<__half, kOfWidths, Term, false>() : kernel_of<__nv_bfloat16, kOfWidths, Term, false>();
}
template <int kOfWidths>
ForwardKernel kernel_of(const KernelWish& wish) {
  return wish.dtype == DType::f16 ? kernel_of<__half, kOfWidths>(wish) : kernel_of<__nv_bfloat16, kOfWidths>(wish);
}

}  // namespace phasor::cuda::hopper
