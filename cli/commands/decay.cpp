// SPDX-License-Identifier: Apache-2.0
// phasor decay: what q and k score by their distance, and the attention that goes there. All numbers come from the library.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "figures/json.hpp"
#include "number_list.hpp"
#include "phasor/analysis.hpp"
#include "spec_list.hpp"

namespace phasor::cli {
namespace {

/// Of a context chosen by the distances; a longer one must be asked for.
constexpr std::int64_t kLongestContext = 1 << 20;

struct DecayOptions {
  SpecList specs;
  std::string distances = "0,1,2,5,10,20,50,100,200,500,1000,2000,5000,10000";
  std::optional<std::int64_t> context;
  bool json = false;
  bool csv = false;
};

struct DecayColumn {
  std::string name;
  RotarySpec spec;
  std::vector<double> sums;
  std::vector<DistanceWeight> weights;  // one per distance, or none
  std::optional<std::int64_t> first_negative;
};

struct Decays {
  std::vector<std::int64_t> distances;
  std::int64_t context = 0;  // 0: no weights
  std::vector<DecayColumn> columns;
};

/// So many positions that every distance is in it; 0 when there is none.
std::int64_t context_of(const DecayOptions& options, const std::vector<std::int64_t>& distances) {
  const auto [least, most] = std::minmax_element(distances.begin(), distances.end());
  if (options.context) return *options.context;
  return distances.empty() || *least < 0 || *most >= kLongestContext ? 0 : *most + 1;
}

Status add_weights(const Rotary& rotary, const Decays& all, DecayColumn& column) {
  const auto weights = distance_weights(rotary, all.context);
  if (!weights.ok()) return weights.status();
  for (const std::int64_t distance : all.distances) {
    if (distance < 0 || distance >= all.context) {
      return Status::invalid(
          fmt::format("--distances: distance is {}, wanted 0 to {} in a context of {}", distance, all.context - 1, all.context));
    }
    column.weights.push_back((*weights)[static_cast<std::size_t>(distance)]);
  }
  const auto negative = first_negative(rotary, all.context);
  if (!negative.ok()) return negative.status();
  column.first_negative = *negative;
  return {};
}

Result<Decays> make_decays(const DecayOptions& options) {
  Decays all{parse_numbers("--distances", options.distances), 0, {}};
  all.context = context_of(options, all.distances);
  for (const NamedSpec& one : specs_of(options.specs)) {
    const auto rotary = Rotary::make(one.spec);
    if (!rotary.ok()) return rotary.status();
    auto sums = decay(*rotary, all.distances);
    if (!sums.ok()) return sums.status();
    DecayColumn column{one.name, one.spec, *std::move(sums), {}, std::nullopt};
    if (all.context > 0) {
      if (const Status status = add_weights(*rotary, all, column); !status.ok()) return status;
    }
    all.columns.push_back(std::move(column));
  }
  return all;
}

std::string letter(std::size_t column) { return fmt::format("{}", static_cast<char>('A' + static_cast<char>(column % 26))); }

void append_text(const Decays& all, std::string& out) {
  const bool several = all.columns.size() > 1;
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    const DecayColumn& column = all.columns[c];
    out += fmt::format("{}{}\n", several ? letter(c) + ": " : "", describe(column.spec));
    if (column.first_negative) out += fmt::format("{}S is first below 0 at distance {}\n", several ? "   " : "", *column.first_negative);
  }
  out += "\nS: what q and k score that are of length 1 in each pair";
  out += all.context > 0 ? fmt::format("; weight: of the softmax in a causal context of {}\n", all.context) : "\n";
  out += fmt::format("{:>10}", "distance");
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    const std::string of = several ? " " + letter(c) : "";
    out += fmt::format(" {:>10}", "S" + of);
    if (all.context > 0) out += fmt::format(" {:>10} {:>10}", "S/P" + of, "weight" + of);
  }
  out += '\n';
  for (std::size_t d = 0; d < all.distances.size(); ++d) {
    out += fmt::format("{:>10}", all.distances[d]);
    for (const DecayColumn& column : all.columns) {
      out += fmt::format(" {:>10.4f}", column.sums[d]);
      if (all.context > 0) out += fmt::format(" {:>10.4f} {:>10.3g}", column.weights[d].share, column.weights[d].weight);
    }
    out += '\n';
  }
}

void append_csv(const Decays& all, std::string& out) {
  out += all.context > 0 ? "encoding,distance,sum,share,score,weight\n" : "encoding,distance,sum\n";
  for (std::size_t c = 0; c < all.columns.size(); ++c) {
    const DecayColumn& column = all.columns[c];
    for (std::size_t d = 0; d < all.distances.size(); ++d) {
      out += fmt::format("{},{},{}", c, all.distances[d], column.sums[d]);
      if (all.context > 0) out += fmt::format(",{},{},{}", column.weights[d].share, column.weights[d].score, column.weights[d].weight);
      out += '\n';
    }
  }
}

std::vector<double> column_of(const std::vector<DistanceWeight>& weights, double DistanceWeight::* member) {
  std::vector<double> values;
  values.reserve(weights.size());
  for (const DistanceWeight& one : weights) values.push_back(one.*member);
  return values;
}

void append_json(const Decays& all, std::string& out) {
  Json json = Json::object({{"context", all.context}, {"distances", all.distances}});
  Json encodings = Json::array();
  for (const DecayColumn& column : all.columns) {
    Json one = Json::object({{"name", column.name}, {"spec", Json::parse(to_json(column.spec))}, {"sum", column.sums}});
    if (all.context > 0) {
      one.add("share", column_of(column.weights, &DistanceWeight::share));
      one.add("score", column_of(column.weights, &DistanceWeight::score));
      one.add("weight", column_of(column.weights, &DistanceWeight::weight));
      one.add("first_negative", column.first_negative);
    }
    encodings.push_back(std::move(one));
  }
  json.add("encodings", std::move(encodings));
  out += json.lines() + "\n";
}

Status run_decay(const DecayOptions& options, std::string& out) {
  const auto all = make_decays(options);
  if (!all.ok()) return all.status();
  (options.json ? append_json : options.csv ? append_csv : append_text)(*all, out);
  return {};
}

}  // namespace

void add_decay(const Command& tool, Run& run) {
  const Command command = tool.subcommand("decay", "What q and k score by distance, S(distance), and the attention weight there");
  const auto o = std::make_shared<DecayOptions>();
  add_spec_list(command, o->specs);
  command.option("--distances", o->distances, "Where: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (0 to 10000, ever wider)");
  command.option("--context", o->context, "Positions of the softmax (as many as the distances need)").positive();
  const Option json = command.flag("--json", o->json, "Print JSON, every number in full");
  command.flag("--csv", o->csv, "Print CSV, every number in full; encodings are numbered from 0").excludes(json);
  command.footer(
      "Examples:\n  phasor decay --head-dim 128 --distances 0,10,100,1000\n"
      "  phasor decay --model llama3.1 --against \"base=500000\" --against \"base=10000\" --csv");
  command.chosen([o, &run] {
    (void)specs_of(o->specs);
    (void)parse_numbers("--distances", o->distances);
    run = [o](std::string& out) { return run_decay(*o, out); };
  });
}

}  // namespace phasor::cli
