// SPDX-License-Identifier: Apache-2.0
// Tables that meet queries, in decoding: a query's number for each distance is made once, before keys are read. Then it is a bias.
#pragma once

#include "cuda/attention/place.hpp"
#include "cuda/attention/tile.hpp"

namespace phasor::cuda::decode {

using std::int64_t;

struct RowBiasWork {
  attention::TableWork term;
  int64_t batch = 0;
  int64_t queries = 0;
  int64_t heads = 0;
  int64_t first_distance = 0;
  int64_t distances = 0;
  float* to = nullptr;  // (batch, queries, heads, distances)
};

/// Queries that a thread multiplies with a row at a time.
constexpr int kQueriesTogether = 8;

PHASOR_HD inline int64_t row_bias_items(const RowBiasWork& work) {
  return (work.batch * work.queries + kQueriesTogether - 1) / kQueriesTogether * work.heads * work.distances;
}

/// Item n of (groups of queries, heads, distances).
PHASOR_HD inline void make_row_bias(const RowBiasWork& work, int64_t n) {
  const attention::TableWork& term = work.term;
  const int64_t at = n % work.distances;
  const int64_t head = n / work.distances % work.heads;
  const int64_t first = n / work.distances / work.heads * kQueriesTogether;
  const int64_t all = work.batch * work.queries;
  const int64_t row = attention::row_by_distance(term.map, work.first_distance + at);
  const bool is_there = row >= 0 && row < term.table.shape[1];
  const bool is_shared = term.table.shape[0] == 1;
  float sums[kQueriesTogether] = {};
  for (int64_t c = 0; is_there && c < term.table.shape[3]; ++c) {
    const float shift = term.shift.data == nullptr ? 0 : attention::element_at<float>(term.shift, 0, 0, head, c);
    float x = attention::element_at<float>(term.table, 0, row, head, c);
    for (int i = 0; i < kQueriesTogether; ++i) {
      if (first + i >= all) break;
      const int64_t batch = (first + i) / work.queries;
      if (!is_shared) x = attention::element_at<float>(term.table, batch, row, head, c);
      sums[i] += (attention::element_at<float>(term.features, batch, (first + i) % work.queries, head, c) + shift) * x;
    }
  }
  for (int i = 0; i < kQueriesTogether; ++i) {
    if (first + i >= all) break;
    work.to[((first + i) * work.heads + head) * work.distances + at] = static_cast<float>(term.scale) * sums[i];
  }
}

}  // namespace phasor::cuda::decode
