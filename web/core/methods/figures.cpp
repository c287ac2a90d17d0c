// SPDX-License-Identifier: Apache-2.0
// Figures: those of `phasor plot`, as the tool prints them with --json.
#include "figures/figures.hpp"

#include <algorithm>

#include "web/core/methods.hpp"

namespace phasor::web {
namespace {

using figures::Figure;

constexpr std::int64_t kFar = 10000000;
constexpr std::size_t kMostPanels = 12;

Json made(const Result<Figure>& figure) { return Json::object().with("figure", Json::parse(figures::to_json(value_of(figure, "spec")))); }

void check_count(const char* name, std::size_t count) {
  if (count < 1 || count > kMostPanels) refuse(name, "wanted 1 to 12 of them");
}

}  // namespace

Json figure_decay(Request& request, Blocks& /*blocks*/) {
  const auto specs = request.named_specs();
  const auto distances = request.positions("distances", "0:2049:4");
  return made(figures::decay_figure(specs, distances, request.flag("log", false)));
}

Json figure_scaling(Request& request, Blocks& /*blocks*/) {
  PlannerInput input{.spec = request.rotary_spec()};
  const Range lengths{1, std::int64_t{1} << 40};
  input.trained_length = request.integer("trained_length", 4096, lengths);
  input.wanted_length = request.integer("wanted_length", std::min(8 * input.trained_length, lengths.most), lengths);
  return made(figures::scaling_figure(input));
}

Json figure_error(Request& request, Blocks& /*blocks*/) {
  const auto spec = request.named_spec();
  return made(figures::error_figure(spec, request.has("positions") ? request.positions("positions", "1") : figures::one_two_five(kFar)));
}

Json figure_bias(Request& request, Blocks& /*blocks*/) {
  figures::BiasFigure wanted{.scheme = request.choice("scheme", figures::bias_figure_schemes())};
  wanted.heads = request.integer("heads", 8, {1, 64});
  wanted.shown = request.positions("show", "0,1,2,3,4,5");
  wanted.length = request.integer("length", 48, {2, 256});
  check_count("show", wanted.shown.size());
  return made(figures::bias_figure(wanted));
}

}  // namespace phasor::web
