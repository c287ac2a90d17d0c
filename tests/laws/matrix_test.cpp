// SPDX-License-Identifier: Apache-2.0
// Laws of the matrices one can print: R(m) is what apply does and orthogonal up to the amplitude, the relative matrix is R(m)^T R(n).
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "laws/cases.hpp"
#include "laws/tolerance.hpp"

namespace phasor::laws {
namespace {

using Product = std::vector<long double>;  // row by row

Matrix value_of(Result<Matrix> matrix) {
  if (!matrix) RC_FAIL(matrix.status().message());
  return *std::move(matrix);
}

long double entry(const Matrix& m, std::int64_t row, std::int64_t column) {
  return m.values[static_cast<std::size_t>(row * m.columns + column)];
}

/// a^T b, exactly but for long double.
Product transposed_times(const Matrix& a, const Matrix& b) {
  Product product(static_cast<std::size_t>(a.columns * b.columns), 0);
  for (std::int64_t i = 0; i < a.columns; ++i) {
    for (std::int64_t k = 0; k < a.rows; ++k) {
      const long double factor = entry(a, k, i);
      if (factor == 0) continue;
      for (std::int64_t j = 0; j < b.columns; ++j) product[static_cast<std::size_t>(i * b.columns + j)] += factor * entry(b, k, j);
    }
  }
  return product;
}

long double squared_amplitude(const Rotary& rotary) { return static_cast<long double>(rotary.amplitude()) * rotary.amplitude(); }

RotarySpec any_spec_across_pairings() {
  RotarySpec spec = *any_spec();
  if (*rc::gen::arbitrary<bool>()) spec.output_pairing = *rc::gen::element(Pairing::half, Pairing::interleaved);
  return spec;
}

RC_GTEST_PROP(MatrixLaws, the_rotation_matrix_does_what_apply_does, ()) {
  Case c = *any_case();
  if (*rc::gen::arbitrary<bool>()) c.spec.output_pairing = *rc::gen::element(Pairing::half, Pairing::interleaved);
  c.shape[0] = c.shape[1] = 1;
  c.strides = contiguous_strides(c.shape);
  const Rotary rotary = made(c.spec);
  const std::vector<std::int64_t> at = {any_position(63)};
  const Matrix matrix = value_of(rotation_matrix(rotary, at[0]));
  RC_ASSERT(matrix.rows == c.spec.rotary_width && matrix.columns == c.spec.rotary_width);
  const Tensor x = drawn(c);
  const double error = rotation_error(c.dtype) + kTable + summation_error(2);
  const bool writes_half = c.spec.output_pairing.value_or(c.spec.pairing) == Pairing::half;
  on_every_target([&] {
    const Tensor y = rotated(rotary, x, view_of(at, c), c.place);
    for_each_head(c.shape, [&](const Index& head) {
      for (std::int64_t row = 0; row < matrix.rows; ++row) {
        long double wanted = 0;
        for (std::int64_t column = 0; column < matrix.columns; ++column) {
          wanted += entry(matrix, row, column) * x[channel(head, c.spec.rotary_offset + column)];
        }
        const long double norm = rotary.amplitude() * pair_of(x, c.spec, head, writes_half ? row % (matrix.rows / 2) : row / 2).norm();
        RC_ASSERT(std::fabs(y[channel(head, c.spec.rotary_offset + row)] - wanted) <= error * norm);
      }
    });
  });
}

RC_GTEST_PROP(MatrixLaws, the_rotation_matrix_is_orthogonal_up_to_the_amplitude, ()) {
  const Rotary rotary = made(any_spec_across_pairings());
  const Matrix matrix = value_of(rotation_matrix(rotary, any_position(63)));
  const Product product = transposed_times(matrix, matrix);
  const long double scale = squared_amplitude(rotary);
  for (std::int64_t i = 0; i < matrix.columns; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      const long double wanted = i == j ? scale : 0;
      RC_ASSERT(std::fabs(product[static_cast<std::size_t>(i * matrix.columns + j)] - wanted) <= kTableProduct * scale);
    }
  }
}

RC_GTEST_PROP(MatrixLaws, the_relative_matrix_is_the_transpose_of_one_rotation_times_the_other, ()) {
  const Rotary rotary = made(any_spec_across_pairings());
  const std::int64_t query = any_position(62);
  const std::int64_t key = any_position(62);
  const Matrix relative = value_of(relative_matrix(rotary, query, key));
  const Product product = transposed_times(value_of(rotation_matrix(rotary, query)), value_of(rotation_matrix(rotary, key)));
  const double error = (kTableProduct + kRelativeMatrix) * static_cast<double>(squared_amplitude(rotary));
  RC_ASSERT(relative.values.size() == product.size());
  for (std::size_t i = 0; i < product.size(); ++i) RC_ASSERT(std::fabs(relative.values[i] - product[i]) <= error);
}

/// Seed 004: q^T R((n - m) frequency) k, with the key's position first.
RC_GTEST_PROP(MatrixLaws, the_relative_matrix_gives_the_score, ()) {
  Case c = *any_case();
  c.shape = {1, 2, 1, c.spec.head_dim};  // token 0 is the query, token 1 the key
  c.strides = contiguous_strides(c.shape);
  const Rotary rotary = made(c.spec);
  const std::vector<std::int64_t> at = {any_position(40), any_position(40)};
  const Matrix relative = value_of(relative_matrix(rotary, at[0], at[1]));
  const Tensor x = drawn(c);
  const std::int64_t first = c.spec.rotary_offset;
  long double wanted = 0;
  long double norms[2] = {0, 0};
  for (std::int64_t i = 0; i < relative.rows; ++i) {
    for (std::int64_t j = 0; j < relative.columns; ++j) wanted += x[{0, 0, 0, first + i}] * entry(relative, i, j) * x[{0, 1, 0, first + j}];
    for (std::int64_t token = 0; token < 2; ++token) norms[token] += std::pow(static_cast<long double>(x[{0, token, 0, first + i}]), 2);
  }
  const double error = rotations_error(c.dtype, 2) + kRelativeMatrix + summation_error(relative.rows * 2);
  on_every_target([&] {
    const Tensor y = rotated(rotary, x, view_of(at, c), c.place);
    long double score = 0;
    for (std::int64_t i = 0; i < relative.rows; ++i) score += static_cast<long double>(y[{0, 0, 0, first + i}]) * y[{0, 1, 0, first + i}];
    RC_ASSERT(std::fabs(score - wanted) <= error * squared_amplitude(rotary) * std::sqrt(norms[0] * norms[1]));
  });
}

}  // namespace
}  // namespace phasor::laws
