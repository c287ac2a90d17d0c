// SPDX-License-Identifier: Apache-2.0
// The layout of structs that have no size field of their own: it never changes. Those of DLPack are dlpack.h's (surface/c/with_dlpack.c).
#include <gtest/gtest.h>

#include <cstddef>

#include "phasor/phasor.h"

namespace {

static_assert(sizeof(void*) != 8 ||
              (sizeof(phasor_tensor) == 48 && offsetof(phasor_tensor, device) == 8 && offsetof(phasor_tensor, ndim) == 16 &&
               offsetof(phasor_tensor, dtype) == 20 && offsetof(phasor_tensor, shape) == 24 && offsetof(phasor_tensor, strides) == 32 &&
               offsetof(phasor_tensor, byte_offset) == 40));

TEST(CLayout, small_structs_are_as_they_were) {
  EXPECT_EQ(sizeof(phasor_error), 512U);
  EXPECT_EQ(sizeof(phasor_dtype), 4U);
  EXPECT_EQ(sizeof(phasor_device), 8U);
  if (sizeof(void*) == 8) {
    EXPECT_EQ(sizeof(phasor_positions), 16U);
    EXPECT_EQ(sizeof(phasor_execution), 24U);
    EXPECT_EQ(sizeof(phasor_text), 24U);
    EXPECT_EQ(sizeof(phasor_axes), 40U);
    EXPECT_EQ(sizeof(phasor_rotated_at), 24U);
  }
}

}  // namespace
