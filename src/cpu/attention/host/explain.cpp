// SPDX-License-Identifier: Apache-2.0
// What an attention call would do: tiles, operations, bytes, workspace; in numbers and in words.
#include <algorithm>
#include <string_view>

#include "cpu/attention/host/call.hpp"
#include "cpu/attention/host/forward.hpp"
#include "cpu/attention/host/run.hpp"
#include "job/check.hpp"
#include "spec/format.hpp"

namespace phasor::cpu {
namespace {

using attend::TermCost;

double as_double(std::int64_t n) { return static_cast<double>(n); }

/// Whether some query of one tile may see some key of the other.
bool may_see(const attend::AttentionJob& job, const attend::TokenTile& queries, const attend::TokenTile& keys) {
  const std::int64_t nearest = queries.min_position - keys.max_position;
  const std::int64_t farthest = queries.max_position - keys.min_position;
  const std::int64_t prefix = job.sequences[static_cast<std::size_t>(queries.sequence)].prefix;
  if (job.mask.causal && farthest < 0 && keys.min_position >= prefix) return false;
  return nearest <= job.mask.left && -farthest <= job.mask.right;
}

/// How many ways of q meeting k a tile takes: it computes each.
std::int64_t contents_of(const attend::AttentionJob& job, const attend::TokenTile& queries, const attend::TokenTile& keys) {
  if (job.rule == attend::ContentRule::one) return 1;
  const auto content = [&](std::int64_t query, std::int64_t key) -> std::int64_t {
    if (job.rule == attend::ContentRule::window) return query - key < job.rule_size ? 0 : 1;
    return std::clamp<std::int64_t>(query / job.rule_size - key / job.rule_size, 0, 2);
  };
  return 1 + content(queries.max_position, keys.min_position) - content(queries.min_position, keys.max_position);
}

bool is_far(const TermCost& cost, const attend::TokenTile& queries, const attend::TokenTile& keys) {
  return queries.min_position - keys.max_position >= cost.far_above || queries.max_position - keys.min_position <= cost.far_below;
}

/// Sums over tiles, for one head.
struct Counted {
  std::int64_t band = 0;
  std::int64_t far = 0;
  std::int64_t unseen = 0;
  double scores = 0;                // of tiles that are visited
  double products = 0;              // of q and k: more where a tile takes several contents
  std::vector<double> band_scores;  // of each term
};

void count_tile(const attend::AttentionJob& job, const std::vector<TermCost>& costs, const attend::TokenTile& queries,
                const attend::TokenTile& keys, Counted& sum) {
  if (!may_see(job, queries, keys)) {
    ++sum.unseen;
    return;
  }
  const double scores = as_double(queries.count * keys.count);
  sum.scores += scores;
  sum.products += scores * as_double(contents_of(job, queries, keys));
  bool far = true;
  for (std::size_t t = 0; t < costs.size(); ++t) {
    if (is_far(costs[t], queries, keys)) continue;
    far = false;
    sum.band_scores[t] += scores;
  }
  ++(far ? sum.far : sum.band);
}

Counted count_tiles(const attend::AttentionJob& job, const std::vector<TermCost>& costs) {
  Counted sum;
  sum.band_scores.resize(costs.size(), 0);
  for (const attend::Sequence& sequence : job.sequences) {
    for (std::int64_t i = sequence.first_query_tile; i < sequence.end_query_tile; ++i) {
      for (std::int64_t j = sequence.first_key_tile; j < sequence.end_key_tile; ++j) {
        count_tile(job, costs, job.query_tiles[static_cast<std::size_t>(i)], job.key_tiles[static_cast<std::size_t>(j)], sum);
      }
    }
  }
  return sum;
}

/// Operations that a term adds, all heads.
double operations_of(const TermCost& cost, double band_scores, const attend::AttentionShape& s) {
  return cost.per_score * band_scores * as_double(s.heads) + cost.per_query * as_double(s.batch * s.queries * s.heads) +
         cost.per_key * as_double(s.batch * s.keys * s.heads);
}

double bytes_of_view(const ConstTensorView& v) {
  if (v.data == nullptr) return 0;
  double count = as_double(bytes_of(v.dtype));
  for (std::size_t axis = 0; axis < 4; ++axis) count *= v.strides[axis] == 0 ? 1 : as_double(v.shape[axis]);  // what repeats is read once
  return count;
}

double bytes_of_term(const job::AttentionTermJob& term) {
  double sum = 0;
  job::each_tensor_of(term, [&](const ConstTensorView& view) { sum += bytes_of_view(view); });
  return sum;
}

double bytes_of_call(const job::AttentionJob& asked, const job::AttentionShape& s) {
  double sum = bytes_of_view(asked.q) + bytes_of_view(asked.k) + bytes_of_view(asked.v) + bytes_of_view(asked.content_shift) +
               bytes_of_view(asked.sinks);
  for (std::int64_t t = 0; t < asked.term_count; ++t) sum += bytes_of_term(asked.terms[t]);
  const double rows = as_double(s.batch * s.queries * s.heads);
  return sum + rows * as_double(s.value_width * bytes_of(asked.q.dtype)) + rows * (asked.q.dtype == DType::f64 ? 8 : 4);
}

// ---- Words ----

/// "12.3 GB", "12.3 G operations".
std::string large(double x, std::string_view unit) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t n = 0;
  for (; x >= 999.5 && n + 1 < std::size(kPrefixes); ++n) x /= 1000;
  if (n == 0) return spec::format("{:.0f} {}", x, unit);
  return spec::format("{:.3g} {}{}{}", x, kPrefixes[n], unit.size() > 1 ? " " : "", unit);
}

std::string words_of(const AttentionReport& report, const attend::AttentionJob& job, const std::vector<TermCost>& costs,
                     const Counted& counted) {
  const attend::AttentionShape& s = job.shape;
  std::string words =
      spec::format("{} x {} queries of {} heads, {} keys of {} heads, width {} and {}, computed in {}\n", s.batch, s.queries, s.heads,
                   s.keys, s.key_heads, s.width, s.value_width, job.arithmetic == DType::f64 ? "float64" : "float32");
  words += spec::format("tiles of {} x {} scores: {} band, {} far, {} unseen\n", report.query_tile, report.key_tile, report.band_tiles,
                        report.far_tiles, report.unseen_tiles);
  words += spec::format("{}, {:.3f} times those without terms\n", large(report.operations, "operations"),
                        report.plain_operations > 0 ? report.operations / report.plain_operations : 1.0);
  words += spec::format("{} read and written, {} of workspace\n", large(report.bytes, "B"), large(as_double(report.workspace), "B"));
  if (job.key_splits > 0) words += spec::format("decodes: keys in {} blocks, merged\n", job.key_splits);
  for (std::size_t t = 0; t < costs.size(); ++t) {
    const double added = operations_of(costs[t], counted.band_scores[t], s);
    words += spec::format("terms[{}], {}: {}, per-score work on {:.1f} % of the scores visited\n", t, costs[t].name,
                          large(added, "operations"), counted.scores > 0 ? 100 * counted.band_scores[t] / counted.scores : 0.0);
  }
  return words;
}

}  // namespace

