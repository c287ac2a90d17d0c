// SPDX-License-Identifier: Apache-2.0
// A job of one sequence and one bias, made without the loops of attention.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "attention/support/problems.hpp"
#include "cpu/attention/host_terms/bias_parts.hpp"
#include "phasor/attention.hpp"

namespace phasor::test {

using Ids = std::vector<std::int64_t>;

struct Call {
  Bias bias;
  Ids queries;
  Ids keys;
  std::int64_t heads;
  std::int64_t first_head = 0;
  bool causal = false;
  std::vector<double> gate = {};  // (Tq, H)
};

inline std::vector<attend::TokenTile> cut(const Ids& positions, std::int64_t most) {
  std::vector<attend::TokenTile> tiles;
  const auto n = static_cast<std::int64_t>(positions.size());
  for (std::int64_t first = 0; first < n; first += most) {
    const std::int64_t count = std::min(most, n - first);
    const auto begin = positions.begin() + first;
    attend::TokenTile tile{.first = first, .count = count};
    tile.min_position = *std::min_element(begin, begin + count);
    tile.max_position = *std::max_element(begin, begin + count);
    tile.consecutive = true;
    for (std::int64_t t = 0; t < count; ++t) tile.consecutive = tile.consecutive && begin[t] == begin[0] + t;
    tiles.push_back(tile);
  }
  return tiles;
}

/// A job of one sequence, and the term in it.
template <class T>
class Made {
 public:
  explicit Made(const Call& call)
      : call_(call), query_tiles_(cut(call.queries, attend::kQueryTile)), key_tiles_(cut(call.keys, attend::kKeyTile)) {
    const auto queries = static_cast<std::int64_t>(call.queries.size());
    const auto keys = static_cast<std::int64_t>(call.keys.size());
    job.shape = {{1, queries, keys, call.heads, call.heads, 4, 4}, 16, 16};
    job.arithmetic = dtype_of<T>;
    job.query_positions = call.queries.data();
    job.key_positions = call.keys.data();
    sequence_.end_query_tile = static_cast<std::int64_t>(query_tiles_.size());
    sequence_.end_key_tile = static_cast<std::int64_t>(key_tiles_.size());
    job.sequences = {&sequence_, 1};
    job.groups = {&group_, 1};
    job.query_tiles = query_tiles_;
    job.key_tiles = key_tiles_;
    job.mask.causal = call.causal;
    job.backward.parts = 2;
    asked_.query_positions = {true, positions(call.queries.data(), queries)};
    asked_.key_positions = {true, positions(call.keys.data(), keys)};
    asked_.visibility.causal = call.causal;
    term_.bias = plan::source_of(call.bias.plan());
    term_.parameter_count = call.bias.parameter_count();
    term_.first_head = call.first_head;
    status = attend::make_bias_numbers(term_, call.heads, "test", numbers_);
    if (!call.gate.empty()) {
      term_.gate = view(call.gate.data(), {1, queries, call.heads, 1});
      gradient_.features = view(gate_gradient.data(), {1, queries, call.heads, 1});
    }
    gradient_.parameters = list_view(parameters);
    make(&gradient_);
  }
  void make(const TermGradient* gradient) {
    const auto [least_query, most_query] = std::minmax_element(call_.queries.begin(), call_.queries.end());
    const auto [least_key, most_key] = std::minmax_element(call_.keys.begin(), call_.keys.end());
    context_ = {&asked_, &job, &runner_, *least_query - *most_key, *most_query - *least_key, gradient, &numbers_, "test"};
    attend::Arena measure;
    status = attend::make_term(term_, context_, measure, made_);
    if (!status) return;
    workspace_.assign(static_cast<std::size_t>(measure.needed()), std::byte{0xff});
    const Workspace workspace = workspace_;
    attend::Arena arena(workspace);
    status = attend::make_term(term_, context_, arena, made_);
  }
  const attend::BiasJob& term() const { return std::get<attend::BiasJob>(made_); }
  void finish() { attend::finish_term(term_, term(), context_); }

 private:
  const Call& call_;
  attend::Sequence sequence_;
  attend::SequenceGroup group_ = {.first = 0, .end = 1};
  std::vector<attend::TokenTile> query_tiles_;
  std::vector<attend::TokenTile> key_tiles_;
  job::AttentionJob asked_;
  job::BiasTermJob term_;
  attend::BiasNumbers numbers_;
  Runner runner_ = {};
  TermGradient gradient_;
  attend::TermContext context_{};
  attend::TermJob made_;
  std::vector<std::byte> workspace_;

 public:
  attend::AttentionJob job;
  Status status;
  std::vector<double> parameters = std::vector<double>(static_cast<std::size_t>(call_.bias.parameter_count()), 0.5);
  std::vector<double> gate_gradient = std::vector<double>(call_.gate.size(), 0.25);
};

}  // namespace phasor::test
