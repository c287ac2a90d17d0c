// SPDX-License-Identifier: Apache-2.0
// Biases of each query, in decoding: of tables that meet queries, and those given in full (drafts that form a tree hide each other by one).
// A query's number for each distance is made once, before keys are read; then it is a bias, and the kernel knows no more of it.
#pragma once

#include "cuda/attention/place.hpp"
#include "cuda/attention/tile.hpp"
#include "job/attention/cached_value.hpp"

namespace phasor::cuda::decode {

using std::int64_t;

// ---- Of a table ----

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

// ---- Given in full ----

/// Distances from that of the first query to the last key on: 1 - queries to room - 1.
struct DenseBiasWork {
  ConstTensorView bias;  // (batch or 1, queries or 1, heads or 1, keys or 1)
  Integers lengths = {};
  int64_t room = 0;
  int64_t batch = 0;
  int64_t queries = 0;
  float* to = nullptr;  // (batch, queries, the bias's heads, distances)
};

PHASOR_HD inline int64_t dense_distances(const DenseBiasWork& work) { return work.room + work.queries - 1; }
PHASOR_HD inline int64_t dense_bias_items(const DenseBiasWork& work) {
  return work.batch * work.queries * work.bias.shape[2] * dense_distances(work);
}

/// Item n of (batch, queries, heads, distances). Where there is no key nobody reads.
PHASOR_HD inline void make_dense_bias(const DenseBiasWork& work, int64_t n) {
  const int64_t distances = dense_distances(work);
  const int64_t head = n / distances % work.bias.shape[2];
  const int64_t row = n / distances / work.bias.shape[2];
  const int64_t batch = row / work.queries;
  const int64_t query = row % work.queries;
  const int64_t keys = job::keys_of(work.lengths, batch, work.room);
  const int64_t key = keys - work.queries + query - (n % distances + 1 - work.queries);
  const bool is_there = key >= 0 && key < keys;
  const auto at = [&](int axis, int64_t index) { return attention::shared_or(work.bias, axis, index); };
  work.to[n] = is_there ? attention::element_at<float>(work.bias, batch, at(1, query), head, at(3, key)) : 0;
}

}  // namespace phasor::cuda::decode
