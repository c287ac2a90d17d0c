// SPDX-License-Identifier: Apache-2.0
// The backward kernels of one width, by dtype and term; each width has a file of its own, since they compile long.
#pragma once

#include "cuda/attention/hopper/backward/backward.cuh"

namespace phasor::cuda::hopper {

template <class Element, int kOfWidths, BackwardTerm kTerm>
BackwardKernel backward_kernel_of() {
  using B = BackwardBody<Element, kOfWidths, kTerm>;
  return {reinterpret_cast<const void*>(&differentiate_attention<B>), unsigned{B::kThreads}, int{sizeof(typename B::Shared)}};
}
template <class Element, int kOfWidths>
BackwardKernel backward_kernel_of(const BackwardWish& wish) {
  if (wish.sums) return backward_kernel_of<Element, kOfWidths, BackwardTerm::learned_bias>();
  return wish.diagonal ? backward_kernel_of<Element, kOfWidths, BackwardTerm::bias>()
                       : backward_kernel_of<Element, kOfWidths, BackwardTerm::none>();
}
template <int kOfWidths>
BackwardKernel backward_table_kernel_of(DType dtype) {
  return dtype == DType::f16 ? backward_kernel_of<__half, kOfWidths, BackwardTerm::table>()
                             : backward_kernel_of<__nv_bfloat16, kOfWidths, BackwardTerm::table>();
}
template <int kOfWidths>
BackwardKernel backward_keys_kernel_of(DType dtype) {
  return dtype == DType::f16 ? backward_kernel_of<__half, kOfWidths, BackwardTerm::key_table>()
                             : backward_kernel_of<__nv_bfloat16, kOfWidths, BackwardTerm::key_table>();
}
template <int kOfWidths>
BackwardKernel backward_kernel_of(const BackwardWish& wish) {
  return wish.dtype == DType::f16 ? backward_kernel_of<__half, kOfWidths>(wish) : backward_kernel_of<__nv_bfloat16, kOfWidths>(wish);
}

}  // namespace phasor::cuda::hopper
