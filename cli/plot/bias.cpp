// SPDX-License-Identifier: Apache-2.0
// phasor plot bias: what a scheme adds to the score of each query and key, a heat map for each head.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "number_list.hpp"
#include "phasor/bias.hpp"
#include "plot/figures.hpp"
#include "plot/options.hpp"

namespace phasor::cli {
namespace {

constexpr std::size_t kMostHeads = 12;

struct PlotBiasOptions {
  std::string scheme = "alibi";
  std::int64_t heads = 8;
  std::string shown = "0,1,2,3,4,5";
  std::int64_t length = 48;
  PlotOptions plot;
};

/// Bucket numbers stand in for a learned table: the picture shows which entry is read.
std::vector<double> bucket_numbers(std::int64_t heads, std::int64_t buckets) {
  std::vector<double> table(static_cast<std::size_t>(heads * buckets));
  for (std::int64_t i = 0; i < heads * buckets; ++i) table[static_cast<std::size_t>(i)] = static_cast<double>(i % buckets);
  return table;
}

BiasSpec spec_of(const PlotBiasOptions& o) {
  if (o.scheme == "t5") return T5Buckets{.heads = o.heads, .table = bucket_numbers(o.heads, 32)};
  if (o.scheme == "deberta") return DebertaBuckets{.heads = o.heads, .buckets = 16, .table = bucket_numbers(o.heads, 32)};
  if (o.scheme == "sandwich") return Sandwich{.heads = o.heads};
  return Alibi{.heads = o.heads};
}

Result<Figure> bias_figure(const PlotBiasOptions& o, const Numbers& shown) {
  const auto bias = Bias::make(spec_of(o));
  if (!bias.ok()) return bias.status();
  const Extents shape{1, o.heads, o.length, o.length};
  const auto cells_of_head = static_cast<std::size_t>(o.length * o.length);
  std::vector<double> values(cells_of_head * static_cast<std::size_t>(o.heads));
  const Status status = bias->fill(view(values.data(), shape), positions_from(0), positions_from(0));
  if (!status.ok()) return status;
  const bool buckets = o.scheme == "t5" || o.scheme == "deberta";
  Figure figure{.title = fmt::format("{} of {}", buckets ? "Table rows" : "Bias", o.scheme), .columns = shown.size() > 3 ? 3 : 2};
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(o.length));
  for (std::int64_t i = 0; i < o.length; ++i) names.push_back(fmt::format("{}", i));
  const auto [least, most] = std::minmax_element(values.begin(), values.end());  // one scale: heads are compared
  for (const std::int64_t head : shown) {
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

}  // namespace

void add_plot_bias(const Command& plot, Run& run) {
  const Command command = plot.subcommand("bias", "What a scheme adds to the score of each query and key, a heat map for each head");
  const auto o = std::make_shared<PlotBiasOptions>();
  const std::vector<std::string> schemes{"alibi", "sandwich", "t5", "deberta"};
  command.option("--scheme", o->scheme, "Which (alibi); of tables the row that is read: alibi, sandwich, t5, deberta").one_of(schemes);
  command.option("--heads", o->heads, "Heads of the model (8)").range(1, 1024);
  command.option("--show", o->shown, "Heads to draw, a list like 0,1 or 0:4, at most 12 (0:6)");
  command.option("--length", o->length, "Queries and keys (48)").range(2, 512);
  add_plot_options(command, o->plot);
  command.footer("Example:\n  phasor plot bias --scheme alibi --heads 8 --out bias.svg");
  command.chosen([o, &run] {
    const Numbers shown = parse_numbers("--show", o->shown);
    if (shown.empty() || shown.size() > kMostHeads) throw UsageError("--show: wanted 1 to 12 heads");
    (void)format_of(o->plot);
    run = [o, shown](std::string& out) { return finish_plot(bias_figure(*o, shown), o->plot, out); };
  });
}

}  // namespace phasor::cli
