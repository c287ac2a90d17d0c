// SPDX-License-Identifier: Apache-2.0
// How scores fall with distance: S by distance, and the softmax weight that a key gets from it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "analysis/exact_pairs.hpp"
#include "job/check.hpp"
#include "phasor/analysis.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor {
namespace {

/// Keeps a list of weights below 1 GiB.
constexpr std::int64_t kLongestContext = 1 << 24;

/// Distances that begin so and are all as far apart; nothing where they are not.
std::optional<analysis::EvenDistances> even(std::span<const std::int64_t> distances) {
  constexpr std::int64_t farthest = std::int64_t{1} << 61;  // so that no difference overflows
  const auto is_far = [](std::int64_t distance) { return distance < -farthest || distance > farthest; };
  if (distances.size() < 2 || is_far(distances.front()) || is_far(distances.back())) return std::nullopt;
  const auto last = static_cast<std::int64_t>(distances.size()) - 1;
  const std::int64_t step = (distances.back() - distances.front()) / last;
  for (std::int64_t i = 0; i <= last; ++i) {
    if (distances[static_cast<std::size_t>(i)] != distances.front() + i * step) return std::nullopt;
  }
  return analysis::EvenDistances{last + 1, distances.front(), step};
}

std::vector<double> score_sums(const analysis::ExactPairs& pairs, std::span<const std::int64_t> distances) {
  std::vector<double> sums;
  sums.reserve(distances.size());
  if (const auto at = even(distances)) {
    analysis::DistanceWalk walk(pairs, *at);
    while (sums.size() < distances.size()) {
      walk.advance();
      sums.push_back(walk.score());
    }
    return sums;
  }
  for (const std::int64_t distance : distances) sums.push_back(analysis::score_sum(pairs, distance));
  return sums;
}

Result<Matrix> decay_matrix(std::span<const Rotary> rotaries, std::span<const std::int64_t> distances) {
  Matrix matrix{static_cast<std::int64_t>(distances.size()), static_cast<std::int64_t>(rotaries.size()), {}};
  matrix.values.resize(distances.size() * rotaries.size());
  for (std::size_t column = 0; column < rotaries.size(); ++column) {
    const auto pairs = analysis::exact_pairs("decay", rotaries[column]);
    if (!pairs.ok()) return pairs.status();
    const std::vector<double> sums = score_sums(*pairs, distances);
    for (std::size_t row = 0; row < sums.size(); ++row) matrix.values[row * rotaries.size() + column] = sums[row];
  }
  return matrix;
}

Result<std::optional<std::int64_t>> negative_below(const Rotary& rotary, std::int64_t length) {
  const auto pairs = analysis::exact_pairs("first_negative", rotary);
  if (!pairs.ok()) return pairs.status();
  analysis::DistanceWalk walk(*pairs, {});
  for (std::int64_t distance = 0; distance < length; ++distance) {
    walk.advance();
    if (walk.score() < 0) return std::optional<std::int64_t>(distance);
  }
  return std::optional<std::int64_t>();
}

/// Where a score cannot be: NaN, +infinity.
Status check_scores(const char* where, const char* name, std::span<const double> scores) {
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] < std::numeric_limits<double>::infinity()) continue;
    return job::error(where, "{} {} is {}, wanted a number or -infinity", name, i, scores[i]);
  }
  return {};
}

Result<std::vector<double>> weights_of(const char* where, std::span<const double> scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  if (std::isinf(largest)) return job::error(where, "every score is {}, wanted a key that is looked at", largest);
  std::vector<double> weights;
  weights.reserve(scores.size());
  math::DoubleDouble sum{0, 0};
  for (const double score : scores) {
    weights.push_back(std::exp(score - largest));
    sum = sum + math::DoubleDouble{weights.back(), 0};
  }
  for (double& weight : weights) weight /= sum.high;
  return weights;
}

Result<std::vector<DistanceWeight>> weights_by_distance(const Rotary& rotary, std::int64_t context, std::span<const double> bias) {
  const auto pairs = analysis::exact_pairs("distance_weights", rotary);
  if (!pairs.ok()) return pairs.status();
  const double scale = rotary.softmax_scale() / std::sqrt(static_cast<double>(rotary.spec().head_dim));
  analysis::DistanceWalk walk(*pairs, {});
  std::vector<DistanceWeight> list(static_cast<std::size_t>(context));
  std::vector<double> scores;
  scores.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    walk.advance();
    const double sum = walk.score();
    scores.push_back(scale * sum + (bias.empty() ? 0 : bias[i]));
    list[i] = {static_cast<std::int64_t>(i), sum, sum / static_cast<double>(pairs->steps.size()), scores.back(), 0};
  }
  const auto weights = weights_of("distance_weights", scores);
  if (!weights.ok()) return weights.status();
  for (std::size_t i = 0; i < list.size(); ++i) list[i].weight = (*weights)[i];
  return list;
}

}  // namespace

Result<Matrix> decay(std::span<const Rotary> rotaries, std::span<const std::int64_t> distances) {
  return spec::without_exceptions([&] { return decay_matrix(rotaries, distances); });
}

Result<std::vector<double>> decay(const Rotary& rotary, std::span<const std::int64_t> distances) {
  Result<Matrix> matrix = decay({&rotary, 1}, distances);
  if (!matrix.ok()) return matrix.status();
  return std::move(matrix->values);
}

Result<std::optional<std::int64_t>> first_negative(const Rotary& rotary, std::int64_t length) {
  if (length < 1) return job::error("first_negative", "length is {}, wanted at least 1", length);
  return spec::without_exceptions([&] { return negative_below(rotary, length); });
}

Result<std::vector<DistanceWeight>> distance_weights(const Rotary& rotary, std::int64_t context, std::span<const double> bias) {
  constexpr const char* kWhere = "distance_weights";
  if (context < 1 || context > kLongestContext) {
    return job::error(kWhere, "context is {}, wanted 1 to {}", context, kLongestContext);
  }
  if (!bias.empty() && static_cast<std::int64_t>(bias.size()) != context) {
    return job::error(kWhere, "bias has {} distances, wanted none or as many as the context, {}", bias.size(), context);
  }
  if (Status status = check_scores(kWhere, "bias", bias); !status) return status;
  return spec::without_exceptions([&] { return weights_by_distance(rotary, context, bias); });
}

Result<std::vector<double>> softmax_weights(std::span<const double> scores) {
  if (scores.empty()) return job::error("softmax_weights", "there are no scores, wanted at least one");
  if (Status status = check_scores("softmax_weights", "score", scores); !status) return status;
  return spec::without_exceptions([&] { return weights_of("softmax_weights", scores); });
}

}  // namespace phasor
