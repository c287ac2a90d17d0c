// SPDX-License-Identifier: Apache-2.0
// phasor similarity: how alike the encodings of positions are. All numbers come from the library.
#include <fmt/core.h>

#include <memory>

#include "command.hpp"
#include "figures/json.hpp"
#include "number_list.hpp"
#include "phasor/analysis.hpp"
#include "spec_options.hpp"

namespace phasor::cli {
namespace {

struct SimilarityOptions {
  SpecOptions spec;
  std::string positions = "0:11";
  std::string kind = "cosine";
  bool json = false;
  bool csv = false;
};

struct Similarities {
  std::vector<std::int64_t> positions;
  std::string kind;
  RotarySpec spec;
  Matrix matrix;
};

double value_at(const Similarities& all, std::size_t row, std::size_t column) {
  return all.matrix.values[row * all.positions.size() + column];
}

void append_text(const Similarities& all, std::string& out) {
  out += fmt::format("{}\n{} of every position with every other\n\n{:>10}", describe(all.spec), all.kind, "position");
  for (const std::int64_t position : all.positions) out += fmt::format(" {:>8}", position);
  out += '\n';
  for (std::size_t r = 0; r < all.positions.size(); ++r) {
    out += fmt::format("{:>10}", all.positions[r]);
    for (std::size_t c = 0; c < all.positions.size(); ++c) out += fmt::format(" {:>8.4g}", value_at(all, r, c));
    out += '\n';
  }
}

void append_csv(const Similarities& all, std::string& out) {
  out += "position,other,similarity\n";
  for (std::size_t r = 0; r < all.positions.size(); ++r) {
    for (std::size_t c = 0; c < all.positions.size(); ++c) {
      out += fmt::format("{},{},{}\n", all.positions[r], all.positions[c], value_at(all, r, c));
    }
  }
}

void append_json(const Similarities& all, std::string& out) {
  Json json = Json::object({{"spec", Json::parse(to_json(all.spec))}, {"kind", all.kind}, {"positions", all.positions}});
  Json values = Json::array();
  for (std::size_t r = 0; r < all.positions.size(); ++r) {
    std::vector<double> row;
    row.reserve(all.positions.size());
    for (std::size_t c = 0; c < all.positions.size(); ++c) row.push_back(value_at(all, r, c));
    values.push_back(row);
  }
  json.add("values", std::move(values));
  out += json.line() + "\n";
}

Status run_similarity(const SimilarityOptions& o, std::string& out) {
  Similarities all{parse_numbers("--positions", o.positions), o.kind, spec_of(o.spec), {}};
  const auto rotary = Rotary::make(all.spec);
  if (!rotary.ok()) return rotary.status();
  auto matrix = similarity(*rotary, all.positions, o.kind == "cosine" ? Similarity::cosine : Similarity::inner_product);
  if (!matrix.ok()) return matrix.status();
  all.matrix = *std::move(matrix);
  (o.json ? append_json : o.csv ? append_csv : append_text)(all, out);
  return {};
}

}  // namespace

void add_similarity(const Command& tool, Run& run) {
  const Command command = tool.subcommand("similarity", "How alike the encodings of positions are, as a matrix");
  const auto o = std::make_shared<SimilarityOptions>();
  add_spec_options(command, o->spec);
  command.option("--positions", o->positions, "Which: 1,10,100 or 0:11 (0 to 10) or 0:100:10 (0:11)");
  command.option("--kind", o->kind, "How alike: cosine, inner-product (cosine)").one_of({"cosine", "inner-product"});
  const Option json = command.flag("--json", o->json, "Print JSON, every number in full");
  command.flag("--csv", o->csv, "Print CSV, every number in full").excludes(json);
  command.footer("Example:\n  phasor similarity --head-dim 64 --positions 0,1,10,100,1000");
  command.chosen([o, &run] {
    (void)spec_of(o->spec);
    (void)parse_numbers("--positions", o->positions);
    run = [o](std::string& out) { return run_similarity(*o, out); };
  });
}

}  // namespace phasor::cli
