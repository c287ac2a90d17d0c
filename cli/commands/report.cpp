// SPDX-License-Identifier: Apache-2.0
// phasor report: one self-contained page about a model's positions. Words and numbers are the library's.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "commands/report_page.hpp"
#include "figures/figures.hpp"
#include "figures/json.hpp"
#include "models.hpp"
#include "phasor/targets.hpp"
#include "plot/draw.hpp"
#include "progress.hpp"

namespace phasor::cli {
namespace {

/// Stands in where a file does not say how long it was trained.
constexpr std::int64_t kUnknownLength = 4096;
constexpr std::int64_t kFar = 10000000;

struct ReportOptions {
  std::string model;
  std::string out;
  std::int64_t length = 0;
  bool json = false;
};

/// Layers that rotate alike.
struct RotaryGroup {
  RotarySpec spec;
  Numbers layers;
};

std::vector<RotaryGroup> groups_of(const ModelPositions& model) {
  std::vector<RotaryGroup> groups;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto& rotary = model.layers[i].rotary;
    if (!rotary) continue;
    const std::string words = to_json(*rotary);
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const RotaryGroup& g) { return to_json(g.spec) == words; });
    RotaryGroup& group = same == groups.end() ? groups.emplace_back(RotaryGroup{*rotary, {}}) : *same;
    group.layers.push_back(static_cast<std::int64_t>(i));
  }
  return groups;
}

std::int64_t trained_of(const ModelPositions& model) {
  return model.trained_length > 0 ? model.trained_length : model.length > 0 ? model.length : kUnknownLength;
}

Status add_wavelengths(const Rotary& rotary, std::int64_t length, Page& page) {
  const auto turns = pair_turns(rotary, length);
  if (!turns.ok()) {
    page.paragraph(fmt::format("No table: {}.", turns.status().message()));
    return {};
  }
  std::vector<std::vector<std::string>> rows{
      {"pair", "radians per position", "positions per turn", fmt::format("turns in {} positions", length), ""}};
  for (std::size_t pair = 0; pair < turns->size(); ++pair) {
    const PairTurns& t = (*turns)[pair];
    rows.push_back({fmt::format("{}", pair), fmt::format("{:.6g}", t.frequency), fmt::format("{:.6g}", t.wavelength),
                    fmt::format("{:.4g}", t.turns), t.turns < 1 ? "less than once" : ""});
  }
  page.table(rows);
  return {};
}

/// A scaled model beside the same without scaling; an unscaled one with every scaling to four times its length.
PlannerInput planner_input(const ModelPositions& model, const RotarySpec& spec) {
  const std::int64_t trained = trained_of(model);
  if (std::holds_alternative<Unscaled>(spec.scaling)) return {.spec = spec, .trained_length = trained, .wanted_length = 4 * trained};
  PlannerInput input{.spec = spec, .trained_length = trained, .wanted_length = std::max(model.length, trained), .scalings = {spec.scaling}};
  input.spec.scaling = Unscaled{};
  return input;
}

Status add_figures(const ModelPositions& model, const NamedSpec& spec, Page& page) {
  const std::int64_t trained = trained_of(model);
  const std::int64_t step = std::max<std::int64_t>(trained / 512, 1);
  Numbers distances;
  Numbers positions;
  for (std::int64_t i = 0; i <= 512; ++i) distances.push_back(i * step);
  for (std::int64_t i = 0; i < 128; ++i) positions.push_back(i);
  const bool scaled = !std::holds_alternative<Unscaled>(spec.spec.scaling);
  std::vector<NamedSpec> both{spec};
  if (scaled && !std::holds_alternative<GivenDirections>(spec.spec.scaling)) {
    both.push_back({"the same without scaling", spec.spec});
    both.back().spec.scaling = Unscaled{};
  }
  const auto add = [&](const char* heading, const Result<Figure>& figure, const char* words) {
    page.subheading(heading);
    return page.figure(figure, words);
  };
  const Progress progress;
  progress.say("decay ...");
  Status status = add("Decay", decay_figure(both, distances), "What q and k of length 1 in each pair score, by their distance.");
  if (!status.ok()) return status;
  progress.say("scaling ...");
  status = add("Scaling", scaling_figure(planner_input(model, spec.spec)),
               scaled ? "What the model's scaling makes of each pair, beside none."
                      : "The model is not scaled: what each published scaling would make of each pair at four times its length.");
  if (!status.ok()) return status;
  progress.say("error ...");
  status = add("Error by position", error_figure(spec, one_two_five(kFar)),
               "Largest error of a float32 cosine or sine at a position, by whose arithmetic makes it.");
  if (!status.ok()) return status;
  progress.say("similarity ...");
  return add("Similarity", similarity_figure(spec, positions), "Cosine of each position's encoding with every other's.");
}

Result<std::string> make_page(const ReportOptions& o) {
  const auto model = find_model(o.model, {.length = o.length});
  if (!model.ok()) return model.status();
  const auto words = explain(*model);
  if (!words.ok()) return words.status();
  Page page(fmt::format("Positions of {}", o.model));
  page.preformatted(*words);
  const std::vector<RotaryGroup> groups = groups_of(*model);
  if (groups.empty()) page.paragraph("No layer rotates: there are no wavelengths to show.");
  for (const RotaryGroup& group : groups) {
    page.heading(fmt::format("Rotary encoding of {}", layer_words(group.layers)));
    page.paragraph(describe(group.spec));
    const auto rotary = Rotary::make(group.spec);
    if (!rotary.ok()) return rotary.status();
    if (const Status status = add_figures(*model, {label_of(group.spec), group.spec}, page); !status.ok()) return status;
    page.subheading("Wavelengths");
    if (const Status status = add_wavelengths(*rotary, trained_of(*model), page); !status.ok()) return status;
  }
  page.paragraph(fmt::format("Made by phasor {}.", version()));
  return page.html();
}

Status run_report(const ReportOptions& o, std::string& out) {
  const auto page = make_page(o);
  if (!page.ok()) return page.status();
  if (const Status status = write_file(o.out, *page); !status.ok()) return status;
  out = o.json ? Json::object({{"written", o.out}, {"bytes", page->size()}}).line() + "\n" : fmt::format("written: {}\n", o.out);
  return {};
}

}  // namespace

void add_report(const Command& tool, Run& run) {
  const Command command = tool.subcommand("report", "One page of HTML about a model's positions, with plots");
  const auto o = std::make_shared<ReportOptions>();
  command.option("model", o->model, model_help("The model")).required();
  command.option("--out,-o", o->out, "The file to write (report.html)");
  o->out = "report.html";
  command.option("--length", o->length, "Positions in use, for dynamic NTK and LongRoPE (as many as were trained)").positive();
  command.flag("--json", o->json, "Print what was written as JSON");
  command.footer(
      "The page needs nothing else: its pictures are inside. Wants gnuplot.\n\n"
      "Example:\n  phasor report config.json -o report.html\n  phasor report llama3.1");
  command.chosen([o, &run] { run = [o](std::string& out) { return run_report(*o, out); }; });
}

}  // namespace phasor::cli
