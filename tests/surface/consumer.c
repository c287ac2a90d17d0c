/* SPDX-License-Identifier: Apache-2.0
 * A user's program in C: rotates one query by what `phasor.h` says. */
#include <math.h>
#include <stdio.h>

#include "phasor/phasor.h"

int main(void) {
  phasor_error error;
  phasor_rotary* rotary = NULL;
  phasor_rotary_spec spec = {.size = sizeof spec};
  phasor_rotation rotation = {.size = sizeof rotation};
  float q[2] = {1, 0};
  int64_t shape[2] = {1, 2};
  phasor_tensor tensor = phasor_tensor_of(q, PHASOR_F32, shape, 2);

  spec.head_dim = 2;
  if (phasor_rotary_make(&spec, &rotary, &error) != PHASOR_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  rotation.q = &tensor;
  rotation.positions.offset = 1000000;
  if (phasor_rotary_apply(rotary, &rotation, &error) != PHASOR_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  phasor_rotary_free(rotary);
  printf("phasor %s: %.8f %.8f\n", phasor_version(), q[0], q[1]);
  return q[0] == (float)cos(1e6) && q[1] == (float)sin(1e6) ? 0 : 1;
}
