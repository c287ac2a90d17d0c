// SPDX-License-Identifier: Apache-2.0
// Attention, row by row: scores, softmax, and the gradients by their definitions.
#include "attention/reference/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/reference/parts.hpp"

namespace phasor::attend::reference {
namespace {

template <class S>
concept HasContent = requires(const S& s, const Problem& p, const Cell& c) { s.content(p, c); };
template <class S>
concept HasValue = requires(const S& s, const Problem& p, const Cell& c) { s.value(p, c, 0); };

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool has_content(const Scheme& scheme) {
  return std::visit([]<class S>(const S&) { return HasContent<S>; }, scheme);
}

void check(const Problem& p) {
  const Shape& s = p.shape;
  expect(s.heads > 0 && s.key_heads > 0 && s.heads % s.key_heads == 0, "key_heads must divide heads");
  expect_size(p.q, s.batch * s.queries * s.heads * s.width, "q");
  expect_size(p.k, s.batch * s.keys * s.key_heads * s.width, "k");
  expect_size(p.v, s.batch * s.keys * s.key_heads * s.value_width, "v");
  const auto fits = [](const auto& list, std::int64_t wanted) { return list.empty() || static_cast<std::int64_t>(list.size()) == wanted; };
  expect(p.sinks.size() < 2 || fits(p.sinks, s.heads), "sinks are not (H) or (1)");
  expect(fits(p.query_positions, s.batch * s.queries), "query_positions are not (B, Tq)");
  expect(fits(p.key_positions, s.batch * s.keys), "key_positions are not (B, Tk)");
  expect(fits(p.visibility.key_mask, s.batch * s.keys), "key_mask is not (B, Tk)");
  const Integers& starts = p.visibility.query_starts;
  expect(starts.size() == p.visibility.key_starts.size(), "query_starts and key_starts differ in number");
  expect(starts.empty() || s.batch == 1, "varlen wants B = 1");
  expect(fits(p.visibility.prefix, starts.empty() ? s.batch : static_cast<std::int64_t>(starts.size()) - 1), "prefix is not (B)");
  expect(std::count_if(p.schemes.begin(), p.schemes.end(), has_content) <= 1, "two schemes rotate");
  for (const Scheme& scheme : p.schemes) std::visit([&](const auto& one) { one.check(p); }, scheme);
}

/// The softmax of one query, with what its gradient needs.
struct Row {
  Values probability;  // (Tk); 0 for keys not seen
  Values slope;        // of the soft cap
  Values score;        // after the soft cap; -infinity for keys not seen
  Values factor;       // of dropout
  double lse = -kInfinity;
  double sink = 0;  // its probability
};

std::size_t sink_index(const Problem& p, const Cell& cell) { return p.sinks.size() == 1 ? 0 : static_cast<std::size_t>(cell.h); }

Row make_row(const Problem& p, Cell cell) {
  const auto keys = static_cast<std::size_t>(p.shape.keys);
  Row row{Values(keys, 0), Values(keys, 0), Values(keys, -kInfinity), Values(keys, 0)};
  Values& scores = row.score;
  for (cell.j = 0; cell.j < p.shape.keys; ++cell.j) {
    if (!visible(p, cell)) continue;
    const auto j = static_cast<std::size_t>(cell.j);
    const double s = score(p, cell);
    if (s == -kInfinity) continue;  // hidden by a dense bias: the cap does not bring it back
    const double t = p.softcap > 0 ? std::tanh(s / p.softcap) : 0;
    scores[j] = p.softcap > 0 ? p.softcap * t : s;
    row.slope[j] = 1 - t * t;
    row.factor[j] = dropout_factor(p, cell);
  }
  const double sink = p.sinks.empty() ? -kInfinity : p.sinks[sink_index(p, cell)];
  const double top = keys == 0 ? sink : std::max(sink, *std::max_element(scores.begin(), scores.end()));
  if (top == -kInfinity) return row;
  double sum = std::exp(sink - top);
  for (const double s : scores) sum += std::exp(s - top);
  row.lse = top + std::log(sum);
  for (std::size_t j = 0; j < keys; ++j) row.probability[j] = std::exp(scores[j] - row.lse);
  row.sink = std::exp(sink - row.lse);
  return row;
}

/// v with what the schemes add to it.
double value_of(const Problem& p, const Cell& cell, std::int64_t channel) {
  double sum = p.v[static_cast<std::size_t>(value_row(p, cell) + channel)];
  for (const Scheme& scheme : p.schemes) {
    std::visit(
        [&]<class S>(const S& one) {
          if constexpr (HasValue<S>) sum += one.value(p, cell, channel);
        },
        scheme);
  }
  return sum;
}

void add_value_gradient(const Problem& p, const Cell& cell, std::int64_t channel, double dv, Gradients& sum) {
  sum.v[static_cast<std::size_t>(value_row(p, cell) + channel)] += dv;
  for (std::size_t n = 0; n < p.schemes.size(); ++n) {
    std::visit(
        [&]<class S>(const S& one) {
          if constexpr (HasValue<S>) one.value_gradient(p, cell, channel, dv, std::get<S>(sum.schemes[n]));
        },
        p.schemes[n]);
  }
}

void add_score_gradient(const Problem& p, const Cell& cell, double ds, Gradients& sum) {
  if (std::none_of(p.schemes.begin(), p.schemes.end(), has_content)) {
    add(sum.q.data() + query_row(p, cell), p.scale * ds, key(p, cell), p.shape.width);
    add(sum.k.data() + key_row(p, cell), p.scale * ds, query(p, cell), p.shape.width);
  }
  for (std::size_t n = 0; n < p.schemes.size(); ++n) {
    std::visit(
        [&]<class S>(const S& one) {
          if constexpr (HasContent<S>) {
            one.content_gradient(p, cell, ds, sum);
          } else {
            one.term_gradient(p, cell, ds, sum, std::get<S>(sum.schemes[n]));
          }
        },
        p.schemes[n]);
  }
}

/// dP, D and dS of one query, then everything that dS and P reach.
void add_row_gradient(const Problem& p, Cell cell, const double* dout, double dlse, Gradients& sum) {
  const Row row = make_row(p, cell);
  Values dp(row.probability.size(), 0);
  double mean = 0;
  for (cell.j = 0; cell.j < p.shape.keys; ++cell.j) {
    if (!visible(p, cell)) continue;
    const auto j = static_cast<std::size_t>(cell.j);
    for (std::int64_t c = 0; c < p.shape.value_width; ++c) {
      dp[j] += row.factor[j] * dout[c] * value_of(p, cell, c);
      add_value_gradient(p, cell, c, row.probability[j] * row.factor[j] * dout[c], sum);
    }
    mean += row.probability[j] * dp[j];
  }
  for (cell.j = 0; cell.j < p.shape.keys; ++cell.j) {
    if (!visible(p, cell)) continue;
    const auto j = static_cast<std::size_t>(cell.j);
    add_score_gradient(p, cell, row.probability[j] * (dp[j] - mean + dlse) * row.slope[j], sum);
  }
  if (!p.sinks.empty()) sum.sinks[sink_index(p, cell)] += row.sink * (dlse - mean);
}

template <class Body>
void each_query(const Shape& shape, const Body& body) {
  Cell cell;
  for (cell.b = 0; cell.b < shape.batch; ++cell.b) {
    for (cell.h = 0; cell.h < shape.heads; ++cell.h) {
      for (cell.i = 0; cell.i < shape.queries; ++cell.i) body(cell);
    }
  }
}

std::size_t lse_index(const Shape& s, const Cell& cell) {
  return static_cast<std::size_t>((cell.b * s.heads + cell.h) * s.queries + cell.i);
}

Output empty_output(const Shape& s) {
  const std::int64_t rows = s.batch * s.queries * s.heads;
  return {Values(static_cast<std::size_t>(rows * s.value_width), 0), Values(static_cast<std::size_t>(rows), -kInfinity)};
}

void make_absolute(std::span<double> values) {
  for (double& x : values) x = std::fabs(x);
}
void make_absolute(Gradients& g) {
  for (Values* list : {&g.q, &g.k, &g.v}) make_absolute(*list);
  for (Scheme& scheme : g.schemes) {
    for (const Parameter& parameter : std::visit([](auto& one) { return one.parameters(); }, scheme)) make_absolute(parameter.values);
  }
}

/// The numbers' magnitudes; what decides places and probabilities is asked of p.
Problem absolute(const Problem& p) {
  Gradients lists{p.q, p.k, p.v, p.schemes};
  make_absolute(lists);
  Problem result = p;
  result.q = lists.q;
  result.k = lists.k;
  result.v = lists.v;
  result.schemes = lists.schemes;
  result.magnitudes_of = &p;
  return result;
}

Gradients no_gradients(const Problem& p) {
  Gradients sum{Values(p.q.size(), 0), Values(p.k.size(), 0), Values(p.v.size(), 0), p.schemes, Values(p.sinks.size(), 0)};
  for (Scheme& scheme : sum.schemes) {
    for (const Parameter& parameter : std::visit([](auto& one) { return one.parameters(); }, scheme)) {
      std::fill(parameter.values.begin(), parameter.values.end(), 0);
    }
  }
  return sum;
}

void check_gradients(const Problem& p, const Values& out_gradient, const Values& lse_gradient) {
  const Shape& s = p.shape;
  expect_size(out_gradient, s.batch * s.queries * s.heads * s.value_width, "out_gradient");
  if (!lse_gradient.empty()) expect_size(lse_gradient, s.batch * s.queries * s.heads, "lse_gradient");
}

/// As add_row_gradient, and the row's own sums; dout and dlse are magnitudes. Without dout no gradients.
void add_row_magnitudes(const Problem& p, Cell cell, const double* dout, double dlse, Magnitudes& sum) {
  const Row row = make_row(*p.magnitudes_of, cell);
  double* out = sum.out.data() + out_row(p, cell);
  Values dp(row.probability.size(), 0);
  double mean = 0;
  double score_sum = p.sinks.empty() || row.sink == 0 ? 0 : std::fabs(p.sinks[sink_index(p, cell)]);  // one of the scores
  for (cell.j = 0; cell.j < p.shape.keys; ++cell.j) {
    const auto j = static_cast<std::size_t>(cell.j);
    if (row.score[j] == -kInfinity) continue;  // not seen, or hidden by a dense bias: it has no magnitude
    score_sum = std::max(score_sum, std::fabs(score(p, cell)));
    for (std::int64_t c = 0; c < p.shape.value_width; ++c) {
      const double value = value_of(p, cell, c);
      out[c] += row.probability[j] * row.factor[j] * value;
      if (dout == nullptr) continue;
      dp[j] += row.factor[j] * dout[c] * value;
      add_value_gradient(p, cell, c, row.probability[j] * row.factor[j] * dout[c], sum.gradients);
    }
    mean += row.probability[j] * dp[j];
  }
  sum.scores[lse_index(p.shape, cell)] = score_sum;
  if (dout == nullptr) return;
  for (cell.j = 0; cell.j < p.shape.keys; ++cell.j) {
    const auto j = static_cast<std::size_t>(cell.j);
    if (row.score[j] == -kInfinity) continue;
    // The soft cap's slope is 1 - t^2: its summands add up to 1 + t^2.
    add_score_gradient(p, cell, row.probability[j] * (dp[j] + mean + dlse) * (2 - row.slope[j]), sum.gradients);
  }
  if (!p.sinks.empty()) sum.gradients.sinks[sink_index(p, cell)] += row.sink * (mean + dlse);
}

}  // namespace

double score(const Problem& p, const Cell& cell) {
  double sum = 0;
  if (std::none_of(p.schemes.begin(), p.schemes.end(), has_content)) sum = p.scale * dot(query(p, cell), key(p, cell), p.shape.width);
  for (const Scheme& scheme : p.schemes) {
    sum += std::visit(
        [&]<class S>(const S& one) {
          if constexpr (HasContent<S>) {
            return one.content(p, cell);
          } else {
            return one.term(p, cell);
          }
        },
        scheme);
  }
  return sum;
}

Output forward(const Problem& p) {
  check(p);
  Output result = empty_output(p.shape);
  each_query(p.shape, [&](Cell cell) {
    const Row row = make_row(p, cell);
    result.lse[lse_index(p.shape, cell)] = row.lse;
    double* out = result.out.data() + out_row(p, cell);
    for (cell.j = 0; cell.j < p.shape.keys; ++cell.j) {
      if (!visible(p, cell)) continue;
      const auto j = static_cast<std::size_t>(cell.j);
      for (std::int64_t c = 0; c < p.shape.value_width; ++c) out[c] += row.probability[j] * row.factor[j] * value_of(p, cell, c);
    }
  });
  return result;
}

Values weights(const Problem& p) {
  check(p);
  Values all(static_cast<std::size_t>(p.shape.batch * p.shape.queries * p.shape.heads * p.shape.keys));
  each_query(p.shape, [&](const Cell& cell) {
    const Row row = make_row(p, cell);
    const std::int64_t first = ((cell.b * p.shape.queries + cell.i) * p.shape.heads + cell.h) * p.shape.keys;
    std::copy(row.probability.begin(), row.probability.end(), all.begin() + first);
  });
  return all;
}

Gradients backward(const Problem& p, const Values& out_gradient, const Values& lse_gradient) {
  check(p);
  check_gradients(p, out_gradient, lse_gradient);
  Gradients sum = no_gradients(p);
  each_query(p.shape, [&](const Cell& cell) {
    const double dlse = lse_gradient.empty() ? 0 : lse_gradient[lse_index(p.shape, cell)];
    add_row_gradient(p, cell, out_gradient.data() + out_row(p, cell), dlse, sum);
  });
  return sum;
}

Magnitudes magnitudes(const Problem& p, const Values& out_gradient, const Values& lse_gradient) {
  check(p);
  const bool outputs_only = out_gradient.empty();
  if (!outputs_only) check_gradients(p, out_gradient, lse_gradient);
  const Problem of = absolute(p);
  Values dout = out_gradient;
  make_absolute(dout);
  const Output none = empty_output(p.shape);
  Magnitudes sum{none.out, Values(none.lse.size(), 0), no_gradients(p)};
  each_query(p.shape, [&](const Cell& cell) {
    const double dlse = lse_gradient.empty() ? 0 : std::fabs(lse_gradient[lse_index(p.shape, cell)]);
    add_row_magnitudes(of, cell, outputs_only ? nullptr : dout.data() + out_row(p, cell), dlse, sum);
  });
  make_absolute(sum.gradients);
  return sum;
}

Output merge(const Shape& shape, const std::vector<Output>& parts) {
  Output result = empty_output(shape);
  Problem p{.shape = shape};
  each_query(shape, [&](const Cell& cell) {
    const std::size_t n = lse_index(shape, cell);
    double top = -kInfinity;
    for (const Output& part : parts) top = std::max(top, part.lse[n]);
    if (top == -kInfinity) return;
    double sum = 0;
    for (const Output& part : parts) sum += std::exp(part.lse[n] - top);
    result.lse[n] = top + std::log(sum);
    for (const Output& part : parts) {
      const std::int64_t row = out_row(p, cell);
      add(result.out.data() + row, std::exp(part.lse[n] - result.lse[n]), part.out.data() + row, shape.value_width);
    }
  });
  return result;
}

}  // namespace phasor::attend::reference