Result<AttentionReport> explain_attention(const job::AttentionJob& asked) {
  const Execution none = {};
  const attend::Call call = {&asked, nullptr, &none.runner, "explain_attention"};
  attend::Arena measure;
  attend::Prepared prepared;
  if (Status s = attend::lay_out_forward(call, measure, prepared); !s) return s;
  const attend::AttentionJob& job = prepared.job;
  const attend::AttentionShape& s = job.shape;
  std::vector<TermCost> costs;
  for (const attend::TermJob& term : job.terms)
    costs.push_back(std::visit([&](const auto& made) { return attend::cost_of(made, job); }, term));
  const Counted counted = count_tiles(job, costs);
  AttentionReport report = {.query_tile = attend::kQueryTile,
                            .key_tile = attend::kKeyTile,
                            .band_tiles = counted.band * s.heads,
                            .far_tiles = counted.far * s.heads,
                            .unseen_tiles = counted.unseen * s.heads,
                            .bytes = bytes_of_call(asked, s),
                            .workspace = measure.needed()};
  report.plain_operations = 2 * counted.scores * as_double((s.width + s.value_width) * s.heads);
  report.operations = report.plain_operations + 2 * (counted.products - counted.scores) * as_double(s.width * s.heads);
  for (std::size_t t = 0; t < costs.size(); ++t) report.operations += operations_of(costs[t], counted.band_scores[t], s);
  report.words = words_of(report, job, costs, counted);
  if (asked.sinks.data != nullptr) report.words += "sinks: a logit per head takes part in the softmax, once per query\n";
  if (asked.dropout.probability > 0) {
    report.words +=
        spec::format("dropout: weights are dropped with probability {}, by numbers of their positions\n", asked.dropout.probability);
  }
  return report;
}

}  // namespace phasor::cpu
