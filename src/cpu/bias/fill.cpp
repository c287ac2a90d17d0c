// SPDX-License-Identifier: Apache-2.0
// Dense and tiled biases: every distance of the block computed and rounded once, then gathered.
#include <algorithm>
#include <atomic>
#include <numeric>

#include "cpu/common/runner.hpp"
#include "cpu/run.hpp"
#include "job/check.hpp"
#include "job/element.hpp"
#include "plan/bias/bias.hpp"
#include "spec/without_exceptions.hpp"

namespace phasor::cpu {
namespace {

/// The distances that occur in a block, rising. Where they lie dense, all between the ends, so that finding one is a subtraction.
class Distances {
 public:
  Distances(const std::vector<std::int64_t>& queries, const std::vector<std::int64_t>& keys) {
    const auto [low_query, high_query] = std::minmax_element(queries.begin(), queries.end());
    const auto [low_key, high_key] = std::minmax_element(keys.begin(), keys.end());
    const std::int64_t low = *low_query - *high_key;
    const std::int64_t span = *high_query - *low_key - low + 1;
    const auto tokens = static_cast<std::int64_t>(queries.size() + keys.size());
    dense_ = span <= 4 * tokens;
    if (dense_) {
      list_.resize(static_cast<std::size_t>(span));
      std::iota(list_.begin(), list_.end(), low);
      return;
    }
    list_.reserve(queries.size() * keys.size());
    for (const std::int64_t q : queries) {
      for (const std::int64_t k : keys) list_.push_back(q - k);
    }
    std::sort(list_.begin(), list_.end());
    list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
  }

  const std::vector<std::int64_t>& list() const { return list_; }
  std::size_t index(std::int64_t distance) const {
    if (dense_) return static_cast<std::size_t>(distance - list_.front());
    return static_cast<std::size_t>(std::lower_bound(list_.begin(), list_.end(), distance) - list_.begin());
  }

 private:
  std::vector<std::int64_t> list_;
  bool dense_ = true;
};

/// One batch row of a block.
struct Block {
  const plan::BiasSource& bias;
  const TensorView& out;
  std::int64_t batch;
  std::int64_t first_head;
  const std::vector<std::int64_t>& queries;
  const std::vector<std::int64_t>& keys;
  const Runner& runner;

