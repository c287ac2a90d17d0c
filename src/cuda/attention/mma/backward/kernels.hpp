// SPDX-License-Identifier: Apache-2.0
// The kernels of the backward.
#pragma once

#include "cuda/attention/mma/kernels.hpp"

namespace phasor::cuda::attention::mma::backward {

Kernel kernel_64(DType dtype);
Kernel kernel_128(DType dtype);
/// With tables of values.
Kernel valued_kernel_64(DType dtype);
Kernel valued_kernel_128(DType dtype);
/// With features of the call's own that meet the only table.
Kernel featured_kernel_64(DType dtype);
Kernel featured_kernel_128(DType dtype);
/// With CoPE; the products with its table and their gradients come on top of these bytes.
Kernel counted_kernel_64(DType dtype);
Kernel counted_kernel_128(DType dtype);

}  // namespace phasor::cuda::attention::mma::backward
