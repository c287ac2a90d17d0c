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
  for (const std::int64_t queries : {5, 8}) {
    const ref::Shape shape{.batch = 2, .queries = queries, .keys = 8, .heads = 4, .key_heads = 2, .width = 4, .value_width = 3};
    for (const NamedScheme& one : every_scheme(shape, 1)) {
      const auto* xpos = std::get_if<ref::Xpos>(&one.scheme);
      if (xpos != nullptr && xpos->keys_rotated) continue;  // the library has none
      ref::Problem p = random_problem(shape, 2);
      p.schemes = {one.scheme};
      p.visibility.causal = one.causal_only || std::holds_alternative<ref::Cope>(one.scheme);
      for (const DType dtype : {DType::f64, DType::f32}) expect_as_reference(p, dtype, one.name);
    }
  }
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
