// SPDX-License-Identifier: Apache-2.0
// Transformer-XL's sinusoid rows against cosl and sinl, in both orders, every dtype, any strides; and calls that do not fit.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "bias_specs.hpp"
#include "tolerance.hpp"

namespace phasor::test {
namespace {

using Ids = std::vector<std::int64_t>;

template <class T>
void expect_rows(const XlSinusoids& spec, Tensor<T>& out, const Ids& distances) {
  const std::int64_t half = spec.width / 2;
  std::size_t next = 0;
  for (std::int64_t b = 0; b < out.shape()[0]; ++b) {
    for (std::int64_t t = 0; t < out.shape()[1]; ++t) {
      std::int64_t r = distances[next++];
      if (spec.clamp != 0) r = std::clamp(r, -spec.clamp, spec.clamp);
      for (std::int64_t i = 0; i < half; ++i) {
        const Wide angle = static_cast<Wide>(r) * reference::frequency(spec.base, spec.width, i);
        const bool halves = spec.order == XlOrder::halves;
        // Half an ulp of a value up to 1, and what the long double angle of a few hundred radians leaves of it.
        const double bound = tolerance_of(dtype_of<T>).epsilon / 4 + 1e-15;
        EXPECT_NEAR(Element<T>::widen(out.at(b, t, 0, halves ? i : 2 * i)), static_cast<double>(std::sin(angle)), bound) << r << " " << i;
        EXPECT_NEAR(Element<T>::widen(out.at(b, t, 0, halves ? half + i : 2 * i + 1)), static_cast<double>(std::cos(angle)), bound)
            << r << " " << i;
      }
    }
  }
}

TEST(xl_sinusoids, are_sines_and_cosines_of_the_distance_in_both_orders_and_every_dtype) {
  const Ids distances = {5, 4, 3, 0, -1, -300, 300, 2, 1, 7};
  for_each_dtype([&](auto tag) {
    using T = typename decltype(tag)::type;
    for (const XlSinusoids& spec : {XlSinusoids{.width = 6}, {.width = 10, .base = 500, .order = XlOrder::interleaved, .clamp = 4}}) {
      Tensor<T> out({2, 5, 1, spec.width}, {spec.width + 1, 3 * (spec.width + 1), 0, 1}, 1);
      ASSERT_TRUE(fill_xl_sinusoids(out.view(), spec, positions(distances.data(), 2, 5)).ok());
      expect_rows(spec, out, distances);
    }
  });
}

TEST(xl_sinusoids, of_one_list_serve_every_batch_row) {
  const Ids distances = {3, -2};
  Tensor<float> out({2, 2, 1, 4}, 1);
  ASSERT_TRUE(fill_xl_sinusoids(out.view(), {.width = 4}, positions(distances.data(), 2)).ok());
  expect_rows<float>({.width = 4}, out, {3, -2, 3, -2});
}

TEST(xl_sinusoids, that_do_not_fit_say_why) {
  std::vector<float> memory(16, 7);
  const Ids two = {0, 1};
  const double half = 0.5;
  const auto message = [&](const Extents& shape, const XlSinusoids& spec, const Positions& p) {
    return fill_xl_sinusoids(view(memory.data(), shape), spec, p).message();
  };
  const Positions at = positions(two.data(), 2);
  EXPECT_EQ(message({1, 2, 1, 5}, {.width = 5}, at),
            "fill_xl_sinusoids: the sinusoids are those of a rotary encoding of width 5; RotarySpec: head_dim is 5, wanted an even number");
  EXPECT_EQ(message({1, 2, 2, 4}, {.width = 4}, at), "fill_xl_sinusoids: out has 2 heads and 4 channels, wanted 1 and 4");
  EXPECT_EQ(message({1, 3, 1, 4}, {.width = 4}, at), "fill_xl_sinusoids: positions have 2 tokens, wanted 3");
  EXPECT_EQ(message({1, 1, 1, 4}, {.width = 4}, positions(&half, 1)), "fill_xl_sinusoids: distances are f64, wanted i32 or i64");
  EXPECT_EQ(message({1, 2, 1, 4}, {.width = 4, .clamp = -1}, at), "fill_xl_sinusoids: clamp is -1, wanted 0 or above");
  EXPECT_EQ(memory, std::vector<float>(16, 7));
}

}  // namespace
}  // namespace phasor::test
