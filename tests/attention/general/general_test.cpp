// SPDX-License-Identifier: Apache-2.0
// CUDA's general kernels of attention, run on the host, against the double reference.
#include <gtest/gtest.h>

#include <cstdlib>

#include "attention/general/machine.hpp"
#include "attention/support/held.hpp"

namespace phasor::test {
namespace {

TEST(CudaAttentionOnHost, every_scheme_is_the_reference) {
  const ReplacedBackend general = general_attention();
  expect_every_scheme_as_reference();
}

TEST(CudaAttentionOnHost, every_mask_and_shape_is_the_reference) {
  const ReplacedBackend general = general_attention();
  for (const ref::Shape& shape : edge_shapes()) {
    for (const NamedMask& mask : every_mask(shape)) {
      ref::Problem p = random_problem(shape, 1);
      p.visibility = mask.visibility;
      const std::string name = mask.name + " " + std::to_string(shape.queries) + " x " + std::to_string(shape.keys);
      expect_as_reference(p, DType::f64, name);
      expect_forward(p, DType::f32, name, Order::heads_first);
    }
  }
}

/// PHASOR_TEST_GENERAL=1: every other test of attention with these kernels, too.
const bool everywhere = [] {
  if (std::getenv("PHASOR_TEST_GENERAL") == nullptr) return false;
  static const ReplacedBackend general = general_attention();
  return true;
}();

}  // namespace
}  // namespace phasor::test
