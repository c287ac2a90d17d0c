// SPDX-License-Identifier: Apache-2.0
// MLA's prepare_attention in bf16.
#include "cuda/prepare/latent/kernels.cuh"

namespace phasor::cuda {

const void* latent_kernel_bf16() { return reinterpret_cast<const void*>(&prepare_latent_pieces<DType::bf16>); }
const void* plain_latent_kernel_bf16(const PlainLatentCall& call) { return plain_latent_kernel<DType::bf16>(call); }

}  // namespace phasor::cuda
