// SPDX-License-Identifier: Apache-2.0
// The forms and code layouts in which rotary encoding is written down: each is one of the library's pairings bit for bit, all give the same
// scores.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <vector>

#include "laws/cases.hpp"
#include "laws/tolerance.hpp"

namespace phasor::laws {
namespace {

template <class T>
using Vector = std::vector<T>;

// ---- The few array operations the published code is written in ----

template <class T>
Vector<T> every_second(const Vector<T>& x, std::size_t first) {  // x[..., first::2]
  Vector<T> y;
  for (std::size_t i = first; i < x.size(); i += 2) y.push_back(x[i]);
  return y;
}
template <class T>
Vector<T> stacked(const Vector<T>& a, const Vector<T>& b) {  // stack([a, b], -1), flattened
  Vector<T> y;
  for (std::size_t i = 0; i < a.size(); ++i) y.insert(y.end(), {a[i], b[i]});
  return y;
}
template <class T>
Vector<T> concatenated(Vector<T> a, const Vector<T>& b) {  // cat([a, b], -1)
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
template <class T>
Vector<T> negated(Vector<T> x) {
  for (T& value : x) value = -value;
  return x;
}
template <class T, class Operation>
Vector<T> elementwise(const Vector<T>& a, const Vector<T>& b, Operation operation) {
  Vector<T> y;
  for (std::size_t i = 0; i < a.size(); ++i) y.push_back(operation(a[i], b[i]));
  return y;
}
template <class T>
Vector<T> operator*(const Vector<T>& a, const Vector<T>& b) {
  return elementwise(a, b, std::multiplies<T>());
}
template <class T>
Vector<T> operator+(const Vector<T>& a, const Vector<T>& b) {
  return elementwise(a, b, std::plus<T>());
}
template <class T>
Vector<T> operator-(const Vector<T>& a, const Vector<T>& b) {
  return elementwise(a, b, std::minus<T>());
}

/// cos and sin of one position, one value per pair.
template <class T>
struct Row {
  Vector<T> cos;
  Vector<T> sin;
};

// ---- The layouts ----

/// RoFormer: tables with each element repeated, x cos + reshape(stack([-odd, even])) sin. Also the elementwise form of the derivations.
template <class T>
Vector<T> roformer(const Vector<T>& x, const Row<T>& row) {
  const Vector<T> cos_pos = stacked(row.cos, row.cos);  // repeat_elements(rep=2)
  const Vector<T> sin_pos = stacked(row.sin, row.sin);
  return x * cos_pos + stacked(negated(every_second(x, 1)), every_second(x, 0)) * sin_pos;
}

/// RoFormer_pytorch: even and odd channels in, halves out.
template <class T>
Vector<T> roformer_pytorch(const Vector<T>& x, const Row<T>& row) {
  const Vector<T> even = every_second(x, 0);
  const Vector<T> odd = every_second(x, 1);
  return concatenated(even * row.cos - odd * row.sin, even * row.sin + odd * row.cos);
}

/// LLaMA: view_as_complex, times cos + i sin, view_as_real, flatten.
template <class T>
Vector<T> llama_complex(const Vector<T>& x, const Row<T>& row) {
  Vector<T> y;
  for (std::size_t i = 0; i < row.cos.size(); ++i) {
    const std::complex<T> product = std::complex<T>(x[2 * i], x[2 * i + 1]) * std::complex<T>(row.cos[i], row.sin[i]);
    y.insert(y.end(), {product.real(), product.imag()});
  }
  return y;
}

/// rotate_half with cat(freqs, freqs).
template <class T>
Vector<T> rotate_half(const Vector<T>& x, const Row<T>& row) {
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  const Vector<T> turned = concatenated(negated(Vector<T>(middle, x.end())), Vector<T>(x.begin(), middle));
  return x * concatenated(row.cos, row.cos) + turned * concatenated(row.sin, row.sin);
}

/// stack([-x2, x1], -1).flatten(-2), the tables as wide as x already.
template <class T>
Vector<T> stack_flatten(const Vector<T>& x, const Vector<T>& cos, const Vector<T>& sin) {
  const Vector<T> x1 = every_second(x, 0);
  const Vector<T> x2 = every_second(x, 1);
  return x * cos + stacked(negated(x2), x1) * sin;
}

/// The block-diagonal matrix, dense, times x.
template <class T>
Vector<T> matrix_form(const Vector<T>& x, const Row<T>& row) {
  const std::size_t width = x.size();
  Vector<T> matrix(width * width, 0);
  for (std::size_t i = 0; i < width / 2; ++i) {
    matrix[2 * i * width + 2 * i] = matrix[(2 * i + 1) * width + 2 * i + 1] = row.cos[i];
    matrix[2 * i * width + 2 * i + 1] = -row.sin[i];
    matrix[(2 * i + 1) * width + 2 * i] = row.sin[i];
  }
  Vector<T> y(width, 0);
  for (std::size_t r = 0; r < width; ++r) {
    for (std::size_t c = 0; c < width; ++c) y[r] += matrix[r * width + c] * x[c];
  }
  return y;
}

// ---- The library, on one head at one position ----

template <class T>
Row<T> row_at(const Rotary& rotary, std::int64_t position) {
  const std::int64_t pairs = rotary.rotary_width() / 2;
  const auto size = static_cast<std::size_t>(pairs);
  Row<T> row{Vector<T>(size), Vector<T>(size)};
  check_ok(rotary.cos_sin(positions_from(position), view(row.cos.data(), {1, 1, 1, pairs}), view(row.sin.data(), {1, 1, 1, pairs})));
  return row;
}

template <class T>
TensorView head_view(Vector<T>& x) {
  return view(x.data(), {1, 1, 1, static_cast<std::int64_t>(x.size())});
}

template <class T>
Vector<T> applied(const Rotary& rotary, Vector<T> x, std::int64_t position) {
  check_ok(rotary.apply(head_view(x), positions_from(position)));
  return x;
}

template <class T>
Vector<T> applied(Vector<T> x, Vector<T> cos, Vector<T> sin, Pairing pairing) {
  check_ok(apply_rotary(head_view(x), head_view(cos), head_view(sin), {.pairing = pairing}));
  return x;
}

/// The three ways the library pairs channels, of one spec.
struct Pairings {
  Rotary interleaved;
  Rotary half;
  Rotary across;  // reads interleaved, writes half
};

Pairings any_pairings() {
  RotarySpec spec = *any_spec();
  spec.head_dim = spec.rotary_width;  // the layouts know neither partial widths
  spec.rotary_offset = 0;
  spec.sense = Sense::counterclockwise;  // nor another sense
  spec.pairing = Pairing::half;
  const Rotary half = made(spec);
  spec.pairing = Pairing::interleaved;
  const Rotary interleaved = made(spec);
  spec.output_pairing = Pairing::half;
  return {interleaved, half, made(spec)};
}

template <class T>
Vector<T> any_head(std::int64_t width) {
  Draw draw(*rc::gen::arbitrary<std::uint64_t>());
  Vector<T> x(static_cast<std::size_t>(width));
  for (T& value : x) value = static_cast<T>(draw.value());
  return x;
}

template <class T>
void check_layouts_are_pairings() {
  const Pairings library = any_pairings();
  const Vector<T> x = any_head<T>(library.half.rotary_width());
  const std::int64_t position = any_position(63);
  on_every_target([&] {
    const Row<T> row = row_at<T>(library.half, position);
    const Vector<T> wide_cos = stacked(row.cos, row.cos);
    const Vector<T> wide_sin = stacked(row.sin, row.sin);
    const Vector<T> interleaved = applied(library.interleaved, x, position);
    RC_ASSERT(roformer(x, row) == interleaved);
    RC_ASSERT(llama_complex(x, row) == interleaved);
    RC_ASSERT(matrix_form(x, row) == interleaved);
    RC_ASSERT(stack_flatten(x, wide_cos, wide_sin) == interleaved);
    RC_ASSERT(applied(x, wide_cos, wide_sin, Pairing::interleaved) == interleaved);
    RC_ASSERT(roformer_pytorch(x, row) == applied(library.across, x, position));
    const Vector<T> half = applied(library.half, x, position);
    RC_ASSERT(rotate_half(x, row) == half);
    RC_ASSERT(applied(x, concatenated(row.cos, row.cos), concatenated(row.sin, row.sin), Pairing::half) == half);
  });
}

RC_GTEST_PROP(LayoutLaws, every_form_and_layout_is_one_of_the_pairings_in_f32, ()) { check_layouts_are_pairings<float>(); }
RC_GTEST_PROP(LayoutLaws, every_form_and_layout_is_one_of_the_pairings_in_f64, ()) { check_layouts_are_pairings<double>(); }

struct Score {
  long double value;
  long double scale;  // sum of the magnitudes of its terms
};

template <class T>
Score score_of(const Vector<T>& q, const Vector<T>& k) {
  Score score{0, 0};
  for (std::size_t i = 0; i < q.size(); ++i) {
    const long double term = static_cast<long double>(q[i]) * k[i];
    score.value += term;
    score.scale += std::fabs(term);
  }
  return score;
}

/// The same products in another order: only the sum's own rounding may show.
template <class T>
void check_layouts_have_one_score() {
  const Pairings library = any_pairings();
  const std::int64_t width = library.half.rotary_width();
  const Vector<T> q = any_head<T>(width);
  const Vector<T> k = any_head<T>(width);
  const std::int64_t m = any_position(40);
  const std::int64_t n = any_position(40);
  const auto in_halves = [](const Vector<T>& x) { return concatenated(every_second(x, 0), every_second(x, 1)); };
  on_every_target([&] {
    const Row<T> at_m = row_at<T>(library.half, m);
    const Row<T> at_n = row_at<T>(library.half, n);
    const Vector<Score> scores = {
        score_of(applied(library.interleaved, q, m), applied(library.interleaved, k, n)),
        score_of(applied(library.across, q, m), applied(library.across, k, n)),
        score_of(applied(library.half, in_halves(q), m), applied(library.half, in_halves(k), n)),
        score_of(roformer(q, at_m), roformer(k, at_n)),
        score_of(roformer_pytorch(q, at_m), roformer_pytorch(k, at_n)),
        score_of(llama_complex(q, at_m), llama_complex(k, at_n)),
        score_of(rotate_half(in_halves(q), at_m), rotate_half(in_halves(k), at_n)),
        score_of(matrix_form(q, at_m), matrix_form(k, at_n)),
    };
    for (const Score& score : scores) {
      RC_ASSERT(std::fabs(score.value - scores[0].value) <= 2 * summation_error(width) * scores[0].scale);
    }
  });
}

RC_GTEST_PROP(LayoutLaws, every_layout_gives_the_same_scores_in_f32, ()) { check_layouts_have_one_score<float>(); }
RC_GTEST_PROP(LayoutLaws, every_layout_gives_the_same_scores_in_f64, ()) { check_layouts_have_one_score<double>(); }

}  // namespace
}  // namespace phasor::laws
