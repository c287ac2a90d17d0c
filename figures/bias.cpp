// SPDX-License-Identifier: Apache-2.0
// What a scheme adds to the score of each query and key, a heat map for each head.
#include <fmt/core.h>

#include <algorithm>

#include "figures/figures.hpp"
#include "phasor/bias.hpp"

namespace phasor::figures {
namespace {

/// Bucket numbers stand in for a learned table: the picture shows which entry is read.
std::vector<double> bucket_numbers(std::int64_t heads, std::int64_t buckets) {
  std::vector<double> table(static_cast<std::size_t>(heads * buckets));
  for (std::int64_t i = 0; i < heads * buckets; ++i) table[static_cast<std::size_t>(i)] = static_cast<double>(i % buckets);
  return table;
}

BiasSpec bias_spec_of(const BiasFigure& o) {
  if (o.scheme == "t5") return T5Buckets{.heads = o.heads, .table = bucket_numbers(o.heads, 32)};
  if (o.scheme == "deberta") return DebertaBuckets{.heads = o.heads, .buckets = 16, .table = bucket_numbers(o.heads, 32)};
  if (o.scheme == "sandwich") return Sandwich{.heads = o.heads};
  return Alibi{.heads = o.heads};
}

}  // namespace

const std::vector<std::string>& bias_figure_schemes() {
  static const std::vector<std::string> names{"alibi", "sandwich", "t5", "deberta"};
  return names;
}

Result<Figure> bias_figure(const BiasFigure& o) {
  const auto bias = Bias::make(bias_spec_of(o));
  if (!bias.ok()) return bias.status();
  const Extents shape{1, o.heads, o.length, o.length};
  const auto cells_of_head = static_cast<std::size_t>(o.length * o.length);
  std::vector<double> values(cells_of_head * static_cast<std::size_t>(o.heads));
  const Status status = bias->fill(view(values.data(), shape), positions_from(0), positions_from(0));
  if (!status.ok()) return status;
  const bool buckets = o.scheme == "t5" || o.scheme == "deberta";
  Figure figure{.title = fmt::format("{} of {}", buckets ? "Table rows" : "Bias", o.scheme), .columns = o.shown.size() > 3 ? 3 : 2};
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(o.length));
  for (std::int64_t i = 0; i < o.length; ++i) names.push_back(fmt::format("{}", i));
  const auto [least, most] = std::minmax_element(values.begin(), values.end());  // one scale: heads are compared
  for (const std::int64_t head : o.shown) {
    if (head < 0 || head >= o.heads) return Status::invalid(fmt::format("--show: head is {}, wanted 0 to {}", head, o.heads - 1));
    const auto* first = values.data() + cells_of_head * static_cast<std::size_t>(head);
    Panel panel{.title = fmt::format("head {}", head), .x = {.label = "key position"}, .y = {.label = "query position"}, .square = true};
    panel.cells = Cells{.values = {first, first + cells_of_head},
                        .row_names = names,
                        .column_names = names,
                        .label = buckets ? "row" : "bias",
                        .low = *least,
                        .high = *most};
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

}  // namespace phasor::figures
