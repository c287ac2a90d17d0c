// SPDX-License-Identifier: Apache-2.0
// MLA's prepare_attention in f16.
#include "cuda/prepare/latent/kernels.cuh"

namespace phasor::cuda {

const void* latent_kernel_f16() { return reinterpret_cast<const void*>(&prepare_latent_pieces<DType::f16>); }
const void* plain_latent_kernel_f16(const PlainLatentCall& call) { return plain_latent_kernel<DType::f16>(call); }

}  // namespace phasor::cuda
