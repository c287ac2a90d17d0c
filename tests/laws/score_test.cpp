// SPDX-License-Identifier: Apache-2.0
// Laws of scores: what attention sees depends on the distance alone, and is the sum of Re[q k* e^(i (m - n) frequency)] over the pairs.
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

struct QueryKey {
  Tensor q;
  Tensor k;
};

QueryKey rotated(const Rotary& rotary, const QueryKey& x, const std::vector<std::int64_t>& at, const Case& c) {
  QueryKey y = x;
  check_ok(rotary.apply(y.q.view(), y.k.view(), view_of(at, c)));
  return y;
}

/// q as the case has it; k with one head for all of q's, contiguous.
QueryKey drawn_query_key(const Case& c) {
  Case of_k = c;
  of_k.shape[2] = 1;
  of_k.strides = contiguous_strides(of_k.shape);
  return {drawn(c), drawn(of_k, 1)};
}

/// One score of a batch row: a head of the query at one token, the key at another.
struct ScoreAt {
  Index query;
  Index key;
};

template <class F>
void for_each_score(const Case& c, F f) {
  for_each_head(c.shape, [&](const Index& query) {
    for (std::int64_t token = 0; token < c.shape[1]; ++token) f(ScoreAt{query, {query[0], token, 0, 0}});
  });
}

/// Over the rotated channels.
long double score(const Case& c, const QueryKey& x, const ScoreAt& at) {
  long double sum = 0;
  for (std::int64_t pair = 0; pair < c.spec.rotary_width / 2; ++pair) {
    const PairValue q = pair_of(x.q, c.spec, at.query, pair);
    const PairValue k = pair_of(x.k, c.spec, at.key, pair);
    sum += q.x * k.x + q.y * k.y;
  }
  return sum;
}

/// amplitude^2 |q| |k|, pair by pair: what the errors of a score are relative to.
long double score_scale(const Case& c, const Rotary& rotary, const QueryKey& x, const ScoreAt& at) {
  long double sum = 0;
  for (std::int64_t pair = 0; pair < c.spec.rotary_width / 2; ++pair) {
    sum += pair_of(x.q, c.spec, at.query, pair).norm() * pair_of(x.k, c.spec, at.key, pair).norm();
  }
  return static_cast<long double>(rotary.amplitude()) * rotary.amplitude() * sum;
}

std::vector<std::int64_t> shifted(std::vector<std::int64_t> at, std::int64_t by) {
  for (std::int64_t& position : at) position += by;
  return at;
}

RC_GTEST_PROP(ScoreLaws, the_score_depends_on_the_distance_alone_up_to_2_to_the_40, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const QueryKey x = drawn_query_key(c);
  const std::vector<std::int64_t> near = any_positions(c, 20);
  const std::vector<std::int64_t> far = shifted(near, any_position(40));
  // Either side has two rotated vectors.
  const double error = 2 * rotations_error(c.dtype, 2) + summation_error(c.spec.rotary_width);
  on_every_target([&] {
    const QueryKey here = rotated(rotary, x, near, c);
    const QueryKey there = rotated(rotary, x, far, c);
    for_each_score(c, [&](const ScoreAt& at) {
      RC_ASSERT(std::fabs(score(c, here, at) - score(c, there, at)) <= error * score_scale(c, rotary, x, at));
    });
  });
}

/// cos and sin of the distances of every query token to every key token of one batch row, (T, T) rows of P values.
struct DistanceRows {
  std::vector<double> cos;
  std::vector<double> sin;
};

DistanceRows rows_of_distances(const Rotary& rotary, const std::int64_t* at, std::int64_t tokens) {
  std::vector<std::int64_t> distances;
  for (std::int64_t m = 0; m < tokens; ++m) {
    for (std::int64_t n = 0; n < tokens; ++n) distances.push_back(at[m] - at[n]);
  }
  const Extents shape = {1, tokens * tokens, 1, rotary.rotary_width() / 2};
  const auto size = static_cast<std::size_t>(shape[1] * shape[3]);
  DistanceRows rows{std::vector<double>(size), std::vector<double>(size)};
  check_ok(rotary.cos_sin(positions(distances.data(), shape[1]), view(rows.cos.data(), shape), view(rows.sin.data(), shape)));
  return rows;
}

/// Sum over the pairs of Re[q k* e^(i distance frequency)], times amplitude^2 (the row has one of the two).
long double complex_score(const Case& c, const Rotary& rotary, const QueryKey& x, const DistanceRows& rows, const ScoreAt& at) {
  const std::int64_t pairs = c.spec.rotary_width / 2;
  const long double sense = c.spec.sense == Sense::clockwise ? -1 : 1;
  long double sum = 0;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const auto row = static_cast<std::size_t>((at.query[1] * c.shape[1] + at.key[1]) * pairs + pair);
    const PairValue q = pair_of(x.q, c.spec, at.query, pair);
    const PairValue k = pair_of(x.k, c.spec, at.key, pair);
    const PairValue product = {q.x * k.x + q.y * k.y, q.y * k.x - q.x * k.y};  // q k*
    sum += product.x * rows.cos[row] - product.y * sense * rows.sin[row];
  }
  return rotary.amplitude() * sum;
}

RC_GTEST_PROP(ScoreLaws, the_score_is_the_real_part_of_q_times_k_conjugate_turned_by_the_distance, ()) {
  const Case c = *any_case();
  const Rotary rotary = made(c.spec);
  const QueryKey x = drawn_query_key(c);
  const std::vector<std::int64_t> positions = any_positions(c, 40);
  const double error = rotations_error(c.dtype, 2) + kTable + summation_error(2 * c.spec.rotary_width);
  on_every_target([&] {
    const QueryKey y = rotated(rotary, x, positions, c);
    for (std::int64_t batch = 0; batch < c.shape[0]; ++batch) {
      const DistanceRows rows = rows_of_distances(rotary, positions.data() + batch * c.shape[1], c.shape[1]);
      for_each_score(c, [&](const ScoreAt& at) {
        if (at.query[0] != batch) return;
        const long double wanted = complex_score(c, rotary, x, rows, at);
        RC_ASSERT(std::fabs(score(c, y, at) - wanted) <= error * score_scale(c, rotary, x, at));
      });
    }
  });
}

}  // namespace
}  // namespace phasor::laws