  template <class T>
  T* row(std::int64_t head, std::size_t query) const {
    return static_cast<T*>(out.data) + batch * out.strides[0] + head * out.strides[1] + static_cast<std::int64_t>(query) * out.strides[2];
  }
  plan::BiasSlice slice(std::int64_t query_position) const { return {first_head, out.shape[1], query_position}; }
};

/// body(row) for `rows` rows of the block, by tasks of about `numbers` numbers: below that, threads would cost more than they bring.
template <class Body>
void run_rows(const Block& block, std::size_t rows, std::size_t numbers, const Body& body) {
  const std::size_t together = std::max<std::size_t>(numbers / block.keys.size(), 1);
  run_each(block.runner, static_cast<std::int64_t>((rows + together - 1) / together), [&](std::int64_t task) {
    const std::size_t first = static_cast<std::size_t>(task) * together;
    for (std::size_t row = first; row < std::min(first + together, rows); ++row) body(row);
  });
}

/// Every row of the queries for which `wanted` says so, from one diagonal.
template <class T, class Wanted>
void gather(const Block& block, const Distances& distances, const std::vector<double>& values, const Wanted& wanted) {
  const std::size_t n = distances.list().size();
  std::vector<T> diagonals(values.size());
  std::transform(values.begin(), values.end(), diagonals.begin(), job::element_of<T>);
  const std::size_t queries = block.queries.size();
  run_rows(block, static_cast<std::size_t>(block.out.shape[1]) * queries, 1 << 14, [&](std::size_t row) {
    const std::size_t head = row / queries;
    const std::int64_t query = block.queries[row % queries];
    if (!wanted(query)) return;
    T* to = block.row<T>(static_cast<std::int64_t>(head), row % queries);
    for (std::size_t j = 0; j < block.keys.size(); ++j) to[j] = diagonals[head * n + distances.index(query - block.keys[j])];
  });
}

/// A row that has a diagonal of its own. `psi` are those of the distances.
template <class T>
void fill_fire_row(const Block& block, const Distances& distances, const std::vector<double>& psi, std::size_t i) {
  const std::size_t n = block.keys.size();
  const auto heads = static_cast<std::size_t>(block.out.shape[1]);
  std::vector<double> of_row(n);
  std::vector<double> values(heads * n);
  for (std::size_t j = 0; j < n; ++j) of_row[j] = psi[distances.index(block.queries[i] - block.keys[j])];
  plan::fill_fire(block.bias, block.slice(block.queries[i]), of_row, values);
  for (std::size_t head = 0; head < heads; ++head) {
    std::transform(values.data() + head * n, values.data() + (head + 1) * n, block.row<T>(static_cast<std::int64_t>(head), i),
                   job::element_of<T>);
  }
}

/// FIRE: the rows of queries up to its length share a diagonal, each of the others has its own.
template <class T>
Status fill_fire_block(const Block& block, const Distances& distances) {
  const plan::FireCurve& fire = block.bias.fire;
  const std::vector<double> psi = plan::fire_psi(fire, distances.list());
  const auto near = [&](std::int64_t query) { return static_cast<double>(query) <= fire.length; };
  if (std::any_of(block.queries.begin(), block.queries.end(), near)) {
    std::vector<double> values(static_cast<std::size_t>(block.out.shape[1]) * psi.size());
    plan::fill_fire(block.bias, block.slice(0), psi, values);
    gather<T>(block, distances, values, near);
  }
  if (std::all_of(block.queries.begin(), block.queries.end(), near)) return {};
  std::atomic<bool> no_memory = false;  // a task must not throw: whoever runs it may be another thread
  run_rows(block, block.queries.size(), 1 << 8, [&](std::size_t i) {
    if (near(block.queries[i])) return;
    const Status status = spec::without_exceptions([&] {
      fill_fire_row<T>(block, distances, psi, i);
      return Status();
    });
    if (!status.ok()) no_memory = true;
  });
  return no_memory ? Status::out_of_memory() : Status();
}

template <class T>
Status fill_block(const Block& block) {
  const Distances distances(block.queries, block.keys);
  if (block.bias.scheme == plan::BiasSource::Scheme::fire) return fill_fire_block<T>(block, distances);
  std::vector<double> values(static_cast<std::size_t>(block.out.shape[1]) * distances.list().size());
  plan::fill_values(block.bias, block.slice(0), distances.list(), values);
  gather<T>(block, distances, values, [](std::int64_t) { return true; });
  return {};
}

/// The bias of key positions alone: every query stands at 0.
bool ignores_queries(const plan::BiasSource& bias) {
  return bias.scheme == plan::BiasSource::Scheme::alibi && bias.form == AlibiForm::key_position;
}

/// First every position of every batch row is read and checked, so that nothing is written when one fails.
Status fill_batches(const plan::BiasSource& bias, const job::BlockCall& call, const Runner& runner) {
  const Extents& shape = call.out.shape;
  const auto batches = static_cast<std::size_t>(shape[0]);
  std::vector<std::vector<std::int64_t>> queries(batches, std::vector<std::int64_t>(static_cast<std::size_t>(shape[2])));
  std::vector<std::vector<std::int64_t>> keys(batches, std::vector<std::int64_t>(static_cast<std::size_t>(shape[3])));
  for (std::size_t b = 0; b < batches; ++b) {
    const auto batch = static_cast<std::int64_t>(b);
    if (Status s = job::read_positions("Bias::fill: keys", bias.window, call.keys, batch, keys[b]); !s) return s;
    if (ignores_queries(bias)) continue;
    if (Status s = job::read_positions("Bias::fill: queries", bias.window, call.queries, batch, queries[b]); !s) return s;
  }
  Status status;
  job::with_element(call.out.dtype, [&](auto tag) {
    for (std::size_t b = 0; b < batches && status.ok(); ++b) {
      status = fill_block<typename decltype(tag)::type>(
          {bias, call.out, static_cast<std::int64_t>(b), call.first_head, queries[b], keys[b], runner});
    }
  });
  return status;
}

}  // namespace

Status run_bias_fill(job::BlockJob& job, const Execution& execution) {
  return spec::without_exceptions([&] { return fill_batches(job.bias, job.call, execution.runner); });
}

}  // namespace phasor::cpu
