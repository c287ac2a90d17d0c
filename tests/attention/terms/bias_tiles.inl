// SPDX-License-Identifier: Apache-2.0
// Every tile of a hand-made job through the hooks of a bias, in the vocabulary of one target.
#include "cpu/attention/loops.inl"

template <class T>
RowTile<T> hand_row_tile(const attend::AttentionJob& job, const attend::TokenTile& tile, std::int64_t head) {
  return {.job = &job, .tile = &tile, .batch = 0, .head = head, .q = nullptr, .positions = job.query_positions + tile.first};
}

/// What the formula of a bias works in.
template <class T>
struct FormulaMemory {
  explicit FormulaMemory(const attend::BiasJob& term) : numbers(static_cast<std::size_t>(attend::formula_scratch(term.source)) + 1) {}
  T* data() { return static_cast<T*>(static_cast<void*>(numbers.data())); }
  std::vector<double> numbers;
};

/// matrix: (H, Tq, Tk). Forward: what the term adds to zeros; backward: ds.
template <class T>
void bias_forward(const attend::AttentionJob& job, const attend::BiasJob& term, double* matrix) {
  std::vector<T> scores(attend::kQueryTile * attend::kKeyTile);
  FormulaMemory<T> memory(term);
  for (std::int64_t head = 0; head < job.shape.heads; ++head) {
    for (const attend::TokenTile& queries : job.query_tiles) {
      const RowTile<T> rows = hand_row_tile<T>(job, queries, head);
      for (const attend::TokenTile& keys : job.key_tiles) {
        std::fill(scores.begin(), scores.end(), T{0});
        term_add(term, score_tile(rows, keys, scores.data()), memory.data());
        for (std::int64_t i = 0; i < queries.count; ++i) {
          for (std::int64_t j = 0; j < keys.count; ++j) {
            matrix[(head * job.shape.queries + queries.first + i) * job.shape.keys + keys.first + j] =
                static_cast<double>(scores[static_cast<std::size_t>(i * attend::kKeyTile + j)]);
          }
        }
      }
    }
  }
}

template <class T>
void bias_backward(const attend::AttentionJob& job, const attend::BiasJob& term, const double* matrix) {
  std::vector<T> ds(attend::kQueryTile * attend::kKeyTile);
  FormulaMemory<T> memory(term);
  for (std::int64_t head = 0; head < job.shape.heads; ++head) {
    for (const attend::TokenTile& queries : job.query_tiles) {
      const RowTile<T> rows = hand_row_tile<T>(job, queries, head);
      for (std::size_t k = 0; k < job.key_tiles.size(); ++k) {
        const attend::TokenTile& keys = job.key_tiles[k];
        std::fill(ds.begin(), ds.end(), T{0});
        for (std::int64_t i = 0; i < queries.count; ++i) {
          for (std::int64_t j = 0; j < keys.count; ++j) {
            ds[static_cast<std::size_t>(i * attend::kKeyTile + j)] =
                static_cast<T>(matrix[(head * job.shape.queries + queries.first + i) * job.shape.keys + keys.first + j]);
          }
        }
        const auto part = static_cast<std::int64_t>(k) % job.backward.parts;
        const BackwardTile<T> backward{nullptr, nullptr, nullptr, slot_of(job, 0, part, head)};
        term_gradient(term, score_tile(rows, keys, ds.data()), backward, memory.data());
      }
    }
  }
}
