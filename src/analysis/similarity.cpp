// SPDX-License-Identifier: Apache-2.0
// How alike encodings are: of rows with rows, and of positions of a rotary spec by their distance.
#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "analysis/exact_pairs.hpp"
#include "analysis/rows.hpp"
#include "analysis/values.hpp"
#include "job/check.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

using analysis::Rows;

/// 4096 x 4096 are 128 MiB.
constexpr std::int64_t kMostRows = 4096;

struct TwoRows {
  Rows a;
  Rows b;
};

Result<TwoRows> read_both(const char* where, const ConstTensorView& a, const ConstTensorView& b) {
  Result<Rows> first = analysis::read_rows(a, {where, "a", 1, kMostRows});
  if (!first.ok()) return first.status();
  Result<Rows> second = analysis::read_rows(b, {where, "b", 1, kMostRows});
  if (!second.ok()) return second.status();
  if (second->width != first->width) {
    return job::error(where, "b has head_dim {}, wanted that of a, {}", second->width, first->width);
  }
  return TwoRows{*std::move(first), *std::move(second)};
}

/// Every row divided by its norm; rows of zeros become NaN. Divided by the largest value first: its square may not be a float64.
void normalise(Rows& rows) {
  for (std::int64_t i = 0; i < rows.rows; ++i) {
    double* row = rows.values.data() + i * rows.width;
    double largest = 0;
    for (std::int64_t c = 0; c < rows.width; ++c) largest = analysis::larger(largest, std::abs(row[c]));
    for (std::int64_t c = 0; c < rows.width; ++c) row[c] /= largest;
    const double norm = std::sqrt(analysis::dot(row, row, rows.width));
    for (std::int64_t c = 0; c < rows.width; ++c) row[c] /= norm;
  }
}

Matrix products(const TwoRows& rows, Similarity kind) {
  Matrix matrix{rows.a.rows, rows.b.rows, {}};
  matrix.values.reserve(static_cast<std::size_t>(matrix.rows * matrix.columns));
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t j = 0; j < matrix.columns; ++j) {
      const double product = analysis::dot(rows.a.row(i), rows.b.row(j), rows.a.width);
      // std::clamp lets NaN through. Rounding must not make a cosine larger than 1.
      matrix.values.push_back(kind == Similarity::cosine ? std::clamp(product, -1.0, 1.0) : product);
    }
  }
  return matrix;
}

Result<Matrix> similarity_of(const char* where, const ConstTensorView& a, const ConstTensorView& b, Similarity kind) {
  Result<TwoRows> rows = read_both(where, a, b);
  if (!rows.ok()) return rows.status();
  if (kind == Similarity::cosine) {
    normalise(rows->a);
    normalise(rows->b);
  }
  return products(*rows, kind);
}

/// -|a - b|, since S is even and every negative distance has a number.
std::int64_t negative_distance(std::int64_t a, std::int64_t b) {
  const auto low = static_cast<std::uint64_t>(std::min(a, b));
  const auto high = static_cast<std::uint64_t>(std::max(a, b));
  return static_cast<std::int64_t>(low - high);
}

Result<Matrix> similarity_by_distance(const Rotary& rotary, std::span<const std::int64_t> positions, Similarity kind) {
  const auto pairs = analysis::exact_pairs("similarity", rotary);
  if (!pairs.ok()) return pairs.status();
  const double unit = kind == Similarity::cosine ? analysis::score_sum(*pairs, 0) : 1;
  std::unordered_map<std::int64_t, double> by_distance;
  const auto count = static_cast<std::int64_t>(positions.size());
  Matrix matrix{count, count, {}};
  matrix.values.reserve(positions.size() * positions.size());
  for (const std::int64_t row : positions) {
    for (const std::int64_t column : positions) {
      const std::int64_t distance = negative_distance(row, column);
      const auto [found, is_new] = by_distance.try_emplace(distance, 0.0);
      if (is_new) found->second = analysis::score_sum(*pairs, distance) / unit;
      matrix.values.push_back(found->second);
    }
  }
  return matrix;
}

Status check_positions(std::span<const std::int64_t> positions) {
  if (positions.empty() || static_cast<std::int64_t>(positions.size()) > kMostRows) {
    return job::error("similarity", "there are {} positions, wanted 1 to {}", positions.size(), kMostRows);
  }
  const auto [low, high] = std::minmax_element(positions.begin(), positions.end());
  // Of the unsigned difference the top bit says that -distance is below the least int64, but for 2^63 itself.
  if (static_cast<std::uint64_t>(*high) - static_cast<std::uint64_t>(*low) <= std::uint64_t{1} << 63U) return {};
  return job::error("similarity", "positions are {} and {}, wanted a difference that fits in 64 bits", *low, *high);
}

Result<Orthogonality> orthogonality_of(const ConstTensorView& a, const ConstTensorView& b) {
  const Result<Matrix> cosines = similarity_of("orthogonality", a, b, Similarity::cosine);
  if (!cosines.ok()) return cosines.status();
  Orthogonality result;
  for (const double cosine : cosines->values) {
    if (std::isnan(cosine)) continue;
    ++result.cosines;
    result.mean += cosine;
    result.mean_square += cosine * cosine;
    result.largest = std::max(result.largest, std::abs(cosine));
  }
  if (result.cosines == 0) return job::error("orthogonality", "every cosine is of a row of zeros or NaN, wanted rows with a direction");
  result.mean /= static_cast<double>(result.cosines);
  result.mean_square /= static_cast<double>(result.cosines);
  return result;
}

}  // namespace

Result<Matrix> similarity(const ConstTensorView& a, const ConstTensorView& b, Similarity kind) {
  return spec::without_exceptions([&] { return similarity_of("similarity", a, b, kind); });
}

Result<Matrix> similarity(const Rotary& rotary, std::span<const std::int64_t> positions, Similarity kind) {
  if (Status status = check_positions(positions); !status) return status;
  return spec::without_exceptions([&] { return similarity_by_distance(rotary, positions, kind); });
}

Result<Orthogonality> orthogonality(const ConstTensorView& a, const ConstTensorView& b) {
  return spec::without_exceptions([&] { return orthogonality_of(a, b); });
}

}  // namespace phasor
