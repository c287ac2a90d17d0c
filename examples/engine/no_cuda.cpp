// SPDX-License-Identifier: Apache-2.0
// In the place of cuda.cu where there is no nvcc.
#include <cstdio>

#include "device.h"

const engine_device* engine_cuda(char* message, size_t room) {
  std::snprintf(message, room, "this engine was built without CUDA");
  return nullptr;
}
