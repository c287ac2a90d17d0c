// SPDX-License-Identifier: Apache-2.0
// Matrix products of attention and their operands, on every target: awkward sizes and strides, packing of every dtype.
#include <cmath>
#include <limits>
#include <vector>

#include "every_part.hpp"

namespace phasor::test {
namespace {

using attend::kKeyTile;
using attend::kPadding;
using attend::padded;
using cpu::AttentionParts;
using cpu::Gemm;

// ---- Products ----

struct Size {
  std::int64_t m, n, k;
};

template <class T>
struct Product {
  Size size;
  bool transposed;
  bool add;
  bool factor;
};

/// |is - wanted| of an element, against the bound of a sum of k products in any order, k + 2 roundings of the sum of sizes.
template <class T>
bool near_sum(T is, double wanted, double sizes, std::int64_t k) {
  return std::abs(static_cast<double>(is) - wanted) <= static_cast<double>(k + 2) * std::numeric_limits<T>::epsilon() / 2 * sizes;
}

template <class T>
void check_product(const AttentionParts<T>& parts, const Product<T>& p) {
  const auto [m, n, k] = p.size;
  const std::int64_t gap = 3;  // rows are further apart than they are long; what lies between must stay
  const std::int64_t a_row = p.transposed ? 1 : k + gap;
  const std::int64_t a_k = p.transposed ? m + gap : 1;
  const std::vector<T> a = numbers<T>((m + gap) * (k + gap), 1);
  const std::vector<T> b = numbers<T>((k + 1) * (n + gap), 2);
  const std::vector<T> before = numbers<T>(m * (n + gap) + gap, 3);
  const std::vector<T> factor = numbers<T>(m, 4);
  std::vector<T> c = before;
  parts.gemm(Gemm<T>{m, n, k, a.data(), a_row, a_k, b.data(), n + gap, c.data(), n + gap, p.add, p.factor ? factor.data() : nullptr});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n + gap; ++j) {
      const std::size_t at = static_cast<std::size_t>(i * (n + gap) + j);
      if (j >= n) {
        ASSERT_EQ(c[at], before[at]) << "between rows " << i << " " << j;
        continue;
      }
      double sum = p.add ? static_cast<double>(before[at]) * (p.factor ? static_cast<double>(factor[static_cast<std::size_t>(i)]) : 1) : 0;
      double sizes = std::abs(sum);
      for (std::int64_t t = 0; t < k; ++t) {
        const double x =
            static_cast<double>(a[static_cast<std::size_t>(i * a_row + t * a_k)]) * b[static_cast<std::size_t>(t * (n + gap) + j)];
        sum += x;
        sizes += std::abs(x);
      }
      ASSERT_TRUE(near_sum(c[at], sum, sizes * (1 + 0x1p-20), k))
          << m << "x" << n << "x" << k << " at " << i << " " << j << ": " << c[at] << " " << sum;
    }
  }
}

TEST(AttentionGemm, is_the_product_for_every_number_of_rows_and_columns) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    for (std::int64_t m = 1; m <= 15; ++m) {
      for (const std::int64_t n : {16, 32, 48, 64, 80, 96, 112, 144})
        check_product<T>(parts, {{m, n, 7}, m % 2 == 0, n % 32 == 0, m % 3 == 0});
    }
  });
}

TEST(AttentionGemm, takes_strides_sums_and_factors) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    for (const Size size : {Size{96, 64, 64}, Size{97, 64, 128}, Size{5, 256, 1}, Size{64, 128, 33}, Size{3, 16, 0}, Size{8, 16, 4},
                            Size{12, 48, 21}, Size{15, 32, 2}}) {
      for (const bool transposed : {false, true}) {
        check_product<T>(parts, {size, transposed, false, false});
        check_product<T>(parts, {size, transposed, true, false});
        check_product<T>(parts, {size, transposed, true, true});
      }
    }
  });
}

TEST(AttentionGemm, of_no_rows_or_columns_writes_nothing) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    check_product<T>(parts, {{0, 16, 4}, false, false, false});
    check_product<T>(parts, {{4, 0, 4}, false, false, false});
  });
}

// ---- Packing ----

/// body(parts, T, element) for every dtype on every target.
template <class Body>
void on_every_dtype(Body body) {
  on_every_part([&](const auto& parts, auto zero) {
    if constexpr (std::is_same_v<decltype(zero), double>) {
      body(parts, zero, Tag<double>());
    } else {
      body(parts, zero, Tag<float>());
      body(parts, zero, Tag<Float16>());
      body(parts, zero, Tag<BFloat16>());
    }
  });
}

