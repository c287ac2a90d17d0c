// SPDX-License-Identifier: Apache-2.0
// A pair turned by a table (a, b) is multiplied by a + bi, and so by [[a, -b], [b, a]]: sums, products, determinants and transposes agree.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "laws/cases.hpp"

namespace phasor::laws {
namespace {

/// Integers so small that every product and sum below is exact in float32: laws hold with ==, no tolerance.
struct Complex {
  float real;
  float imaginary;
};
/// Row by row.
using Matrix2 = std::array<float, 4>;

Complex any_complex() { return {static_cast<float>(*rc::gen::inRange(-60, 61)), static_cast<float>(*rc::gen::inRange(-60, 61))}; }

Complex operator+(Complex z, Complex w) { return {z.real + w.real, z.imaginary + w.imaginary}; }
Complex operator*(Complex z, Complex w) {
  return {z.real * w.real - z.imaginary * w.imaginary, z.imaginary * w.real + z.real * w.imaginary};
}
Complex conjugate(Complex z) { return {z.real, -z.imaginary}; }

Matrix2 operator+(const Matrix2& a, const Matrix2& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]}; }
Matrix2 operator*(const Matrix2& a, const Matrix2& b) {
  return {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
}
float determinant(const Matrix2& m) { return m[0] * m[3] - m[1] * m[2]; }
Matrix2 transposed(const Matrix2& m) { return {m[0], m[2], m[1], m[3]}; }

/// What the library does to a pair, by the table z. On the heap: the address sanitizer does not see a test's stack.
std::vector<float> turned(std::vector<float> pair, Complex z, Direction direction = Direction::forward) {
  const std::vector<float> cos = {z.real};
  const std::vector<float> sin = {z.imaginary};
  check_ok(apply_rotary(view(pair.data(), {1, 1, 1, 2}), view(cos.data(), {1, 1, 1, 1}), view(sin.data(), {1, 1, 1, 1}), {},
                        {.direction = direction}));
  return pair;
}

/// Its matrix: where the two unit vectors go.
Matrix2 matrix_of(Complex z, Direction direction = Direction::forward) {
  const std::vector<float> x = turned({1, 0}, z, direction);
  const std::vector<float> y = turned({0, 1}, z, direction);
  return {x[0], y[0], x[1], y[1]};
}

RC_GTEST_PROP(ComplexLaws, a_table_acts_as_the_matrix_a_minus_b_b_a, ()) {
  const Complex z = any_complex();
  on_every_target([&] { RC_ASSERT((matrix_of(z) == Matrix2{z.real, -z.imaginary, z.imaginary, z.real})); });
}

RC_GTEST_PROP(ComplexLaws, the_matrix_keeps_sums_and_products, ()) {
  const Complex z = any_complex();
  const Complex w = any_complex();
  on_every_target([&] {
    RC_ASSERT(matrix_of(z + w) == matrix_of(z) + matrix_of(w));
    RC_ASSERT(matrix_of(z * w) == matrix_of(z) * matrix_of(w));
    const Complex product = z * w;
    RC_ASSERT((turned({w.real, w.imaginary}, z) == std::vector<float>{product.real, product.imaginary}));
  });
}

RC_GTEST_PROP(ComplexLaws, the_determinant_is_the_squared_modulus, ()) {
  const Complex z = any_complex();
  on_every_target([&] { RC_ASSERT(determinant(matrix_of(z)) == (z * conjugate(z)).real); });
}

RC_GTEST_PROP(ComplexLaws, the_transpose_is_the_conjugate, ()) {
  const Complex z = any_complex();
  on_every_target([&] {
    RC_ASSERT(transposed(matrix_of(z)) == matrix_of(conjugate(z)));
    RC_ASSERT(matrix_of(z, Direction::transpose) == matrix_of(conjugate(z)));
  });
}

}  // namespace
}  // namespace phasor::laws
