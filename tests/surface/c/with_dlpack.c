/* SPDX-License-Identifier: Apache-2.0
 * After dlpack.h, Phasor's tensors are DLPack's; before it, they have the same layout: the offsets below are those of phasor/c/base.h. */
#include <dlpack/dlpack.h>
#include <stddef.h>

#include "phasor/phasor.h"

typedef char tensor_size[sizeof(DLTensor) == 48 ? 1 : -1];
typedef char tensor_device[offsetof(DLTensor, device) == 8 ? 1 : -1];
typedef char tensor_ndim[offsetof(DLTensor, ndim) == 16 ? 1 : -1];
typedef char tensor_dtype[offsetof(DLTensor, dtype) == 20 ? 1 : -1];
typedef char tensor_shape[offsetof(DLTensor, shape) == 24 ? 1 : -1];
typedef char tensor_byte_offset[offsetof(DLTensor, byte_offset) == 40 ? 1 : -1];

phasor_status rotate_managed(const phasor_rotary* rotary, DLManagedTensor* q, phasor_error* error);
phasor_status rotate_managed(const phasor_rotary* rotary, DLManagedTensor* q, phasor_error* error) {
  phasor_rotation rotation = {.size = sizeof rotation};
  rotation.q = &q->dl_tensor;
  return phasor_rotary_apply(rotary, &rotation, error);
}