TEST(AttentionPack, widens_multiplies_and_pads_with_zeros) {
  on_every_dtype([](const auto& parts, auto zero, auto tag) {
    using T = decltype(zero);
    using S = typename decltype(tag)::type;
    for (const std::int64_t width : {1, 3, 16, 31, 64, 80, 129}) {
      Tensor<S> tensor({1, 5, 2, width}, 9);
      tensor.with_numbers(0, width);
      const std::int64_t stride = padded(width) + 1;
      std::vector<T> out(static_cast<std::size_t>(7 * stride), T{77});
      parts.pack({&tensor.at(0, 0, 1, 0), dtype_of<S>, 2 * width, 5, width}, {out.data(), stride, 7}, T(0.375));
      for (std::int64_t r = 0; r < 7; ++r) {
        for (std::int64_t c = 0; c < stride; ++c) {
          const T wanted = c == padded(width) ? T{77} : r < 5 && c < width ? Element<S>::widen(tensor.at(0, r, 1, c)) * T(0.375) : T{0};
          ASSERT_EQ(out[static_cast<std::size_t>(r * stride + c)], wanted) << width << ": " << r << " " << c;
        }
      }
    }
  });
}

TEST(AttentionPack, turns_rows_into_columns) {
  on_every_dtype([](const auto& parts, auto zero, auto tag) {
    using T = decltype(zero);
    using S = typename decltype(tag)::type;
    for (const std::int64_t width : {1, 5, 32, 64, 67, 128, 200}) {
      for (const std::int64_t rows : {0, 1, 15, 16, 33, 64}) {
        Tensor<S> tensor({1, std::max<std::int64_t>(rows, 1), 3, width}, 9);
        tensor.with_numbers(0, width);
        const std::int64_t stride = kKeyTile + 1;
        std::vector<T> out(static_cast<std::size_t>(padded(width) * stride), T{77});
        parts.pack_transposed({&tensor.at(0, 0, 2, 0), dtype_of<S>, 3 * width, rows, width}, {out.data(), stride, padded(width)});
        for (std::int64_t c = 0; c < padded(width); ++c) {
          for (std::int64_t r = 0; r < stride; ++r) {
            const T wanted = r == kKeyTile ? T{77} : r < rows && c < width ? Element<S>::widen(tensor.at(0, r, 2, c)) : T{0};
            ASSERT_EQ(out[static_cast<std::size_t>(c * stride + r)], wanted) << width << " " << rows << ": " << r << " " << c;
          }
        }
      }
    }
  });
}

TEST(AttentionPack, transposes_tiles_of_any_size) {
  on_every_part([](const auto& parts, auto zero) {
    using T = decltype(zero);
    for (const Size size : {Size{1, 1, 0}, Size{96, 64, 0}, Size{17, 5, 0}, Size{3, 70, 0}, Size{64, 96, 0}}) {
      const std::vector<T> in = numbers<T>(size.m * (size.n + 2), 5);
      std::vector<T> out(static_cast<std::size_t>(size.n * (size.m + 1)), T{77});
      parts.transpose({in.data(), size.n + 2, size.m}, size.n, {out.data(), size.m + 1, size.n});
      for (std::int64_t c = 0; c < size.n; ++c) {
        for (std::int64_t r = 0; r <= size.m; ++r) {
          const T wanted = r == size.m ? T{77} : in[static_cast<std::size_t>(r * (size.n + 2) + c)];
          ASSERT_EQ(out[static_cast<std::size_t>(c * (size.m + 1) + r)], wanted) << r << " " << c;
        }
      }
    }
  });
}

TEST(AttentionUnpack, multiplies_rounds_to_nearest_even_and_writes_nothing_else) {
  on_every_dtype([](const auto& parts, auto zero, auto tag) {
    using T = decltype(zero);
    using S = typename decltype(tag)::type;
    for (const std::int64_t width : {1, 3, 16, 31, 64, 129}) {
      Tensor<S> is({1, 5, 2, width}, 9);
      Tensor<S> wanted = is;
      const std::vector<T> in = numbers<T>(5 * padded(width), 6);
      const std::vector<T> factor = numbers<T>(5, 7);
      for (std::int64_t r = 0; r < 5; ++r) {
        for (std::int64_t c = 0; c < width; ++c) {
          wanted.at(0, r, 1, c) =
              Element<S>::narrow(in[static_cast<std::size_t>(r * padded(width) + c)] * factor[static_cast<std::size_t>(r)]);
        }
      }
      parts.unpack({in.data(), padded(width), 5}, factor.data(), {&is.at(0, 0, 1, 0), dtype_of<S>, 2 * width, 5, width});
      EXPECT_TRUE(same_bits(is.memory, wanted.memory)) << width;
    }
  });
}

}  // namespace
}  // namespace phasor::test
